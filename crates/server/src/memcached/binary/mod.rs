//! memcached's binary protocol on a connection that begins with it: the same records, counts and users as the text protocol's.
//!
//! ```text
//!   bytes --binary::Parser--> request --plan.rs--> one operation in the batch + Planned
//!   bytes <----------------- answer.rs <---- its reply, the request's opcode and opaque
//! ```
//! As memcached 1.6 has it; of SASL it knows PLAIN, with the users of `-Y`.

mod answer;
mod plan;

use terrace_engine::{Batch, Settled};
use terrace_protocol::memcached::Limits;
use terrace_protocol::memcached::binary::{Event, Parser};

use super::answer::Answers;
use super::limits;
use crate::output::Output;
use crate::protocol::{Answered, Context, Next, Parsed, Rest};
use crate::shared::Counters;
use plan::Planned;

/// A plan longer than this gives its memory back.
const KEEP_PLANNED: usize = 4096;

/// One connection that speaks it.
pub(super) struct Binary {
    parser: Parser,
    plan: Vec<Planned>,
    /// It has logged in, or needn't.
    authenticated: bool,
}

impl Binary {
    /// At the start of a connection.
    pub(super) fn new(ctx: &Context<'_>) -> Self {
        let Limits { value_bytes_max, counts_items, .. } = limits(ctx);
        Self {
            parser: Parser::new(value_bytes_max, counts_items),
            plan: Vec::new(),
            authenticated: ctx.shared.options.memcached_users.is_none(),
        }
    }

    /// Whether it has logged in, or needn't.
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// As [`Protocol::parse`](crate::protocol::Protocol::parse).
    pub(super) fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed {
        let mut consumed = 0;
        let next = loop {
            let is_full = ctx.full(batch) || self.plan.len() >= ctx.shared.options.turn_operations;
            if !self.plan.is_empty() && is_full {
                Counters::add(&ctx.shared.counters.memcached.yields, 1);
                break Next::Again;
            }
            let (taken, event) = self.parser.step(&input[consumed..]);
            consumed += taken;
            let planned = match event {
                Event::Incomplete { .. } => break Next::Read,
                Event::Close => break Next::Close,
                Event::Broken(asked, status) => {
                    self.plan.push(Planned::refused(asked, status));
                    break Next::Close;
                }
                Event::Request(request) => plan::plan(request, self.authenticated, batch, ctx),
                Event::TooLarge(request) => plan::too_large(request, self.authenticated, batch),
            };
            self.authenticated |= planned.logs_in();
            let ends = planned.ends();
            // A report is long, and nothing in front of it is left out of it.
            let pauses = planned.is_report();
            self.plan.push(planned);
            if ends {
                break Next::Close;
            }
            if pauses {
                break Next::Again;
            }
        };
        Parsed { consumed, commands: self.plan.len(), next }
    }

    /// As [`Protocol::answer`](crate::protocol::Protocol::answer).
    pub(super) fn answer(
        &mut self,
        batch: &Batch,
        proof: &Settled,
        ctx: &Context<'_>,
        out: &mut Output,
        by: u64,
    ) -> Answered {
        let executed = batch.executed();
        let waiting = if batch.is_whole() {
            None
        } else {
            self.plan.iter().position(|planned| planned.end() > executed)
        };
        let rest = self.plan.split_off(waiting.unwrap_or(self.plan.len()));
        let from = self.plan.iter().map(Planned::end).max().unwrap_or(0);
        let mut answers = Answers::new(batch, proof, ctx, out, by);
        self.plan.drain(..).for_each(|planned| answers.binary(planned));
        answers.finish();
        self.plan = rest;
        self.plan.shrink_to(KEEP_PLANNED);
        match self.plan.first() {
            Some(next) => Answered::Part(Rest { from, to: next.end(), inside: false }),
            None => Answered::All,
        }
    }
}
