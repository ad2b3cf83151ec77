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

use terrace_blocks::Lower;
use terrace_engine::space::{Background, Context};
use terrace_engine::{Barrier, Progress, StoreError};
use terrace_index::AnyIndex;

use crate::middle::Filling;
use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};
use crate::sync::{AtomicBool, AtomicU64};

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
    /// Dirty records are on their way to pages by a round's walk, which must not meet one that is staged already.
    pub walking: AtomicBool,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            current: 1.into(),
            retired: 0.into(),
            target: 0.into(),
            put_bytes: 0.into(),
            held: 0.into(),
            walking: false.into(),
        }
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
    /// Until pages up to this one have landed: what was staged before is not staged again.
    Sealing { round: u64, upto: u64 },
    /// Their records are copied: slabs before this one are done, and slots of it.
    Walking { round: u64, slab: u32, slot: u32 },
    /// Until pages up to this one have landed.
    Landing { round: u64, upto: u64 },
    /// Until what replaced records meanwhile is safe, and pages up to this one are trusted.
    Trusting { round: u64, seq: u64, barrier: Barrier },
}

impl<L: Lower> SlabSpace<L> {
    /// Opens another round once enough was put in this one.
    pub(crate) fn open_round(&self) {
        let share = (self.slabs.target.frames() * self.slabs.slab_bytes) as u64 / 16;
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
    pub(crate) fn round_step(
        &self,
        retiring: &mut Retiring,
        (stage, filling): (&mut Stage, &mut Filling),
        index: &AnyIndex,
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
                // From here on others stage nothing that is dirty: what they staged before is launched.
                self.rounds.walking.store(true, SeqCst);
                if self.launch_others(context) == Progress::Blocked {
                    return Progress::Blocked;
                }
                self.top_up(stage, Some(0), context);
                if self.launch(0, stage) == Progress::Blocked {
                    return Progress::Blocked;
                }
                *retiring = Retiring::Sealing { round, upto: self.blocks.last_seq.load(SeqCst) };
                Progress::Worked
            }
            Retiring::Sealing { round, upto } => {
                if self.sealed() < *upto {
                    return Progress::Blocked;
                }
                *retiring = Retiring::Walking { round: *round, slab: 0, slot: 0 };
                Progress::Worked
            }
            Retiring::Walking { round, slab, slot } => {
                let (round, from) = (*round, (*slab, *slot));
                let walked = self.walk(round, from, (stage, &mut *filling), index, context);
                self.fill_middle(filling, index);
                if self.blocks.failure.has_failed() {
                    // What was to get its home there has none.
                    return Progress::Blocked;
                }
                match walked {
                    Walked::To(slab, slot) => *retiring = Retiring::Walking { round, slab, slot },
                    Walked::PageFull(at, number) => {
                        *retiring = Retiring::Walking { round, slab: at, slot: number };
                        return self.launch(0, stage);
                    }
                    Walked::Unsettled(at, number) => {
                        *retiring = Retiring::Walking { round, slab: at, slot: number };
                        return Progress::Blocked;
                    }
                    Walked::End => {
                        self.top_up(stage, None, context);
                        if self.launch(0, stage) == Progress::Blocked {
                            *retiring = Retiring::Walking { round, slab: self.slabs.count() as u32, slot: 0 };
                            return Progress::Blocked;
                        }
                        *retiring = Retiring::Landing { round, upto: self.blocks.last_seq.load(SeqCst) };
                        self.rounds.walking.store(false, SeqCst);
                    }
                }
                Progress::Worked
            }
            Retiring::Landing { round, upto } => {
                if self.sealed() < *upto {
                    return Progress::Blocked;
                }
                self.rounds.held.store(0, SeqCst);
                let seq = self.last_page.load(SeqCst);
                // Now: what was written over before its copy landed counts as safe only with its successor.
                *retiring = Retiring::Trusting { round: *round, seq, barrier: context.barrier() };
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

    /// Retires what is current now: everything in DRAM gets a home, which a manifest that is stored afterwards trusts.
    pub(crate) fn retire_every_round(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Result<(), StoreError> {
        if self.stopped.load(SeqCst) == 1 {
            // It was closed before, and nobody could write since.
            return Ok(());
        }
        let target = self.rounds.current.load(SeqCst);
        self.rounds.target.fetch_max(target, SeqCst);
        while self.rounds.retired.load(SeqCst) < target {
            let progress = self.step(index, context);
            {
                // Trust in the pages written is given by the machine, and it is this thread that closes.
                let retiring = &mut self.steps.lock().retiring;
                if let Retiring::Trusting { round, seq, .. } = retiring
                    && !context.trusts(*seq)
                {
                    if *round >= target {
                        return Ok(());
                    }
                    // What this round was to retire is retired with the later one.
                    *retiring = Retiring::Idle;
                }
            }
            if self.blocks.failure.has_failed() {
                return Err(StoreError::Corrupt(format!(
                    "the lower tier failed while records were written to it ({}): what was acknowledged is in the log",
                    self.blocks.failure.get().map_or("", |failure| &failure.what)
                )));
            }
            if progress != Progress::Worked {
                // Pages are free only once what was moved out of them is trusted, and this one may wait for a free one.
                context
                    .give_trust()
                    .map_err(StoreError::io("storing a manifest that trusts what was moved"))?;
                crate::sync::yield_now();
            }
        }
        Ok(())
    }

    /// Stages records that were stamped up to `round`, from a slab's slot on.
    fn walk(
        &self,
        round: u64,
        (slab, slot): (u32, u32),
        (stage, filling): (&mut Stage, &mut Filling),
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Walked {
        let upto = if context.logged() { round } else { u64::from(u32::MAX) };
        let in_middle = self.dram_is_in_middle();
        let mut first = slot;
        let mut walked = 0;
        for number in slab..self.slabs.count() as u32 {
            if walked >= SLOTS_A_STEP {
                return Walked::To(number, 0);
            }
            let from = std::mem::take(&mut first);
            let Some(class) = self.slabs.class_of(number) else { continue };
            let table = &self.slabs.table[number as usize];
            let upto_stamp = u32::try_from(upto).unwrap_or(u32::MAX);
            if !table.may_have(upto_stamp) {
                continue;
            }
            // Of one that a walk stops in the older slots' stamps are not known any more: the next walk looks at all of it.
            if from == 0 {
                table.forget_stamps();
            }
            walked += self.slabs.used_slots(number);
            let stops = || table.stamped(upto_stamp);
            for i in from..self.slabs.used_slots(number) {
                let offset = self.slabs.offset(number, class, i);
                let slot = self.slabs.slot(offset);
                let due = || slot.is_live() && (1..=upto).contains(&u64::from(slot.stamp()));
                if !due() {
                    match slot.stamp() {
                        0 => {}
                        stamp => table.stamped(stamp),
                    }
                    continue;
                }
                if in_middle && self.stage_home(filling, offset, index, context) {
                    continue;
                }
                match self.stage_slot(stage, offset, What::Home, context) {
                    Staged::Yes => {}
                    // What a flush forgot would stay dirty until somebody looks for it.
                    Staged::Gone => {
                        self.forget(stage, offset, index, context);
                        if slot.stamp() != 0 {
                            table.stamped(slot.stamp());
                        }
                    }
                    Staged::Full => {
                        stops();
                        return Walked::PageFull(number, i);
                    }
                    // Written again since: then it has another stamp.
                    Staged::Unsettled if !due() => {}
                    Staged::Unsettled => {
                        stops();
                        return Walked::Unsettled(number, i);
                    }
                }
            }
        }
        Walked::End
    }
}

/// Slots that one step of a walk looks at.
const SLOTS_A_STEP: u32 = 16_384;

/// Where a walk stopped.
enum Walked {
    End,
    To(u32, u32),
    PageFull(u32, u32),
    Unsettled(u32, u32),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_engine::record::{Kind, NewRecord};
    use terrace_index::{Change, Clht, Index, Key, Verdict};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::calm::Calm;
    use crate::open::SlabOptions;
    use crate::slot::Debt;
    use terrace_policy::Count;

    type Tested = SlabSpace<ByteTier<HeapRegion>>;

    fn space() -> Tested {
        let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
        let options = SlabOptions::of_tests();
        SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap()
    }

    /// A record in DRAM, written in this round. Returns its slot.
    fn put(space: &Tested, index: &Clht, key: &[u8], round: u32) -> u64 {
        let (version, kind, db) = (5, Kind::Value, 0);
        let record =
            NewRecord { version, kind, db, flags: 0, state: 0, expire_at: 0, token: 0, key, value: b"value" };
        let offset = space.slabs.take(space.slabs.classes.of(record.words()).unwrap(), 0).unwrap();
        let (slot, slab) =
            (space.slabs.slot(offset), &space.slabs.table[space.slabs.slab_of(offset) as usize]);
        slot.record().write(&record);
        slab.live.fetch_add(1, Relaxed);
        slab.dirty.fetch_add(1, Relaxed);
        // It owes, and so it comes along in no page: the walk alone gives it a home.
        let access = space.policy.entering(Count::ONE, space.temperature.now());
        slot.publish_owing(None, round, access, Debt::UNREAD);
        slab.stamped(round);
        let key = Key { bytes: key, ..Calm.hasher().key(0, key) };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Set(space.locations.dram(offset)), ()));
        offset
    }

    /// Retires everything up to `round`, and lands what that launches.
    fn retire(space: &Tested, index: &Clht, round: u64) {
        // Far enough on that nobody retires the current one, too.
        space.rounds.current.store(round + 3, SeqCst);
        space.rounds.target.store(round, SeqCst);
        let (mut retiring, mut stage) = Default::default();
        while space.rounds.retired.load(SeqCst) < round {
            space.round_step(
                &mut retiring,
                (&mut stage, &mut Filling::default()),
                AnyIndex::of(index),
                &Calm,
            );
            let departures = space.flights.lock().depart(0);
            departures.into_iter().for_each(|departure| space.land(departure, AnyIndex::of(index)));
        }
    }

    #[test]
    fn a_round_is_retired_once_its_pages_have_landed() {
        let (space, index) = (space(), Clht::with_min_buckets(4));
        let offset = put(&space, &index, b"key", 1);
        space.rounds.current.store(4, SeqCst);
        space.rounds.target.store(1, SeqCst);
        let (mut retiring, mut stage) = Default::default();
        let mut step = || {
            space.round_step(
                &mut retiring,
                (&mut stage, &mut Filling::default()),
                AnyIndex::of(&index),
                &Calm,
            );
        };
        let mut departures = Vec::new();
        while departures.is_empty() {
            step();
            departures = space.flights.lock().depart(0);
        }
        for _ in 0..10 {
            step();
        }
        assert_eq!(space.rounds.retired.load(SeqCst), 0, "the log has the only copy that a crash leaves");
        assert!(space.slabs.slot(offset).home().is_none());
        departures.into_iter().for_each(|departure| space.land(departure, AnyIndex::of(&index)));
        for _ in 0..10 {
            step();
        }
        assert_eq!(space.rounds.retired.load(SeqCst), 1);
        assert!(space.slabs.slot(offset).home().is_some());
    }

    #[test]
    fn a_walk_skips_no_slab_that_has_what_is_due() {
        let (space, index) = (space(), Clht::with_min_buckets(4));
        let old = put(&space, &index, b"old", 1);
        let young = put(&space, &index, b"young", 3);
        let is_dirty = |offset| space.slabs.slot(offset).stamp() != 0;
        retire(&space, &index, 2);
        assert!(!is_dirty(old) && is_dirty(young), "its round goes on");
        // Looked at and passed by: the slab must still be known to have it.
        retire(&space, &index, 3);
        assert!(!is_dirty(young));
    }

    #[test]
    fn a_walk_that_a_full_page_stopped_leaves_nothing_out() {
        let (space, index) = (space(), Clht::with_min_buckets(4));
        let keys: Vec<_> = (0..2000).map(|i| format!("key-{i:04}")).collect();
        let put_all =
            |round| keys.iter().map(|key| put(&space, &index, key.as_bytes(), round)).collect::<Vec<_>>();
        let mut slots = put_all(1);
        slots.push(put(&space, &index, b"young", 2));
        retire(&space, &index, 1);
        retire(&space, &index, 2);
        assert!(space.details.pages_written.load(Relaxed) > 1, "one page would show nothing");
        assert!(slots.iter().all(|&offset| space.slabs.slot(offset).stamp() == 0));
    }
}
