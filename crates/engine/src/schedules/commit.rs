//! Invariant: settled positions are closed. If a settled group saw a version, that version is written, and what that saw;
//! (positions of one cut are published one by one, so that for a moment only one of them may show it). A barrier that has
//! passed covers what was issued before it; and in the end everything settles.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Plain, Ordering::SeqCst};

use terrace_sync::schedules::{Thread, at_once, explore, explore_planted};

use crate::commit::Commit;

/// Whose dependency is queued when.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Right,
    /// A group's dependencies are queued after its version became physical.
    QueuedLate,
}

/// Session 0's group saw version 5 of session 1, whose group saw version 5 of session 2; a fourth thread looks. With `cycle`
/// session 2's group saw session 0's as well.
fn settled_is_closed(order: Order, cycle: bool) {
    let commit = Arc::new(Commit::new(3, 0, true));
    let medium: Arc<[Plain; 3]> = Arc::default();
    let mut threads: Vec<Thread> = Vec::new();
    for slot in 0..3u16 {
        let (commit, medium) = (commit.clone(), medium.clone());
        let saw = (slot < 2 || cycle).then_some(((slot + 1) % 3, 5));
        threads.push(Box::new(move || {
            let saw = saw.as_slice();
            let slot = usize::from(slot);
            commit.issue(slot, 5);
            // No scheduling point: the write completes together with its position.
            let write = || medium[slot].store(5, SeqCst);
            if order == Order::QueuedLate {
                write();
                commit.written(slot, 5, 1);
                commit.writing(slot, 5, 0, saw);
            } else {
                commit.writing(slot, 5, 0, saw);
                write();
                commit.written(slot, 5, 1);
            }
            // A later group rests on nothing but the one before.
            commit.issue(slot, 6);
            commit.writing(slot, 6, 5, &[]);
            commit.written(slot, 6, 1);
        }));
    }
    let looker = commit.clone();
    threads.push(Box::new(move || {
        let level = looker.process();
        for (slot, others) in [(0, 1..3), (1, 2..3), (0, 1..3)] {
            if level.settled(slot) >= 5 {
                for other in others {
                    assert_eq!(medium[other].load(SeqCst), 5, "a group settled before what it saw");
                }
            }
        }
    }));
    at_once(threads);
    for slot in 0..3 {
        assert_eq!(commit.process().settled(slot), 6, "session {slot} never settles");
    }
}

#[test]
fn what_settles_is_closed() {
    explore(|| settled_is_closed(Order::Right, false));
}

#[test]
fn groups_that_saw_each_other_settle() {
    explore(|| settled_is_closed(Order::Right, true));
}

#[test]
#[should_panic(expected = "settled before what it saw")]
fn planted_dependencies_queued_too_late() {
    explore_planted(|| settled_is_closed(Order::QueuedLate, false));
}

/// A session issues a version and then lets go of what it replaces (here: `released`); whoever finds it let go takes a barrier,
/// which must not pass before that version is safe.
fn a_barrier_covers_the_successor(issued_first: bool) {
    use crate::sync::AtomicBool;
    use std::sync::atomic::Ordering::{Acquire, Release};

    let commit = Arc::new(Commit::new(2, 0, false));
    let released = Arc::new(AtomicBool::new(false));
    let (writer, syncer, freer) = (commit.clone(), commit.clone(), commit);
    let replaced = released.clone();
    at_once(vec![
        Box::new(move || {
            if issued_first {
                writer.issue(0, 5);
                replaced.store(true, Release);
            } else {
                replaced.store(true, Release);
                writer.issue(0, 5);
            }
            writer.written(0, 5, 1);
        }),
        Box::new(move || {
            for _ in 0..2 {
                if let Some(covered) = syncer.sync_begins() {
                    syncer.synced(&covered);
                }
            }
        }),
        Box::new(move || {
            if released.load(Acquire) {
                let barrier = freer.barrier();
                if freer.passed(&barrier) {
                    assert_eq!(freer.power().settled(0), 5, "freed before its successor is safe");
                }
            }
        }),
    ]);
}

#[test]
fn a_barrier_waits_for_what_replaced_a_record() {
    explore(|| a_barrier_covers_the_successor(true));
}

#[test]
#[should_panic(expected = "freed before its successor is safe")]
fn planted_a_version_issued_after_the_release() {
    explore_planted(|| a_barrier_covers_the_successor(false));
}
