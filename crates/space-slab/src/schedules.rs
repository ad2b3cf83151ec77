//! Schedules of records that leave DRAM and come back, explored: `cargo xtask schedules`.
//!
//! ```text
//!   reader ----+                                 in an epoch: look up, fetch; on block media wait outside of it; a hit may promote
//!   writer ----+--> SlabSpace, Clht (the product's), two partitions of three slots each for seven keys
//!   steppers --+        |         '--> World: epochs that a test can make lie
//!                     Medium: bytes in memory, moved piece by piece, with a scheduling point between
//! ```
//!
//! Two steps run at once: one has the steps' lock, the other a partition. Invariants: a key that is always there is always found,
//! whole, as its own record, and never older than what was complete before the read began; and so is every key in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Plain, AtomicU64 as Count, Ordering::SeqCst};

use terrace_blocks::schedules::{BYSTANDER, Bug, Medium, READER, WRITER};
use terrace_engine::space::Records;
use terrace_sync::schedules::{at_once, explore};

use crate::open::SlabOptions;
use crate::space::SlabSpace;
use crate::sync::yield_now;

const BLOCK: usize = 1024;
const BLOCKS: usize = 24;
/// Three records to a slab.
const VALUE_WORDS: usize = 28;
const PARTITIONS: usize = 2;
/// Slots that are left of each partition.
const SLOTS: usize = 3;
const KEYS: u64 = 7;

type World<const DIRECT: bool> = terrace_blocks::schedules::World<SlabSpace<Medium<DIRECT>>>;

/// A world whose DRAM is too small for its keys: what is beyond is taken, and holds nothing.
fn world<const DIRECT: bool>() -> World<DIRECT> {
    let options = SlabOptions {
        block_bytes: BLOCK,
        dram_bytes: 6 * BLOCK as u64,
        partitions: PARTITIONS,
        ..SlabOptions::of_tests()
    };
    let space = SlabSpace::new(Medium::new(BLOCK * (BLOCKS + 1)), None, options).unwrap();
    let world = World::new(space, Bug::None, VALUE_WORDS, 0);
    let slabs = &world.space.slabs;
    let class = slabs.classes.of(world.words()).unwrap();
    let all: Vec<u64> = std::iter::from_fn(|| slabs.take(class, 0)).collect();
    for partition in 0..PARTITIONS {
        let is_its = |offset: &&u64| slabs.partition_of(slabs.slab_of(**offset)) == partition;
        let left: Vec<_> = all.iter().filter(is_its).take(SLOTS).collect();
        assert_eq!(left.len(), SLOTS);
        left.into_iter().for_each(|&offset| slabs.give(offset));
    }
    world
}

/// What happened in all schedules: pages written, records that left DRAM, that came up, and steps beside another one.
#[derive(Default)]
struct Seen([Count; 4]);

fn records_go_down_and_up<const DIRECT: bool>(seen: &Seen) {
    let world = Arc::new(world::<DIRECT>());
    let mut local = world.space.attach(BYSTANDER).unwrap();
    let (filling, filled) = (world.clone(), Arc::new(Plain::new(false)));
    let until = filled.clone();
    // More keys than slots: some are below when it begins.
    at_once(vec![
        Box::new(move || {
            for number in 1..=KEYS {
                filling.write(&mut local, number, false);
            }
            filling.space.detach(&mut local);
            filled.store(true, SeqCst);
        }),
        {
            let world = world.clone();
            Box::new(move || {
                while !until.load(SeqCst) {
                    world.step();
                    yield_now();
                }
            })
        },
    ]);
    let written = Arc::new(Plain::new(false));
    let stepper = || {
        let (world, until) = (world.clone(), written.clone());
        let step: terrace_sync::schedules::Thread = Box::new(move || {
            while !until.load(SeqCst) {
                world.step();
                yield_now();
            }
        });
        step
    };
    let (reading, writing, until) = (world.clone(), world.clone(), written.clone());
    at_once(vec![
        stepper(),
        stepper(),
        Box::new(move || {
            let mut local = reading.space.attach(READER).unwrap();
            for number in [1, 2, 1, 7] {
                reading.read(&mut local, number);
            }
        }),
        Box::new(move || {
            let mut local = writing.space.attach(WRITER).unwrap();
            for number in [3, 1, 4, 2] {
                writing.write(&mut local, number, false);
            }
            writing.space.detach(&mut local);
            until.store(true, SeqCst);
        }),
    ]);
    for _ in 0..8 {
        world.step();
    }
    let mut local = world.space.attach(READER).unwrap();
    for number in 1..=KEYS {
        world.read(&mut local, number);
    }
    let of = &world.space.details;
    let happened = [&of.pages_written, &of.evicted, &of.promoted, &of.steps_aside];
    for (sum, count) in seen.0.iter().zip(happened) {
        sum.fetch_add(count.load(SeqCst), SeqCst);
    }
}

fn explored<const DIRECT: bool>() {
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    explore(move || records_go_down_and_up::<DIRECT>(&counted));
    let seen = seen.0.each_ref().map(|sum| sum.load(SeqCst));
    println!("pages written, records that left DRAM, that came up, steps beside another one: {seen:?}");
    assert!(seen.iter().all(|sum| *sum > 0), "{seen:?}");
}

#[test]
fn two_steps_at_once_lose_no_record_byte_media() {
    explored::<true>();
}

#[test]
fn two_steps_at_once_lose_no_record_block_media() {
    explored::<false>();
}
