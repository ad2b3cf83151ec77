//! A linearizability checker for one register a key (get, set, delete, incr, cas).
//!
//! Just-in-time linearization (Lowe, "Testing for linearizability", after Wing & Gong): walk through the calls and returns
//! of one key in time, and keep every *configuration* that explains what was seen so far: the register's state and which of
//! the open calls have already taken effect. A call takes effect at the latest when it returns; a return that no
//! configuration can explain is a violation. Keys are independent, because linearizability is local.
//!
//! ```text
//!   client 1   |--- set 1 ---|       |--- get -> 2 ---|
//!   client 2       |--- set 2 -----------|                 (takes effect at x: explained)
//!                                 x
//!   client 3   |--- set 9 ------ no answer ---- crash      (took effect before the crash, or never)
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// What a client asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read. Answered by [`Answer::Value`].
    Get,
    /// Write. Answered by [`Answer::Stored`].
    Set(i64),
    /// Delete. Answered by [`Answer::Deleted`].
    Delete,
    /// Add; an absent key counts as 0. Answered by [`Answer::Number`].
    Incr(i64),
    /// Write if the key holds this value. Answered by [`Answer::Stored`] or [`Answer::NotStored`].
    Cas {
        /// What it must hold.
        expected: i64,
        /// What to write.
        new: i64,
    },
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a read found.
    Value(Option<i64>),
    /// Written.
    Stored,
    /// The comparison failed.
    NotStored,
    /// Whether there was something to delete.
    Deleted(bool),
    /// The sum.
    Number(i64),
}

/// How a call ended. Times are on the same clock as [`Entry::invoke`]; no two events have the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered at this time.
    Answered(u64, Answer),
    /// It was never answered. It took effect before this time (the crash), or never.
    Lost(u64),
}

/// One call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which key.
    pub key: u64,
    /// Which client; for people.
    pub client: u32,
    /// When it was made.
    pub invoke: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What was asked.
    pub action: Action,
}

/// A history that no order of its operations explains.
#[derive(Debug)]
pub struct Violation {
    /// The return that could not be explained.
    pub entry: Entry,
    /// The states in which the key could have been just before.
    pub possible: Vec<Option<i64>>,
    /// The key's last calls up to there, in order of their start.
    pub before: Vec<Entry>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: no order of the operations on key {} explains", self.entry.key)?;
        writeln!(f, "  {}", line(&self.entry))?;
        writeln!(f, "the key could have held {:?}; its calls before:", self.possible)?;
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
        Outcome::Lost(at) => format!("client {client} [{invoke}, crash at {at}] {action:?} never answered"),
    }
}

/// Calls of one key that may be open at the same time.
const OPEN_MAX: usize = 64;
/// Calls shown with a violation.
const SHOWN: usize = 24;

/// One explanation of what was seen so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Configuration {
    /// What the key holds.
    state: Option<i64>,
    /// The open calls (by slot) that have taken effect.
    done: u64,
}

/// What an action does to a register and answers.
fn apply(state: Option<i64>, action: Action) -> (Option<i64>, Answer) {
    match action {
        Action::Get => (state, Answer::Value(state)),
        Action::Set(value) => (Some(value), Answer::Stored),
        Action::Delete => (None, Answer::Deleted(state.is_some())),
        Action::Incr(by) => {
            let sum = state.unwrap_or(0).wrapping_add(by);
            (Some(sum), Answer::Number(sum))
        }
        Action::Cas { expected, new } if state == Some(expected) => (Some(new), Answer::Stored),
        Action::Cas { .. } => (state, Answer::NotStored),
    }
}

/// Checks a history; `initial` says what each key held before it.
///
/// # Errors
/// The first violation of the lowest key that has one.
///
/// # Panics
/// If a call ends before it starts, or more than 64 calls of one key are open at the same time.
pub fn check(history: &[Entry], initial: impl Fn(u64) -> Option<i64>) -> Result<(), Box<Violation>> {
    let mut by_key: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
    for entry in history {
        by_key.entry(entry.key).or_default().push(*entry);
    }
    for (key, mut entries) in by_key {
        entries.sort_unstable_by_key(|e| e.invoke);
        check_key(&entries, initial(key))?;
    }
    Ok(())
}

/// Checks the entries of one key, sorted by their start.
fn check_key(entries: &[Entry], initial: Option<i64>) -> Result<(), Box<Violation>> {
    let mut events: Vec<(u64, usize, bool)> = Vec::with_capacity(entries.len() * 2);
    for (i, entry) in entries.iter().enumerate() {
        let (Outcome::Answered(end, _) | Outcome::Lost(end)) = entry.outcome;
        assert!(entry.invoke < end, "a call ends after it starts: {entry:?}");
        events.push((entry.invoke, i, false));
        events.push((end, i, true));
    }
    events.sort_unstable();
    // What nobody saw any more needs no explanation.
    let answered =
        |&(_, i, is_end): &(u64, usize, bool)| is_end && matches!(entries[i].outcome, Outcome::Answered(..));
    events.truncate(events.iter().rposition(answered).map_or(0, |last| last + 1));

    let mut slots: [Option<usize>; OPEN_MAX] = [None; OPEN_MAX];
    let mut slot_of = vec![0u8; entries.len()];
    let mut configurations = vec![Configuration { state: initial, done: 0 }];
    let mut next = Vec::new();
    for (_, i, is_end) in events {
        let entry = &entries[i];
        if !is_end {
            let free = slots.iter().position(Option::is_none);
            assert!(free.is_some(), "more than {OPEN_MAX} calls of key {} are open at once", entry.key);
            slot_of[i] = free.unwrap_or(0) as u8;
            slots[slot_of[i] as usize] = Some(i);
            continue;
        }
        let slot = slot_of[i] as usize;
        next.clear();
        take_effect(entries, &slots, slot, &configurations, &mut next);
        match entry.outcome {
            Outcome::Answered(..) if next.is_empty() => return Err(violation(entries, i, &configurations)),
            Outcome::Answered(..) => std::mem::swap(&mut configurations, &mut next),
            // A lost call has taken effect by now, or never will.
            Outcome::Lost(_) => configurations.append(&mut next),
        }
        // From here on the slot belongs to nobody.
        slots[slot] = None;
        for configuration in &mut configurations {
            configuration.done &= !(1 << slot);
        }
        configurations.sort_unstable();
        configurations.dedup();
    }
    Ok(())
}

/// Every configuration, reachable from `from` by letting open calls take effect, in which the call in `slot` has.
fn take_effect(
    entries: &[Entry],
    slots: &[Option<usize>; OPEN_MAX],
    slot: usize,
    from: &[Configuration],
    out: &mut Vec<Configuration>,
) {
    let mut seen: std::collections::HashSet<(Option<i64>, u64)> = std::collections::HashSet::new();
    let mut work = from.to_vec();
    while let Some(at) = work.pop() {
        if at.done & (1 << slot) != 0 {
            out.push(at);
            continue;
        }
        for (other, i) in slots.iter().enumerate().filter_map(|(s, i)| i.map(|i| (s, i))) {
            if at.done & (1 << other) != 0 {
                continue;
            }
            let (state, answer) = apply(at.state, entries[i].action);
            let explained = match entries[i].outcome {
                Outcome::Answered(_, seen) => seen == answer,
                Outcome::Lost(_) => true,
            };
            let done = at.done | 1 << other;
            if explained && seen.insert((state, done)) {
                work.push(Configuration { state, done });
            }
        }
    }
}

fn violation(entries: &[Entry], i: usize, configurations: &[Configuration]) -> Box<Violation> {
    let mut possible: Vec<_> = configurations.iter().map(|c| c.state).collect();
    possible.sort_unstable();
    possible.dedup();
    let (Outcome::Answered(end, _) | Outcome::Lost(end)) = entries[i].outcome;
    let known = entries.partition_point(|e| e.invoke < end);
    let before =
        entries[known.saturating_sub(SHOWN)..known].iter().filter(|e| **e != entries[i]).copied().collect();
    Box::new(Violation { entry: entries[i], possible, before })
}

#[cfg(test)]
mod tests;
