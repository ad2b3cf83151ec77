//! Breadth-first search of all states that a model can reach: the first violation found has a shortest trace.
//!
//! Why not a library: Stateright's search (0.31) keeps with every queued state the whole path that led to it, and brings
//! an HTTP server and a dozen crates; here a state visited costs some 30 bytes and one queued its own size, and what has to be
//! trusted is this page.
//!
//! A visited state is known by 128 bits of its hash. With 100 million states two of them collide with a probability below
//! 10^-22; a collision would hide a state, not invent a violation.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use xxhash_rust::xxh3::xxh3_128;

/// Something to explore.
pub trait Explore {
    /// A state: small, and equal only to states with the same future.
    type State: Copy + Hash;
    /// A step.
    type Action: Copy;

    /// Where it begins.
    fn start(&self) -> Self::State;
    /// Every step that is possible in `state`, always in the same order.
    fn actions(&self, state: &Self::State, out: &mut Vec<Self::Action>);
    /// The state after a step.
    fn apply(&self, state: &Self::State, action: Self::Action) -> Self::State;
    /// Whether a promise is broken in this state.
    fn is_broken(&self, state: &Self::State) -> bool;
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome<A> {
    /// Different states seen.
    pub states: usize,
    /// Steps of the longest shortest way to a state.
    pub depth: usize,
    /// Every reachable state was seen: neither a bound on depth or states nor a violation ended the search.
    pub exhaustive: bool,
    /// A shortest way to a state that breaks a promise.
    pub counterexample: Option<Vec<A>>,
}

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps from the start.
    pub depth: usize,
    /// States.
    pub states: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: usize::MAX, states: u32::MAX as usize }
    }
}

/// Explores everything within `limits`; `progress` is told the states seen and the depth from time to time.
pub fn explore<M: Explore>(
    model: &M,
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize),
) -> Outcome<M::Action> {
    let mut visited: HashSet<u128, BuildHasherDefault<Taken>> = HashSet::default();
    // How each state was first reached: its parent's number, and which of the parent's actions it was.
    let mut reached: Vec<(u32, u16)> = vec![(0, 0)];
    let start = model.start();
    visited.insert(fingerprint(&start));
    let mut outcome = Outcome { states: 1, depth: 0, exhaustive: true, counterexample: None };
    let (mut level, mut next) = (vec![(0u32, start)], Vec::new());
    let mut actions = Vec::new();
    while !level.is_empty() {
        if outcome.depth >= limits.depth {
            outcome.exhaustive = false;
            return outcome;
        }
        for (number, state) in level.drain(..) {
            actions.clear();
            model.actions(&state, &mut actions);
            for (which, &action) in actions.iter().enumerate() {
                let after = model.apply(&state, action);
                if !visited.insert(fingerprint(&after)) {
                    continue;
                }
                let child = reached.len() as u32;
                reached.push((number, which as u16));
                if model.is_broken(&after) {
                    outcome.states = reached.len();
                    outcome.depth += 1;
                    outcome.exhaustive = false;
                    outcome.counterexample = Some(trace(model, &reached, child));
                    return outcome;
                }
                next.push((child, after));
                if reached.len().is_multiple_of(1 << 16) {
                    progress(reached.len(), outcome.depth);
                }
            }
            if reached.len() >= limits.states {
                outcome.states = reached.len();
                outcome.exhaustive = false;
                return outcome;
            }
        }
        std::mem::swap(&mut level, &mut next);
        outcome.depth += usize::from(!level.is_empty());
        outcome.states = reached.len();
    }
    outcome
}

/// The actions that led to a state.
fn trace<M: Explore>(model: &M, reached: &[(u32, u16)], mut number: u32) -> Vec<M::Action> {
    let mut choices = Vec::new();
    while number != 0 {
        let (parent, which) = reached[number as usize];
        choices.push(which);
        number = parent;
    }
    let mut state = model.start();
    let mut actions = Vec::new();
    let mut taken = Vec::new();
    for &which in choices.iter().rev() {
        actions.clear();
        model.actions(&state, &mut actions);
        let action = actions[usize::from(which)];
        state = model.apply(&state, action);
        taken.push(action);
    }
    taken
}

fn fingerprint(state: &impl Hash) -> u128 {
    let mut bytes = Bytes { bytes: [0; STATE_BYTES], len: 0 };
    state.hash(&mut bytes);
    xxh3_128(&bytes.bytes[..bytes.len])
}

/// Bytes that a state may hash.
const STATE_BYTES: usize = 1024;

/// Collects what a state hashes, for one hash over all of it.
struct Bytes {
    bytes: [u8; STATE_BYTES],
    len: usize,
}

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
    fn write_u8(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
    /// Lengths of arrays, and discriminants: never long.
    fn write_usize(&mut self, _: usize) {}
    fn write_isize(&mut self, discriminant: isize) {
        self.write_u8(discriminant as u8);
    }
}

/// The hash of a hash is itself.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters below 10 that may each be raised by one or by three.
    struct Counters {
        forbidden: (u8, u8),
    }
    impl Explore for Counters {
        type State = (u8, u8);
        type Action = (u8, u8);
        fn start(&self) -> (u8, u8) {
            (0, 0)
        }
        fn actions(&self, state: &(u8, u8), out: &mut Vec<(u8, u8)>) {
            let steps = [(1, 0), (3, 0), (0, 1), (0, 3)];
            out.extend(steps.into_iter().filter(|step| state.0 + step.0 < 10 && state.1 + step.1 < 10));
        }
        fn apply(&self, state: &(u8, u8), step: (u8, u8)) -> (u8, u8) {
            (state.0 + step.0, state.1 + step.1)
        }
        fn is_broken(&self, state: &(u8, u8)) -> bool {
            *state == self.forbidden
        }
    }

    #[test]
    fn every_state_is_seen_once() {
        let outcome = explore(&Counters { forbidden: (99, 99) }, Limits::default(), &mut |_, _| {});
        assert!(outcome.exhaustive && outcome.counterexample.is_none());
        assert_eq!((outcome.states, outcome.depth), (100, 8), "2 and 5 and 8 take the most steps");
    }

    #[test]
    fn the_counterexample_is_a_shortest_one() {
        let outcome = explore(&Counters { forbidden: (6, 1) }, Limits::default(), &mut |_, _| {});
        assert_eq!(outcome.counterexample.unwrap().len(), 3, "3, 3 and 1");
    }

    #[test]
    fn a_limit_is_told() {
        let limits = Limits { depth: 2, ..Limits::default() };
        let outcome = explore(&Counters { forbidden: (6, 1) }, limits, &mut |_, _| {});
        assert!(!outcome.exhaustive && outcome.counterexample.is_none());
    }
}
