//! Steps of a plan: what it takes to answer a command once its batch has settled.

use std::sync::Arc;

use terrace_engine::{Batch, OpError, Reply, Settled, Span};
use terrace_protocol::resp::{Encoder, Version};

use super::error::{Refusal, of_operation};
use super::stats::Ran;
use super::strings;
use super::task::Unfinished;
use super::transaction::{self, Transaction, Watched};
use crate::effort::Effort;
use crate::output::{self, Lent};
use crate::protocol::Context;
use crate::registry::Entry;

/// Answers one command.
pub(super) enum Step {
    /// With an error.
    Error(Refusal),
    /// With a status.
    Simple(&'static str),
    /// With a number known before.
    Integer(i64),
    /// With a string known before, or nothing.
    Bulk(Option<Box<[u8]>>),
    /// From the answer of one operation.
    One { op: u32, show: fn(&mut Answer<'_>, Reply) },
    /// From the answers of `count` operations.
    Many { first: u32, count: u32, show: fn(&mut Answer<'_>, std::ops::Range<usize>) },
    /// With the values of `count` operations; the head is written if it was `begun` with those before them.
    Values { first: u32, count: u32, begun: bool },
    /// In any other way; its operations are before `end`, and `command` is its place in the table, if it has one.
    Late { write: WriteLate, end: u32, command: Option<u16> },
    /// When the task is done; nothing is planned behind it.
    Task { op: u32, task: Unfinished },
    /// As an array of these, unless the operation `guard` ended the transaction.
    Transaction(transaction::Planned),
    /// In a transaction: by the steps of this command, when it has run.
    Deferred(Box<Transaction>),
    /// Nothing itself; what follows is written in this version.
    Version(Version),
}

/// Whose a step is.
#[derive(Clone, Copy)]
enum Source {
    /// Of a command that has counted itself as failed, if it did, or that no table has.
    Counted,
    /// Of the command that added this operation.
    Op(u32),
    /// Of the one with this place.
    Command(u16),
}

/// Writes an answer in its own way.
pub(super) type WriteLate = Box<dyn FnOnce(&mut Answer<'_>) + Send>;

/// What a step has at hand.
pub(super) struct Answer<'a> {
    pub batch: &'a Batch,
    pub proof: &'a Settled,
    pub ctx: &'a Context<'a>,
    pub encoder: Encoder<'a>,
    /// Values that are not copied into what the encoder writes.
    pub lent: &'a mut Vec<Lent>,
    /// What these commands may still take beyond what others take.
    pub effort: &'a mut Effort,
    /// A task that goes on in the next turn.
    pub unfinished: Option<Unfinished>,
    /// The connection that is answered.
    pub entry: &'a Arc<Entry>,
    /// The commands that ran.
    pub ran: &'a [Ran],
    /// Keys that are watched from now on.
    pub watching: Vec<Watched>,
    /// A transaction did not happen: what the connection had chosen before it holds again.
    pub undone: Option<Box<transaction::Before>>,
}

impl Step {
    /// Behind the operations that it answers from; 0 if it needs none.
    pub fn end(&self) -> usize {
        let end = match self {
            Self::One { op, .. } | Self::Task { op, .. } => op + 1,
            Self::Many { first, count, .. } | Self::Values { first, count, .. } => first + count,
            Self::Late { end, .. } => *end,
            Self::Transaction(planned) => planned.end,
            Self::Error(_)
            | Self::Simple(_)
            | Self::Integer(_)
            | Self::Bulk(_)
            | Self::Version(_)
            | Self::Deferred(_) => 0,
        };
        end as usize
    }

    /// Writes the answer, and counts it if it is an error.
    pub fn write(self, answer: &mut Answer<'_>) {
        let start = answer.encoder.buffer().len();
        let source = self.source();
        self.write_uncounted(answer);
        if answer.encoder.buffer().get(start) == Some(&b'-') {
            answer.count_error(start, source);
        }
    }

    fn source(&self) -> Source {
        match self {
            Self::One { op, .. } | Self::Task { op, .. } => Source::Op(*op),
            Self::Many { first, .. } | Self::Values { first, .. } => Source::Op(*first),
            Self::Late { command: Some(command), .. } => Source::Command(*command),
            Self::Transaction(planned) => planned.guard.map_or(Source::Counted, Source::Op),
            _ => Source::Counted,
        }
    }

    fn write_uncounted(self, answer: &mut Answer<'_>) {
        match self {
            Self::Error(refusal) => answer.encoder.error(&refusal.0),
            Self::Simple(text) => answer.encoder.simple(text),
            Self::Integer(number) => answer.encoder.integer(number),
            Self::Bulk(Some(bytes)) => answer.encoder.bulk(&bytes),
            Self::Bulk(None) => answer.encoder.null(),
            Self::One { op, show } => match answer.reply(op as usize) {
                Reply::Error(error) => answer.failed(error),
                reply => show(answer, reply),
            },
            Self::Many { first, count, show } => {
                let ops = first as usize..first as usize + count as usize;
                let error = ops.clone().find_map(|op| match answer.reply(op) {
                    Reply::Error(error) => Some(error),
                    _ => None,
                });
                match error {
                    // Redis's answers have no place for an error among several keys, so the first one is the answer.
                    Some(error) => answer.failed(error),
                    None => show(answer, ops),
                }
            }
            Self::Values { first, count, begun } => strings::values(answer, first, count, begun),
            Self::Late { write, .. } => write(answer),
            Self::Task { op, task } => answer.unfinished = task.look(answer, op),
            Self::Transaction(planned) => transaction::write(planned, answer),
            Self::Deferred(_) => answer.internal("a command was not run"),
            Self::Version(version) => answer.encoder.set_version(version),
        }
    }
}

impl Answer<'_> {
    /// The answer of an operation.
    pub fn reply(&self, op: usize) -> Reply {
        self.batch.reply(op, self.proof)
    }

    /// Writes an operation's error.
    pub fn failed(&mut self, error: OpError) {
        let text = match error {
            OpError::Full => {
                let shared = self.ctx.shared;
                format!("{}. Why: {}", of_operation(error), shared.pressure.why_full(shared)).into()
            }
            other => of_operation(other),
        };
        self.encoder.error(text.as_bytes());
    }

    /// Counts the error that is written from `start` on, and the command as failed.
    #[cold]
    fn count_error(&mut self, start: usize, source: Source) {
        let stats = &self.ctx.shared.redis.stats;
        let written = self.encoder.buffer();
        let line = written[start + 1..].split(|byte| *byte == b'\r').next().unwrap_or_default();
        stats.error(line);
        match source {
            Source::Counted => {}
            Source::Op(op) => Ran::of(self.ran, op).into_iter().for_each(|command| stats.failed(command)),
            Source::Command(command) => stats.failed(command),
        }
    }

    /// Writes bytes of the batch.
    pub fn output(&mut self, span: Span) {
        self.encoder.begin_bulk(span.len());
        output::append(self.batch, span, self.encoder.buffer(), self.lent);
        self.encoder.end_bulk();
    }

    /// Writes one string of these bytes with bytes of the batch between them.
    pub fn output_between(&mut self, before: &[u8], span: Option<Span>, after: &[u8]) {
        self.encoder.begin_bulk(before.len() + span.map_or(0, |span| span.len()) + after.len());
        self.encoder.buffer().extend_from_slice(before);
        if let Some(span) = span {
            output::append(self.batch, span, self.encoder.buffer(), self.lent);
        }
        self.encoder.buffer().extend_from_slice(after);
        self.encoder.end_bulk();
    }

    /// Writes bytes of the batch, or that there are none.
    pub fn output_or_null(&mut self, span: Option<Span>) {
        match span {
            Some(span) => self.output(span),
            None => self.encoder.null(),
        }
    }

    /// The engine answered an operation in a way that it never should.
    pub fn unexpected(&mut self, reply: Reply) {
        debug_assert!(false, "an operation was answered with {reply:?}");
        tracing::error!(?reply, "an operation got an answer of another operation's kind");
        self.encoder.error(b"ERR internal error: the store gave an unexpected answer");
    }

    /// Something that never should has happened.
    fn internal(&mut self, what: &str) {
        debug_assert!(false, "{what}");
        tracing::error!(what, "internal error");
        self.encoder.error(format!("ERR internal error: {what}").as_bytes());
    }
}
