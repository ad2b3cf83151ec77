//! What is written is replayed: over blocks, sessions, splits and page tails, on both kinds of media.

use crate::common::{found, on_block, on_region, open, options, payload, region};
use parking_lot::Mutex;
use terrace_log::{Log, LogDevice, LogError, Writer};
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
fn a_long_buffer_is_split_between_steps() {
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

    writer.entry(version + 1, 0, &[&[9; 1000]]);
    assert!(matches!(writer.write(0, &[]), Err(LogError::TooLarge { .. })), "an entry is in one block");
    assert!(!writer.is_empty());
}

/// Writes a step of so many entries of 140 bytes behind versions 1 and 2; version 2 claims that 1 is durable.
fn long_step(writer: &mut Writer<impl LogDevice>, entries: u64) {
    for version in 1..3 {
        writer.entry(version, 0, &[b"before"]);
        writer.write(version - 1, &[]).expect("room");
    }
    writer.begin_atomic();
    for version in 3..3 + entries {
        writer.entry(version, 0, &[&[9; 140]]);
    }
    writer.end_atomic();
}

#[test]
fn a_step_longer_than_a_group_is_one_step() {
    let region = region(16);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(4, 0);
    long_step(&mut writer, 20);
    assert!(writer.buffered_bytes() > 3 * log.max_group_bytes(0));
    assert_eq!(writer.write(0, &[]).expect("room"), Some(22));
    writer.entry(23, 0, &[b"behind"]);
    writer.write(22, &[]).expect("room");
    let (_, replay) = open(on_region(&region), 1024, 0).expect("opens");
    let mut steps: Vec<(u64, u64, bool)> = Vec::new();
    replay.for_each(|entry| steps.push((entry.step, entry.version, entry.continues))).expect("reads");
    assert_eq!(steps.iter().map(|entry| entry.1).collect::<Vec<_>>(), (1..24).collect::<Vec<_>>());
    assert!(steps[2..22].iter().all(|entry| entry.0 == steps[2].0));
    let ends: Vec<u64> = steps.iter().filter(|entry| !entry.2).map(|entry| entry.1).collect();
    assert_eq!(ends, [1, 2, 22, 23]);
}

/// Of a step that was not written to its end nothing counts, whatever stands behind what is left of it, and nothing comes back.
#[test]
fn a_step_without_its_end_is_cut() {
    let region = region(4);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(4, 0);
    long_step(&mut writer, 40);
    assert!(matches!(writer.write(0, &[]), Err(LogError::Full)));
    assert_eq!(
        (writer.last_written(), log.free_blocks()),
        (2, 0),
        "all that there was is taken, and none of it counts"
    );
    drop(writer);
    let mut writer = log.writer(4, 50);
    writer.entry(51, 0, &[b"it would pass for the rest"]);
    assert!(matches!(writer.write(0, &[]), Err(LogError::Broken)));
    drop((writer, log));
    for _ in 0..2 {
        let (log, replay) = open(on_region(&region), 1024, 0).expect("opens");
        assert_eq!(found(&replay).into_iter().map(|entry| entry.1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(log.free_blocks(), 2);
    }
    let (log, _) = open(on_region(&region), 1024, 0).expect("opens");
    let mut writer = log.writer(4, 50);
    writer.entry(51, 0, &[b"it goes on"]);
    writer.write(2, &[]).expect("room");
    let (_, replay) = open(on_region(&region), 1024, 0).expect("opens");
    assert_eq!(found(&replay).into_iter().map(|entry| entry.1).collect::<Vec<_>>(), [1, 2, 51]);
}

#[test]
fn a_step_has_its_blocks_before_it_is_made() {
    let region = region(8);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let (mut other, mut writer) = (log.writer(1, 0), log.writer(4, 0));
    other.entry(1, 0, &[b"takes two"]);
    other.write(0, &[]).expect("room");
    // An entry takes 152 bytes, so that five are in a block.
    let (entries, bytes) = (20, 20 * 152);
    assert!(!writer.reserve_step(40, 40 * 152, 152, 1), "nine blocks");
    assert_eq!(log.free_blocks(), 6);
    assert!(writer.reserve_step(entries, bytes, 152, 1) && writer.reserve_step(entries, bytes, 152, 1));
    let held = 6 - log.free_blocks();
    while other.room(0) >= 700 {
        other.entry(other.last_written() + 1, 0, &[&[1; 600]]);
        other.write(0, &[]).expect("room");
    }
    assert_eq!(log.free_blocks(), 0, "another session has taken the rest");
    writer.begin_atomic();
    (0..20).for_each(|i| writer.entry(10 + i, 0, &[&[9; 140]]));
    writer.end_atomic();
    assert_eq!(writer.write(0, &[(1, 1)]).expect("it was promised"), Some(29));
    writer.give_reserve_back();
    assert!(held >= 4 && log.free_blocks() <= held - 4);
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
