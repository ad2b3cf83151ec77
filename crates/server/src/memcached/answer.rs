//! Replies to text.
//!
//! A command with noreply answers nothing at all, errors included, as in memcached.

use terrace_engine::{Batch, OpError, OpKind, Reply, Settled, Span};
use terrace_protocol::memcached::reply;

use super::DATABASE;
use super::plan::Planned;
use super::prefixes::Event;
use super::state::{Count, Tally};
use super::stats::{self, Report};
use super::watch::{Events, Mutation};
use crate::accesses::Accesses;
use crate::output::{self, Lent, Output};
use crate::protocol::Context;

/// What `version` says. Clients read features from the number: it is the memcached whose commands and answers these are.
pub(super) const VERSION: &str = concat!("1.6.45-terrace-", env!("CARGO_PKG_VERSION"));

/// Writes the answers of one plan, in order.
pub(super) struct Answers<'a> {
    pub(super) batch: &'a Batch,
    proof: &'a Settled,
    pub(super) ctx: &'a Context<'a>,
    pub(super) out: &'a mut Vec<u8>,
    /// Values that are not copied into `out`.
    pub(super) lent: &'a mut Vec<Lent>,
    pub(super) tally: Tally,
    /// Where it is kept when keys were used, if a client wants to know.
    pub(super) accesses: Option<&'a Accesses>,
    /// Whether operations are counted by prefix.
    detail: bool,
    /// What watchers want to see.
    events: Events,
    /// The connection.
    by: u64,
}

impl<'a> Answers<'a> {
    pub(super) fn new(
        batch: &'a Batch,
        proof: &'a Settled,
        ctx: &'a Context<'a>,
        out: &'a mut Output,
        by: u64,
    ) -> Self {
        let state = &ctx.shared.counters.memcached;
        let detail = state.detail(ctx.shared.options.memcached_detail);
        let (accesses, events) = (ctx.shared.counters.accesses.get(), state.watchers.events());
        let Output { bytes: out, lent } = out;
        Self { batch, proof, ctx, out, lent, tally: Tally::default(), accesses, detail, events, by }
    }

    /// Adds this plan's counts to the server's, and tells watchers.
    pub(super) fn finish(mut self) {
        self.count_so_far();
        self.events.finish(self.ctx.shared);
    }

    /// Appends one command's answer.
    pub(super) fn answer(&mut self, planned: Planned) {
        match planned {
            Planned::Values { first, count, cas, touch } => {
                if self.values(first, count, cas, touch) {
                    self.out.extend_from_slice(reply::END);
                }
            }
            Planned::Store { op, cas, noreply } => self.store(op, cas, noreply),
            Planned::Number { op, down, noreply } => self.number(op, down, noreply),
            Planned::Touch { op, noreply } => self.touch(op, noreply),
            Planned::Delete { op, noreply } => self.delete(op, noreply),
            Planned::Flush { op, noreply } => {
                self.tally.add(Count::CmdFlush);
                match self.reply(op) {
                    Reply::Error(error) => self.error(error, noreply),
                    _ => self.text(reply::OK, noreply),
                }
            }
            Planned::Text { reply, noreply } => self.text(reply, noreply),
            Planned::TooLarge { noreply } => {
                self.tally.add(Count::StoreTooLarge);
                self.text(reply::TOO_LARGE, noreply);
            }
            Planned::Version => reply::version(self.out, VERSION),
            Planned::Stats(report) => self.stats(report),
            Planned::Meta(planned) => self.meta(planned),
            Planned::Login { known } => {
                self.tally.add(Count::AuthCmds);
                if !known {
                    self.tally.add(Count::AuthErrors);
                }
                self.text(if known { reply::STORED } else { reply::WRONG_LOGIN }, false);
            }
            // The connection goes on with them.
            Planned::Dump(dump) => self.out.extend_from_slice(dump.format.begin()),
            Planned::Nothing | Planned::Watch(_) => {}
        }
    }

    pub(super) fn reply(&self, op: usize) -> Reply {
        self.batch.reply(op, self.proof)
    }

    fn text(&mut self, text: &[u8], noreply: bool) {
        if !noreply {
            self.out.extend_from_slice(text);
        }
    }

    /// Appends values; `false` if an error was appended instead.
    pub(super) fn values(&mut self, first: usize, count: usize, cas: bool, touch: bool) -> bool {
        let start = (self.out.len(), self.lent.len());
        for op in first..first + count {
            if touch {
                self.tally.add(Count::CmdTouch);
            } else {
                self.tally.add(Count::CmdGet);
            }
            match self.reply(op) {
                Reply::Hit { meta, value } => {
                    self.tally.add(if touch { Count::TouchHits } else { Count::GetHits });
                    let key = self.batch.input(self.batch.op(op).key);
                    if let Some(accesses) = self.accesses {
                        accesses.fetched(DATABASE, key, self.ctx.now_ms);
                    }
                    if self.detail {
                        self.count_prefix(op, Event::Hit);
                    }
                    let value = value.unwrap_or_default();
                    reply::value_head(self.out, key, meta.flags, value.len(), cas.then_some(meta.cas()));
                    self.value(value);
                    self.found(op, value.len() as u64);
                }
                Reply::Error(error) => {
                    // One error answers for the whole command: a client could not place it among values.
                    output::truncate(start.0, start.1, self.out, self.lent);
                    self.error(error, false);
                    return false;
                }
                _ => {
                    self.tally.add(if touch { Count::TouchMisses } else { Count::GetMisses });
                    if self.detail {
                        self.count_prefix(op, Event::Miss);
                    }
                    self.missed(op);
                }
            }
        }
        true
    }

    /// Appends a value and its line break.
    pub(super) fn value(&mut self, value: Span) {
        output::append(self.batch, value, self.out, self.lent);
        self.out.extend_from_slice(b"\r\n");
    }

    fn store(&mut self, op: usize, cas: bool, noreply: bool) {
        self.tally.add(Count::CmdSet);
        if self.detail {
            self.count_prefix(op, Event::Set);
        }
        let (count, text) = match (self.reply(op), cas) {
            (Reply::Error(error), _) if self.joins_too_much(op, error) => (None, reply::NOT_STORED),
            (Reply::Error(error), _) => return self.error(error, noreply),
            (Reply::Stored { .. } | Reply::Length(_), true) => (Some(Count::CasHits), reply::STORED),
            (Reply::Stored { .. } | Reply::Length(_), false) => (None, reply::STORED),
            (Reply::NotStored { present: true, .. }, true) => (Some(Count::CasBadval), reply::EXISTS),
            (_, true) => (Some(Count::CasMisses), reply::NOT_FOUND),
            (_, false) => (None, reply::NOT_STORED),
        };
        if let Some(count) = count {
            self.tally.add(count);
        }
        if text == reply::STORED {
            self.stored(op);
        }
        self.mutated(
            op,
            match text {
                reply::STORED => "stored",
                reply::EXISTS => "exists",
                reply::NOT_FOUND => "not_found",
                _ => "not_stored",
            },
        );
        self.text(text, noreply);
    }

    /// Whether an append or a prepend would have made a value longer than may be, and so was not done.
    pub(super) fn joins_too_much(&self, op: usize, error: OpError) -> bool {
        matches!(error, OpError::ValueTooLong(_)) && matches!(self.batch.op(op).kind, OpKind::Append { .. })
    }

    /// Tells watchers of a read that found a record with this many bytes.
    pub(super) fn found(&mut self, op: usize, bytes: u64) {
        if self.events.fetches() {
            let key = self.batch.input(self.batch.op(op).key);
            self.events.fetch(key, Some(bytes), self.by, self.ctx);
        }
    }

    /// Tells watchers of a read that found none.
    pub(super) fn missed(&mut self, op: usize) {
        if self.events.fetches() {
            let key = self.batch.input(self.batch.op(op).key);
            self.events.fetch(key, None, self.by, self.ctx);
        }
    }

    /// Tells watchers of a command that stores.
    pub(super) fn mutated(&mut self, op: usize, status: &'static str) {
        if self.events.fetches() {
            self.looked(op);
        }
        if self.events.mutations() {
            let key = self.batch.input(self.batch.op(op).key);
            let mutation = Mutation::of(self.batch, op, status, self.ctx.now_ms);
            self.events.mutation(key, &mutation, self.by, self.ctx);
        }
    }

    /// Tells watchers of a delete that found a record with a value of this length.
    pub(super) fn deleted(&mut self, op: usize, command: &str, bytes: u64) {
        if self.events.deletes() {
            let key = self.batch.input(self.batch.op(op).key);
            self.events.delete(key, command, bytes, self.ctx);
        }
    }

    /// A command that stores has looked for a record first, which memcached tells as a read. (What an edit finds is not told.)
    #[cold]
    fn looked(&mut self, op: usize) {
        let bytes = |span: Span| span.len() as u64;
        let found = match (self.batch.op(op).kind, self.reply(op)) {
            (
                OpKind::Set { old_value: true, .. },
                Reply::Stored { old, .. } | Reply::NotStored { old, .. },
            ) => old.map(bytes),
            (OpKind::Append { value, .. }, Reply::Length(length)) => Some(length - bytes(value)),
            (OpKind::Append { .. }, Reply::NotStored { present: false, .. }) => None,
            _ => return,
        };
        let key = self.batch.input(self.batch.op(op).key);
        self.events.fetch(key, found, self.by, self.ctx);
    }

    /// Notes that an operation has stored a record.
    pub(super) fn stored(&mut self, op: usize) {
        self.tally.add(Count::TotalItems);
        if let Some(accesses) = self.accesses {
            accesses.wrote(DATABASE, self.batch.input(self.batch.op(op).key), self.ctx.now_ms);
        }
    }

    #[cold]
    fn count_prefix(&self, op: usize, event: Event) {
        let key = self.batch.input(self.batch.op(op).key);
        let shared = self.ctx.shared;
        shared.counters.memcached.prefixes.count(key, shared.options.memcached_prefix_delimiter, event);
    }

    fn number(&mut self, op: usize, down: bool, noreply: bool) {
        match self.reply(op) {
            Reply::Unsigned(number) => {
                self.tally.add(if down { Count::DecrHits } else { Count::IncrHits });
                if !noreply {
                    reply::number(self.out, number);
                }
            }
            Reply::Error(error) => self.error(error, noreply),
            _ => {
                self.tally.add(if down { Count::DecrMisses } else { Count::IncrMisses });
                self.text(reply::NOT_FOUND, noreply);
            }
        }
    }

    fn touch(&mut self, op: usize, noreply: bool) {
        self.tally.add(Count::CmdTouch);
        match self.reply(op) {
            Reply::Hit { .. } => {
                self.tally.add(Count::TouchHits);
                if let Some(accesses) = self.accesses {
                    accesses.fetched(DATABASE, self.batch.input(self.batch.op(op).key), self.ctx.now_ms);
                }
                self.text(reply::TOUCHED, noreply);
            }
            Reply::Error(error) => self.error(error, noreply),
            _ => {
                self.tally.add(Count::TouchMisses);
                self.text(reply::NOT_FOUND, noreply);
            }
        }
    }

    fn delete(&mut self, op: usize, noreply: bool) {
        if self.detail {
            self.count_prefix(op, Event::Delete);
        }
        match self.reply(op) {
            Reply::Deleted { old } => {
                self.tally.add(Count::DeleteHits);
                self.deleted(op, "delete", old.map_or(0, |old| old.len() as u64));
                self.text(reply::DELETED, noreply);
            }
            Reply::Error(error) => self.error(error, noreply),
            _ => {
                self.tally.add(Count::DeleteMisses);
                self.text(reply::NOT_FOUND, noreply);
            }
        }
    }

    pub(super) fn error(&mut self, error: OpError, noreply: bool) {
        match error {
            OpError::Full => self.tally.add(Count::StoreNoMemory),
            OpError::ValueTooLong(_) => self.tally.add(Count::StoreTooLarge),
            _ => {}
        }
        if noreply {
            return;
        }
        match error {
            OpError::Full => self.out.extend_from_slice(reply::OUT_OF_MEMORY),
            OpError::ValueTooLong(_) => self.out.extend_from_slice(reply::TOO_LARGE),
            OpError::KeyTooLong(_) => self.out.extend_from_slice(reply::BAD_LINE),
            OpError::NotInteger | OpError::Overflow => self.out.extend_from_slice(reply::NOT_A_NUMBER),
            other => reply::server_error(self.out, other),
        }
    }

    fn stats(&mut self, report: Report) {
        // What this plan did before belongs into the report, and a reset must take it too.
        self.count_so_far();
        stats::write(report, self.by, self.ctx, self.out);
    }

    /// The same elsewhere.
    pub(super) fn stats_into(&mut self, report: Report, text: &mut Vec<u8>) {
        self.count_so_far();
        stats::write(report, self.by, self.ctx, text);
    }

    fn count_so_far(&mut self) {
        self.ctx.shared.counters.memcached.count(&std::mem::take(&mut self.tally));
    }
}
