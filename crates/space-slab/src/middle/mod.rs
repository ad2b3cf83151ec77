//! The middle tier: records that are warm, in PMem slots between DRAM and the pages of the lower tier.
//!
//! ```text
//!   evict DRAM --> gate --> [ fill: stream, fence, commit, fence ] --> swing          a read --> hit --> DRAM, home kept
//!   read below --> gate --> queue --^                                    |
//!                                                                        v
//!   released (overwritten, moved on) <-- swing <-- page <-- stage <-- victims, slabs that change class
//!      '--> epoch, barrier, trust --> clear, fence --> free
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mod` | what is shared; slots that were let go |
//! | `enter` | records that come here |
//! | `leave` | records that go to pages |
//! | `home` | records that lie in pages, too |
//! | `size` | it grows and shrinks |
//! | `look` | sweeps and searches that must know what is here |
//!
//! # Invariants
//! * Tombstones don't come here, nor news of damage: who drops them looks for them in pages.
//! * A slot is cleared only once no session can hold its address, what replaced its record is safe from power loss, and a
//!   stored manifest trusts the page, if that is where the record went. Without a log what replaced it may lie in DRAM alone:
//!   then it waits until the round is retired in which it was let go.
//! * Records go down only as far as there is room that nobody else counts on (`admit.rs`); with none, slots stay full and
//!   what leaves DRAM goes past them.

mod enter;
mod home;
mod leave;
mod look;
mod size;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::Barrier;
use terrace_engine::space::Context;

pub(crate) use enter::Filling;

use crate::space::SlabSpace;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex};
use crate::temperature::NO_RIVAL;
use terrace_pmem_slots::{Bits, NONE, PmemSlabs};
use terrace_policy::{Clock, Policy};

/// The middle tier.
pub(crate) struct Middle {
    pub slabs: PmemSlabs,
    /// Slots that were let go since background steps looked last.
    released: Mutex<Vec<u64>>,
    /// Records that were read from pages and are warm.
    arrived: Mutex<Vec<enter::Arrived>>,
    /// The count, in sixteenths, of each class's next victim.
    rivals: Box<[AtomicU32]>,
    /// How many records its rival kept out, of each class, since background steps looked last.
    kept_out: Box<[AtomicU32]>,
    /// Slots that are homes of records in DRAM.
    lent: AtomicU64,
    /// A class that somebody found no slot of, since background steps looked last, or `NONE`.
    wanting: AtomicU32,
    /// The newest page that took records from here.
    pub moved_seq: AtomicU64,
    /// The medium may be longer, by what a crash left of another size.
    uncut: AtomicBool,
}

/// What background steps remember of it.
#[derive(Default)]
pub(crate) struct MiddleSteps {
    filling: Filling,
    cooling: VecDeque<Cooling>,
    /// Slots in `cooling`, of each class.
    waiting: Vec<usize>,
    /// One a class. Here it is CLOCK, whatever DRAM has.
    parts: Vec<<Clock as Policy>::Part>,
    pub shrinking: size::Shrinking,
}

/// Slots that were let go, and what they wait for.
struct Cooling {
    epoch: u64,
    barrier: Barrier,
    seq: u64,
    round: u64,
    slots: Vec<u64>,
}

impl Middle {
    pub fn new(slabs: PmemSlabs, uncut: bool) -> Self {
        Self {
            uncut: AtomicBool::new(uncut),
            rivals: (0..slabs.classes()).map(|_| AtomicU32::new(NO_RIVAL)).collect(),
            kept_out: (0..slabs.classes()).map(|_| AtomicU32::new(0)).collect(),
            slabs,
            released: Mutex::default(),
            arrived: Mutex::default(),
            lent: AtomicU64::new(0),
            wanting: AtomicU32::new(NONE),
            moved_seq: AtomicU64::new(0),
        }
    }
    /// Nothing refers to a slot any more; what replaced its record has been issued.
    pub fn release(&self, at: u64) {
        self.take_back(at);
        self.slabs.let_go(at);
        self.released.lock().push(at);
    }
    /// A slot is the home of a record in DRAM.
    pub fn lend(&self, at: u64) {
        if let Some((bits, slot)) = self.lent_bits(at)
            && bits.set(slot)
        {
            self.lent.fetch_add(1, Relaxed);
        }
    }
    /// It is no home any more.
    #[inline]
    pub fn take_back(&self, at: u64) {
        if let Some((bits, slot)) = self.lent_bits(at)
            && bits.is_set(slot)
            && bits.clear(slot)
        {
            self.lent.fetch_sub(1, Relaxed);
        }
    }
    #[inline]
    fn lent_bits(&self, at: u64) -> Option<(&Bits, usize)> {
        let (slab, slot) = self.slabs.number(at)?;
        Some((self.slabs.table[slab as usize].lent.as_ref()?, slot))
    }
    fn is_lent(&self, slab: u32, slot: usize) -> bool {
        self.slabs.table[slab as usize].lent.as_ref().is_some_and(|bits| bits.is_set(slot))
    }
    /// How many slots are homes of records in DRAM.
    pub fn lent_slots(&self) -> u64 {
        self.lent.load(Relaxed)
    }
    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        self.slabs.dram_bytes()
    }
    /// Calls `note` with the class of each of these taken slots.
    fn count(&self, slots: &[u64], mut note: impl FnMut(usize)) {
        let classes = slots.iter().filter_map(|&at| self.slabs.class_of(self.slabs.slab_of(at)));
        classes.for_each(&mut note);
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Takes what was let go, and clears what may be taken again. Whether anything was cleared.
    fn clear_released(&self, middle: &Middle, steps: &mut MiddleSteps, context: &dyn Context) -> bool {
        let slots = std::mem::take(&mut *middle.released.lock());
        steps.waiting.resize(middle.slabs.classes(), 0);
        if !slots.is_empty() {
            middle.count(&slots, |class| steps.waiting[class] += 1);
            steps.cooling.push_back(Cooling {
                epoch: context.advance_epoch(),
                barrier: context.barrier(),
                seq: middle.moved_seq.load(SeqCst),
                round: self.rounds.current.load(SeqCst),
                slots,
            });
        }
        let waiting: usize = steps.waiting.iter().sum();
        let many = waiting * WAITING_SHARE > middle.slabs.taken_slots().0;
        if !context.logged() && (many || waiting > 0 && middle.is_shrinking()) {
            self.rounds.target.fetch_max(self.rounds.current.load(SeqCst), SeqCst);
        }
        let mut any = false;
        while let Some(first) = steps.cooling.front() {
            let safe = context.epoch_passed(first.epoch)
                && context.barrier_passed(&first.barrier)
                && context.trusts(first.seq)
                && (context.logged() || self.rounds.retired.load(SeqCst) >= first.round);
            if !safe {
                break;
            }
            let Some(first) = steps.cooling.pop_front() else { break };
            middle.count(&first.slots, |class| steps.waiting[class] -= 1);
            middle.slabs.clear(&first.slots);
            any = true;
        }
        any
    }
}

/// Without a log a round is retired for the sake of slots that wait if they are one in so many.
const WAITING_SHARE: usize = 4;
