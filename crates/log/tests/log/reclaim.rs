//! Full, reclaim, go on: blocks are reused and their old groups never come back.

use terrace_log::{Log, LogDevice, LogError};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

use crate::common::{found, on_block, on_region, open, options, payload, region};

/// Fills the log, reclaims all but the tail, and so on for many times the area; opens it after each round.
fn rounds<D: LogDevice>(make: impl Fn() -> D, block_bytes: usize) {
    let mut log = Log::create(make(), options(block_bytes)).expect("created");
    let (mut version, mut last) = (0, [0, 0]);
    for round in 0..12 {
        let mut writers = [log.writer(0, last[0]), log.writer(1, last[1])];
        let mut written = Vec::new();
        'fill: loop {
            for (slot, writer) in writers.iter_mut().enumerate() {
                version += 1;
                let bytes = payload(slot as u16, version, block_bytes / 4);
                writer.entry(version, version, &[&bytes]);
                match writer.write(0, &[]) {
                    Ok(at) => assert_eq!(at, Some(version)),
                    Err(LogError::Full) => break 'fill,
                    Err(error) => panic!("{error}"),
                }
                written.push((slot as u16, version, bytes));
            }
        }
        assert_eq!(log.free_blocks(), 0);
        assert_eq!(log.reclaim(0, 0).expect("nothing to do"), 0);
        let stuck = writers.iter().position(|writer| !writer.is_empty()).expect("one was refused");
        assert!(log.reclaim(version - 1, 0).expect("reclaims") > 0, "round {round}");
        // Nothing was lost: the call is repeated.
        assert_eq!(writers[stuck].write(0, &[]).expect("room again"), Some(version));
        written.push((stuck as u16, version, payload(stuck as u16, version, block_bytes / 4)));
        last = [writers[0].last_written(), writers[1].last_written()];
        drop(writers);
        let (reopened, replay) = open(make(), block_bytes, 0).expect("opens");
        let got = found(&replay);
        assert!(!got.is_empty());
        for entry in &got {
            assert!(written.contains(entry), "round {round}: {} of slot {} is old", entry.1, entry.0);
        }
        assert_eq!(replay.positions().into_values().collect::<Vec<_>>(), last);
        assert!(reopened.min_version().is_some_and(|min| got.iter().all(|entry| entry.1 >= min)));
        assert_eq!(
            reopened.reclaim(u64::MAX - 1, u64::MAX).expect("nothing to do"),
            0,
            "not before it is retired"
        );
        replay.retire(version);
        // With the floor above everything the tails go too.
        let used = reopened.used_blocks();
        assert_eq!(reopened.reclaim(version, version).expect("reclaims"), used);
        reopened.sync().expect("synced");
        assert_eq!((reopened.used_blocks(), reopened.min_version()), (0, None));
        let (empty, replay) = open(make(), block_bytes, version).expect("opens");
        assert_eq!(found(&replay), []);
        log = empty;
    }
}

#[test]
fn byte_media() {
    let region = region(9);
    rounds(|| on_region(&region), 1024);
}

#[test]
fn block_media() {
    let device = SimBlock::from_image(vec![0; 4096 * 10]);
    rounds(|| on_block(&device), 4096);
}

#[test]
fn room_is_kept() {
    let region = region(6);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let (mut a, mut b) = (log.writer(0, 0), log.writer(1, 0));
    let mut version = 0;
    for round in 0..40 {
        let promised = a.room(2);
        // The other session takes what it can.
        version += 1;
        b.entry(version, 0, &[&[0; 300]]);
        if !matches!(b.write(0, &[]), Ok(_) | Err(LogError::Full)) {
            panic!("only full is expected");
        }
        while a.buffered_bytes() + 72 <= promised {
            version += 1;
            a.entry(version, 0, &[&[0; 60]]);
        }
        if a.is_empty() {
            assert!(round > 2, "room for more than this");
            return;
        }
        a.write(0, &[(1, 1), (1, 1)]).expect("room was promised");
    }
    panic!("six blocks can't hold all that");
}

#[test]
fn erased_blocks_are_free_once_a_step_waits_for_them() {
    let device = SimBlock::from_image(vec![0; 4096 * 17]);
    let log = Log::create(on_block(&device), options(4096)).expect("created");
    let mut writer = log.writer(0, 0);
    for version in 1..=6 {
        writer.entry(version, version, &[&[0; 3000]]);
        writer.write(0, &[]).expect("room");
    }
    drop(writer);
    assert_eq!(log.reclaim(100, 100).expect("reclaims"), 6);
    let free = log.free_blocks();
    assert!(free > 6 && log.used_blocks() == 0, "{free}");
    let mut writer = log.writer(1, 6);
    assert!(!log.owes_blocks() && log.reclaim(100, 100).expect("nothing to do") == 0);
    assert_eq!(log.free_blocks(), free, "nobody waits, and nothing is synced");
    assert!(!writer.reserve_step(12, 12 * 3100, 3100, 0), "more than are free");
    assert!(log.owes_blocks());
    log.reclaim(100, 100).expect("syncs");
    assert!(writer.reserve_step(12, 12 * 3100, 3100, 0) && !log.owes_blocks());
}

#[test]
fn an_open_writers_block_and_a_slots_last_block_stay() {
    let region = region(8);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(0, 0);
    for version in 1..=3 {
        writer.entry(version, version, &[&[0; 600]]);
        writer.write(0, &[]).expect("room");
    }
    assert_eq!(log.reclaim(1, 100).expect("reclaims"), 1);
    assert_eq!(log.min_version(), Some(2));
    assert_eq!(log.reclaim(100, 100).expect("reclaims"), 1, "not the writer's own");
    drop(writer);
    assert_eq!(log.reclaim(100, 2).expect("reclaims"), 0, "version 3 is above the floor");
    assert_eq!(log.reclaim(100, 3).expect("reclaims"), 1);
    assert_eq!(log.free_blocks(), 8);
}

#[test]
fn blocks_of_which_nothing_is_needed_are_freed_whatever_they_stand_for() {
    let region = region(8);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    assert!(log.oldest(2, u64::MAX).is_none());
    let (mut a, mut b) = (log.writer(0, 0), log.writer(1, 0));
    for version in 1..=6 {
        let writer = if version % 2 == 1 { &mut a } else { &mut b };
        writer.entry(version, 50, &[&[0; 600]]);
        writer.write(0, &[]).expect("room");
    }
    // Three blocks of each, with versions in turns; the last of each stays.
    let all = log.oldest(1, u64::MAX).expect("some are closed");
    assert_eq!((all.upto, all.bytes), (4, 4 * 1024));
    let some = log.oldest(2, 2048).expect("some are closed");
    assert_eq!((some.upto, some.bytes), (2, 2 * 1024));
    // What is closed later is not what was chosen, whatever its versions.
    assert_eq!(log.reclaim(0, 0).expect("nothing to do"), 0);
    log.supersede(&some);
    assert_eq!((log.reclaim(0, 0).expect("reclaims"), log.superseded_blocks()), (2, 2));
    log.supersede(&all);
    assert_eq!((log.reclaim(0, 0).expect("reclaims"), log.superseded_blocks()), (2, 4));
    assert_eq!((log.used_blocks(), log.min_version()), (2, Some(4)));
    assert!(log.oldest(1, u64::MAX).is_none());
    drop((a, b));
    let (_, replay) = open(on_region(&region), 1024, 0).expect("opens");
    assert_eq!(found(&replay).iter().map(|entry| entry.1).collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn a_failed_write_stays_failed() {
    let device = SimBlock::from_image(vec![0; 4096 * 9]);
    let log = Log::create(on_block(&device), options(4096)).expect("created");
    let mut writer = log.writer(0, 0);
    device.inject(Fault::new(Access::Write, FaultKind::Io));
    writer.entry(1, 0, &[b"x"]);
    assert!(matches!(writer.write(0, &[]), Err(LogError::Io(_))));
    assert!(matches!(writer.write(0, &[]), Err(LogError::Broken)));
    drop(writer);
    let mut writer = log.writer(0, 1);
    writer.entry(2, 0, &[b"x"]);
    assert!(matches!(writer.write(0, &[]), Err(LogError::Broken)));
}
