//! Invariant: a session that registered, looked once more in vain and went to sleep is woken when the position that it waits
//! for has moved. A lost wake-up is a deadlock, which the explorer reports.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use terrace_sync::schedules::{Condvar, Mutex, Thread, at_once, explore, explore_planted};

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};
use crate::waiters::Waiters;

trait Kernel: Send + Sync + 'static {
    fn new(sessions: usize) -> Self;
    fn register(&self, slot: usize);
    fn wake(&self, wake: impl FnMut(usize));
}

impl Kernel for Waiters {
    fn new(sessions: usize) -> Self {
        Waiters::new(sessions)
    }
    fn register(&self, slot: usize) {
        Waiters::register(self, slot);
    }
    fn wake(&self, wake: impl FnMut(usize)) {
        Waiters::wake(self, wake);
    }
}

/// Sets the flag before it counts: what this was once.
struct FlagFirst {
    flags: [AtomicBool; 2],
    count: AtomicUsize,
}

impl Kernel for FlagFirst {
    fn new(_sessions: usize) -> Self {
        Self { flags: Default::default(), count: AtomicUsize::new(0) }
    }
    fn register(&self, slot: usize) {
        if !self.flags[slot].swap(true, SeqCst) {
            self.count.fetch_add(1, SeqCst);
        }
    }
    fn wake(&self, mut wake: impl FnMut(usize)) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        for (slot, waiting) in self.flags.iter().enumerate() {
            if waiting.swap(false, SeqCst) {
                self.count.fetch_sub(1, SeqCst);
                wake(slot);
            }
        }
    }
}

/// Stands for a session's event descriptor: stays readable until it is read.
#[derive(Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn post(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }
    fn wait(&self) {
        let mut posted = self.0.lock().unwrap();
        while !*posted {
            posted = self.1.wait(posted).unwrap();
        }
        *posted = false;
    }
}

/// Two sessions wait for position 2; a third thread moves it there in two steps.
fn nobody_sleeps_through<K: Kernel>(registers: bool) {
    let waiters = Arc::new(K::new(2));
    let position = Arc::new(AtomicU64::new(0));
    let events: Arc<[Event; 2]> = Arc::default();
    let mut threads: Vec<Thread> = Vec::new();
    for slot in 0..2 {
        let (waiters, position, events) = (waiters.clone(), position.clone(), events.clone());
        threads.push(Box::new(move || {
            while position.load(SeqCst) < 2 {
                waiters.register(slot);
                if registers && position.load(SeqCst) >= 2 {
                    return;
                }
                events[slot].wait();
            }
        }));
    }
    threads.push(Box::new(move || {
        for to in 1..=2 {
            position.store(to, SeqCst);
            waiters.wake(|slot| events[slot].post());
        }
    }));
    at_once(threads);
}

#[test]
fn no_wake_up_is_lost() {
    explore(|| nobody_sleeps_through::<Waiters>(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn planted_a_flag_that_is_counted_too_late() {
    explore_planted(|| nobody_sleeps_through::<FlagFirst>(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn planted_a_session_that_does_not_look_again() {
    explore_planted(|| nobody_sleeps_through::<Waiters>(false));
}
