//! What a crash may take a key back to: the states before its undoable calls, shared between configurations.

use super::register::State;

/// States to which a crash may go back; [`NONE`] are none.
pub(super) type Undo = u32;

/// No states.
pub(super) const NONE: Undo = 0;

/// Sets of states, each the union of two earlier ones and a state.
pub(super) struct Undos {
    nodes: Vec<(Option<State>, Undo, Undo)>,
}

impl Undos {
    pub fn new() -> Self {
        Self { nodes: vec![(None, NONE, NONE)] }
    }
    /// The set with one state more.
    pub fn with(&mut self, undo: Undo, state: State) -> Undo {
        self.node(Some(state), undo, NONE)
    }
    /// Both sets.
    pub fn union(&mut self, a: Undo, b: Undo) -> Undo {
        match (a, b) {
            (a, b) if a == b => a,
            (a, NONE) => a,
            (NONE, b) => b,
            (a, b) => self.node(None, a, b),
        }
    }
    /// Adds the states of a set to `out`, and forgets it: a second call with the same set adds nothing.
    pub fn take(&mut self, undo: Undo, out: &mut Vec<State>) {
        let mut work = vec![undo];
        while let Some(at) = work.pop() {
            if at != NONE {
                let (state, a, b) = std::mem::replace(&mut self.nodes[at as usize], (None, NONE, NONE));
                out.extend(state);
                work.extend([a, b]);
            }
        }
    }
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.nodes.truncate(1);
    }

    fn node(&mut self, state: Option<State>, a: Undo, b: Undo) -> Undo {
        self.nodes.push((state, a, b));
        (self.nodes.len() - 1) as Undo
    }
}
