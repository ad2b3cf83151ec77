//! memcached's protocols on a connection (the binary one is in [`binary`]); its text protocols: commands become operations on database 0, answers become text.
//!
//! ```text
//!   bytes --Parser--> command --plan.rs, meta/, admin.rs--> operations in the batch + Planned
//!   bytes <--------- answer.rs, meta/, stats/, dump.rs <---- replies of the batch ---'
//!                        '--> state.rs: counts of this protocol, the delayed flush_all, what clients have switched on
//! ```
//!
//! Where it differs from memcached 1.6, beside what [`terrace_protocol::memcached`] says of the syntax:
//! - A `set` that finds the store full leaves the old value in place. (One that is too large deletes it, as memcached's does.)
//! - `gat` and `touch` may change the cas token.
//! - A value is a number for `incr` and `decr` if it is at most 20 digits and white space behind them; memcached also takes
//!   more zeros, white space or a sign before them, and other text behind. An `incr` that makes a number shorter, by
//!   wrapping or by losing zeros, stores it without spaces behind it; a `decr` pads, as in memcached.
//! - `flush_all` with a time in the past flushes at once. One with a delay is held in memory: a restart before it is due
//!   forgets it. A later `flush_all` replaces it.
//! - The answers of earlier commands in a pipeline survive a `get` whose key is too long; memcached drops those not sent yet.
//! - What is here and what differs is in docs/memcached.md.

mod admin;
mod answer;
mod binary;
mod dump;
mod logged;
mod meta;
mod plan;
mod prefixes;
mod state;
mod stats;
mod users;
mod watch;

use std::sync::Arc;

use terrace_engine::{Batch, OpKind, Settled};
use terrace_protocol::memcached::{
    CloseReason, Command, Event, Limits, Parser, binary as wire, reply, value_room,
};

use crate::output::Output;
use crate::protocol::{Answered, Context, Next, Parsed, Peer, Protocol, Rest};
use crate::registry::{Entry, Kind, flag};
use crate::shared::Counters;
use binary::Binary;
use dump::Dumping;
pub(crate) use logged::Ended;
use plan::Planned;
pub(crate) use state::State;
pub use users::{MemcachedUsers, WrongUsers};

/// Which of memcached's protocols a server speaks. Where it is both, a connection's first byte says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedProtocols {
    /// Both.
    Both,
    /// Text alone: what begins as the binary protocol does is a wrong line.
    Text,
    /// The binary one alone: connections that begin otherwise are closed.
    Binary,
}

/// The database that memcached clients see.
const DATABASE: u8 = 0;

/// A new connection's protocol.
pub(crate) fn connect(peer: Peer) -> Box<dyn Protocol> {
    let entry = Entry::new(peer, Kind::Memcached);
    Box::new(Memcached {
        parser: None,
        binary: None,
        plan: Vec::new(),
        dumping: None,
        watching: false,
        entry,
    })
}

/// Adds the delayed `flush_all` to a batch if it is due. Workers call it each turn, and sleep no longer than until
/// [`State::flush_due_ms`].
pub(crate) fn add_due_flush(batch: &mut Batch, ctx: &Context<'_>) {
    if ctx.shared.counters.memcached.take_due_flush(ctx.now_ms) {
        batch.push(DATABASE, b"", OpKind::Flush { db: Some(DATABASE) });
    }
}

/// One memcached connection.
struct Memcached {
    /// Made when the options are known, with the first bytes.
    parser: Option<Parser>,
    /// It speaks the binary protocol: its first byte has said so.
    binary: Option<Box<Binary>>,
    plan: Vec<Planned>,
    /// A listing that goes on before anything else is read.
    dumping: Option<Dumping>,
    /// It watches: what it sends means nothing any more.
    watching: bool,
    entry: Arc<Entry>,
}

/// A plan longer than this gives its memory back.
const KEEP_PLANNED: usize = 4096;
/// Reports of a connection in one turn: they have no operations that would bound it, and may be long (`stats conns`).
const REPORTS: usize = 8;

impl Protocol for Memcached {
    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed {
        if self.watching {
            return Parsed { consumed: input.len(), commands: 0, next: Next::Read };
        }
        if let Some(dumping) = &mut self.dumping {
            dumping.plan(batch);
            return Parsed { consumed: 0, commands: 1, next: Next::Again };
        }
        if let (None, None, Some(first)) = (&self.parser, &self.binary, input.first()) {
            match (ctx.shared.options.memcached_protocols, wire::begins(*first)) {
                (MemcachedProtocols::Binary, false) => {
                    return Parsed { consumed: input.len(), commands: 0, next: Next::Close };
                }
                (MemcachedProtocols::Binary | MemcachedProtocols::Both, true) => {
                    self.binary = Some(Box::new(Binary::new(ctx)));
                }
                (MemcachedProtocols::Text, _) | (MemcachedProtocols::Both, false) => {}
            }
        }
        if let Some(binary) = &mut self.binary {
            return binary.parse(input, batch, ctx);
        }
        let parser = self.parser.get_or_insert_with(|| parser(ctx));
        let planned_before = self.plan.len();
        let mut consumed = 0;
        let mut reports = 0;
        let next = loop {
            // The first command is taken however full the batch is, so that every turn gets on. Commands without operations are
            // bounded too.
            let planned = self.plan.len() - planned_before;
            let is_full =
                ctx.full(batch) || planned >= ctx.shared.options.turn_operations || reports >= REPORTS;
            if planned > 0 && is_full {
                Counters::add(&ctx.shared.counters.memcached.yields, 1);
                break Next::Again;
            }
            let step = parser.step(&input[consumed..]);
            consumed += step.consumed;
            let planned = match step.event {
                Event::Command(Command::Shutdown(how)) => match admin::shutdown(how, ctx) {
                    Some(planned) => planned,
                    None => break Next::Close,
                },
                Event::Command(Command::Watch(watch)) => {
                    // An mn has all before it sent.
                    let pipelined = self.plan.last().is_some_and(|before| !before.is_noop());
                    admin::watch(watch, pipelined, ctx)
                }
                Event::Command(command) => plan::plan(command, batch, ctx),
                Event::Incomplete { .. } => break Next::Read,
                Event::Close(why) => {
                    self.entry.set(flag::STRANGE, why != CloseReason::Quit);
                    break Next::Close;
                }
                Event::Refused { reply, noreply } => Planned::Text { reply, noreply },
                Event::TooLarge { key, delete, noreply } => plan::too_large(batch, key, delete, noreply),
                Event::Login { user, password } => {
                    let users = ctx.shared.options.memcached_users.as_ref();
                    let known = users.is_some_and(|users| users.knows(user, password));
                    if known {
                        parser.unlock();
                    }
                    Planned::Login { known }
                }
            };
            self.plan.push(planned);
            reports += usize::from(matches!(planned, Planned::Stats(_)));
            match planned {
                Planned::Dump(dump) => {
                    self.dumping = Some(Dumping::new(dump));
                    break Next::Again;
                }
                Planned::Watch(_) => break Next::Again,
                _ => {}
            }
        };
        Parsed { consumed, commands: self.plan.len() - planned_before, next }
    }

    fn answer(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Output) -> Answered {
        if let Some(binary) = &mut self.binary {
            return binary.answer(batch, proof, ctx, out, self.entry.id());
        }
        if !batch.is_whole()
            && let Some(rest) = self.answer_part(batch, proof, ctx, out)
        {
            return Answered::Part(rest);
        }
        self.write(batch, proof, ctx, out);
        Answered::All
    }

    fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    fn is_authenticated(&mut self, ctx: &Context<'_>) -> bool {
        match (&self.binary, &self.parser) {
            (Some(binary), _) => binary.is_authenticated(),
            (None, Some(parser)) => !parser.is_locked(),
            (None, None) => ctx.shared.options.memcached_users.is_none(),
        }
    }

    fn is_subscribed(&self) -> bool {
        self.watching
    }
}

impl Memcached {
    /// Writes the answers of what was executed of a batch that is executed in parts; `None`, and nothing is written, if that is
    /// all of the plan.
    #[cold]
    fn answer_part(
        &mut self,
        batch: &Batch,
        proof: &Settled,
        ctx: &Context<'_>,
        out: &mut Output,
    ) -> Option<Rest> {
        let executed = batch.executed();
        if let (Some(dumping), true) = (&self.dumping, self.plan.is_empty()) {
            let to = dumping.end();
            return (to > executed).then_some(Rest { from: 0, to, inside: false });
        }
        let waiting = self.plan.iter().position(|planned| planned.end() > executed)?;
        let mut plan = self.plan.split_off(waiting);
        let from = self.plan.iter().map(Planned::end).max().unwrap_or(0);
        if !self.plan.is_empty() {
            self.write(batch, proof, ctx, out);
        }
        let mut rest = Rest { from, to: plan[0].end(), inside: false };
        if let Planned::Values { first, count, cas, touch } = &mut plan[0]
            && *first < executed
        {
            let now = executed - *first;
            let mut answers = answer::Answers::new(batch, proof, ctx, out, self.entry.id());
            let fine = answers.values(*first, now, *cas, *touch);
            answers.finish();
            (*first, *count) = (executed, *count - now);
            rest = Rest { from: executed, to: executed, inside: true };
            if !fine {
                // An error has answered for the whole command.
                plan[0] = Planned::Nothing;
                rest.inside = false;
            }
        }
        self.plan = plan;
        Some(rest)
    }

    fn write(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Output) {
        let mut answers = answer::Answers::new(batch, proof, ctx, out, self.entry.id());
        if let (Some(dumping), true) = (&mut self.dumping, self.plan.is_empty())
            && dumping.answer(&mut answers)
        {
            self.dumping = None;
        }
        for planned in self.plan.drain(..) {
            if let Planned::Watch(watch) = planned {
                if watch.evictions {
                    // Their lines tell when the key was last used.
                    ctx.shared.keep_accesses(ctx.now_ms);
                }
                self.watching = ctx.shared.counters.memcached.watchers.add(watch, &self.entry);
                answers.out.extend_from_slice(if self.watching { reply::OK } else { admin::MANY_WATCHERS });
            } else {
                answers.answer(planned);
            }
        }
        answers.finish();
        self.plan.shrink_to(KEEP_PLANNED);
    }
}

fn parser(ctx: &Context<'_>) -> Parser {
    let limits = limits(ctx);
    if ctx.shared.options.memcached_users.is_some() { Parser::locked(limits) } else { Parser::new(limits) }
}

/// The longest that the value of a key may become.
fn value_bytes_max(ctx: &Context<'_>, key: &[u8]) -> u32 {
    let Limits { value_bytes_max, counts_items, .. } = limits(ctx);
    let max = if counts_items { value_room(value_bytes_max, key.len(), 0) } else { value_bytes_max };
    u32::try_from(max).unwrap_or(u32::MAX)
}

fn limits(ctx: &Context<'_>) -> Limits {
    let options = &ctx.shared.options;
    let defaults = Limits::default();
    // A command must fit what is kept of an unfinished one, its line included.
    let room = options.command_bytes_max.saturating_sub(4096);
    Limits {
        value_bytes_max: options.memcached_value_bytes_max.min(room),
        counts_items: options.memcached_counts_items,
        get_line_bytes_max: defaults.get_line_bytes_max.min(room),
    }
}
