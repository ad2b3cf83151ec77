//! The check of one key: a walk through its calls in time.
//!
//! A *configuration* explains what was seen so far: what the key holds and which of the open calls have taken effect.
//!
//! ```text
//!   a call starts    it takes a slot; if it only reads and what it read is what a configuration holds, it takes effect there
//!   a call ends      it must have taken effect by now: every order of open calls that ends with it is tried
//!   a crash          calls that it cut off have taken effect, or never will; undoable ones may be taken back
//! ```
//!
//! Three rules keep configurations few. None of them loses an explanation:
//! - A call that only reads takes effect at the first moment that explains its answer: it changes nothing for the others.
//! - When a write that asks for nothing takes effect, other open writes of that kind may have taken effect just before it,
//!   unseen. They become *optional*: they may still take effect, or end without.
//! - So such a write is worth trying only as the last one, or if something open sees what it wrote.

use super::Failure;
use super::call::{Call, Entry, Outcome};
use super::configurations::{Configuration, reduce};
use super::register::{Action, Answer, State, apply, explains, is_read};
use super::undo::{self, Undos};
use super::violation::Violation;

/// Calls of one key that may be open at the same time: bits of a word.
pub(super) const OPEN_MAX: usize = 64;
/// Explanations of one key at the same time, beyond which it is given up as undecided.
const CONFIGURATIONS_MAX: usize = 1 << 20;

/// An open call.
#[derive(Clone, Copy)]
struct Slot {
    end: u64,
    action: Action,
    /// `None` if it was never answered.
    answer: Option<Answer>,
    /// The crash may take it back: it was never answered, or is declared so.
    undoable: bool,
    /// Its place in the key's calls.
    at: usize,
}

impl Slot {
    /// What the register holds if it takes effect now; `None` if that would not explain its answer.
    fn effect(&self, state: State) -> Option<State> {
        let (after, answer) = apply(state, self.action);
        self.answer.is_none_or(|seen| explains(answer, seen, self.action)).then_some(after)
    }
}

/// Checks one key after another, and keeps its memory.
pub(super) struct Checker {
    slots: [Slot; OPEN_MAX],
    /// Slots in use, one bit each; and of these:
    open: u64,
    /// those that only read;
    reads: u64,
    /// writes that ask for nothing.
    blind: u64,
    configurations: Vec<Configuration>,
    next: Vec<Configuration>,
    /// Configurations on the way to an end, by how many calls have taken effect in them.
    layers: Vec<Vec<Configuration>>,
    undos: Undos,
    /// Whether calls that took effect may be taken back: from the first undoable call before a crash on.
    undoing: bool,
    /// Most calls of one key that were open at once.
    pub open_max: u32,
    /// Most explanations at once.
    pub configurations_max: usize,
}

/// The set bits' numbers.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

impl Checker {
    pub fn new() -> Self {
        let slot = Slot { end: 0, action: Action::Get, answer: None, undoable: false, at: 0 };
        Self {
            slots: [slot; OPEN_MAX],
            open: 0,
            reads: 0,
            blind: 0,
            configurations: Vec::new(),
            next: Vec::new(),
            layers: vec![Vec::new(); OPEN_MAX + 1],
            undos: Undos::new(),
            undoing: false,
            open_max: 0,
            configurations_max: 0,
        }
    }

    /// Checks the calls of one key, sorted by their start; `crashes` are in order.
    pub fn check(&mut self, calls: &[Call], crashes: &[u64], initial: State) -> Result<(), Failure> {
        (self.open, self.reads, self.blind, self.undoing) = (0, 0, 0, false);
        self.undos.clear();
        self.configurations.clear();
        self.configurations.push(Configuration { state: initial, done: 0, optional: 0, undo: undo::NONE });
        // What nobody saw any more needs no explanation.
        let Some(last) = calls.iter().filter(|call| !call.is_lost()).map(|call| call.end).max() else {
            return Ok(());
        };
        let next_crash =
            |call: &Call| crashes.get(crashes.partition_point(|crash| *crash < call.end)).copied();
        let mut undo_crashes: Vec<u64> =
            calls.iter().filter(|call| call.is_undoable()).filter_map(next_crash).collect();
        undo_crashes.sort_unstable();
        undo_crashes.dedup();
        let mut undo_crashes = undo_crashes.into_iter().peekable();
        for (i, call) in calls.iter().enumerate().take_while(|(_, call)| call.invoke <= last) {
            let before = call.invoke.saturating_sub(1);
            while let Some(crash) = undo_crashes.next_if(|crash| *crash <= before) {
                self.advance(calls, crash)?;
                self.crash(calls)?;
            }
            self.advance(calls, before)?;
            let entry = call.entry().ok_or(Failure::Malformed("a call that is none"))?;
            if entry.action == Action::Get && call.is_lost() {
                continue;
            }
            let undone_by = if call.is_lost() { Some(call.end) } else { next_crash(call) };
            let undoable = call.is_lost() || call.is_undoable();
            self.undoing |= undoable && undone_by.is_some() && undone_by == undo_crashes.peek().copied();
            let alone = self.open == 0 && calls.get(i + 1).is_none_or(|next| next.invoke > call.end);
            match entry.outcome {
                Outcome::Answered(_, answer) if alone && !self.undoing => {
                    self.alone(calls, i, &entry, answer)?
                }
                outcome => {
                    let answer = outcome.answer();
                    self.start(
                        Slot { end: call.end, action: entry.action, answer, undoable, at: i },
                        call.key,
                    )?;
                }
            }
        }
        self.advance(calls, last)
    }

    /// A call that no other one overlaps.
    fn alone(&mut self, calls: &[Call], i: usize, entry: &Entry, answer: Answer) -> Result<(), Failure> {
        self.next.clear();
        for at in &self.configurations {
            let (state, found) = apply(at.state, entry.action);
            if explains(found, answer, entry.action) {
                self.next.push(Configuration { state, ..*at });
            }
        }
        self.open_max = self.open_max.max(1);
        self.take_next(calls, i)
    }

    fn start(&mut self, slot: Slot, key: u32) -> Result<(), Failure> {
        let free = (!self.open).trailing_zeros() as usize;
        if free == OPEN_MAX {
            return Err(Failure::TooManyOpen { key, most: OPEN_MAX });
        }
        self.slots[free] = slot;
        let bit = 1 << free;
        self.open |= bit;
        self.open_max = self.open_max.max(self.open.count_ones());
        if slot.answer.is_some_and(|answer| is_read(slot.action, answer)) {
            self.reads |= bit;
            for at in &mut self.configurations {
                if slot.effect(at.state).is_some() {
                    at.done |= bit;
                    if self.undoing && !slot.undoable {
                        at.undo = undo::NONE;
                    }
                }
            }
        } else if matches!(slot.action, Action::Set(_)) {
            self.blind |= bit;
        }
        Ok(())
    }

    /// Ends every call that ends at or before `through`.
    fn advance(&mut self, calls: &[Call], through: u64) -> Result<(), Failure> {
        while let Some(slot) = bits(self.open).min_by_key(|slot| self.slots[*slot].end)
            && self.slots[slot].end <= through
        {
            self.end(calls, slot)?;
        }
        Ok(())
    }

    fn end(&mut self, calls: &[Call], goal: usize) -> Result<(), Failure> {
        let Slot { answer, at, .. } = self.slots[goal];
        let bit = 1u64 << goal;
        self.next.clear();
        for configuration in &self.configurations {
            if configuration.done & bit == 0 && (answer.is_none() || configuration.optional & bit != 0) {
                // It ends without an effect of its own.
                self.next.push(*configuration);
            }
            self.layers[configuration.done.count_ones() as usize].push(*configuration);
        }
        let mut explored = 0;
        for level in 0..self.layers.len() {
            let mut layer = std::mem::take(&mut self.layers[level]);
            reduce(&mut layer, &mut self.undos, !self.undoing);
            explored += layer.len();
            for configuration in &layer {
                if configuration.done & bit != 0 {
                    self.next.push(*configuration);
                } else {
                    self.expand(*configuration, goal);
                }
            }
            layer.clear();
            self.layers[level] = layer;
            if explored > CONFIGURATIONS_MAX {
                self.layers.iter_mut().for_each(Vec::clear);
                return Err(Failure::Undecided { key: calls[at].key, explanations: explored });
            }
        }
        self.configurations_max = self.configurations_max.max(explored);
        // From here on the slot belongs to nobody.
        self.next.iter_mut().for_each(|configuration| {
            configuration.done &= !bit;
            configuration.optional &= !bit;
        });
        (self.open, self.reads, self.blind) = (self.open & !bit, self.reads & !bit, self.blind & !bit);
        self.take_next(calls, at)
    }

    /// Lets each open call take effect that may.
    fn expand(&mut self, from: Configuration, goal: usize) {
        for slot in bits(self.open & !from.done) {
            let Some(state) = self.slots[slot].effect(from.state) else { continue };
            let after = self.take_effect(from, slot, state);
            let others = bits(self.open & !self.reads & !self.blind & !after.done);
            let unseen = self.blind & 1 << slot != 0
                && slot != goal
                && !self.undoing
                && after.done.count_ones() == from.done.count_ones() + 1;
            if unseen && others.into_iter().all(|other| self.slots[other].effect(state).is_none()) {
                continue;
            }
            self.layers[after.done.count_ones() as usize].push(after);
        }
    }

    fn take_effect(&mut self, from: Configuration, slot: usize, state: State) -> Configuration {
        let bit = 1 << slot;
        let mut after =
            Configuration { state, done: from.done | bit, optional: from.optional & !bit, ..from };
        if self.undoing {
            after.undo = match self.slots[slot].undoable {
                // What rests on something safe is what it was before.
                true if state == from.state => from.undo,
                true => self.undos.with(from.undo, from.state),
                false => undo::NONE,
            };
        } else if self.blind & bit != 0 {
            after.optional |= self.blind & !after.done;
        }
        for read in bits(self.reads & !after.done) {
            if self.slots[read].effect(state).is_some() {
                after.done |= 1 << read;
                if self.undoing && !self.slots[read].undoable {
                    after.undo = undo::NONE;
                }
            }
        }
        after
    }

    /// The explanations are now those in `next`, after the return of call `i`.
    fn take_next(&mut self, calls: &[Call], i: usize) -> Result<(), Failure> {
        if self.next.is_empty() {
            let possible = self.configurations.iter().map(|configuration| configuration.state).collect();
            return Err(Failure::Violation(Box::new(Violation::new(calls, i, possible))));
        }
        std::mem::swap(&mut self.configurations, &mut self.next);
        reduce(&mut self.configurations, &mut self.undos, !self.undoing);
        self.configurations_max = self.configurations_max.max(self.configurations.len());
        Ok(())
    }

    /// The crash takes back what it may.
    fn crash(&mut self, calls: &[Call]) -> Result<(), Failure> {
        if self.open != 0 || calls.is_empty() {
            return Err(Failure::Malformed("a call is open across a crash that may undo others"));
        }
        let mut states = Vec::new();
        for configuration in &self.configurations {
            states.push(configuration.state);
            self.undos.take(configuration.undo, &mut states);
        }
        self.undos.clear();
        self.undoing = false;
        self.configurations.clear();
        let fresh = |state| Configuration { state, done: 0, optional: 0, undo: undo::NONE };
        self.configurations.extend(states.into_iter().map(fresh));
        reduce(&mut self.configurations, &mut self.undos, true);
        Ok(())
    }
}
