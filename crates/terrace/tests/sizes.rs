//! How large a store's parts are: what is refused, and how its superblock keeps them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use terrace::engine::Durability;
use terrace::{Options, Place, Tier, open};
use terrace_media::Superblock;

fn options(dir: &Path, engine: &str, dram: u64, ssd: u64) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(dram),
        ssd: Some(Tier { bytes: ssd, place: None }),
        durability: Durability::None,
        ..Options::default()
    }
}

#[test]
fn impossible_sizes_are_refused_with_what_is_possible() {
    for engine in ["hetermm", "tac"] {
        let dir = tempfile::tempdir().unwrap();
        let refused = |dram, ssd| open(options(dir.path(), engine, dram, ssd)).err().unwrap().to_string();
        assert!(refused(1 << 20, 1 << 30).contains("at least 2 MiB"));
        assert!(refused(64 << 20, 1 << 20).contains("at least 24 MiB"));
        open(options(dir.path(), engine, 2 << 20, 24 << 20)).unwrap().close().unwrap();
    }
}

/// The text of a store's sizes.
fn text(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap();
    String::from_utf8(Superblock::decode(bytes[..].try_into().unwrap()).unwrap().options).unwrap()
}

#[test]
fn sizes_survive_the_superblock_in_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let one = || options(&dir.path().join("one"), "tac", 64 << 20, 256 << 20);
    open(one()).unwrap().close().unwrap();
    let file = dir.path().join("one/superblock");
    let kept = text(&file);
    let number = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap();
    let lines: Vec<&str> = kept.lines().collect();
    assert_eq!(lines[..2], ["block_bytes = 1048576", "log_block_bytes = 262144"]);
    assert!(lines.len() == 4 && lines[2].starts_with("log_bytes = "), "{kept}");
    assert!(lines[3].starts_with("manifests_apart = "), "{kept}");
    assert_eq!(number(lines[2]), std::fs::metadata(dir.path().join("one/log")).unwrap().len());

    // Stands in for persistent memory.
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        let both = || {
            let place = Some(Place::Path(memory.path().into()));
            let pmem = Some(Tier { bytes: 64 << 20, place });
            Options {
                pmem,
                profile: Some("dram".into()),
                ..options(&dir.path().join("both"), "tac", 64 << 20, 256 << 20)
            }
        };
        open(both()).unwrap().close().unwrap();
        let kept = text(&dir.path().join("both/superblock"));
        assert!(kept.lines().any(|line| line == "pmem_bytes = 67108864"), "{kept}");
        open(both()).unwrap().close().unwrap();
    }

    // What is missing, or unknown, is told and not guessed.
    let bytes = std::fs::read(&file).unwrap();
    let superblock = Superblock::decode(bytes[..].try_into().unwrap()).unwrap();
    let kept = text(&file);
    for (wrong, why) in
        [("block_bytes = 1", "missing field"), (&*format!("{kept}more = 1\n"), "unknown field")]
    {
        let changed = Superblock { options: wrong.as_bytes().to_vec(), ..superblock.clone() };
        std::fs::write(&file, changed.encode().unwrap()).unwrap();
        let error = open(one()).err().unwrap().to_string();
        assert!(error.contains("the superblock's sizes") && error.contains(why), "{error}");
    }
    std::fs::write(&file, bytes).unwrap();
    open(one()).unwrap().close().unwrap();
}
