//! What is written is replayed: over blocks, sessions, splits and page tails, on both kinds of media.

use crate::common::{found, on_block, on_region, open, options, payload, region};
use parking_lot::Mutex;
use terrace_log::{Log, LogDevice, LogError};
use terrace_media::{BlockDevice, ByteRegion};
use terrace_media_sim::SimBlock;

fn many_sizes<D: LogDevice>(make: impl Fn() -> D, block_bytes: usize) {
    let log = Log::create(make(), options(block_bytes)).expect("created");
    let mut writers = [log.writer(0, 0), log.writer(700, 100)];
    let mut expected = Vec::new();
    for round in 0..60u64 {
        for (i, writer) in writers.iter_mut().enumerate() {
            let slot = [0, 700][i];
            for step in 0..=round % 4 {
                let version = 1000 + round * 10 + step;
                let bytes = payload(slot, version, ((round * 37 + step * 11) % 190) as usize);
                let (front, back) = bytes.split_at(bytes.len() / 3);
                writer.entry(version, 1, &[front, back]);
                expected.push((slot, version, bytes));
            }
            assert_eq!(writer.write(0, &[]).expect("room"), Some(1000 + round * 10 + round % 4));
            assert!(writer.is_empty());
            assert_eq!(writer.write(0, &[]).expect("nothing to do"), None);
        }
    }
    log.sync().expect("synced");
    assert!(log.used_blocks() > 4);
    assert_eq!(log.min_version(), Some(1));
    let (_, replay) = open(make(), block_bytes, 0).expect("opens");
    expected.sort();
    assert_eq!(found(&replay), expected);
    assert_eq!(replay.positions().into_iter().collect::<Vec<_>>(), [(0, 1593), (700, 1593)]);
    let shards = Mutex::new(Vec::new());
    replay
        .for_each_parallel(
            3,
            |bytes| bytes.len() as u64,
            |thread, entry| {
                assert_eq!(entry.bytes.len() % 3, thread);
                shards.lock().push((entry.slot, entry.version, entry.bytes.to_vec()));
            },
        )
        .expect("replays");
    let mut shards = shards.into_inner();
    shards.sort();
    assert_eq!(shards, expected);
}

#[test]
fn byte_media() {
    let region = region(64);
    many_sizes(|| on_region(&region), 1024);
}

#[test]
fn block_media_with_page_tails() {
    let device = SimBlock::from_image(vec![0; 4096 * 25]);
    many_sizes(|| on_block(&device), 4096);
    let device = SimBlock::from_image(vec![0; 4096 * (1 + 16 * 4)]);
    let log = Log::create(on_block(&device), options(65536)).expect("created");
    let mut writer = log.writer(1, 0);
    // Longer than the largest single request, from the middle of a page.
    for (version, len) in [(1, 100), (2, 50_000), (3, 4096 * 8)] {
        writer.entry(version, 0, &[&payload(1, version, len)]);
        writer.write(0, &[]).expect("room");
    }
    let (_, replay) = open(on_block(&device), 65536, 0).expect("opens");
    let mut lens = Vec::new();
    for (slot, version, bytes) in found(&replay) {
        assert_eq!(bytes, payload(slot, version, bytes.len()));
        lens.push(bytes.len());
    }
    assert_eq!(lens, [100, 50_000, 4096 * 8]);
}

#[test]
fn one_group_is_one_burst() {
    let region = region(8);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(0, 0);
    for version in 1..=20 {
        writer.entry(version * 2, 0, &[&[7; 50]]);
        writer.entry(version * 2 + 1, 0, &[&[7; 50]]);
        let (before, blocks) = (region.counters().snapshot(), log.used_blocks());
        writer.write(0, &[]).expect("room");
        let begun = (log.used_blocks() - blocks) as u64;
        assert_eq!((region.counters().snapshot() - before).writes, 1 + begun, "one more copies a header");
    }
    assert!(log.used_blocks() < 6);
    let device = SimBlock::from_image(vec![0; 4096 * 9]);
    let log = Log::create(on_block(&device), options(4096)).expect("created");
    let mut writer = log.writer(0, 0);
    writer.entry(1, 0, &[b"x"]);
    let before = device.counters().snapshot();
    writer.write(0, &[]).expect("room");
    assert_eq!((device.counters().snapshot() - before).writes, 1);
}

#[test]
fn a_long_buffer_is_split_between_steps_only() {
    let region = region(16);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(4, 0);
    let mut version = 0;
    for _ in 0..6 {
        writer.begin_atomic();
        for _ in 0..3 {
            version += 1;
            writer.entry(version, 0, &[&[9; 140]]);
        }
        writer.end_atomic();
    }
    assert!(writer.buffered_bytes() > 2 * log.max_group_bytes(1));
    assert_eq!(writer.write(0, &[(4, 1)]).expect("room"), Some(18));
    let (_, replay) = open(on_region(&region), 1024, 0).expect("opens");
    let mut steps: Vec<(u64, u64, bool)> = Vec::new();
    replay.for_each(|entry| steps.push((entry.step, entry.version, entry.continues))).expect("reads");
    assert_eq!(steps.len(), 18);
    for three in steps.chunks(3) {
        assert!(three.iter().all(|entry| entry.0 == three[0].0));
        assert_eq!(three.iter().map(|entry| entry.2).collect::<Vec<_>>(), [true, true, false]);
    }
    assert!(steps.chunks(3).is_sorted_by(|a, b| a[0].0 != b[0].0));

    writer.begin_atomic();
    for _ in 0..7 {
        version += 1;
        writer.entry(version, 0, &[&[9; 140]]);
    }
    writer.end_atomic();
    assert!(matches!(writer.write(0, &[]), Err(LogError::TooLarge { .. })));
    assert!(!writer.is_empty());
}

#[test]
fn a_writer_goes_on_where_the_last_one_stopped() {
    for device in [true, false] {
        let (bytes, blocks) = (region(8), SimBlock::from_image(vec![0; 4096 * 9]));
        let check = |used: usize, slots: Vec<u64>| {
            assert_eq!(used, 1);
            assert_eq!(slots, [1, 2, 3]);
        };
        if device {
            check(write_thrice(on_region(&bytes), 1024), versions(on_region(&bytes), 1024));
        } else {
            check(write_thrice(on_block(&blocks), 4096), versions(on_block(&blocks), 4096));
        }
    }
}

fn write_thrice(device: impl LogDevice, block_bytes: usize) -> usize {
    let log = Log::create(device, options(block_bytes)).expect("created");
    for version in 1..=3 {
        let mut writer = log.writer(2, 0);
        writer.entry(version, 0, &[b"abc"]);
        writer.write(0, &[]).expect("room");
    }
    log.used_blocks()
}

fn versions(device: impl LogDevice, block_bytes: usize) -> Vec<u64> {
    let (_, replay) = open(device, block_bytes, 0).expect("opens");
    found(&replay).into_iter().map(|entry| entry.1).collect()
}

#[test]
fn other_options_are_refused() {
    let region = region(8);
    Log::create(on_region(&region), options(1024)).expect("created");
    let mismatch = |result| matches!(result, Err(LogError::Mismatch(_)));
    assert!(mismatch(open(on_region(&region), 2048, 0).map(|_| ())));
    assert!(mismatch(Log::create(on_region(&region), options(1000)).map(|_| ())));
    let other = terrace_log::LogOptions { store_id: 1, ..options(1024) };
    assert!(mismatch(Log::open(on_region(&region), other, 0, 1).map(|_| ())));
    let empty = crate::common::region(8);
    assert!(mismatch(open(on_region(&empty), 1024, 0).map(|_| ())));
}
