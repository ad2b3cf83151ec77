//! Partitions: background steps that run at once (TaC, 5.5).
//!
//! ```text
//!   step --> steps' lock free?  yes: rounds, defragmentation, ..; victims of partition 0, and of one other that is free
//!                               no:  a ticket names one of the others; whoever finds it taken goes on to the next
//!                                    (stealing): victims of its slabs, a page of its own
//! ```
//!
//! A partition has a share of the slabs (`slab.rs`), the policy's parts and hands over them, a stage for a page, and a queue for slots
//! of the middle tier. As many as background threads make sense: with one, all is as if there were no partitions, and there
//! is nothing to lock but the steps.
//!
//! # Lock order
//! `steps` > shares, in their order > flights. Who waits for a share holds no later one.
//!
//! # Invariants
//! * Victims leave a class's slabs by whoever has the partition, landings by whoever has any: [`SlabSpace::hold_still`] has all, and
//!   then no record is on its way but those that it shows.
//! * A round's walk finds nothing that it has to copy in another one's stage: before it begins, what the others have staged is
//!   launched, and while it lasts they let go what was clean when they chose it, or was put in a newer round.
//! * Slabs that are being emptied are the first partition's, whatever their number. A record that is staged twice all the same is
//!   garbage in one of the two pages.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::Progress;
use terrace_engine::space::Context;
use terrace_index::AnyIndex;

use crate::chosen::Chosen;
use crate::evict::{Begun, Evicting};
use crate::flights::Departure;
use crate::space::{SlabSpace, Steps};
use crate::stage::Stage;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// Partitions, at most: as in the paper.
const PARTITIONS_MAX: usize = 128;
/// A partition's stage, and a page more aloft, may take one part in so many of DRAM.
const STAGES_SHARE: u64 = 128;

/// How many partitions a store has use for with so many background threads, so much DRAM and pages of this size
/// ([`Choices::partitions`](crate::Choices::partitions)).
pub fn partitions_for(threads: usize, dram_bytes: u64, block_bytes: usize) -> usize {
    let afforded = dram_bytes / (STAGES_SHARE * block_bytes as u64);
    threads.min(afforded as usize).clamp(1, PARTITIONS_MAX)
}

/// What belongs to a partition other than the first, which is a part of [`Steps`].
pub(crate) struct Share {
    pub evicting: Evicting,
    pub stage: Stage,
}

/// The partitions but for the first.
pub(crate) struct Others {
    shares: Box<[Mutex<Share>]>,
    ticket: AtomicU64,
}

impl Others {
    /// So many partitions in all.
    pub fn new(partitions: usize, policy: &Chosen, classes: usize) -> Self {
        let share = |_| Share { evicting: Evicting::new(policy, classes), stage: Stage::default() };
        Self { shares: (1..partitions).map(share).map(Mutex::new).collect(), ticket: AtomicU64::new(0) }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }
    /// The share of a partition from 1 on.
    pub fn lock(&self, partition: usize) -> MutexGuard<'_, Share> {
        self.shares[partition - 1].lock()
    }
    /// One that nobody has, the ticket's if that is free, with the number of its partition.
    fn any_from(&self, ticket: u64) -> Option<(usize, MutexGuard<'_, Share>)> {
        let count = self.shares.len();
        (0..count).find_map(|on| {
            let at = (ticket as usize).wrapping_add(on) % count;
            self.shares[at].try_lock().map(|share| (at + 1, share))
        })
    }
}

/// A partition, as whoever lands a page has one.
pub(crate) enum Has<'a> {
    All(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'a, Steps>),
    One(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'a, Share>),
}

impl<L: Lower> SlabSpace<L> {
    /// Any partition, if one can be had at once. `number` says which to try first.
    pub(crate) fn try_have_one(&self, number: u64) -> Option<Has<'_>> {
        if self.others.is_empty() {
            return self.steps.try_lock().map(Has::All);
        }
        self.others.any_from(number).map(|(_, share)| Has::One(share))
    }
    /// The same, with patience.
    pub(crate) fn have_one(&self, number: u64) -> Has<'_> {
        match self.others.shares.len() as u64 {
            0 => Has::All(self.steps.lock()),
            count => Has::One(self.others.lock((number % count) as usize + 1)),
        }
    }

    /// All partitions but the first, which the caller has with the steps' lock.
    pub(crate) fn hold_still(&self) -> Vec<MutexGuard<'_, Share>> {
        self.others.shares.iter().map(Mutex::lock).collect()
    }

    /// Sends what other partitions have staged on its way, and what else is dirty in them in the same pages.
    pub(crate) fn launch_others(&self, context: &dyn Context) -> Progress {
        let mut progress = Progress::Idle;
        for (share, partition) in self.others.shares.iter().zip(1..) {
            let stage = &mut share.lock().stage;
            self.top_up(stage, Some(partition), context);
            match self.launch(0, stage) {
                Progress::Idle => {}
                Progress::Worked if progress == Progress::Idle => progress = Progress::Worked,
                Progress::Worked => {}
                Progress::Blocked => progress = Progress::Blocked,
            }
        }
        progress
    }

    /// Makes room in a partition that nobody has, for whoever has the steps' lock or found it taken, and has to fly what that launched.
    /// `None` if there is none.
    pub(crate) fn step_of_another(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Option<(Progress, Vec<Departure>)> {
        if self.others.is_empty() {
            return None;
        }
        let (partition, mut share) = self.others.any_from(self.others.ticket.fetch_add(1, Relaxed))?;
        if self.stopped.load(SeqCst) == 1 {
            return Some((Progress::Idle, Vec::new()));
        }
        let Share { evicting, stage } = &mut *share;
        // Slots of a slab that is being emptied may wait here for a page that is not full.
        let draining = self.is_draining.load(SeqCst);
        let begun = Begun { walking: self.rounds.walking.load(SeqCst), draining, ..Begun::default() };
        let progress = self.evict_of((partition, evicting), stage, begun, index, context);
        let launched = self.flights.lock().depart(partition);
        drop(share);
        Some((progress, launched))
    }

    /// A step of whoever found the steps' lock taken.
    pub(crate) fn help(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let Some((progress, launched)) = self.step_of_another(index, context) else {
            self.details.steps_refused.fetch_add(1, Relaxed);
            return Progress::Blocked;
        };
        self.details.steps_aside.fetch_add(1, Relaxed);
        self.fly_all(launched, index, context);
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eviction::Eviction;

    #[test]
    fn who_finds_a_partition_taken_goes_to_the_next() {
        let others = Others::new(4, &Chosen::new(Eviction::default()), 3);
        let taken = others.any_from(1).unwrap();
        assert_eq!(taken.0, 2);
        let stolen = others.any_from(1).unwrap();
        assert_eq!(stolen.0, 3);
        let last = others.any_from(u64::MAX).unwrap();
        assert_eq!(last.0, 1);
        assert!(others.any_from(0).is_none());
        drop(taken);
        assert_eq!(others.any_from(0).map(|one| one.0), Some(2));
    }

    #[test]
    fn little_dram_has_few_partitions() {
        assert_eq!(partitions_for(1, 64 << 30, 1 << 20), 1);
        assert_eq!(partitions_for(0, 64 << 30, 1 << 20), 1);
        assert_eq!(partitions_for(8, 64 << 20, 256 << 10), 2);
        assert_eq!(partitions_for(8, 1 << 20, 256 << 10), 1);
        assert_eq!(partitions_for(1000, 1 << 40, 1 << 20), 128);
    }
}
