//! Invariant: a reader that found a copy in the read cache reads that record, whole, while the copy's page is given up and its frame is
//! used for something else, and while the key is written again.

use std::sync::Arc;

use terrace_engine::space::{Context, Durable, Records, Sizing};
use terrace_engine::{Progress, ReadCache};
use terrace_sync::schedules::{at_once, explore, explore_planted};

use std::sync::atomic::Ordering::SeqCst;

use terrace_blocks::schedules::{Bug, Medium, READER, WRITER, World};

use crate::open::HybridOptions;
use crate::space::{HybridLog, Steps};

const BLOCK: usize = 1024;
const FRAMES: usize = 7;
const BLOCKS: usize = FRAMES + 7;

type Cached<const DIRECT: bool> = World<HybridLog<Medium<DIRECT>>>;

/// Key 1 is below DRAM, and has a copy.
fn with_a_copy<const DIRECT: bool>(bug: Bug) -> Cached<DIRECT> {
    let dram_bytes = (FRAMES * BLOCK) as u64;
    let options = HybridOptions { block_bytes: BLOCK, dram_bytes, dram_budget: None, store_id: 1 };
    let space = HybridLog::new(Medium::new(BLOCK * (BLOCKS + 1)), options).unwrap();
    space.set_read_cache(ReadCache::Gated).unwrap();
    let world = World::new(space, bug, 4, 0);
    let mut local = world.space.attach(WRITER).unwrap();
    [1, 2].into_iter().for_each(|number| world.write(&mut local, number, false));
    world.space.detach(&mut local);
    world.space.flush_target.store(world.space.last_seq(), SeqCst);
    while world.step() == Progress::Worked {}
    {
        let mut pool = world.space.pool.lock();
        let (slot, _) = pool.clean.pop_front().unwrap();
        let frame = world.space.blocks.slots[slot as usize].frame.swap(0, SeqCst) - 1;
        pool.frames.push(frame);
    }
    let mut local = world.space.attach(READER).unwrap();
    for _ in 0..8 {
        world.read(&mut local, 1);
        world.step();
    }
    assert_eq!(world.space.cache.counts.records.load(SeqCst), 1);
    world
}

/// The oldest page of the cache goes.
fn give_up<const DIRECT: bool>(world: &Cached<DIRECT>) {
    let mut steps = world.space.steps.lock();
    let Steps { flushing, .. } = &mut *steps;
    let context: &dyn Context = world;
    while world.space.take_from_cache(flushing, None, context) {}
}

fn a_copy_goes<const DIRECT: bool>(bug: Bug) {
    let world = Arc::new(with_a_copy::<DIRECT>(bug));
    let (reading, writing) = (world.clone(), world.clone());
    at_once(vec![
        Box::new(move || {
            let mut local = reading.space.attach(READER).unwrap();
            (0..2).for_each(|_| reading.read(&mut local, 1));
        }),
        Box::new(move || {
            // It takes none of its frames again.
            writing.space.set_read_cache(ReadCache::Off).unwrap();
            give_up(&writing);
            writing.step();
            // Into the frames that came back last.
            let mut local = writing.space.attach(WRITER).unwrap();
            [2, 1, 2].into_iter().for_each(|number| writing.write(&mut local, number, true));
            writing.space.detach(&mut local);
        }),
    ]);
    let mut local = world.space.attach(READER).unwrap();
    [1, 2].into_iter().for_each(|number| world.read(&mut local, number));
}

#[test]
fn a_copy_goes_while_it_is_read_byte_media() {
    explore(|| a_copy_goes::<true>(Bug::None));
}

#[test]
fn a_copy_goes_while_it_is_read_block_media() {
    explore(|| a_copy_goes::<false>(Bug::None));
}

#[test]
#[should_panic]
fn planted_a_copys_frame_is_used_before_its_readers_have_left() {
    explore_planted(|| a_copy_goes::<true>(Bug::EpochsLie));
}
