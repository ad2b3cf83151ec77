//! What is told about a history that no order of its calls explains.

use std::fmt;

use super::call::{Call, Entry, Outcome};
use super::register::State;

/// Calls shown with a violation.
const SHOWN: usize = 24;

/// A history that no order of its operations explains.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The return that could not be explained.
    pub entry: Entry,
    /// What the key could have held just before.
    pub possible: Vec<State>,
    /// The key's last calls up to there, in order of their start.
    pub before: Vec<Entry>,
}

impl Violation {
    /// Call `i` of a key's calls can't be explained.
    pub(super) fn new(calls: &[Call], i: usize, mut possible: Vec<State>) -> Self {
        possible.sort_unstable();
        possible.dedup();
        let nothing =
            Entry { key: 0, client: 0, invoke: 0, outcome: Outcome::Lost(0), action: super::Action::Get };
        let entry = calls[i].entry().unwrap_or(nothing);
        let known = calls.partition_point(|call| call.invoke < calls[i].end);
        let before = calls[known.saturating_sub(SHOWN)..known].iter().filter(|call| **call != calls[i]);
        Self { entry, possible, before: before.filter_map(Call::entry).collect() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: no order of the operations on key {} explains", self.entry.key)?;
        writeln!(f, "  {}", line(&self.entry))?;
        let shown = &self.possible[..self.possible.len().min(SHOWN)];
        writeln!(f, "the key could have held {shown:?} ({} in all); its calls before:", self.possible.len())?;
        for entry in &self.before {
            writeln!(f, "  {}", line(entry))?;
        }
        Ok(())
    }
}

fn line(entry: &Entry) -> String {
    let Entry { client, invoke, outcome, action, .. } = entry;
    match outcome {
        Outcome::Answered(at, answer) => format!("client {client} [{invoke}, {at}] {action:?} -> {answer:?}"),
        Outcome::Undoable(at, answer) => {
            format!("client {client} [{invoke}, {at}] {action:?} -> {answer:?}, undoable by the next crash")
        }
        Outcome::Lost(at) => format!("client {client} [{invoke}, crash at {at}] {action:?} never answered"),
    }
}
