//! memcached's text protocol on a connection: commands become operations on database 0, answers become text.
//!
//! ```text
//!   bytes --Parser--> command --plan.rs--> operations in the batch + Planned
//!   bytes <--------- answer.rs, stats.rs <---- replies of the batch ---'
//!                        '--> state.rs: counts of this protocol, the delayed flush_all
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
//! - `shutdown` and `stats cachedump` are refused as a memcached refuses what is switched off; `stats detail` and
//!   `stats conns` are unknown.

mod answer;
mod plan;
mod state;
mod stats;

use std::sync::Arc;

use terrace_engine::{Batch, OpKind, Settled};
use terrace_protocol::memcached::{CloseReason, Event, Limits, Parser, reply};

use crate::protocol::{Context, Next, Parsed, Peer, Protocol};
use crate::registry::{Entry, Kind};
use plan::Planned;
pub(crate) use state::State;

/// The database that memcached clients see.
const DATABASE: u8 = 0;

/// A new connection's protocol.
pub(crate) fn connect(peer: Peer) -> Box<dyn Protocol> {
    Box::new(Memcached { parser: None, plan: Vec::new(), entry: Entry::new(peer, Kind::Memcached) })
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
    plan: Vec<Planned>,
    entry: Arc<Entry>,
}

/// A plan longer than this gives its memory back.
const KEEP_PLANNED: usize = 4096;

impl Protocol for Memcached {
    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed {
        let parser = self.parser.get_or_insert_with(|| Parser::new(limits(ctx)));
        let planned_before = self.plan.len();
        let mut consumed = 0;
        let next = loop {
            // The first command is taken however full the batch is, so that every turn gets on.
            if self.plan.len() > planned_before && ctx.full(batch) {
                break Next::Again;
            }
            let step = parser.step(&input[consumed..]);
            consumed += step.consumed;
            let planned = match step.event {
                Event::Incomplete { .. } => break Next::Read,
                Event::Close(reason) => {
                    if reason == CloseReason::Binary {
                        self.plan.push(Planned::Text { reply: reply::NOT_BINARY, noreply: false });
                    }
                    break Next::Close;
                }
                Event::Refused { reply, noreply } => Planned::Text { reply, noreply },
                Event::TooLarge { key, set, noreply } => plan::too_large(batch, key, set, noreply),
                Event::Command(command) => plan::plan(command, batch, ctx),
            };
            self.plan.push(planned);
        };
        Parsed { consumed, commands: self.plan.len() - planned_before, next }
    }

    fn answer(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Vec<u8>) {
        let mut answers = answer::Answers::new(batch, proof, ctx, out);
        for planned in self.plan.drain(..) {
            answers.answer(planned);
        }
        answers.finish();
        self.plan.shrink_to(KEEP_PLANNED);
    }

    fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

fn limits(ctx: &Context<'_>) -> Limits {
    let options = &ctx.shared.options;
    let defaults = Limits::default();
    // A command must fit what is kept of an unfinished one, its line included.
    let room = options.command_bytes_max.saturating_sub(4096);
    Limits {
        value_bytes_max: options.memcached_value_bytes_max.min(room),
        get_line_bytes_max: defaults.get_line_bytes_max.min(room),
    }
}
