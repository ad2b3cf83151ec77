//! What the keys of one writer may hold: the state left by the last write that can't be lost, or by any later attempt.

use std::collections::{BTreeMap, VecDeque};

use crate::case::show;

/// What a key holds; `None` if it is absent.
pub type State = Option<Vec<u8>>;

/// A state that an attempt would leave.
struct Held {
    state: State,
    /// The pipeline that the attempt was part of.
    stage: u64,
    /// When it was acknowledged, in microseconds.
    acknowledged_us: Option<u64>,
}

/// The possible states of one key, oldest first; the first is certain as long as no later attempt took effect.
struct Possible {
    states: VecDeque<Held>,
    /// Attempts so far that are not among the states any more: the number of the first state.
    gone: u64,
}

/// Keys written by one attempt, with the number of the state it would leave in each.
type Group = Vec<(Vec<u8>, u64)>;

/// The keys of one writer.
#[derive(Default)]
pub struct Ledger {
    keys: BTreeMap<Vec<u8>, Possible>,
    /// Atomic attempts since the last restart.
    groups: Vec<Group>,
    /// The pipeline that is being written, counted from 1 at each restart.
    stage: u64,
}

/// What a restart has settled.
#[derive(Debug)]
pub struct Settled {
    /// What is wrong, in words.
    pub wrong: Vec<String>,
    /// The last pipeline of which something may have survived: the first and last that explain what was found.
    pub last_stage: (u64, u64),
}

impl Ledger {
    /// The state after every attempt so far.
    pub fn latest(&self, key: &[u8]) -> State {
        self.keys.get(key).and_then(|possible| possible.states.back()?.state.clone())
    }
    /// The pipeline that attempts are part of.
    pub fn stage(&self) -> u64 {
        self.stage
    }
    /// Every earlier attempt was answered, and a new pipeline begins.
    pub fn next_stage(&mut self) {
        self.stage += 1;
    }
    /// A write is about to be sent.
    pub fn attempt(&mut self, key: &[u8], after: State) {
        let stage = self.stage;
        self.possible(key).states.push_back(Held { state: after, stage, acknowledged_us: None });
    }
    /// An atomic write of several keys is about to be sent.
    pub fn attempt_group(&mut self, writes: &[(Vec<u8>, State)]) {
        let mut group = Vec::new();
        for (key, after) in writes {
            self.attempt(key, after.clone());
            let possible = self.possible(key);
            group.push((key.clone(), possible.gone + possible.states.len() as u64 - 1));
        }
        self.groups.push(group);
    }
    /// The oldest open attempt on a key was acknowledged at `now_us`. What was acknowledged at `safe_us` or before can't be
    /// lost (`u64::MAX`: nothing can that was acknowledged).
    ///
    /// # Panics
    /// If there is no open attempt.
    pub fn acknowledge(&mut self, key: &[u8], now_us: u64, safe_us: u64) {
        let possible = self.possible(key);
        // The first state is certain: it is no open attempt.
        let open = possible.states.iter_mut().skip(1).find(|held| held.acknowledged_us.is_none());
        assert!(open.is_some(), "more acknowledged than attempted");
        if let Some(held) = open {
            held.acknowledged_us = Some(now_us);
        }
        possible.forget(safe_us);
    }
    /// Every key ever written.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.keys.keys().cloned().collect()
    }

    /// Compares what was found after a restart with what may be there. What was found is certain from then on.
    ///
    /// # Panics
    /// If `found` lacks a key of [`keys`](Self::keys).
    pub fn settle(&mut self, found: &BTreeMap<Vec<u8>, State>, safe_us: u64) -> Settled {
        let mut wrong = Vec::new();
        // The first and the last attempt that explain what was found.
        let mut explained: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
        let mut last_stages = LastStages::default();
        for (key, possible) in &mut self.keys {
            possible.forget(safe_us);
            let found = &found[key];
            let fits = |held: &Held| held.state == *found;
            match (possible.states.iter().position(fits), possible.states.iter().rposition(fits)) {
                (Some(first), Some(last)) => {
                    let number = |at: usize| possible.gone + at as u64;
                    explained.insert(key, (number(first), number(last)));
                    last_stages.add(possible, found);
                }
                _ => {
                    let states: Vec<_> = possible.states.iter().map(|held| shown(&held.state)).collect();
                    wrong.push(format!(
                        "key {} holds {}; acknowledged or attempted later: {states:?}",
                        show(key),
                        shown(found)
                    ));
                }
            }
        }
        for group in self.groups.drain(..) {
            let known = |(key, number): &(Vec<u8>, u64)| {
                explained.get(&key[..]).map(|(first, last)| (*first >= *number, *last < *number))
            };
            let outcomes: Vec<_> = group.iter().filter_map(known).collect();
            if outcomes.iter().any(|(took, _)| *took) && outcomes.iter().any(|(_, did_not)| *did_not) {
                wrong.push(format!("an atomic write is half there: {group:?}"));
            }
        }
        let last_stage = last_stages.common();
        if last_stage.is_none() && wrong.is_empty() {
            wrong.push(format!(
                "no moment explains what survived: a pipeline is there, and one that was answered before it was sent is not \
                 ({})",
                last_stages.contradiction()
            ));
        }
        for (key, possible) in &mut self.keys {
            possible.gone += possible.states.len() as u64;
            possible.states.clear();
            possible.states.push_back(Held { state: found[key].clone(), stage: 0, acknowledged_us: Some(0) });
        }
        self.stage = 0;
        Settled { wrong, last_stage: last_stage.unwrap_or((0, u64::MAX)) }
    }

    fn possible(&mut self, key: &[u8]) -> &mut Possible {
        self.keys.entry(key.to_vec()).or_insert_with(|| Possible {
            states: VecDeque::from([Held { state: None, stage: 0, acknowledged_us: Some(0) }]),
            gone: 0,
        })
    }
}

impl Possible {
    /// Drops the states before the last one that can't be lost.
    fn forget(&mut self, safe_us: u64) {
        let safe = |held: &Held| held.acknowledged_us.is_some_and(|at| at <= safe_us);
        if let Some(last) = self.states.iter().rposition(safe) {
            self.states.drain(..last);
            self.gone += last as u64;
        }
    }
}

/// Which pipelines may have been the last of which something survived.
#[derive(Default)]
struct LastStages {
    /// Where the number of keys that agree with a pipeline changes.
    changes: BTreeMap<u64, i64>,
    keys: i64,
}

impl LastStages {
    fn add(&mut self, possible: &Possible, found: &State) {
        self.keys += 1;
        let states = &possible.states;
        let mut until = None;
        for (at, _) in states.iter().enumerate().filter(|(_, held)| held.state == *found) {
            // A state is there from its own pipeline, in part, to the next one that changes the key, in part.
            let (from, to) = (states[at].stage, states.get(at + 1).map_or(u64::MAX - 1, |next| next.stage));
            let from = match until {
                Some(until) if from <= until => until + 1,
                _ => from,
            };
            if from <= to {
                *self.changes.entry(from).or_default() += 1;
                *self.changes.entry(to + 1).or_default() -= 1;
                until = Some(to);
            }
        }
    }

    /// The first and the last pipeline with which every key agrees.
    fn common(&self) -> Option<(u64, u64)> {
        let (mut agreeing, mut range, mut first) = (0, None, None);
        for (&stage, change) in &self.changes {
            if agreeing == self.keys
                && let Some(first) = first
            {
                range = Some((first, stage - 1));
            }
            agreeing += change;
            if agreeing == self.keys {
                first = first.or(Some(stage));
            }
        }
        range.or((self.keys == 0).then_some((0, u64::MAX)))
    }

    fn contradiction(&self) -> String {
        let mut agreeing = 0;
        let best = self.changes.iter().map(|(stage, change)| {
            agreeing += change;
            (agreeing, *stage)
        });
        let best = best.max().unwrap_or_default();
        format!("{} of {} keys agree with pipeline {}", best.0, self.keys, best.1)
    }
}

fn shown(state: &State) -> String {
    state.as_ref().map_or("nothing".into(), |value| show(value))
}

#[cfg(test)]
mod tests;
