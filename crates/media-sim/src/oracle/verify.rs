//! The judgement: each key alone, then atomic groups and session prefixes by narrowing until nothing changes.
//!
//! Narrowing is sound (what it refuses is wrong) and not complete where values repeat: give each write its own value.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use super::feasible::{Fate, Feasible};
use super::{OpId, Oracle, Promise, Violation};
use crate::trace::Position;

impl<K: Ord + Clone + Debug, V: PartialEq + Debug> Oracle<K, V> {
    /// Judges the whole content found after a crash at `position`.
    ///
    /// # Errors
    /// What was promised and is not there, or is there and was never written.
    pub fn verify(
        &self,
        position: Position,
        promise: &Promise,
        recovered: &BTreeMap<K, V>,
    ) -> Result<(), Violation> {
        if let Some((key, value)) = recovered.iter().find(|(key, _)| !self.keys.contains_key(*key)) {
            return Err(self.tell_unwritten(position, key, value));
        }
        self.verify_with(position, promise, |key| recovered.get(key))
    }

    /// As [`verify`](Self::verify) by look-ups of the keys that were ever written; the caller checks that there are no others.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn verify_with<'v>(
        &self,
        position: Position,
        promise: &Promise,
        mut recovered: impl FnMut(&K) -> Option<&'v V>,
    ) -> Result<(), Violation>
    where
        V: 'v,
    {
        let mut feasible = Feasible { states: Vec::with_capacity(self.keys.len()), breaks: Vec::new() };
        for key in self.keys.keys() {
            let found = recovered(key);
            let states = Feasible::of(self, key, position, promise, found);
            if states.is_empty() {
                return Err(self.tell_key(position, promise, key, found));
            }
            feasible.states.push(states);
            let effects = self.keys[key].iter().enumerate();
            let breaks = effects.filter(|(_, effect)| self.ops[effect.op].forgets).map(|(i, _)| i + 1);
            feasible.breaks.push(breaks.collect());
        }
        if promise.session_prefix || self.ops.iter().any(|op| op.keys.len() > 1) {
            self.narrow(position, promise, &mut feasible)?;
        }
        Ok(())
    }

    fn narrow(
        &self,
        position: Position,
        promise: &Promise,
        feasible: &mut Feasible,
    ) -> Result<(), Violation> {
        let writes = self.writes();
        let mut fates = vec![Fate::Unknown; self.ops.len()];
        loop {
            for op in (0..self.ops.len()).filter(|op| !self.ops[*op].withdrawn) {
                self.judge(op, position, promise, &writes[op], feasible, &mut fates[op])?;
            }
            if promise.session_prefix {
                self.cut_sessions(position, &mut fates)?;
            }
            let mut changed = false;
            for (op, places) in writes.iter().enumerate() {
                for (k, j) in places {
                    changed |= feasible.narrow(*k, *j, fates[op], promise.causal);
                    if feasible.states[*k].is_empty() {
                        return Err(self.tell_torn(position, op));
                    }
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// For each operation the key numbers and states that its effects lead to.
    fn writes(&self) -> Vec<Vec<(usize, usize)>> {
        let mut writes = vec![Vec::new(); self.ops.len()];
        for (k, list) in self.keys.values().enumerate() {
            for (i, effect) in list.iter().enumerate() {
                writes[effect.op].push((k, i + 1));
            }
        }
        writes
    }

    /// All or nothing: every key of the operation must tell the same.
    fn judge(
        &self,
        op: OpId,
        position: Position,
        promise: &Promise,
        places: &[(usize, usize)],
        feasible: &Feasible,
        fate: &mut Fate,
    ) -> Result<(), Violation> {
        let promised = if self.must_survive(op, promise) { Fate::Survived } else { Fate::Unknown };
        let issued = if self.may_have_run(op, position) { Fate::Unknown } else { Fate::Lost };
        let told = places.iter().map(|(k, j)| feasible.fate(*k, *j, promise.causal));
        for other in told.chain([promised, issued]).filter(|other| *other != Fate::Unknown) {
            if *fate != Fate::Unknown && *fate != other {
                return Err(self.tell_torn(position, op));
            }
            *fate = other;
        }
        Ok(())
    }

    /// What survives of a session is a prefix of it, in the order of ranks.
    fn cut_sessions(&self, position: Position, fates: &mut [Fate]) -> Result<(), Violation> {
        let mut last_survivor: HashMap<u32, OpId> = HashMap::new();
        let mut first_lost: HashMap<u32, OpId> = HashMap::new();
        let live = || self.ops.iter().enumerate().filter(|(_, op)| !op.withdrawn && !op.keys.is_empty());
        for (id, op) in live() {
            match fates[id] {
                Fate::Survived => drop(last_survivor.insert(op.session, id)),
                Fate::Lost => drop(first_lost.entry(op.session).or_insert(id)),
                Fate::Unknown => {}
            }
        }
        for (id, op) in live() {
            let survivor = last_survivor.get(&op.session).filter(|last| op.rank < self.ops[**last].rank);
            let lost = first_lost.get(&op.session).filter(|first| op.rank > self.ops[**first].rank);
            if let Some(survivor) = survivor {
                if fates[id] == Fate::Lost {
                    return Err(self.tell_hole(position, id, *survivor));
                }
                fates[id] = Fate::Survived;
            } else if lost.is_some() {
                fates[id] = Fate::Lost;
            }
        }
        Ok(())
    }
}
