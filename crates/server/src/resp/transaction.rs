//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.
//!
//! ```text
//!   MULTI  commands are checked and kept          WATCH  the versions of keys are read and kept
//!   EXEC   their handlers run, all that they push being one atomic group of the engine:
//!          [ a check for each watched key | operations of the first command | of the second | ... ]
//! ```
//! A check that finds another version ends the group, and nothing of it is done. What the engine can't do with others as one step
//! (forgetting databases, iterating) happens in its place between two groups: in order, but others may see what is before it.

use terrace_engine::{Edit, OpKind, Outcome, Reply};
use terrace_protocol::resp::Args;

use super::call::{Call, Outcome as Answered};
use super::client::Client;
use super::error::Refusal;
use super::step::{Answer, Step};
use super::table::{Command, Flags};

/// A command that is kept may have so many bytes, together with those before it.
const QUEUE_BYTES_MAX: usize = 512 << 20;

/// Commands kept since `MULTI`.
#[derive(Default)]
pub(super) struct Transaction {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
    /// For each command, where its arguments end in `ranges`.
    ends: Vec<usize>,
    /// A command was refused: `EXEC` does nothing.
    pub failed: bool,
}

impl Transaction {
    /// Commands kept.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn keep(&mut self, args: Args<'_>) {
        for arg in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.ranges.push((start, self.bytes.len()));
        }
        self.ends.push(self.ranges.len());
    }

    fn commands(&self) -> impl Iterator<Item = Args<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, &end)| &self.ranges[start..end]);
        ranges.map(|ranges| Args::new(&self.bytes, ranges))
    }
}

/// A watched key.
pub(super) struct Watched {
    db: u8,
    key: Box<[u8]>,
    /// The version that it had; 0 if it was not there.
    version: u64,
}

/// Whether a command is executed although a transaction has begun.
pub(super) fn runs_at_once(command: &Command) -> bool {
    matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// Keeps a command for `EXEC`.
pub(super) fn keep(call: &mut Call<'_>, command: &Command) -> Answered {
    let args = call.args;
    let Some(transaction) = &mut call.client.transaction else { return Ok(()) };
    if command.flags.has(Flags::NO_MULTI) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if transaction.bytes.len() + args.bytes() > QUEUE_BYTES_MAX {
        return Err(format!("ERR a transaction may have at most {QUEUE_BYTES_MAX} bytes").into());
    }
    transaction.keep(args);
    call.answer(Step::Simple("QUEUED"))
}

pub(super) fn multi(call: &mut Call<'_>) -> Answered {
    if call.client.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.transaction = Some(Box::default());
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>) -> Answered {
    call.client.transaction.take().ok_or("ERR DISCARD without MULTI")?;
    call.client.watched.clear();
    call.ok()
}

/// `EXEC` was refused: the transaction is over.
pub(super) fn abort(client: &mut Client, why: &Refusal) -> Refusal {
    client.transaction = None;
    client.watched.clear();
    [b"EXECABORT Transaction discarded because of: ", &*why.0].concat().into()
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Answered {
    call.client.watched.clear();
    call.ok()
}

/// `WATCH key …`. Nothing behind it is executed before the versions are known.
pub(super) fn watch(call: &mut Call<'_>) -> Answered {
    if call.client.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    call.client.pausing = true;
    call.each(1, OpKind::Get { value: false }, |answer, ops| {
        for op in ops {
            let version = match answer.reply(op) {
                Reply::Hit { meta, .. } => meta.version,
                _ => 0,
            };
            let op = answer.batch.op(op);
            let key = answer.batch.input(op.key).into();
            answer.watching.push(Watched { db: op.db, key, version });
        }
        answer.encoder.simple("OK");
    })
}

pub(super) fn exec(call: &mut Call<'_>) -> Answered {
    let transaction = call.client.transaction.take().ok_or("ERR EXEC without MULTI")?;
    let watched = std::mem::take(&mut call.client.watched);
    if transaction.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    call.batch.begin_transaction();
    let first = call.batch.len() as u32;
    for Watched { db, key, version } in &watched {
        let argument = call.batch.bytes(&version.to_le_bytes());
        call.batch.push(*db, key, OpKind::Edit { edit: unchanged, argument });
    }
    let guard = (!watched.is_empty()).then_some(first);
    call.client.guard = guard;
    let mut steps = Vec::with_capacity(transaction.len());
    for args in transaction.commands() {
        let before = steps.len();
        let mut one = Call::new(args, call.batch, call.ctx, call.client, &mut steps);
        if let Err(refusal) = one.run() {
            steps.truncate(before);
            steps.push(Step::Error(refusal));
        }
    }
    call.batch.end_atomic();
    call.client.guard = None;
    call.answer(Step::Transaction { guard, commands: transaction.len(), steps })
}

/// Ends the group unless the key has the version that it had when it was watched.
fn unchanged(edit: &mut Edit<'_>) -> Outcome {
    let version = edit.old.map_or(0, |old| old.meta.version);
    if edit.argument == version.to_le_bytes() { Outcome::Keep } else { Outcome::Abort }
}

/// Writes the answer of `EXEC`.
pub(super) fn write(guard: Option<u32>, commands: usize, steps: Vec<Step>, answer: &mut Answer<'_>) {
    match guard.map(|guard| answer.reply(guard as usize)) {
        Some(Reply::Aborted) => answer.encoder.null_array(),
        Some(Reply::Error(error)) => answer.failed(error),
        _ => {
            answer.encoder.array(commands);
            steps.into_iter().for_each(|step| step.write(answer));
        }
    }
}
