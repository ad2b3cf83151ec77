//! What is chosen, and what that costs, in slots looked at.

use std::sync::Arc;

use terrace_blocks::{BLOCK_HEADER_BYTES, ByteTier};
use terrace_engine::Barrier;
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::Kind;
use terrace_engine::space::Replaced;
use terrace_media::HeapRegion;

use super::*;
use crate::open::HybridOptions;

const BLOCK: usize = 1024;
const FULL: i64 = BLOCK as i64;

type Space = HybridLog<ByteTier<HeapRegion>>;

/// Nobody waits for anything.
struct Quiet;

impl Context for Quiet {
    fn advance_epoch(&self) -> u64 {
        0
    }
    fn barrier(&self) -> Barrier {
        Barrier::default()
    }
    fn logged(&self) -> bool {
        true
    }
    fn hasher(&self) -> KeyHasher {
        KeyHasher::new(1)
    }
    fn epoch_passed(&self, _epoch: u64) -> bool {
        unreachable!()
    }
    fn barrier_passed(&self, _barrier: &Barrier) -> bool {
        unreachable!()
    }
    fn trusts(&self, _seq: u64) -> bool {
        unreachable!()
    }
    fn settled(&self, _version: u64) -> bool {
        unreachable!()
    }
    fn log_floor(&self) -> u64 {
        unreachable!()
    }
    fn flush_wanted(&self) -> u64 {
        unreachable!()
    }
    fn flush_version(&self, _db: u8) -> u64 {
        unreachable!()
    }
    fn now_ms(&self) -> u64 {
        unreachable!()
    }
    fn raise_version_floor(&self, _version: u64) {
        unreachable!()
    }
    fn forgotten(&self, _kind: Kind) {
        unreachable!()
    }
    fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {
        unreachable!()
    }
    fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {
        unreachable!()
    }
    fn tombstones_and_keys(&self) -> (u64, u64) {
        unreachable!()
    }
}

/// Blocks that are there in the table alone, each with so many live bytes: they read as a page without records.
fn space(blocks: usize, live: &dyn Fn(u64) -> i64) -> Space {
    let bytes = (blocks + 16) as u64 * BLOCK as u64;
    let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
    let options =
        HybridOptions { block_bytes: BLOCK, dram_bytes: 8 * BLOCK as u64, dram_budget: None, store_id: 1 };
    let space = HybridLog::new(lower, options).unwrap();
    for (slot, number) in space.blocks.slots.iter().zip(0..) {
        slot.begin(State::Sealed, number + 1, Some(0), BLOCK_HEADER_BYTES as u32);
        slot.live_bytes.store(live(number), Relaxed);
    }
    space.blocks.last_seq.store(space.blocks.slots.len() as u64, SeqCst);
    space
}

fn looked_at(space: &Space) -> u64 {
    space.blocks.counts.looked_at.load(Relaxed)
}

/// All that lives in the victim has been moved.
fn move_victim(space: &Space, reclaiming: &mut Reclaiming<ByteTier<HeapRegion>>) -> u32 {
    let victim = reclaiming.victim.take().unwrap();
    assert!(victim.block.entries.is_empty());
    space.begin_freeing(reclaiming, victim.slot, &Quiet);
    victim.slot
}

#[test]
fn choosing_among_a_million_blocks_costs_as_much_as_among_few() {
    const CHOICES: u64 = 200;
    let space = space(1_000_000, &|number| (number * 611_953 % 1_000) as i64 + 8);
    let slots = space.blocks.slots.len() as u64;
    let mut reclaiming = Reclaiming::default();
    let mut last = None;
    for choice in 0..CHOICES {
        let before = looked_at(&space);
        assert_eq!(space.choose(&mut reclaiming, &Quiet), Choice::Made);
        let looks = looked_at(&space) - before;
        // The first one must get to know them.
        let most = if choice == 0 { slots } else { LOOKS as u64 };
        assert!(looks <= most + COMPARED as u64, "{looks} slots looked at for choice {choice}");
        let gain = |number: u64| space.to_gain(number as u32);
        if choice % 40 == 0 {
            last = (0..slots).map(gain).max();
        }
        let (gains, last) = (gain(u64::from(reclaiming.victim.as_ref().unwrap().slot)), last.unwrap());
        assert!(gains + BLOCK as u64 / 32 >= last, "{gains} to gain where there is one with {last}");
        move_victim(&space, &mut reclaiming);
    }
    // It counts in the store's DRAM, whether it is there yet or not.
    let table = space.blocks.slots.bytes() as u64;
    let dram = terrace_engine::space::Sizing::dram_bytes(&space);
    assert!(dram >= table + slots * terrace_blocks::Emptiest::BYTES_A_SLOT as u64, "{dram} bytes");
}

#[test]
fn what_gets_emptier_or_empty_is_known_before_a_small_part_of_the_store_is_written() {
    let blocks = 40 * LOOKS;
    let space = space(blocks, &|_| 500);
    let mut reclaiming = Reclaiming::default();
    assert_eq!(space.choose(&mut reclaiming, &Quiet), Choice::Made);
    let first = move_victim(&space, &mut reclaiming);
    // The last ones that a turn comes to.
    let (emptier, empty) = (blocks as u32 - 1, blocks as u32 - 2);
    assert!(first < empty || first > emptier);
    space.blocks.slots[emptier as usize].live_bytes.store(8, SeqCst);
    space.blocks.slots[empty as usize].live_bytes.store(0, SeqCst);
    let mut chosen = Vec::new();
    while !chosen.contains(&emptier) {
        // A block begins for each that is chosen.
        space.blocks.last_seq.fetch_add(1, SeqCst);
        assert_eq!(space.choose(&mut reclaiming, &Quiet), Choice::Made);
        chosen.push(move_victim(&space, &mut reclaiming));
        assert!(chosen.len() <= 41, "not chosen yet");
    }
    assert_eq!(space.blocks.slots[empty as usize].state(), State::Freeing);
    // Many began, and reclamation had nothing to do meanwhile: it looks at all.
    space.blocks.last_seq.fetch_add(blocks as u64 / 8, SeqCst);
    let far = reclaiming.turn.next as u32 - 1;
    space.blocks.slots[far as usize].live_bytes.store(16, SeqCst);
    assert_eq!(space.choose(&mut reclaiming, &Quiet), Choice::Made);
    assert_eq!(move_victim(&space, &mut reclaiming), far);
}

#[test]
fn nothing_is_said_not_to_be_there_before_all_were_looked_at_again() {
    let space = space(3 * LOOKS, &|_| FULL);
    let slots = space.blocks.slots.len();
    let mut reclaiming = Reclaiming::default();
    let again = |reclaiming: &mut _| {
        let before = looked_at(&space);
        let mut choice = Choice::Looking;
        while choice == Choice::Looking {
            choice = space.choose(reclaiming, &Quiet);
        }
        (choice, (looked_at(&space) - before) as usize)
    };
    for _ in 0..3 {
        let (choice, looks) = again(&mut reclaiming);
        assert_eq!(choice, Choice::None);
        assert!((slots..slots + LOOKS).contains(&looks), "{looks}");
    }
    // Wherever there is something, it is found before.
    for at in [0, slots / 3, slots / 2, slots - 4] {
        let some = || (0..3).map(|i| &space.blocks.slots[at + i]);
        some().for_each(|slot| slot.live_bytes.store(8, SeqCst));
        assert_eq!(again(&mut reclaiming).0, Choice::Made, "{at}");
        move_victim(&space, &mut reclaiming);
        some().for_each(|slot| slot.live_bytes.store(FULL, SeqCst));
        assert_eq!(again(&mut reclaiming).0, Choice::None);
    }
    // So is one that can't be read, once others could be.
    let slot = &space.blocks.slots[5];
    for i in 0..3 {
        space.blocks.slots[5 + i].live_bytes.store(8, SeqCst);
    }
    let frame = slot.frame.swap(0, SeqCst);
    let mut victims = Vec::new();
    for _ in 0..2 {
        assert_eq!(again(&mut reclaiming).0, Choice::Made);
        victims.push(reclaiming.victim.take().unwrap().slot);
    }
    assert!(!victims.contains(&5));
    slot.frame.store(frame, SeqCst);
    reclaiming.unreadable.clear();
    for i in 1..3 {
        space.blocks.slots[5 + i].live_bytes.store(200, SeqCst);
    }
    space.blocks.slots[8].live_bytes.store(200, SeqCst);
    assert_eq!(again(&mut reclaiming).0, Choice::Made);
    assert_eq!(reclaiming.victim.take().unwrap().slot, 5);
}
