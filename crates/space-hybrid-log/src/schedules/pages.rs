//! Invariants: a key that is always there is always found, whole, as its own record, and never older than what was complete
//! before the read began, while its page is written in, sealed, gives its frame back, is freed and is used again; and what was
//! written last is what is on the medium in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Plain, Ordering::SeqCst};

use terrace_engine::Progress;
use terrace_engine::space::{Durable, Records};
use terrace_sync::schedules::{at_once, explore, explore_planted};

use crate::open::HybridOptions;
use crate::space::HybridLog;
use crate::sync::yield_now;
use terrace_blocks::schedules::{Bug, Medium, READER, WRITER};

const BLOCK: usize = 1024;
const BLOCKS: usize = 11;
/// What is left of the pool: few, so that slots and frames are reused at once.
const SLOTS: u32 = 5;
const FRAMES: u32 = 3;
const VALUE_WORDS: usize = 4;

pub(super) type World<const DIRECT: bool> = terrace_blocks::schedules::World<HybridLog<Medium<DIRECT>>>;

pub(super) fn world<const DIRECT: bool>(bug: Bug, poll_after: u64) -> World<DIRECT> {
    let options =
        HybridOptions { block_bytes: BLOCK, dram_bytes: 5 * BLOCK as u64, dram_budget: None, store_id: 1 };
    let space = HybridLog::new(Medium::new(BLOCK * (BLOCKS + 1)), options).unwrap();
    {
        space.blocks.free.slots.lock().retain(|slot| *slot < SLOTS);
        let mut pool = space.pool.lock();
        pool.frames.retain(|frame| *frame < FRAMES);
    }
    World::new(space, bug, VALUE_WORDS, poll_after)
}

/// One step, with every page wanted on the medium.
pub(super) fn step<const DIRECT: bool>(world: &World<DIRECT>) -> Progress {
    world.space.flush_target.store(world.space.last_seq(), SeqCst);
    world.step()
}

/// A write: the key's number, and whether it goes to a fresh page.
type Write = (u64, bool);

/// Its page turns read-only while it is updated in place.
const IN_PLACE: &[Write] = &[(1, false), (1, false), (1, false)];
/// Its block becomes empty, is freed, and is used for another key.
const REUSE: &[Write] = &[(1, true), (2, true), (1, true)];
/// It is used for the same key again, so that a new record has the old one's address, before a reader polls.
const SAME_PLACE: &[Write] = &[(1, true), (1, true)];

fn a_page_lives<const DIRECT: bool>(bug: Bug, sealed_first: bool, writes: &'static [Write]) {
    let poll_after = if writes == SAME_PLACE { 3 } else { 0 };
    let world = Arc::new(world::<DIRECT>(bug, poll_after));
    let mut local = world.space.attach(WRITER).unwrap();
    for number in [1, 2] {
        world.write(&mut local, number, sealed_first);
    }
    if sealed_first {
        world.space.detach(&mut local);
        while step(&world) == Progress::Worked {}
    }
    let written = Arc::new(Plain::new(false));
    let (reading, writing, stepping) = (world.clone(), world.clone(), world.clone());
    let until = written.clone();
    at_once(vec![
        Box::new(move || {
            let mut local = reading.space.attach(READER).unwrap();
            for _ in 0..2 {
                reading.read(&mut local, 1);
            }
        }),
        Box::new(move || {
            for &(number, fresh) in writes {
                writing.write(&mut local, number, fresh);
            }
            writing.space.detach(&mut local);
            written.store(true, SeqCst);
        }),
        Box::new(move || {
            while !until.load(SeqCst) {
                step(&stepping);
                yield_now();
            }
        }),
    ]);
    // Only the medium counts in the end.
    for _ in 0..8 {
        step(&world);
    }
    let mut local = world.space.attach(READER).unwrap();
    for number in [1, 2] {
        world.read(&mut local, number);
    }
}

#[test]
fn a_page_is_updated_in_place_while_it_is_sealed() {
    explore(|| a_page_lives::<true>(Bug::None, false, IN_PLACE));
}

#[test]
fn a_block_is_reused_while_it_is_read_byte_media() {
    explore(|| a_page_lives::<true>(Bug::None, true, REUSE));
}

#[test]
fn a_block_is_reused_while_it_is_read_block_media() {
    explore(|| a_page_lives::<false>(Bug::None, true, REUSE));
}

#[test]
fn a_key_comes_back_to_its_place_while_it_is_read() {
    explore(|| a_page_lives::<false>(Bug::None, true, SAME_PLACE));
}

#[test]
#[should_panic(expected = "a mixture of two values")]
fn planted_a_page_sealed_before_its_writers_have_left() {
    explore_planted(|| a_page_lives::<true>(Bug::EpochsLie, false, IN_PLACE));
}

#[test]
#[should_panic]
fn planted_a_block_reused_before_its_readers_have_left() {
    explore_planted(|| a_page_lives::<true>(Bug::EpochsLie, true, REUSE));
}

#[test]
#[should_panic]
fn planted_what_was_read_is_believed_after_a_reuse() {
    explore_planted(|| a_page_lives::<false>(Bug::GenerationIgnored, true, SAME_PLACE));
}
