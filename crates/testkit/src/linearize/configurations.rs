//! Explanations of what was seen so far, and which of them are not needed.

use super::register::State;
use super::undo::{Undo, Undos};

/// One explanation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Configuration {
    /// What the key holds.
    pub state: State,
    /// The open calls (by slot) that have taken effect.
    pub done: u64,
    /// The others that may have taken effect unseen, and so may end without.
    pub optional: u64,
    /// What a crash may take the key back to.
    pub undo: Undo,
}

impl Configuration {
    fn order(&self) -> (State, u64, u64) {
        (self.state, self.done, self.optional)
    }
    /// Whether whatever `other` can explain later, this one can too.
    fn covers(&self, other: &Self) -> bool {
        self.state == other.state
            && (self.done ^ other.done) & !self.optional == 0
            && other.optional & !self.optional == 0
    }
}

/// More explanations than this with one state are only compared with their neighbours.
const COMPARED_MAX: usize = 64;

/// Leaves one of each, and, if `covered` is set, none that another one covers.
pub(super) fn reduce(configurations: &mut Vec<Configuration>, undos: &mut Undos, covered: bool) {
    if configurations.len() < 2 {
        return;
    }
    configurations.sort_unstable_by_key(Configuration::order);
    configurations.dedup_by(|later, kept| {
        let same = later.order() == kept.order();
        if same {
            kept.undo = undos.union(kept.undo, later.undo);
        }
        same
    });
    if !covered {
        return;
    }
    let mut kept = 0;
    let mut from = 0;
    while from < configurations.len() {
        let state = configurations[from].state;
        let to = from + configurations[from..].iter().take_while(|other| other.state == state).count();
        for i in from..to {
            let one = configurations[i];
            let group = &configurations[from..to];
            // Nobody covers another one both ways: they are all different.
            let needed = group.len() > COMPARED_MAX
                || !group.iter().enumerate().any(|(j, other)| from + j != i && other.covers(&one));
            if needed {
                configurations[kept] = one;
                kept += 1;
            }
        }
        from = to;
    }
    configurations.truncate(kept);
}
