//! Commands that need more than their steps: an answer that is not wanted, or something that must come right behind it.
//! Most batches have none.

use std::ops::Range;

use terrace_engine::databases::Databases;

use super::step::{Answer, Step};
use super::uses;
use crate::output;

/// Room for this many is kept from turn to turn.
const KEEP: usize = 64;

/// One command of a plan.
pub(super) struct Mark {
    /// Its steps: the first, and the one behind the last.
    pub steps: (usize, usize),
    /// Its answer is not wanted.
    pub muted: bool,
    /// Its notes end before this one.
    pub notes_end: usize,
}

/// Something that others are told of when a command is answered.
pub(super) struct Note {
    /// The operations of the command.
    pub ops: Range<usize>,
    /// Its full name.
    pub command: &'static str,
    /// What it meant by the number of a database, in those of its batch.
    pub databases: Databases,
}

/// Writes the answers of a plan with marks, and empties all three.
pub(super) fn write(
    steps: &mut Vec<Step>,
    marks: &mut Vec<Mark>,
    notes: &mut Vec<Note>,
    answer: &mut Answer<'_>,
) {
    let mut noted = 0;
    let mut marks_left = marks.iter().peekable();
    let mut start = (answer.encoder.buffer().len(), answer.lent.len());
    for (i, step) in steps.drain(..).enumerate() {
        let mark = marks_left.peek();
        if mark.is_some_and(|mark| mark.steps.0 == i) {
            start = (answer.encoder.buffer().len(), answer.lent.len());
        }
        step.write(answer);
        if let Some(mark) = marks_left.next_if(|mark| mark.steps.1 == i + 1) {
            if mark.muted {
                output::truncate(start.0, start.1, answer.encoder.buffer(), answer.lent);
                if let Some(task) = &mut answer.unfinished {
                    task.muted = true;
                }
            }
            for note in &notes[noted..mark.notes_end] {
                let connections = &answer.ctx.shared.connections;
                let now_ms = answer.ctx.now_ms;
                let (ops, command) = (note.ops.clone(), (note.command, note.databases));
                connections.tell_events(answer.batch, answer.proof, ops, command, now_ms);
                if let Some(accesses) = answer.ctx.shared.counters.accesses.get() {
                    uses::keep(accesses, answer.batch, answer.proof, note, now_ms);
                }
            }
            noted = mark.notes_end;
            answer.entry.take_pushes(false, answer.encoder.buffer());
        }
    }
    marks.clear();
    marks.shrink_to(KEEP);
    notes.clear();
    notes.shrink_to(KEEP);
}
