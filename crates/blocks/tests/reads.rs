//! A session's reads share what is under way: how many reads the device gets, and that everybody gets his own record, once.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "reads/world.rs"]
mod world;

use terrace_engine::space::Arrived;
use terrace_media_sim::{Access, Fault, FaultKind, QueueOrder, Rng};

use crate::world::{BLOCK_BYTES, Outcome, World};

const SECTOR: usize = 4096;

#[test]
fn starts_of_one_place_share_a_read() {
    let mut world = World::new();
    let records = world.fill(0, &[100; 5]);
    (0..10).for_each(|_| world.start(&records[2], None));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!((world.device_reads(), world.merged()), (1, 9));
    // It has finished: who comes now needs another one.
    world.start(&records[2], None);
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!((world.device_reads(), world.merged()), (2, 9));
}

#[test]
fn neighbours_in_a_sector_share_a_read() {
    let mut world = World::new();
    let records = world.fill(0, &[200; 60]);
    let near: Vec<_> = records.iter().filter(|r| (r.place.offset as usize + 400) < SECTOR).collect();
    assert!(near.len() > 10);
    near.iter().rev().for_each(|record| world.start(record, None));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!((world.device_reads(), world.merged()), (1, near.len() as u64 - 1));
}

#[test]
fn a_stretch_within_a_longer_read_shares_it_and_one_that_leaves_it_does_not() {
    let mut world = World::new();
    let records = world.fill(0, &[1500; 20]);
    let at = |from: usize| records.iter().find(|r| r.place.offset as usize >= from).unwrap();
    // Sectors 1 to 3.
    let first = at(SECTOR);
    world.start(first, Some(3 * SECTOR - first.place.offset as usize % SECTOR));
    let inside = at(2 * SECTOR);
    world.start(inside, Some(1600));
    assert_eq!(world.merged(), 1);
    // In front of it, behind it, and across its end.
    world.start(&records[0], Some(1600));
    world.start(at(4 * SECTOR), Some(1600));
    let across = records.iter().rfind(|r| (r.place.offset as usize) < 4 * SECTOR).unwrap();
    world.start(across, Some(1600));
    assert_eq!(world.merged(), 1);
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!(world.device_reads(), 4);
}

#[test]
fn a_read_that_is_too_short_goes_on_for_those_who_need_more_of_it() {
    let mut world = World::new();
    let records = world.fill(0, &[100, 9000, 100]);
    world.start(&records[0], Some(64));
    (0..4).for_each(|_| world.start(&records[1], Some(64)));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!((world.device_reads(), world.merged()), (2, 4 + 3));
}

#[test]
fn another_use_of_the_slot_is_another_read() {
    let mut world = World::new();
    let old = world.fill(0, &[100; 5]);
    world.start(&old[1], None);
    world.start(&old[2], None);
    let new = world.fill(0, &[100; 5]);
    assert_eq!(old[1].place, new[1].place);
    world.start(&new[1], None);
    world.start(&new[2], None);
    assert_eq!(world.merged(), 2, "one of each pair");
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Reused));
    assert_eq!(world.device_reads(), 2);
    assert_eq!((world.count(Outcome::Own), world.count(Outcome::Reused)), (2, 2));
}

#[test]
fn another_slot_is_another_read() {
    let mut world = World::new();
    let (here, there) = (world.fill(0, &[100; 5]), world.fill(1, &[100; 5]));
    world.start(&here[1], None);
    world.start(&there[1], None);
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own));
    assert_eq!((world.device_reads(), world.merged()), (2, 0));
}

#[test]
fn who_joined_a_read_that_fails_reads_alone() {
    let mut world = World::new();
    let records = world.fill(0, &[100; 5]);
    (0..5).for_each(|i| world.start(&records[i], None));
    world.device.inject(Fault::new(Access::Read, FaultKind::Io));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Failed));
    assert_eq!((world.count(Outcome::Failed), world.count(Outcome::Own)), (1, 4));
    assert_eq!((world.device_reads(), world.merged()), (5, 4));
}

#[test]
fn who_joined_the_rest_of_a_long_record_reads_it_alone_if_that_fails() {
    let mut world = World::new();
    let records = world.fill(0, &[9000]);
    (0..3).for_each(|_| world.start(&records[0], Some(64)));
    world.device.inject(Fault::new(Access::Read, FaultKind::Io).after(1));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Failed));
    assert_eq!((world.count(Outcome::Failed), world.count(Outcome::Own)), (1, 2));
    // Its start, the rest, and all of it for two.
    assert_eq!((world.device_reads(), world.merged()), (4, 4));
}

#[test]
fn a_bad_sector_in_a_longer_read_harms_only_who_needs_it() {
    let mut world = World::new();
    let records = world.fill(0, &[1500; 20]);
    let bad = world.offset(0) + 3 * SECTOR as u64;
    world.device.inject(Fault::new(Access::Read, FaultKind::Io).within(bad..bad + 1).forever());
    world.start(&records[0], Some(4 * SECTOR - 64));
    world.start(&records[1], Some(1600));
    world.start(&records[2], Some(1600));
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Failed));
    assert_eq!((world.count(Outcome::Failed), world.count(Outcome::Own)), (1, 2));
}

#[test]
fn damage_is_told_to_each_who_asked_for_the_record_and_to_nobody_else() {
    let mut world = World::new();
    let records = world.fill(0, &[100; 5]);
    world.device.rot(world.offset(0) + u64::from(records[1].place.offset) + 40, 1);
    for record in [&records[0], &records[1], &records[1], &records[2]] {
        world.start(record, None);
    }
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Damaged));
    assert_eq!((world.count(Outcome::Damaged), world.count(Outcome::Own)), (2, 2));
}

/// The first read was begun before the block was written; it may bring what was there before.
#[test]
fn an_early_read_makes_no_damage() {
    let mut early = 0;
    for seed in 0..20 {
        let mut world = World::new();
        world.set_order(QueueOrder::Shuffled { seed });
        let records = world.begin(0, &[100; 5]);
        world.start(&records[0], None);
        world.write(0, &[100; 5]);
        world.start(&records[1], None);
        assert_eq!(world.merged(), 1);
        world.reap_all();
        early += u64::from(world.device_reads() > 1);
        assert!(matches!(world.outcomes[&2], Outcome::Own), "seed {seed}: {:?}", world.outcomes[&2]);
    }
    assert!((1..20).contains(&early), "{early} of 20 reads were early");
}

#[test]
fn a_full_queue_still_takes_who_joins() {
    let mut world = World::new();
    let records = world.fill(0, &[SECTOR - 64; 14]);
    let other = world.fill(1, &[100; 1]);
    let mut started = 0;
    // No two of one sector: 14 reads each of as many uses of slots as it takes.
    let mut all = vec![records];
    for slot in 2..7 {
        all.push(world.fill(slot, &[SECTOR - 64; 14]));
    }
    for record in all.iter().flatten() {
        if world.try_start(record, Some(64)) {
            started += 1;
        }
    }
    let merged = world.merged();
    assert!(!world.try_start(&other[0], None), "the queue is full, with {started} started");
    assert!(world.try_start(&all[0][0], Some(64)));
    assert_eq!(world.merged(), merged + 1);
    world.all_arrive(|outcome| matches!(outcome, Outcome::Own | Outcome::Moved));
}

/// What is read at once of a large value: pieces that lie side by side.
fn runs(description: &[u8]) -> u64 {
    let pieces = terrace_blocks::pieces(description).unwrap().2;
    pieces.chunk_by(|one, other| one.is_followed_by(other)).count() as u64
}

#[test]
fn large_values_share_the_reads_of_their_pieces() {
    let mut world = World::new();
    let value: Vec<u8> = (0..3 * BLOCK_BYTES as u32).map(|i| (i % 251) as u8).collect();
    let description = world.store_large(&value);
    let runs = runs(&description);
    assert!(runs > 2 && terrace_blocks::pieces(&description).unwrap().2.len() as u64 > 2 * runs);
    (0..5).for_each(|_| world.start_large(&description));
    for outcome in world.large_arrivals() {
        assert!(matches!(outcome, Arrived::Extent(bytes) if bytes == value));
    }
    assert_eq!((world.device_reads(), world.merged()), (runs, 4 * runs));
    // A read in the middle fails: for who started it; the others read from the start, each alone.
    (0..3).for_each(|_| world.start_large(&description));
    world.device.inject(Fault::new(Access::Read, FaultKind::Io).after(1));
    let outcomes = world.large_arrivals();
    let whole = outcomes.iter().filter(|o| matches!(o, Arrived::Extent(bytes) if *bytes == value)).count();
    assert_eq!((outcomes.len(), whole), (3, 2));
}

#[test]
fn a_large_value_counts_as_damaged_once_it_was_read_alone() {
    let mut world = World::new();
    let description = world.store_large(&vec![7; 2 * BLOCK_BYTES]);
    let pieces = terrace_blocks::pieces(&description).unwrap().2;
    world.device.rot(world.offset(pieces[1].slot) + u64::from(pieces[1].offset) + 100, 1);
    (0..3).for_each(|_| world.start_large(&description));
    let outcomes = world.large_arrivals();
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Arrived::Damaged { .. })));
    let runs = runs(&description);
    assert_eq!((world.device_reads(), world.merged()), (3 * runs, 2 * runs));
}

#[test]
fn every_start_arrives_once_with_its_own_record() {
    let (mut merged, mut outcomes) = (0, [0; 3]);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        world.set_order(QueueOrder::Shuffled { seed });
        let lengths: Vec<usize> = (0..25)
            .map(|i| [40, 1500, 200, 6000, 40, 1500, 200, 40][i % 8] + rng.below(64) as usize)
            .collect();
        let lengths = &lengths[..];
        let mut blocks: Vec<_> = (0..2).map(|slot| world.fill(slot, lengths)).collect();
        if seed % 3 == 0 {
            world.device.inject(Fault::new(Access::Read, FaultKind::Io).one_in(8, seed).forever());
        }
        for _ in 0..120 {
            match rng.below(20) {
                0 => {
                    let slot = rng.below(2);
                    blocks[slot as usize] = world.fill(slot as u32, lengths);
                }
                1..4 => world.reap(rng.one_in(2)),
                _ => {
                    // Often one of a few, so that many meet.
                    let most = if rng.one_in(2) { 3 } else { 25 };
                    let record = &blocks[rng.below(2) as usize][rng.below(most) as usize];
                    let hints = [None, Some(64), Some(record.bytes), Some(3 * SECTOR)];
                    world.try_start(record, hints[rng.below(4) as usize]);
                }
            }
        }
        world.all_arrive(|outcome| match outcome {
            Outcome::Own | Outcome::Reused => true,
            // A read on found the queue full.
            Outcome::Moved => true,
            Outcome::Failed => seed % 3 == 0,
            Outcome::Damaged => false,
        });
        merged += world.merged();
        for (i, kind) in [Outcome::Own, Outcome::Reused, Outcome::Failed].into_iter().enumerate() {
            outcomes[i] += world.count(kind);
        }
    }
    assert!(merged > 1000 && outcomes.iter().all(|count| *count > 100), "{merged} merged, {outcomes:?}");
}
