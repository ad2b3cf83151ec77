//! Invariant: while a whole-database flush runs, no session is inside an operation; and what was taken away before an epoch
//! began is in nobody's hands once it has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Plain, Ordering::SeqCst};

use terrace_sync::schedules::{Thread, at_once, explore, explore_planted};

use super::shared;
use crate::durability::Durability;
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64};

/// Enters as `Shared::enter` does, but looks for a pause first.
fn look_then_enter(shared: &Shared, paused: &AtomicBool, slot: usize) {
    while paused.load(SeqCst) {
        crate::sync::yield_now();
    }
    shared.epochs.enter(slot);
}

fn nobody_is_inside(look_first: bool) {
    let (shared, _) = shared(Durability::None, 2);
    // No scheduling points of their own: only what the explorer sees moves threads.
    let inside = Arc::new(Plain::new(0));
    let paused = Arc::new(AtomicBool::new(false));
    let mut threads: Vec<Thread> = Vec::new();
    for slot in 0..2 {
        let (shared, inside, paused) = (shared.clone(), inside.clone(), paused.clone());
        threads.push(Box::new(move || {
            for _ in 0..2 {
                if look_first {
                    look_then_enter(&shared, &paused, slot);
                } else {
                    shared.enter(slot);
                }
                inside.fetch_add(1, SeqCst);
                crate::sync::yield_now();
                inside.fetch_sub(1, SeqCst);
                shared.epochs.leave(slot);
            }
        }));
    }
    threads.push(Box::new(move || {
        paused.store(true, SeqCst);
        shared.while_paused(|| {
            for _ in 0..2 {
                assert_eq!(inside.load(SeqCst), 0, "a session is inside");
                crate::sync::yield_now();
            }
        });
        paused.store(false, SeqCst);
    }));
    at_once(threads);
}

#[test]
fn nobody_is_inside_during_a_flush() {
    explore(|| nobody_is_inside(false));
}

#[test]
#[should_panic(expected = "a session is inside")]
fn planted_a_pause_looked_for_before_entering() {
    explore_planted(|| nobody_is_inside(true));
}

/// Session 0 holds what it found until it leaves; whoever took it away reuses it after the epoch.
fn nothing_is_reused_in_use(take_first: bool) {
    let (shared, _) = shared(Durability::None, 1);
    // 1: what the place refers to; 0: nothing. Contents change when it is reused.
    let (place, contents) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(42)));
    let (reader, reader_place, reader_contents) = (shared.clone(), place.clone(), contents.clone());
    at_once(vec![
        Box::new(move || {
            for _ in 0..2 {
                reader.enter(0);
                if reader_place.load(SeqCst) == 1 {
                    assert_eq!(reader_contents.load(SeqCst), 42, "reused while a session holds it");
                }
                reader.epochs.leave(0);
            }
        }),
        Box::new(move || {
            let take = || place.store(0, SeqCst);
            if take_first {
                take();
            }
            let epoch = shared.epochs.advance();
            if !take_first {
                take();
            }
            while !shared.epochs.passed(epoch) {
                crate::sync::yield_now();
            }
            contents.store(0, SeqCst);
        }),
    ]);
}

#[test]
fn nothing_is_reused_while_a_session_holds_it() {
    explore(|| nothing_is_reused_in_use(true));
}

#[test]
#[should_panic(expected = "reused while a session holds it")]
fn planted_an_epoch_begun_before_the_change() {
    explore_planted(|| nothing_is_reused_in_use(false));
}
