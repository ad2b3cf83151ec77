//! One connection: its socket, what was received but not parsed, what was answered but not sent.
//!
//! An idle connection holds no buffer: bytes are read into the worker's, and only the rest of an unfinished command is kept;
//! answers are sent from the worker's buffer, and only what the socket did not take is kept.

mod sending;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::Buffer;
use terrace_engine::{Batch, Settled};

use super::Transport;
use super::overdue::Overdue;
use super::room::make_room;
use crate::limits::Limits;
use crate::memcached::Ended;
use crate::output::Output;
use crate::protocol::{Answered, Context, Next, Protocol};
use crate::registry::{Entry, flag};
use crate::shared::{Counters, Shared};

/// Buffers larger than this are freed when they run empty.
const KEEP_BYTES: usize = 4 << 10;

/// A connection that adds so many operations is the last of its batch.
const LONG_OPERATIONS: usize = 256;

/// Operations that a new connection may add to one batch.
const FIRST_WINDOW: usize = 8;
/// From one batch to the next it may add so many times as many.
const WINDOW_GROWTH: usize = 4;
/// Answers of so many bytes each are large.
const LARGE_ANSWER_BYTES: usize = 4 << 10;

/// A connection of one worker.
pub(super) struct Connection {
    pub stream: Transport,
    protocol: Box<dyn Protocol>,
    /// What other connections see and reach of it.
    pub entry: Arc<Entry>,
    /// Received and not consumed: the beginning of a command, or (`again`) whole commands that wait for a batch with room.
    input: Buffer,
    /// Answers that the socket did not take yet, from `sent` on.
    output: Buffer,
    sent: usize,
    /// The socket may have bytes, or its end, to read.
    pub readable: bool,
    /// The peer sends no more: a short read is not the last one, the end must be read too.
    pub read_closed: bool,
    /// `input` may hold whole commands.
    again: bool,
    /// What it waits for must be safe from power loss: it is no member of the turn's batch.
    pub alone: bool,
    /// The next command is held while the server pauses.
    pub paused: bool,
    /// The rest of a command waits until somebody nudges the connection.
    pub asleep: bool,
    /// Its operations are in a batch that has not settled: nothing is read or parsed.
    pub waiting: bool,
    /// Operations that it may add to one batch, save for a single command of more: how large answers will be is not known
    /// before, so it grows from a small number and shrinks as answers turn out large.
    window: usize,
    /// Its last answers were large.
    has_large_answers: bool,
    /// Operations that it added to the batch it waits for.
    operations: usize,
    /// The first of them.
    first_operation: usize,
    /// Those in front of this one were executed, and others were told.
    told_operations: usize,
    /// Its commands in the batch are not all answered.
    unanswered: bool,
    /// The answer of a command goes on with the next part of the batch.
    inside: bool,
    /// Bytes of the answers of this batch so far.
    answer_bytes: usize,
    /// Bytes of the rest of a batch that waits for this connection alone.
    pub parked_bytes: usize,
    /// It stands in the worker's queue.
    pub queued: bool,
    /// The server is stopping: read what has arrived, then close.
    pub draining: bool,
    /// Nothing more is read; it is closed once everything is answered and sent.
    closing: bool,
    /// The socket failed, or nobody cares for it any more.
    broken: bool,
    /// Since when too much of it has been unsent.
    overdue: Overdue,
    /// It ended because it was silent for too long.
    pub was_idle: bool,
    /// When bytes last went either way.
    active_ms: u64,
    /// When it was last seen with nothing to prove: since then it could have logged in.
    trusted_ms: u64,
    /// What its buffers hold, as far as [`Limits::held`] knows.
    held: usize,
    /// The same as far as [`Limits::strangers`] does: nothing if it has logged in, or needn't.
    stranger_held: usize,
}

/// What a turn took from a connection.
#[derive(Default)]
pub(super) struct Taken {
    /// Bytes received.
    pub bytes: usize,
    /// Commands planned.
    pub commands: usize,
}

impl Connection {
    pub fn new(stream: Transport, protocol: Box<dyn Protocol>, now_ms: u64) -> Self {
        Self {
            stream,
            entry: Arc::clone(protocol.entry()),
            protocol,
            input: Buffer::new(),
            output: Buffer::new(),
            sent: 0,
            readable: false,
            read_closed: false,
            again: false,
            alone: false,
            paused: false,
            asleep: false,
            waiting: false,
            window: FIRST_WINDOW,
            has_large_answers: false,
            operations: 0,
            first_operation: 0,
            told_operations: 0,
            unanswered: false,
            inside: false,
            answer_bytes: 0,
            parked_bytes: 0,
            queued: false,
            draining: false,
            closing: false,
            broken: false,
            overdue: Overdue::default(),
            was_idle: false,
            active_ms: now_ms,
            trusted_ms: now_ms,
            held: 0,
            stranger_held: 0,
        }
    }

    /// Whether a turn could do something for it.
    pub fn wants_turn(&self, ctx: &Context<'_>) -> bool {
        !self.waiting
            && !self.paused
            && !self.asleep
            && !self.closing
            && !self.broken
            && !self.is_behind(ctx.shared)
            && (self.again || self.readable)
    }

    /// Whether it does not read its answers fast enough to be given more.
    pub fn is_behind(&self, shared: &Shared) -> bool {
        !self.broken && self.output.len() - self.sent > shared.options.output_bytes_pause
    }

    /// Whether what it added to the batch it waits for may take many turns: nobody should stand behind it.
    pub fn is_long(&self) -> bool {
        self.waiting && (self.operations >= LONG_OPERATIONS || self.has_large_answers)
    }

    /// Whether it is over and can be dropped.
    pub fn is_over(&self) -> bool {
        let is_sent = || self.sent == self.output.len() && !self.stream.has_unsent();
        !self.waiting && (self.broken || self.closing && is_sent())
    }

    /// Ends it at once, whatever it still had to say or to hear.
    pub fn end(&mut self) {
        self.broken = true;
        self.input = Buffer::new();
        self.output = Buffer::new();
        self.sent = 0;
    }

    /// Why it is over.
    pub fn ended(&self) -> Ended {
        match () {
            () if self.was_idle => Ended::Idle,
            () if self.broken || self.entry.has(flag::STRANGE) => Ended::Error,
            () if self.draining => Ended::Shutdown,
            () => Ended::Normal,
        }
    }

    /// When it will have been silent, or a stranger, for too long; `None`: never.
    pub fn due_ms(&mut self, ctx: &Context<'_>) -> Option<u64> {
        let limits = &ctx.shared.limits;
        // A clock that was set back must not make it immortal.
        self.active_ms = self.active_ms.min(ctx.now_ms);
        self.trusted_ms = self.trusted_ms.min(ctx.now_ms);
        if self.broken {
            return None;
        }
        let stranger = if self.stream.is_handshaking() {
            limits.handshake_ms.get()
        } else if !self.protocol.is_authenticated(ctx) {
            limits.login_ms.get()
        } else {
            self.trusted_ms = ctx.now_ms;
            None
        };
        let idle = limits.idle_ms.get().filter(|_| !self.protocol.is_subscribed());
        let due = |from: u64, limit: Option<u64>| limit.map(|limit| from.saturating_add(limit));
        let unsent = self.output_due_ms(ctx);
        [due(self.trusted_ms, stranger), due(self.active_ms, idle), unsent].into_iter().flatten().min()
    }

    /// When too much of it will have been unsent for too long; `None`: it is not too much.
    pub fn output_due_ms(&mut self, ctx: &Context<'_>) -> Option<u64> {
        let unsent = self.output.len() - self.sent;
        if unsent == 0 {
            self.overdue.clear();
            return None;
        }
        let limits = &ctx.shared.limits;
        let subscribed = self.protocol.is_subscribed();
        let bound = if subscribed { &limits.subscriber_output_soft } else { &limits.output_soft };
        self.overdue.note(unsent, bound, ctx.now_ms)
    }

    /// Tells what its buffers hold, and what is kept for it, if that has changed.
    pub fn account(&mut self, ctx: &Context<'_>) {
        let limits = &ctx.shared.limits;
        let rooms = [self.input.memory(), self.output.memory()];
        let buffers: usize = rooms.iter().sum();
        // One that has ended is gone soon, with all that is kept for it: nothing is won by ending it once more.
        let kept = if self.broken { 0 } else { self.parked_bytes + self.entry.kept.memory() };
        let now = buffers + kept;
        if now != self.held {
            self.entry.room.iter().zip(rooms).for_each(|(told, room)| told.store(room, Relaxed));
        }
        let stranger = if now > 0 && !self.protocol.is_authenticated(ctx) { now } else { 0 };
        self.holds(limits, now, stranger);
    }

    /// It is gone, and all that it held.
    pub fn account_gone(&mut self, limits: &Limits) {
        self.holds(limits, 0, 0);
    }

    fn holds(&mut self, limits: &Limits, now: usize, stranger: usize) {
        if now != self.held {
            limits.held.change(self.held, now);
            self.held = now;
        }
        if stranger != self.stranger_held {
            limits.strangers.change(self.stranger_held, stranger);
            self.stranger_held = stranger;
        }
    }

    /// What its buffers hold.
    pub fn held(&self) -> usize {
        self.held
    }

    /// What its buffers hold if it must log in and has not.
    pub fn stranger_held(&self) -> usize {
        self.stranger_held
    }

    /// Takes whole commands into the batch: those left over, else those of one read.
    pub fn take(&mut self, batch: &mut Batch, ctx: &Context<'_>, scratch: &mut [u8]) -> Taken {
        let mut taken = Taken::default();
        if self.again {
            taken.commands = self.parse_kept(batch, ctx);
        } else if self.readable {
            taken.bytes = self.receive(scratch, ctx);
            let received = &scratch[..taken.bytes];
            if self.input.is_empty() {
                let (consumed, commands) = self.parse(received, batch, ctx);
                taken.commands = commands;
                self.keep(&received[consumed..], ctx);
            } else if !received.is_empty() {
                self.keep(received, ctx);
                taken.commands = self.parse_kept(batch, ctx);
            }
        }
        // Commands that are queued behind MULTI count as not finished, too, as in Redis.
        let queued = self.entry.kept.multi.load(Relaxed);
        let unfinished = queued + if self.again { 0 } else { self.input.len() };
        if unfinished > ctx.shared.options.command_bytes_max {
            tracing::warn!(bytes = unfinished, "a client's unfinished command is too long; closing");
            Counters::add(&ctx.shared.counters.closed_query, 1);
            self.closing = true;
        }
        if self.draining && !self.readable && !self.again {
            self.closing = true;
        }
        if self.closing {
            self.input = Buffer::new();
        }
        self.waiting = taken.commands > 0;
        self.unanswered = self.waiting;
        self.entry.last_ms.store(ctx.now_ms, Relaxed);
        self.entry.input_bytes.store(self.input.len(), Relaxed);
        taken
    }

    /// Keeps what was received and not consumed.
    fn keep(&mut self, received: &[u8], ctx: &Context<'_>) {
        let is_stranger = !self.protocol.is_authenticated(ctx);
        make_room(&mut self.input, received.len(), self.protocol.wanted(), is_stranger);
        self.input.extend_from_slice(received);
    }

    fn parse_kept(&mut self, batch: &mut Batch, ctx: &Context<'_>) -> usize {
        let mut input = std::mem::take(&mut self.input);
        let (consumed, commands) = self.parse(&input, batch, ctx);
        input.consume(consumed);
        if !input.is_empty() || input.capacity() <= KEEP_BYTES {
            self.input = input;
        }
        commands
    }

    /// Adds what the connection has for a batch of its own.
    pub fn push_alone(&mut self, batch: &mut Batch) {
        self.first_operation = batch.len();
        self.told_operations = self.first_operation;
        self.protocol.push_alone(batch);
        self.operations = batch.len() - self.first_operation;
    }

    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> (usize, usize) {
        // A command of several turns goes on without any input.
        let goes_on = std::mem::take(&mut self.again);
        if input.is_empty() && !goes_on {
            return (0, 0);
        }
        let before = batch.len();
        let window = self.window.min(ctx.shared.options.connection_operations);
        let ctx = Context { operations_end: before + window, ..*ctx };
        self.tell_first(&ctx);
        let parsed = self.protocol.parse(input, batch, &ctx);
        self.first_operation = before;
        self.told_operations = before;
        self.operations = batch.len() - before;
        debug_assert!(parsed.consumed <= input.len(), "a parser consumed bytes that it was not shown");
        self.paused = parsed.next == Next::Hold;
        if self.paused {
            self.entry.set(flag::BLOCKED, true);
        }
        self.alone = parsed.next == Next::Alone;
        self.asleep = parsed.next == Next::Asleep;
        self.again = self.paused || self.asleep || self.alone || parsed.next == Next::Again;
        self.closing |= parsed.next == Next::Close;
        (parsed.consumed, parsed.commands)
    }

    /// One read; returns how many bytes came.
    fn receive(&mut self, scratch: &mut [u8], ctx: &Context<'_>) -> usize {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => {
                    self.readable = false;
                    self.closing = true;
                    return 0;
                }
                Ok(n) => {
                    self.active_ms = ctx.now_ms;
                    // A short read has emptied the socket: what comes later brings a new event. Except the end of the
                    // stream, whose event may have come with these bytes.
                    self.readable =
                        n == scratch.len() || self.read_closed || self.draining || self.stream.has_ended();
                    return n;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.readable = false;
                    self.broken = error.kind() != ErrorKind::WouldBlock;
                    if self.broken && self.stream.is_handshaking() {
                        Counters::add(&ctx.shared.counters.tls_failed, 1);
                    }
                    return 0;
                }
            }
        }
    }

    /// Encodes the answers of a settled batch, or of its part that was executed, and sends as much as the socket takes; returns
    /// the bytes sent. It goes on [`waiting`](Self::waiting) for what is left; `needed` is then raised to the operation up to
    /// which execution must come before what was executed can be forgotten.
    pub fn answer(
        &mut self,
        batch: &Batch,
        proof: &Settled,
        ctx: &Context<'_>,
        scratch: &mut Output,
        needed: &mut Option<usize>,
    ) -> usize {
        let (executed, end) = (batch.executed(), self.first_operation + self.operations);
        let told = self.told_operations;
        self.told_operations = told.max(end.min(executed));
        ctx.shared.connections.settled(batch, proof, told..self.told_operations, &self.entry, ctx.now_ms);
        scratch.clear();
        if self.unanswered {
            match self.protocol.answer(batch, proof, ctx, scratch) {
                Answered::All => (self.unanswered, self.inside) = (false, false),
                Answered::Part(rest) => {
                    self.inside = rest.inside;
                    if rest.from.max(self.first_operation) < executed {
                        *needed = (*needed).max(Some(rest.to));
                    }
                }
            }
        }
        // Some operations have no answer, and are waited for all the same: what comes behind must find them done.
        self.waiting = self.unanswered || (self.operations > 0 && end > executed);
        if self.broken {
            // What was done is told to others all the same.
            return 0;
        }
        if !self.inside {
            self.entry.take_pushes(!self.waiting, &mut scratch.bytes);
        }
        let bytes = scratch.len();
        self.answer_bytes += bytes;
        if !self.waiting {
            let bytes = std::mem::take(&mut self.answer_bytes);
            self.adapt(bytes, ctx);
        }
        // While the socket is full its event will send these too.
        let is_full = self.output.len() > self.sent;
        let sent = if is_full { 0 } else { self.send(scratch, batch) };
        self.bound_output(bytes - sent, ctx);
        if sent < bytes && !self.broken {
            scratch.copy_rest(batch, sent, &mut self.output);
            self.tell_unsent();
        }
        self.closing |= self.entry.is_killed();
        sent
    }

    /// Chooses the next window so that answers like the last `bytes` would fill what may wait for the socket.
    fn adapt(&mut self, bytes: usize, ctx: &Context<'_>) {
        if let Some(bytes_each) = bytes.checked_div(self.operations) {
            let options = &ctx.shared.options;
            let fitting = options.output_bytes_pause / bytes_each.max(1);
            self.window = fitting.clamp(1, self.window * WINDOW_GROWTH).min(options.connection_operations);
            self.has_large_answers = bytes_each >= LARGE_ANSWER_BYTES;
        }
    }
}

/// Registers interest in both directions, edge-triggered, once for the connection's life.
pub(super) fn register(
    registry: &mio::Registry,
    token: mio::Token,
    stream: &mut Transport,
) -> io::Result<()> {
    registry.register(stream.source(), token, mio::Interest::READABLE | mio::Interest::WRITABLE)
}
