//! A linearizability checker for registers (get, set, delete, counters, lists, compare-and-swap) and crashes.
//!
//! Just-in-time linearization (Lowe, "Testing for linearizability", after Wing & Gong): walk through the calls and returns
//! of one key in time, and keep every explanation of what was seen so far: what the key holds and which of the open calls
//! have already taken effect. A call takes effect at the latest when it returns; a return that nothing explains is a
//! violation. Keys are independent, because linearizability is local, and so they are checked in parallel.
//!
//! ```text
//!   client 1   |--- set 1 ---|       |--- get -> 2 ---|
//!   client 2       |--- set 2 -----------|                 (takes effect at x: explained)
//!                                 x
//!   client 3   |--- set 9 ------ no answer ---- crash      (took effect before the crash, or never)
//!
//!   Entry ---> Call (packed) ---> History { calls, crashes } ---> sorted by key ---> key::Checker, a thread each
//!                                    '--- file: saved and read back
//! ```
//!
//! # What it covers, and what not
//! A *key* may stand for several keys that are always written together, by one atomic operation: then half of such an
//! operation, seen while it runs or found after a crash, is a violation of that register. What no check of single keys can
//! see is an order *between* keys that are written one by one: that after a power cut under `batch` a later write to one key
//! survives while an earlier one to another is gone, or that two clients see two writes to two keys in different orders of
//! time (where no call is undone, linearizability is local and rules that out).
//! Requests that a connection has open on the same key at once are checked as calls of different clients, whose order is
//! free. Expiry is not modelled.

mod call;
mod configurations;
mod file;
mod key;
mod register;
mod undo;
mod violation;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub use call::{Call, Entry, Outcome};
pub use register::{Action, Answer, State, appended, apply, parts};
pub use violation::Violation;

/// What many clients asked and were answered, over any number of crashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The calls, in any order.
    pub calls: Vec<Call>,
    /// When the crashes were, in order. Needed only to tell which crash may undo a call.
    pub crashes: Vec<u64>,
}

/// What a linearizable history consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls.
    pub calls: usize,
    /// Those that were never answered.
    pub lost: usize,
    /// Those that a crash was allowed to undo.
    pub undoable: usize,
    /// Keys.
    pub keys: usize,
    /// Crashes.
    pub crashes: usize,
    /// Most calls of one key that were open at once.
    pub open_max: u32,
    /// Most explanations that one key had at once.
    pub explanations_max: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, lost, undoable, keys, crashes, open_max, explanations_max } = self;
        write!(
            f,
            "{calls} calls on {keys} keys, {crashes} crashes, {lost} calls never answered, {undoable} undoable, at most \
             {open_max} of a key open at once and {explanations_max} explanations"
        )
    }
}

/// Why a history was not accepted.
#[derive(Clone, Debug)]
pub enum Failure {
    /// No order of the calls explains it.
    Violation(Box<Violation>),
    /// More calls of one key are open at once than can be checked.
    TooManyOpen {
        /// Which key.
        key: u32,
        /// The most that can be.
        most: usize,
    },
    /// One key has too many explanations to follow them all: neither right nor wrong.
    Undecided {
        /// Which key.
        key: u32,
        /// Explanations followed so far.
        explanations: usize,
    },
    /// It is no history.
    Malformed(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::TooManyOpen { key, most } => {
                write!(f, "more than {most} calls of key {key} are open at once")
            }
            Self::Undecided { key, explanations } => {
                write!(f, "undecided: key {key} has more than {explanations} explanations")
            }
            Self::Malformed(what) => write!(f, "no history: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The key that it is about.
    pub fn key(&self) -> Option<u32> {
        match self {
            Self::Violation(violation) => u32::try_from(violation.entry.key).ok(),
            Self::TooManyOpen { key, .. } | Self::Undecided { key, .. } => Some(*key),
            Self::Malformed(_) => None,
        }
    }
}

/// Checks a history; `initial` says what each key held before it. Every call that was never answered ends with a crash.
///
/// # Errors
/// The failure of the lowest key that has one.
///
/// # Panics
/// As [`Call::new`].
pub fn check(history: &[Entry], initial: impl Fn(u64) -> State + Sync) -> Result<Summary, Failure> {
    let calls: Vec<Call> = history.iter().map(Call::new).collect();
    let mut crashes: Vec<u64> = calls.iter().filter(|call| call.is_lost()).map(|call| call.end).collect();
    crashes.sort_unstable();
    crashes.dedup();
    History { calls, crashes }.check(1, initial)
}

impl History {
    /// Checks it in `threads` threads; `initial` says what each key held before. Sorts the calls by key and time; beyond
    /// them it needs little memory.
    ///
    /// # Errors
    /// The failure of the lowest key that has one.
    pub fn check(
        &mut self,
        threads: usize,
        initial: impl Fn(u64) -> State + Sync,
    ) -> Result<Summary, Failure> {
        sort(&mut self.calls, threads.max(1));
        let keys: Vec<&[Call]> = self.calls.chunk_by(|a, b| a.key == b.key).collect();
        let next = AtomicUsize::new(0);
        // The lowest key's failure, by its place in `keys`.
        let failed = Mutex::new((usize::MAX, None));
        let most = Mutex::new((0, 0));
        let work = || {
            let mut checker = key::Checker::new();
            loop {
                let i = next.fetch_add(1, Relaxed);
                let Some(calls) = keys.get(i) else { break };
                if let Err(failure) = checker.check(calls, &self.crashes, initial(calls[0].key.into())) {
                    let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if i < failed.0 {
                        *failed = (i, Some(failure));
                    }
                    // Lower keys are being checked already.
                    break;
                }
            }
            let mut most = most.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *most = (most.0.max(checker.open_max), most.1.max(checker.configurations_max));
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        if let Some(failure) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1 {
            return Err(failure);
        }
        let (open_max, explanations_max) =
            most.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Summary {
            calls: self.calls.len(),
            lost: self.calls.iter().filter(|call| call.is_lost()).count(),
            undoable: self.calls.iter().filter(|call| call.is_undoable()).count(),
            keys: keys.len(),
            crashes: self.crashes.len(),
            open_max,
            explanations_max,
        })
    }

    /// The calls of one key alone.
    pub fn of_key(&self, key: u32) -> Self {
        let calls = self.calls.iter().filter(|call| call.key == key).copied().collect();
        Self { calls, crashes: self.crashes.clone() }
    }
}

/// Sorts by key and time, in place.
fn sort(calls: &mut [Call], threads: usize) {
    let order = |call: &Call| (call.key, call.invoke);
    if threads < 2 || calls.len() < 1 << 16 {
        calls.sort_unstable_by_key(order);
        return;
    }
    let (low, _, high) = calls.select_nth_unstable_by_key(calls.len() / 2, order);
    std::thread::scope(|scope| {
        scope.spawn(|| sort(low, threads / 2));
        sort(high, threads - threads / 2);
    });
}

#[cfg(test)]
mod anomalies;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
