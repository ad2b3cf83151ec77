//! A store that is started with more memory, on engines that grow then.

use crate::server::Server;

/// It is told once, in sizes that people read.
#[test]
fn a_start_says_once_that_the_store_grew() {
    for engine in ["scmkv", "bonsai"] {
        let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
        let dir = tempfile::tempdir().unwrap();
        let start = |size: &str| {
            let pmem = format!("{size}@{}", memory.path().join("store").display());
            let server = Server::start(
                dir.path(),
                engine,
                &["--dram", "128MiB", "--pmem", &pmem, "--profile", "dram", "--durability", "sync"],
            );
            let (status, output) = server.terminate();
            assert!(status.success(), "{engine}: {output}");
            output
        };
        let grows = |output: &str| {
            let is_one = |line: &&str| line.contains("grew") || line.contains("grown");
            output.lines().filter(is_one).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(grows(&start("32MiB")).is_empty());
        let told = grows(&start("64MiB"));
        assert!(told.len() == 1, "{engine}: {told:?}");
        assert!(told[0].contains("the store grew from 32 MiB to 64 MiB"), "{engine}: {told:?}");
    }
}
