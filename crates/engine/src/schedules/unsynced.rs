//! Invariant: from a write's note until the sync that covers it is done, the oldest unsafe time is that note's or older; and
//! every write is covered by a sync that begins after its note.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use terrace_sync::schedules::{Thread, at_once, explore, explore_planted};

use crate::commit::Commit;
use crate::sync::AtomicU64;
use crate::unsynced::Unsynced;

trait Kernel: Send + Sync + 'static {
    fn new() -> Self;
    fn note(&self, now_us: u64);
    fn begin(&self) -> bool;
    fn done(&self);
    fn since_us(&self) -> Option<u64>;
}

impl Kernel for Unsynced {
    fn new() -> Self {
        Unsynced::new()
    }
    fn note(&self, now_us: u64) {
        Unsynced::note(self, now_us);
    }
    fn begin(&self) -> bool {
        Unsynced::begin(self)
    }
    fn done(&self) {
        Unsynced::done(self);
    }
    fn since_us(&self) -> Option<u64> {
        Unsynced::since_us(self)
    }
}

/// Takes the time away before it is in its new place (what this was once), or looks at the places in the wrong order.
struct Gap<const IN_BEGIN: bool>([AtomicU64; 2]);

impl<const IN_BEGIN: bool> Kernel for Gap<IN_BEGIN> {
    fn new() -> Self {
        Self(Default::default())
    }
    fn note(&self, now_us: u64) {
        let _ = self.0[0].compare_exchange(0, now_us, SeqCst, SeqCst);
    }
    fn begin(&self) -> bool {
        let since = if IN_BEGIN { self.0[0].swap(0, SeqCst) } else { self.0[0].load(SeqCst) };
        self.0[1].store(since, SeqCst);
        self.0[0].store(0, SeqCst);
        since != 0
    }
    fn done(&self) {
        self.0[1].store(0, SeqCst);
    }
    fn since_us(&self) -> Option<u64> {
        let (first, second) = if IN_BEGIN { (0, 1) } else { (1, 0) };
        let times = [self.0[first].load(SeqCst), self.0[second].load(SeqCst)];
        times.into_iter().filter(|&us| us != 0).min()
    }
}

/// One write at time 7, one later; a thread that syncs; one that looks.
fn an_unsafe_write_is_dated<K: Kernel>() {
    let kernel = Arc::new(K::new());
    // How many writes a sync has made safe. The first is noted before anybody else begins.
    let (written, safe) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
    kernel.note(7);
    let (writer, syncer, looker) = (kernel.clone(), kernel.clone(), kernel);
    let (writer_written, syncer_safe) = (written.clone(), safe.clone());
    at_once(vec![
        Box::new(move || {
            writer_written.store(2, SeqCst);
            writer.note(9);
        }),
        Box::new(move || {
            for _ in 0..2 {
                if syncer.begin() {
                    let covered = written.load(SeqCst);
                    syncer_safe.fetch_max(covered, SeqCst);
                    syncer.done();
                }
            }
        }),
        Box::new(move || {
            let since = looker.since_us();
            if safe.load(SeqCst) == 0 {
                assert_eq!(since, Some(7), "an unsafe write without its date");
            }
        }),
    ]);
}

/// Two sessions write while a third thread syncs; once all is quiet, one more round must leave nothing unsafe.
fn every_write_is_covered(note_taken_first: bool) {
    let commit = Arc::new(Commit::new(2, 0, false));
    let sync = move |commit: &Commit| {
        let early = commit.barrier();
        if let Some(covered) = commit.sync_begins() {
            // `issued` stands for positions that were read before the note was taken.
            commit.synced(if note_taken_first { &covered } else { &early });
        }
    };
    let mut threads: Vec<Thread> = Vec::new();
    for slot in 0..2 {
        let commit = commit.clone();
        threads.push(Box::new(move || {
            for version in 1..=2 {
                commit.issue(slot, version);
                commit.written(slot, version, 7);
            }
        }));
    }
    let syncer = commit.clone();
    threads.push(Box::new(move || (0..2).for_each(|_| sync(&syncer))));
    at_once(threads);
    sync(&commit);
    assert_eq!(commit.unsafe_since_us(), None);
    for slot in 0..2 {
        assert_eq!(commit.power().settled(slot), 2, "a write that nobody would ever sync");
    }
}

#[test]
fn an_unsafe_write_always_has_its_date() {
    explore(an_unsafe_write_is_dated::<Unsynced>);
}

#[test]
#[should_panic(expected = "without its date")]
fn planted_a_gap_while_a_sync_begins() {
    explore_planted(an_unsafe_write_is_dated::<Gap<true>>);
}

#[test]
#[should_panic(expected = "without its date")]
fn planted_places_looked_at_in_the_wrong_order() {
    explore_planted(an_unsafe_write_is_dated::<Gap<false>>);
}

#[test]
fn every_completed_write_is_covered_by_a_sync() {
    explore(|| every_write_is_covered(true));
}

#[test]
#[should_panic(expected = "nobody would ever sync")]
fn planted_positions_read_before_the_note_is_taken() {
    explore_planted(|| every_write_is_covered(false));
}
