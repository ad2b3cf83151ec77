//! When may an answer be given? Positions of every session's log, and the dependencies between them.
//!
//! A write is published first and its answer held back until it is durable *with everything it saw* (contract, section
//! "Durability, exactly"). A version names the session that wrote it, so "is what I saw durable?" is one comparison with
//! that session's position.
//!
//! ```text
//!                 write completed                synced
//! session log  ------------------> physical ---------------> physical
//!                                     |  closed under            |  closed under
//!                                     v  dependencies            v  dependencies
//!              level PROCESS:      settled        level POWER: settled     (one level where a write is both at once)
//! ```
//!
//! # Thread safety
//! `physical` and `settled` only grow. A group's dependencies are queued under the lock *before* its version becomes
//! physical, so that whoever computes a cut sees both or neither.
//!
//! # Invariants
//! The settled positions of a level are a cut that is closed: if a settled group saw a version, that version is settled
//! or was before its session's queue. Groups that saw each other settle together (the cut is the greatest fixpoint, as in
//! recovery, so that cycles do not wait for ever).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, AtomicUsize, Mutex};
use crate::unsynced::Unsynced;
use crate::version::Version;
use crate::waiters::Waiters;

/// A version of another session that a group saw: session slot and version.
pub(crate) type Dependency = (u16, u64);

/// What a batch's answers rest on.
#[derive(Default, Debug)]
pub struct Ticket {
    /// The session's own last version that matters.
    pub(crate) own: u64,
    /// Versions of others that were seen before they were settled.
    pub(crate) seen: Vec<Dependency>,
    /// Safe from power loss, whatever the store promises.
    pub(crate) power: bool,
    /// The log write failed: the answers were turned into errors.
    pub(crate) failed: bool,
}

impl Ticket {
    pub(crate) fn clear(&mut self) {
        self.own = 0;
        self.seen.clear();
        self.power = false;
        self.failed = false;
    }
}

struct Waiting {
    version: u64,
    /// The last version of this session's log before this group.
    before: u64,
    dependencies: Vec<Dependency>,
}

/// Positions against one kind of crash.
pub(crate) struct Level {
    physical: Box<[CachePadded<AtomicU64>]>,
    settled: Box<[CachePadded<AtomicU64>]>,
    /// Groups with dependencies that were unmet when they were written.
    waiting: Mutex<Vec<VecDeque<Waiting>>>,
    outstanding: AtomicUsize,
}

impl Level {
    fn new(sessions: usize, start: u64) -> Self {
        let positions = || (0..sessions).map(|_| AtomicU64::new(start).into()).collect();
        Self {
            physical: positions(),
            settled: positions(),
            waiting: Mutex::new((0..sessions).map(|_| VecDeque::new()).collect()),
            outstanding: AtomicUsize::new(0),
        }
    }
    /// The version up to which session `slot`'s log can't be taken back. What a slot wrote that this opening doesn't have
    /// (versions are read from media) is older than the opening, and so durable.
    #[inline]
    pub(crate) fn settled(&self, slot: usize) -> u64 {
        self.settled.get(slot).map_or(u64::MAX, |position| position.load(Acquire))
    }
    fn queue(&self, slot: usize, version: u64, before: u64, dependencies: &[Dependency]) {
        let unmet = dependencies.iter().any(|&(other, seen)| seen > self.settled(other as usize));
        if unmet {
            let dependencies = dependencies.to_vec();
            self.waiting.lock()[slot].push_back(Waiting { version, before, dependencies });
            self.outstanding.fetch_add(1, SeqCst);
        }
    }
    /// Session `slot`'s log has physically reached `version`. Returns whether others may have been waiting for it.
    fn reach(&self, slot: usize, version: u64) -> bool {
        self.physical[slot].store(version, SeqCst);
        // A group queued after this load saw a `settled` that was too old; its own `reach` comes after its `queue` and
        // resolves. A group queued before is counted here.
        if self.outstanding.load(SeqCst) == 0 {
            self.settled[slot].fetch_max(version, SeqCst);
            // Somebody may have queued between the load and the store and resolved with our old position: look again.
            if self.outstanding.load(SeqCst) == 0 {
                return false;
            }
        }
        self.resolve();
        true
    }
    /// Moves `settled` to the greatest cut of the physical positions that is closed under dependencies.
    fn resolve(&self) {
        let mut waiting = self.waiting.lock();
        let mut cut: Vec<u64> = self.physical.iter().map(|p| p.load(SeqCst)).collect();
        loop {
            let mut changed = false;
            for slot in 0..cut.len() {
                let unmet = waiting[slot].iter().take_while(|g| g.version <= cut[slot]).find(|group| {
                    group.dependencies.iter().any(|&(other, seen)| {
                        seen > cut[other as usize] && seen > self.settled[other as usize].load(SeqCst)
                    })
                });
                if let Some(group) = unmet {
                    cut[slot] = group.before;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        for (slot, &position) in cut.iter().enumerate() {
            self.settled[slot].fetch_max(position, SeqCst);
            while waiting[slot].front().is_some_and(|group| group.version <= position) {
                waiting[slot].pop_front();
                self.outstanding.fetch_sub(1, SeqCst);
            }
        }
    }
}

/// The positions of all sessions, and who waits for them.
pub(crate) struct Commit {
    /// Against the death of the process.
    process: Level,
    /// Against power loss; `None` where a completed write is safe from both.
    power: Option<Level>,
    /// The last version each session published.
    issued: Box<[CachePadded<AtomicU64>]>,
    /// Sessions that wait for a position, to be woken.
    pub(crate) waiters: Waiters,
    /// Since when something that completed needs a sync.
    unsynced: Unsynced,
}

/// A moment in all sessions' logs. The default is the beginning, which has passed.
#[derive(Clone, Debug, Default)]
pub struct Barrier(Vec<u64>);

impl Barrier {
    /// The last version of each session's by then.
    pub fn positions(&self) -> &[u64] {
        &self.0
    }
}

impl Commit {
    /// For `sessions` sessions whose versions up to `start` are all durable. `immediate`: a completed write is durable.
    pub(crate) fn new(sessions: usize, start: u64, immediate: bool) -> Self {
        Self {
            process: Level::new(sessions, start),
            power: (!immediate).then(|| Level::new(sessions, start)),
            issued: (0..sessions).map(|_| AtomicU64::new(start).into()).collect(),
            waiters: Waiters::new(sessions),
            unsynced: Unsynced::new(),
        }
    }
    pub(crate) fn process(&self) -> &Level {
        &self.process
    }
    pub(crate) fn power(&self) -> &Level {
        self.power.as_ref().unwrap_or(&self.process)
    }
    /// Session `slot` has published versions up to `version`. Called before they can be part of a page that is sealed.
    #[inline]
    pub(crate) fn issue(&self, slot: usize, version: u64) {
        self.issued[slot].store(version, Release);
    }
    /// The last version session `slot` published.
    pub(crate) fn issued(&self, slot: usize) -> u64 {
        self.issued[slot].load(Acquire)
    }
    /// A group of session `slot` ending in `version` is about to be written; `before` is its log's last version so far.
    /// Call before the write.
    pub(crate) fn writing(&self, slot: usize, version: u64, before: u64, dependencies: &[Dependency]) {
        if !dependencies.is_empty() {
            self.process.queue(slot, version, before, dependencies);
            if let Some(power) = &self.power {
                power.queue(slot, version, before, dependencies);
            }
        }
    }
    /// The write completed. Returns whether other sessions may have been waiting for it.
    pub(crate) fn written(&self, slot: usize, version: u64, now_us: u64) -> bool {
        let resolved = self.process.reach(slot, version);
        self.note_unsynced(now_us);
        // A session that only read has no group queued, but may wait for this one all the same.
        resolved || self.waiters.any()
    }
    /// Something that completed needs a sync. Called when its position is in place: a sync that begins in between covers it and
    /// this asks for one too many; the other way round it would take the note and not the write.
    pub(crate) fn note_unsynced(&self, now_us: u64) {
        if self.power.is_some() {
            self.unsynced.note(now_us);
        }
    }
    /// A sync is about to begin: what it will cover. `None` if nothing needs one. One sync at a time.
    pub(crate) fn sync_begins(&self) -> Option<Barrier> {
        self.power.as_ref()?;
        if !self.unsynced.begin() {
            return None;
        }
        Some(Barrier(self.process.physical.iter().map(|p| p.load(SeqCst)).collect()))
    }
    /// The sync succeeded.
    pub(crate) fn synced(&self, covered: &Barrier) {
        if let Some(power) = &self.power {
            for (slot, &version) in covered.0.iter().enumerate() {
                power.physical[slot].fetch_max(version, SeqCst);
            }
            power.resolve();
        }
        self.unsynced.done();
    }
    /// When the oldest write completed that is not yet safe from power loss, in microseconds.
    pub(crate) fn unsafe_since_us(&self) -> Option<u64> {
        self.unsynced.since_us()
    }
    /// Everything published so far.
    pub(crate) fn barrier(&self) -> Barrier {
        Barrier(self.issued.iter().map(|v| v.load(SeqCst)).collect())
    }
    /// Whether everything before the barrier is safe from power loss.
    pub(crate) fn passed(&self, barrier: &Barrier) -> bool {
        barrier.0.iter().enumerate().all(|(slot, &version)| self.power().settled(slot) >= version)
    }
    /// Whether answers that rest on `ticket` may be given, as far as positions of `level` go.
    pub(crate) fn met(&self, level: &Level, slot: usize, ticket: &Ticket) -> bool {
        level.settled(slot) >= ticket.own
            && ticket.seen.iter().all(|&(other, seen)| level.settled(other as usize) >= seen)
    }
    /// A new session takes slot `slot`: versions must go on above this one.
    pub(crate) fn last_version(&self, slot: usize) -> Version {
        Version(self.issued(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_waits_for_what_it_saw() {
        let commit = Commit::new(3, 10, true);
        commit.writing(0, 20, 10, &[(1, 15)]);
        commit.written(0, 20, 1);
        assert_eq!(commit.power().settled(0), 10, "session 1 has not written version 15");
        commit.writing(0, 21, 20, &[]);
        commit.written(0, 21, 1);
        assert_eq!(commit.power().settled(0), 10, "a later group can't pass an earlier one");
        assert!(commit.written(1, 16, 1), "somebody waited");
        assert_eq!(commit.power().settled(0), 21);
        assert_eq!(commit.power().settled(1), 16);
    }

    #[test]
    fn groups_that_saw_each_other_settle_together() {
        let commit = Commit::new(2, 10, true);
        commit.writing(0, 20, 10, &[(1, 21)]);
        commit.writing(1, 21, 10, &[(0, 20)]);
        commit.written(0, 20, 1);
        assert_eq!(commit.power().settled(0), 10);
        commit.written(1, 21, 1);
        assert_eq!((commit.power().settled(0), commit.power().settled(1)), (20, 21));
    }

    #[test]
    fn power_follows_process_at_a_sync() {
        let commit = Commit::new(2, 10, false);
        commit.writing(0, 20, 10, &[(1, 15)]);
        commit.written(0, 20, 5);
        commit.written(1, 15, 6);
        assert_eq!(commit.process().settled(0), 20);
        assert_eq!(commit.power().settled(0), 10);
        assert_eq!(commit.unsafe_since_us(), Some(5));
        let covered = commit.sync_begins().unwrap();
        commit.written(1, 16, 7);
        commit.synced(&covered);
        assert_eq!((commit.power().settled(0), commit.power().settled(1)), (20, 15));
        assert_eq!(commit.unsafe_since_us(), Some(7));
        assert!(commit.sync_begins().is_some() && commit.sync_begins().is_none());
    }

    #[test]
    fn who_waits_without_a_group_is_woken_by_the_write() {
        let commit = Commit::new(2, 0, true);
        commit.waiters.register(1);
        assert!(commit.written(0, 5, 1), "session 1 has read version 5 and waits for it");
    }

    #[test]
    fn no_completed_write_is_left_without_a_sync_to_come() {
        let commit = Commit::new(2, 0, false);
        let sync = || {
            while let Some(covered) = commit.sync_begins() {
                commit.synced(&covered);
            }
        };
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let spin_until = |at: &AtomicU64, round| {
            while at.load(SeqCst) < round {
                std::hint::spin_loop();
            }
        };
        const ROUNDS: u64 = 100_000;
        let mut lost = None;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    spin_until(&begun, round);
                    commit.written(0, round, 7);
                    done.store(round, SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                // Session 1's write has asked for a sync; session 0's completes while that begins.
                commit.written(1, round, 7);
                begun.store(round, SeqCst);
                sync();
                spin_until(&done, round);
                sync();
                if commit.power().settled(0) != round {
                    lost = Some(round);
                    begun.store(u64::MAX, SeqCst);
                    break;
                }
            }
        });
        assert_eq!(lost, None, "nobody would ever sync session 0's write");
    }

    #[test]
    fn a_barrier_is_passed_when_all_that_was_issued_is_safe() {
        let commit = Commit::new(2, 0, true);
        commit.issue(0, 5);
        let barrier = commit.barrier();
        assert!(!commit.passed(&barrier));
        commit.written(0, 5, 1);
        assert!(commit.passed(&barrier));

        let commit = Commit::new(2, 0, false);
        commit.issue(0, 5);
        let barrier = commit.barrier();
        commit.written(0, 5, 1);
        assert!(!commit.passed(&barrier), "power loss can take what was not synced");
        let covered = commit.sync_begins().unwrap();
        commit.synced(&covered);
        assert!(commit.passed(&barrier));
    }
}
