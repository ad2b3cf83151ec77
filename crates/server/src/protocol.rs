//! The seam between a connection's bytes and the store's batches; Redis and memcached each implement it once.
//!
//! ```text
//!   received bytes --parse--> operations in the turn's Batch  +  a plan, kept by the protocol
//!                                      | execute, settle
//!   bytes to send <--answer------------'  (walks the plan in order)
//! ```
//!
//! # Invariants
//! - After a [`Protocol::parse`] that planned anything, the next call is [`Protocol::answer`] with the same batch, as often as
//!   that is executed in parts, unless the connection is dropped; so a plan belongs to exactly one batch and may name its operations by number.
//! - What a later command of the same connection must see at once (the database chosen) changes while parsing; what shows
//!   only in answers (the protocol version, counts of the whole store) is worked out while answering.

use std::sync::Arc;

use terrace_engine::clock::Time;
use terrace_engine::{Batch, Settled};

use crate::endpoint::Address;
use crate::output::Output;
use crate::registry::Entry;
use crate::shared::Shared;

/// Translates one connection's bytes into operations, and their answers into bytes.
pub(crate) trait Protocol: Send {
    /// Takes as many whole commands from the front of `input` as [`Context::full`] allows: adds their operations to `batch`,
    /// and to the plan whatever it takes to answer them.
    ///
    /// `input` starts at the first byte that was not consumed before, and grows only at its end; so an implementation may
    /// remember how far it has looked into an unfinished command.
    ///
    /// An error that ends the connection is a planned answer followed by [`Next::Close`].
    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed;

    /// Appends the answers of everything planned to `out`, in order, and empties the plan. If the batch is not
    /// [whole](Batch::is_whole), of what was executed: it is called again after the next part.
    fn answer(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Output) -> Answered;

    /// Adds to a batch of its own what the plan has for it, after [`Next::Alone`]; nothing for most.
    fn push_alone(&mut self, _batch: &mut Batch) {}

    /// The connection as others see it.
    fn entry(&self) -> &Arc<Entry>;

    /// How long the input is to be at least before another command is whole, if that is known; else 0.
    fn wanted(&self) -> usize {
        0
    }

    /// Whether the client has logged in, or needn't. One that has not is closed after a while.
    fn is_authenticated(&mut self, _ctx: &Context<'_>) -> bool {
        true
    }

    /// Whether the client waits for messages: it may be silent for long, and is sent more than it asked for.
    fn is_subscribed(&self) -> bool {
        false
    }
}

/// What [`Protocol::parse`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Bytes taken from the front of the input. They are not shown again.
    pub consumed: usize,
    /// Commands planned; 0 means that there is nothing to answer.
    pub commands: usize,
    /// How to go on.
    pub next: Next,
}

/// How to go on after [`Protocol::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Every whole command was taken: more bytes are needed.
    Read,
    /// The batch is full, and the input may hold further commands, or the last one goes on: call again after answering, even
    /// with no input at all.
    Again,
    /// The plan waits until everything before it, of all connections, is safe from power loss: it goes into a batch of its own, so
    /// that nobody else waits. What belongs in that one [`Protocol::push_alone`] adds. Then call again, as for `Again`. Nothing was
    /// added to the batch.
    Alone,
    /// The next command is held until [`Pause`](crate::registry::Pause) ends: call again then.
    Hold,
    /// The rest of the last command waits until somebody [nudges](crate::registry::Entry::nudge) the connection: call again then, even
    /// with no input at all. Nothing was planned.
    Asleep,
    /// Nothing more is read from this connection; close it once the answers are sent.
    Close,
}

/// How far [`Protocol::answer`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The plan is empty.
    All,
    /// The batch is executed in parts, and this is left.
    Part(Rest),
}

/// What is left of a plan when a part of its batch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Operations before this one were answered; 0 if that is not known.
    pub from: usize,
    /// What comes next can't be answered before all operations in front of this one were executed.
    pub to: usize,
    /// The last answer goes on with the next part: nothing may come in between.
    pub inside: bool,
}

/// What a turn offers to both calls.
pub(crate) struct Context<'a> {
    /// The store's time in milliseconds, taken once per turn: what deadlines and spans are measured in.
    pub now_ms: u64,
    /// The same, and how the wall clock lies to it: for what clients give or are given as a moment.
    pub time: Time,
    /// While answering: how long ago the batch was begun, in microseconds.
    pub elapsed_us: u64,
    /// The server that this connection belongs to: its store ([`Shared::store`]), options and counters.
    pub shared: &'a Shared,
    /// Operations in the batch at which the connection's turn ends.
    pub operations_end: usize,
}

impl Context<'_> {
    /// Whether `batch` has reached the bound on the turn, or on the connection's part of it. A connection's first command of
    /// a turn is taken all the same, however large.
    pub fn full(&self, batch: &Batch) -> bool {
        let options = &self.shared.options;
        batch.len() >= options.turn_operations.min(self.operations_end)
            || batch.input_bytes() >= options.turn_bytes
    }
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Unique in this server's life, from 1.
    pub id: u64,
    /// Their address.
    pub remote: Address,
    /// Ours.
    pub local: Address,
    /// When they connected, in milliseconds of the store's time.
    pub since_ms: u64,
}
