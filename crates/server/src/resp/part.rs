//! Answers of a batch that is executed in parts, because its answers are large: as many steps as were executed are written, the
//! others wait. Of several values (`MGET`) those are written that are there.

use terrace_engine::{Batch, Settled};
use terrace_protocol::resp::Encoder;

use super::Resp;
use super::mark::Mark;
use super::step::Step;
use crate::output::{self, Output};
use crate::protocol::{Context, Rest};

/// Writes the answers of what was executed; `None`, and nothing is written, if that is everything.
#[cold]
pub(super) fn answer(
    resp: &mut Resp,
    batch: &Batch,
    proof: &Settled,
    ctx: &Context<'_>,
    out: &mut Output,
) -> Option<Rest> {
    let executed = batch.executed();
    let waiting = resp.steps.iter().position(|step| step.end() > executed)?;
    // All steps of a command are written together.
    let mark = resp.marks.iter().position(|mark| mark.steps.1 > waiting);
    let first = mark.map_or(waiting, |mark| resp.marks[mark].steps.0.min(waiting));
    let from = resp.steps[..first].iter().map(Step::end).max().unwrap_or(0);
    let to = resp.steps[first..].iter().map(Step::end).find(|end| *end > executed).unwrap_or(executed);
    let mut steps = resp.steps.split_off(first);
    let mut marks = mark.map_or_else(Vec::new, |mark| resp.marks.split_off(mark));
    let noted = resp.marks.last().map_or(0, |mark| mark.notes_end);
    let notes = resp.client.notes.split_off(noted.min(resp.client.notes.len()));
    resp.write(batch, proof, ctx, out);
    for mark in &mut marks {
        mark.steps = (mark.steps.0 - first, mark.steps.1 - first);
        mark.notes_end -= noted;
    }
    let mut rest = Rest { from, to, inside: false };
    if let Some(Step::Values { first, count, begun }) = steps.first_mut()
        && (*first as usize) < executed
    {
        let before = (out.bytes.len(), out.lent.len());
        if !*begun {
            Encoder::new(&mut out.bytes, resp.client.answering).array(*count as usize);
        }
        let now = executed as u32 - *first;
        resp.steps.push(Step::Values { first: *first, count: now, begun: true });
        (*first, *count, *begun) = (*first + now, *count - now, true);
        resp.write(batch, proof, ctx, out);
        if marks.first().is_some_and(|mark: &Mark| mark.muted && mark.steps.0 == 0) {
            output::truncate(before.0, before.1, &mut out.bytes, &mut out.lent);
        }
        rest = Rest { from: executed, to: executed, inside: true };
    }
    resp.steps = steps;
    resp.marks = marks;
    resp.client.notes = notes;
    Some(rest)
}
