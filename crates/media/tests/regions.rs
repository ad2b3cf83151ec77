//! Regions: copies at every alignment, what is counted, what a burst is, what is refused.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::path::Path;

use terrace_media::{ByteRegion, CountersSnapshot, HeapRegion, MapError, MapOptions, MappedRegion};
use terrace_media::{PlaceKind, Profile, Survives};

fn region(len: u64) -> HeapRegion {
    HeapRegion::new(len).unwrap()
}

fn counted(region: &impl ByteRegion, act: impl FnOnce()) -> CountersSnapshot {
    let before = region.counters().snapshot();
    act();
    region.counters().snapshot() - before
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed) * 167 % 251) as u8 + 1).collect()
}

#[test]
fn a_new_region_is_zero_and_as_long_as_asked() {
    let region = region(5000);
    let mut out = vec![1; 5000];
    region.read(0, &mut out);
    assert_eq!((region.len(), out), (5000, vec![0; 5000]));
    assert!(HeapRegion::new(0).is_err());
    assert!(HeapRegion::new(u64::MAX).is_err());
}

#[test]
fn streamed_bytes_arrive_at_every_alignment_and_length() {
    let region = region(4096);
    let blank = [0xEE; 512];
    for at in 0..64usize {
        for len in 0..300usize {
            region.write(0, &blank);
            let source = bytes(len + 8, at);
            // An unaligned source too.
            region.write_nt(at as u64, &source[at % 8..][..len]);
            region.fence();
            let mut out = [0; 512];
            region.read(0, &mut out);
            assert_eq!(&out[at..at + len], &source[at % 8..][..len], "{len} bytes at {at}");
            assert!(out[..at].iter().chain(&out[at + len..]).all(|b| *b == 0xEE), "{len} bytes at {at}");
        }
    }
}

#[test]
fn a_flush_covers_every_line_that_overlaps() {
    let region = region(4096);
    for at in 0..130u64 {
        for len in [0usize, 1, 2, 8, 63, 64, 65, 127, 128, 129, 300] {
            let expected =
                (at..at + len as u64).map(|byte| byte / 64).collect::<std::collections::BTreeSet<_>>();
            let seen = counted(&region, || region.flush(at, len));
            assert_eq!(seen.lines_flushed, expected.len() as u64, "{len} bytes at {at}");
            let seen = counted(&region, || region.write_nt(at, &bytes(len, 0)));
            assert_eq!(seen.lines_flushed, expected.len() as u64, "{len} bytes streamed at {at}");
            assert_eq!(seen.write_bytes, len as u64);
        }
    }
}

#[test]
fn a_burst_is_a_fence_with_something_flushed_before_it_on_this_thread() {
    let region = region(4096);
    let bursts = |act: &dyn Fn()| {
        let seen = counted(&region, act);
        (seen.writes, seen.fences)
    };
    assert_eq!(bursts(&|| region.fence()), (0, 1));
    let one = bursts(&|| {
        region.write_nt(0, &[1; 100]);
        region.write(200, &[2; 100]);
        region.flush(200, 100);
        region.fence();
        region.fence();
    });
    assert_eq!(one, (1, 2));
    let stored_only = bursts(&|| {
        region.store_u64(8, 1);
        region.fence();
    });
    assert_eq!(stored_only, (0, 1), "a store that was not flushed is made durable by no fence");
    let of_another_thread = bursts(&|| {
        std::thread::scope(|scope| {
            scope.spawn(|| region.flush(0, 8));
        });
        region.fence();
    });
    assert_eq!(of_another_thread, (0, 1));
    let other = self::region(4096);
    region.flush(0, 1);
    let of_another_region = counted(&other, || other.fence());
    assert_eq!((of_another_region.writes, of_another_region.fences), (0, 1));
}

#[test]
fn reads_and_words_are_counted() {
    let region = region(4096);
    let seen = counted(&region, || {
        region.store_u64(16, 0xABCD);
        assert_eq!(region.load_u64(16), 0xABCD);
        region.read(16, &mut [0; 100]);
        region.read(16, &mut []);
        region.prefetch(0, 4096);
    });
    assert_eq!((seen.reads, seen.read_bytes, seen.write_bytes), (2, 108, 8));
}

#[test]
fn readers_that_race_a_writer_see_old_and_new_words() {
    let region = region(4096);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..2000u64 {
                region.write(8, &[i as u8; 200]);
                region.write_nt(256, &[i as u8; 256]);
                region.store_u64(0, i + 1);
            }
        });
        let mut published = 0;
        while published < 2000 {
            published = region.load_u64(0);
            let mut out = [0u8; 512];
            region.read(8, &mut out[..504]);
            for word in out[..200].chunks_exact(8) {
                assert!(word.iter().all(|byte| *byte == word[0]), "a word is never torn: {word:?}");
            }
        }
    });
}

#[test]
#[should_panic(expected = "8 bytes at 4090 in a region of 4096 bytes")]
fn outside_panics() {
    region(4096).read(4090, &mut [0; 8]);
}

#[test]
#[should_panic(expected = "in a region of 4096 bytes")]
fn far_outside_panics() {
    region(4096).write(u64::MAX - 3, &[0; 8]);
}

#[test]
#[should_panic(expected = "expected a multiple of 8")]
fn misaligned_words_panic() {
    region(4096).store_u64(4, 1);
}

#[test]
fn emulation_is_charged_and_said() {
    let optane = HeapRegion::with_profile(1 << 20, Some(Profile::built_in("optane-200").unwrap())).unwrap();
    assert_eq!(optane.describe(), "emulated optane-200 on anonymous memory");
    assert_eq!((optane.survives(), optane.promises()), (Survives::Nothing, Survives::Power));
    optane.write(0, &[1; 64]);
    assert_eq!(optane.emulated_ns(), 0, "a store goes to the cache");
    optane.read(0, &mut [0; 64]);
    let after_read = optane.emulated_ns();
    assert_eq!(after_read, 217, "one random read");
    optane.write_nt(0, &[1; 4096]);
    optane.fence();
    assert_eq!(optane.emulated_ns(), after_read + 1365, "16 granules at 3 GB/s");
    let dram = HeapRegion::with_profile(4096, Some(Profile::built_in("dram").unwrap())).unwrap();
    dram.read(0, &mut [0; 64]);
    assert_eq!(dram.emulated_ns(), 0);
    assert_eq!(dram.describe(), "emulated dram on anonymous memory");
    let cxl = HeapRegion::with_profile(4096, Some(Profile::built_in("cxl-dram").unwrap())).unwrap();
    assert_eq!(cxl.promises(), Survives::Nothing);
}

#[test]
fn a_node_that_is_not_there_is_a_clear_error() {
    let error = HeapRegion::on_node(4096, 999, None).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("NUMA node 999 does not exist"), "{error}");
}

#[test]
fn memory_of_a_node_that_is_there() {
    let Some(node) = terrace_media::numa::nodes().first().copied() else { return };
    match HeapRegion::on_node(1 << 20, node, None) {
        Ok(region) => {
            region.store_u64(0, 7);
            assert_eq!(region.load_u64(0), 7);
            assert_eq!(region.describe(), format!("memory of NUMA node {node}"));
        }
        // A container may forbid the call; then the error says so.
        Err(error) => assert!(error.to_string().contains("can't be bound to NUMA node"), "{error}"),
    }
}

/// A directory on tmpfs, where there is one.
fn shared_memory() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    (terrace_media::detect(dir.path()).ok()?.kind == PlaceKind::Tmpfs).then_some(dir)
}

#[test]
fn tmpfs_needs_a_profile_or_consent() {
    let Some(dir) = shared_memory() else { return };
    let path = dir.path().join("pmem");
    let refused = MappedRegion::create(&path, 1 << 20, &MapOptions::default()).unwrap_err();
    assert!(
        matches!(refused, MapError::Volatile { .. }) && refused.to_string().contains("--profile"),
        "{refused}"
    );
    assert!(!path.exists(), "what was refused leaves nothing behind");

    let options = MapOptions { profile: Some(Profile::built_in("dram").unwrap()), ..Default::default() };
    let region = MappedRegion::create(&path, 1 << 20, &options).unwrap();
    assert_eq!(region.describe(), "emulated dram on tmpfs file");
    assert_eq!((region.survives(), region.promises()), (Survives::Process, Survives::Power));
    region.write_nt(5, b"still here");
    region.fence();
    drop(region);

    let consent = MapOptions { accept_volatile: true, ..Default::default() };
    let again = MappedRegion::open(&path, &consent).unwrap();
    assert_eq!((again.len(), again.promises(), again.kind()), (1 << 20, Survives::Process, PlaceKind::Tmpfs));
    let mut out = [0; 10];
    again.read(5, &mut out);
    assert_eq!(&out, b"still here");
    let exists = MappedRegion::create(&path, 4096, &consent).unwrap_err();
    assert!(
        matches!(&exists, MapError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists)
    );
    assert!(path.exists(), "a file that was there before stays");
}

/// Found by a power cut in the torture: the file was there with no length yet, and could never be opened again.
#[test]
fn a_file_has_its_name_once_it_is_whole() {
    let Some(dir) = shared_memory() else { return };
    let (path, making) = (dir.path().join("pmem"), dir.path().join("pmem.new"));
    // What a process left that died while it made one.
    std::fs::write(&making, b"short").unwrap();
    let options = MapOptions { accept_volatile: true, ..Default::default() };
    let region = MappedRegion::create(&path, 1 << 20, &options).unwrap();
    assert_eq!((region.len(), path.metadata().unwrap().len()), (1 << 20, 1 << 20));
    assert_eq!(region.load_u64(0), 0);
    assert!(!making.exists());
    // One that can't be made leaves neither name behind.
    let other = dir.path().join("other");
    assert!(MappedRegion::create(&other, u64::MAX / 2, &options).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_ordinary_file_is_never_mapped() {
    let dir = tempfile::tempdir().unwrap();
    if terrace_media::detect(dir.path()).unwrap().kind != PlaceKind::Plain {
        return;
    }
    let options = MapOptions { accept_volatile: true, ..Default::default() };
    let error = MappedRegion::create(&dir.path().join("pmem"), 1 << 20, &options).unwrap_err();
    assert!(matches!(error, MapError::NotByteAddressable { .. }), "{error}");
    assert!(error.to_string().contains("block media"), "{error}");
    let device = MappedRegion::open(Path::new("/dev/null"), &options).unwrap_err();
    assert!(device.to_string().contains("not a device-DAX"), "{device}");
}

#[test]
fn a_file_grows_and_shrinks_while_it_is_read() {
    let Some(dir) = shared_memory() else { return };
    let options = MapOptions { accept_volatile: true, ..MapOptions::default() };
    let path = dir.path().join("region");
    let region = MappedRegion::create(&path, 3 * 4096, &options).unwrap();
    let len = || path.metadata().unwrap().len();
    region.write(8192, &[7; 4096]);
    let most = region.len_max().unwrap();
    assert!(most >= 16 * 4096, "{most}");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // What is cut off can be read all the time, and is what was there or nothing.
        let reader = scope.spawn(|| {
            let mut out = [0; 4096];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                region.read(8192, &mut out);
                assert!(out.iter().all(|byte| [0, 7].contains(byte)));
                assert!([0, 0x0707_0707_0707_0707].contains(&region.load_u64(8192)));
            }
        });
        for _ in 0..100 {
            region.resize(8192).unwrap();
            assert_eq!((region.len(), len()), (8192, 8192));
            region.resize(5000).unwrap();
            assert_eq!((region.len(), len()), (8192, 8192), "whole pages");
            region.resize(1 << 20).unwrap();
            assert_eq!((region.len(), len(), region.load_u64(8192)), (1 << 20, 1 << 20, 0), "zeros");
            region.write(8192, &[7; 4096]);
            region.flush((1 << 20) - 64, 64);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert!(region.resize(most + 1).is_err() && region.resize(1 << 50).is_err());
    assert_eq!((region.len(), len()), (1 << 20, 1 << 20), "a refusal changes nothing");
    drop(region);
    let region = MappedRegion::open(&path, &options).unwrap();
    assert_eq!((region.len(), region.load_u64(8192)), (1 << 20, 0x0707_0707_0707_0707));
    region.resize(4096).unwrap();
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| region.write(4096, &[1])));
    assert!(written.is_err(), "nobody writes behind the end");
    // Memory of the process keeps its size.
    let heap = HeapRegion::new(4096).unwrap();
    assert!(heap.len_max().is_none() && heap.resize(8192).is_err());
}
