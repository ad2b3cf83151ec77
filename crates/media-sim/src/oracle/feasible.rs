//! How far each key's history may have come, given what was recovered.
//!
//! # Invariants
//! A state `j` of a key is what its first `j` writes leave behind; 0 is a key never written. A key's list of feasible
//! states only ever shrinks, so narrowing ends.

use super::{Oracle, Promise};
use crate::trace::Position;

/// The feasible states of every key, in the order of the oracle's keys.
pub(super) struct Feasible {
    pub(super) states: Vec<Vec<usize>>,
    /// For each key the states that an operation led to which forgot what was there without a look.
    pub(super) breaks: Vec<Vec<usize>>,
}

/// What is known of an operation's survival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Unknown,
    Survived,
    Lost,
}

impl Feasible {
    /// The states of one key from the last that must be there on to the last issued, where they equal what was recovered.
    pub(super) fn of<K: Ord + Clone, V: PartialEq>(
        oracle: &Oracle<K, V>,
        key: &K,
        position: Position,
        promise: &Promise,
        recovered: Option<&V>,
    ) -> Vec<usize> {
        let list = oracle.keys.get(key).map_or(&[][..], Vec::as_slice);
        let first = oracle.must_reach(key, promise);
        let possible = |j: &usize| {
            let Some(effect) = j.checked_sub(1).map(|i| &list[i]) else { return recovered.is_none() };
            let evicted = oracle.evicts && recovered.is_none();
            oracle.may_have_run(effect.op, position) && (evicted || effect.value.as_ref() == recovered)
        };
        (first..=list.len()).filter(possible).collect()
    }

    /// What the states of key `k` say about the write that leads to state `j`.
    pub(super) fn fate(&self, k: usize, j: usize, causal: bool) -> Fate {
        let states = &self.states[k];
        let end = if causal { self.next_break(k, j) } else { j + 1 };
        if states.iter().all(|state| *state < j) {
            Fate::Lost
        } else if states.iter().all(|state| (j..end).contains(state)) {
            Fate::Survived
        } else {
            Fate::Unknown
        }
    }

    /// The first state after `j` that says nothing of it.
    fn next_break(&self, k: usize, j: usize) -> usize {
        self.breaks[k].iter().copied().find(|state| *state > j).unwrap_or(usize::MAX)
    }

    /// Drops the states of key `k` that contradict the fate of the write to state `j`; whether there were any.
    pub(super) fn narrow(&mut self, k: usize, j: usize, fate: Fate, causal: bool) -> bool {
        let before = self.states[k].len();
        let next_break = self.next_break(k, j);
        self.states[k].retain(|state| match fate {
            Fate::Unknown => true,
            Fate::Survived => *state >= j,
            Fate::Lost if causal => *state < j || *state >= next_break,
            Fate::Lost => *state != j,
        });
        self.states[k].len() < before
    }
}

impl<K: Ord + Clone, V> Oracle<K, V> {
    /// Whether the operation can have had an effect by `position`.
    pub(super) fn may_have_run(&self, op: usize, position: Position) -> bool {
        !self.ops[op].withdrawn && self.ops[op].issued <= position
    }

    /// Whether the promise covers the operation.
    pub(super) fn must_survive(&self, op: usize, promise: &Promise) -> bool {
        let op = &self.ops[op];
        !op.withdrawn && op.acknowledged.is_some_and(|position| position <= promise.kept_before)
    }

    /// The first state of the key that keeps the promise.
    pub(super) fn must_reach(&self, key: &K, promise: &Promise) -> usize {
        let list = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        list.iter().rposition(|effect| self.must_survive(effect.op, promise)).map_or(0, |last| last + 1)
    }
}
