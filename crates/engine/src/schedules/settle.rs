//! Invariants: under `sync` a session that waits for a sync gets it, whatever the background thread was about to do; under
//! `batch` an answer is given only while a sync that will cover all it rests on is noted to be due, or has been.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use terrace_sync::schedules::{Condvar, Mutex, Thread, at_once, explore, explore_planted};

use super::{WINDOW, shared};
use crate::commit::Ticket;
use crate::durability::Durability;
use crate::shared::Shared;
use crate::sync::yield_now;

#[derive(Clone, Copy, Default, PartialEq)]
enum Session {
    #[default]
    Awake,
    Asleep,
    Posted,
    Finished,
}

/// The sessions' event descriptors.
#[derive(Default)]
struct Events(Mutex<[Session; 2]>, Condvar);

impl Events {
    fn post(&self, slot: usize) {
        let mut sessions = self.0.lock().unwrap();
        if sessions[slot] != Session::Finished {
            sessions[slot] = Session::Posted;
        }
        self.1.notify_all();
    }
    fn wait(&self, slot: usize) {
        let mut sessions = self.0.lock().unwrap();
        while sessions[slot] != Session::Posted {
            sessions[slot] = Session::Asleep;
            sessions = self.1.wait(sessions).unwrap();
        }
        sessions[slot] = Session::Awake;
    }
    fn finish(&self, slot: usize) {
        self.0.lock().unwrap()[slot] = Session::Finished;
    }
    fn finished(&self) -> bool {
        *self.0.lock().unwrap() == [Session::Finished; 2]
    }
    /// Nobody will ever do anything: every session sleeps, and none has a wish.
    fn stuck(&self, shared: &Shared) -> bool {
        let sessions = self.0.lock().unwrap();
        sessions.contains(&Session::Asleep)
            && sessions.iter().all(|s| matches!(s, Session::Asleep | Session::Finished))
            && !shared.sync_wanted.load(SeqCst)
    }
}

/// Looks for something to sync before it takes the wish away: what `take_sync` was once.
fn look_then_take(shared: &Shared) -> bool {
    if shared.commit.unsafe_since_us().is_none() {
        shared.sync_wanted.store(false, SeqCst);
        return false;
    }
    shared.sync_wanted.swap(false, SeqCst)
}

fn everybody_is_answered(take_sync: fn(&Shared) -> bool) {
    let (shared, _) = shared(Durability::Sync, 2);
    let events = Arc::new(Events::default());
    let mut threads: Vec<Thread> = Vec::new();
    for slot in 0..2 {
        let (shared, events) = (shared.clone(), events.clone());
        threads.push(Box::new(move || {
            for version in 1..=2u64 {
                shared.commit.issue(slot, version);
                shared.commit.writing(slot, version, version - 1, &[]);
                if shared.commit.written(slot, version, 1) {
                    shared.commit.waiters.wake(|slot| events.post(slot));
                }
                let ticket = Ticket { own: version, ..Ticket::default() };
                while !shared.is_settled(slot, &ticket) {
                    events.wait(slot);
                }
            }
            events.finish(slot);
        }));
    }
    threads.push(Box::new(move || {
        while !events.finished() {
            if take_sync(&shared) {
                if let Some(covered) = shared.commit.sync_begins() {
                    shared.commit.synced(&covered);
                }
                shared.commit.waiters.wake(|slot| events.post(slot));
            } else {
                assert!(!events.stuck(&shared), "everybody waits and nobody syncs");
                yield_now();
            }
        }
    }));
    at_once(threads);
}

#[test]
fn who_waits_for_a_sync_gets_it() {
    explore(|| everybody_is_answered(Shared::take_sync));
}

#[test]
#[should_panic(expected = "everybody waits and nobody syncs")]
fn planted_a_wish_taken_after_the_look() {
    explore_planted(|| everybody_is_answered(look_then_take));
}

/// Answers by what is noted, and notes nothing itself: what `is_settled` was once.
fn trusting(shared: &Shared, ticket: &Ticket) -> bool {
    shared.commit.met(shared.level(), 1, ticket)
        && shared.commit.unsafe_since_us().is_none_or(|since| !shared.has_passed(since, 101))
}

/// Session 1's answer rests on version 5 of session 0, which writes it while a sync runs for something older.
fn an_answer_counts_on_a_sync_to_come(is_settled: fn(&Shared, &Ticket) -> bool) {
    let (shared, _) = shared(Durability::Batch(WINDOW), 3);
    shared.commit.written(2, 5, 1);
    let (writer, syncer) = (shared.clone(), shared.clone());
    at_once(vec![
        Box::new(move || {
            writer.commit.issue(0, 5);
            writer.commit.written(0, 5, 1);
        }),
        Box::new(move || {
            for _ in 0..2 {
                if let Some(covered) = syncer.commit.sync_begins() {
                    syncer.commit.synced(&covered);
                }
            }
        }),
        Box::new(move || {
            let ticket = Ticket { seen: vec![(0, 5)], ..Ticket::default() };
            for _ in 0..3 {
                if is_settled(&shared, &ticket) {
                    for _ in 0..3 {
                        let since = shared.commit.unsafe_since_us();
                        let safe = shared.commit.power().settled(0) >= 5;
                        assert!(since.is_some() || safe, "answered, and no sync is due");
                    }
                    return;
                }
                yield_now();
            }
        }),
    ]);
}

#[test]
fn an_answer_under_batch_counts_on_a_sync_to_come() {
    explore(|| an_answer_counts_on_a_sync_to_come(|shared, ticket| shared.is_settled(1, ticket)));
}

#[test]
#[should_panic(expected = "answered, and no sync is due")]
fn planted_an_answer_that_trusts_the_writers_note() {
    explore_planted(|| an_answer_counts_on_a_sync_to_come(trusting));
}
