//! Rounds: how the log is cut although hot records stay in DRAM.
//!
//! Each put is stamped with the current round, which the log takes for the sequence number of its entry. To retire the
//! rounds up to R, records stamped up to R are copied to pages, which become their homes; once those are trusted, and what
//! was overwritten meanwhile is durable as its successor, the log needs no entry of those rounds.
//!
//! # Invariants
//! * A stamp is of the round that was current when its session entered its epoch, or of a later one: an epoch after round
//!   R + 1 began nobody stamps R any more.
//! * Without a log nothing says that what was overwritten meanwhile is durable as its successor: then nothing is put between
//!   that epoch and the end of the walk, and all that is dirty is copied.
//! * `retired` rises only when every record stamped up to it has a trusted home, or a newer version that is durable.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Image, Lower};
use terrace_engine::space::Context;
use terrace_engine::{Barrier, Progress};
use terrace_index::Index;

use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};
use crate::sync::AtomicU64;

/// The rounds.
pub(crate) struct Rounds {
    /// The one that puts are stamped with; the first is 1.
    pub current: AtomicU64,
    /// The last one that the log need not keep.
    pub retired: AtomicU64,
    /// One that somebody wants retired, beside what the log asks for.
    pub target: AtomicU64,
    /// Bytes put since the current one began.
    pub put_bytes: AtomicU64,
    /// 1: writes wait until what is dirty has been written down.
    pub held: AtomicU64,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { current: 1.into(), retired: 0.into(), target: 0.into(), put_bytes: 0.into(), held: 0.into() }
    }
}

/// How far the rounds that are being retired have come.
#[derive(Default)]
pub(crate) enum Retiring {
    /// None are.
    #[default]
    Idle,
    /// Until nobody stamps them any more.
    Entered { round: u64, epoch: u64 },
    /// Until what was put in them is safe from power loss.
    Settling { round: u64, barrier: Barrier },
    /// Their records are copied: slabs before this one are done, and slots of it.
    Walking { round: u64, slab: u32, slot: u32 },
    /// Until what replaced records meanwhile is safe, and pages up to this one are trusted.
    Trusting { round: u64, seq: u64, barrier: Barrier },
}

impl<L: Lower> SlabSpace<L> {
    /// Opens another round once enough was put in this one.
    pub(crate) fn open_round(&self) {
        let share = (self.slabs.count() * self.slabs.slab_bytes) as u64 / 16;
        if self.rounds.put_bytes.load(Relaxed) >= share {
            self.rounds.put_bytes.store(0, Relaxed);
            self.rounds.current.fetch_add(1, SeqCst);
        }
    }

    /// The round that should be retired next, if any should.
    fn wanted_round(&self, context: &dyn Context) -> Option<u64> {
        let (current, retired) = (self.rounds.current.load(SeqCst), self.rounds.retired.load(SeqCst));
        let wanted = self.rounds.target.load(SeqCst).max(context.flush_wanted());
        // Who wants all but the current one can be helped by that alone where all others are retired.
        let wanted = if wanted > 0 && wanted + 1 >= current { current } else { wanted };
        (wanted > retired).then_some(wanted)
    }

    /// One step of retiring rounds.
    pub(crate) fn round_step<I: Index>(
        &self,
        retiring: &mut Retiring,
        stage: &mut Stage,
        image: &mut Image,
        index: &I,
        context: &dyn Context,
    ) -> Progress {
        if self.blocks.failure.has_failed() {
            return Progress::Idle;
        }
        match retiring {
            Retiring::Idle => {
                self.open_round();
                let Some(round) = self.wanted_round(context) else { return Progress::Idle };
                let _ = self.rounds.current.compare_exchange(round, round + 1, SeqCst, SeqCst);
                self.rounds.held.store(u64::from(!context.logged()), SeqCst);
                *retiring = Retiring::Entered { round, epoch: context.advance_epoch() };
                Progress::Worked
            }
            Retiring::Entered { round, epoch } => {
                if !context.epoch_passed(*epoch) {
                    return Progress::Blocked;
                }
                *retiring = Retiring::Settling { round: *round, barrier: context.barrier() };
                Progress::Worked
            }
            Retiring::Settling { round, barrier } => {
                if !context.barrier_passed(barrier) {
                    return Progress::Blocked;
                }
                let round = *round;
                // What was staged before is not staged again.
                match self.seal(stage, image, Self::KEEP, index, context) {
                    Progress::Blocked => return Progress::Blocked,
                    Progress::Idle | Progress::Worked => {}
                }
                *retiring = Retiring::Walking { round, slab: 0, slot: 0 };
                Progress::Worked
            }
            Retiring::Walking { round, slab, slot } => {
                let (round, from) = (*round, (*slab, *slot));
                match self.walk(round, from, stage, index, context) {
                    Walked::To(slab, slot) => *retiring = Retiring::Walking { round, slab, slot },
                    Walked::PageFull(at, number) => {
                        *retiring = Retiring::Walking { round, slab: at, slot: number };
                        return self.seal(stage, image, Self::KEEP, index, context);
                    }
                    Walked::Unsettled(at, number) => {
                        *retiring = Retiring::Walking { round, slab: at, slot: number };
                        return Progress::Blocked;
                    }
                    Walked::End => {
                        if self.seal(stage, image, Self::KEEP, index, context) == Progress::Blocked {
                            *retiring = Retiring::Walking { round, slab: self.slabs.count() as u32, slot: 0 };
                            return Progress::Blocked;
                        }
                        self.rounds.held.store(0, SeqCst);
                        let seq = self.last_page.load(SeqCst);
                        *retiring = Retiring::Trusting { round, seq, barrier: context.barrier() };
                    }
                }
                Progress::Worked
            }
            Retiring::Trusting { round, seq, barrier } => {
                if !context.barrier_passed(barrier) || !context.trusts(*seq) {
                    return Progress::Blocked;
                }
                self.rounds.retired.store(*round, SeqCst);
                self.details.rounds_retired.fetch_add(1, Relaxed);
                *retiring = Retiring::Idle;
                Progress::Worked
            }
        }
    }

    /// Stages records that were stamped up to `round`, from a slab's slot on.
    fn walk<I: Index>(
        &self,
        round: u64,
        (slab, slot): (u32, u32),
        stage: &mut Stage,
        index: &I,
        context: &dyn Context,
    ) -> Walked {
        let upto = if context.logged() { round } else { u64::from(u32::MAX) };
        let mut first = slot;
        for (walked, number) in (slab..self.slabs.count() as u32).enumerate() {
            if walked == SLABS_A_STEP {
                return Walked::To(number, 0);
            }
            let from = std::mem::take(&mut first);
            let Some(class) = self.slabs.class_of(number) else { continue };
            if self.slabs.table[number as usize].dirty.load(SeqCst) <= 0 {
                continue;
            }
            for i in from..self.slabs.used_slots(number) {
                let offset = self.slabs.offset(number, class, i);
                let slot = self.slabs.slot(offset);
                let due = || slot.is_live() && (1..=upto).contains(&u64::from(slot.stamp()));
                if !due() {
                    continue;
                }
                match self.stage_slot(stage, offset, What::Home, context) {
                    Staged::Yes => {}
                    // What a flush forgot would stay dirty until somebody looks for it.
                    Staged::Gone => self.forget(stage, offset, index, context),
                    Staged::Full => return Walked::PageFull(number, i),
                    // Written again since: then it has another stamp.
                    Staged::Unsettled if !due() => {}
                    Staged::Unsettled => return Walked::Unsettled(number, i),
                }
            }
        }
        Walked::End
    }
}

/// Slabs that one step of a walk looks at.
const SLABS_A_STEP: usize = 64;

/// Where a walk stopped.
enum Walked {
    End,
    To(u32, u32),
    PageFull(u32, u32),
    Unsettled(u32, u32),
}
