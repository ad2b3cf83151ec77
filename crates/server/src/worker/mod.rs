//! A worker: one thread with an event loop, a session, and the connections handed to it.
//!
//! ```text
//!   events --> connections that want a turn --> one Batch --> Session::execute
//!                     ^                                            |
//!                     '-- answered <-- settled at once, or --> in flight until an engine event
//! ```
//!
//! # Invariants
//! - A batch whose answers are large is executed in parts, each settled, answered and forgotten before the next: between two parts
//!   it is parked, and others have their turns.
//! - A connection is in at most one batch; until that is answered it is neither read nor parsed, so its answers keep their order.
//! - A connection that wants a turn and is not waiting stands in `ready`, once.
//! - A slot of a connection is freed only after the events of a poll are all handled, so no event meets a later connection.

mod connection;
mod inbox;
mod overdue;
mod room;
mod sweep;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use terrace_engine::{Batch, Session, Settled};

use crate::output::Output;
use crate::protocol::Context;
use crate::registry::flag;
use crate::shared::{Counters, Shared};
use connection::Connection;
pub(crate) use inbox::{Arrival, Inbox};
use sweep::Sweep;
pub(crate) use transport::Transport;

const WAKE: Token = Token(0);
const ENGINE: Token = Token(1);
const FIRST_CONNECTION: usize = 2;

/// One read takes at most this much.
const READ_BYTES: usize = 256 << 10;
/// The buffer for answers is freed when it has grown beyond this.
const KEEP_OUTPUT_BYTES: usize = 1 << 20;

/// See the module.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    poll: Poll,
    session: Box<dyn Session>,
    /// The session's descriptors, registered with `poll`.
    engine_fds: Vec<RawFd>,
    connections: Slab<Connection>,
    /// Connections that want a turn.
    ready: VecDeque<usize>,
    /// Batches that have not settled.
    flights: Vec<Flight>,
    /// Batches of which a part was executed and answered; the rest waits for its turn.
    parked: VecDeque<Flight>,
    /// Empty ones, for reuse.
    spare: Vec<Flight>,
    /// Received bytes, for one connection at a time.
    input: Vec<u8>,
    /// Answers, for one connection at a time.
    output: Output,
    /// A connection's next command may be held while the server pauses.
    holding: bool,
    /// When the server gives up on what is not drained.
    deadline: Option<Instant>,
    /// Looks for connections over a limit.
    sweep: Sweep,
}

/// A batch and the connections whose operations are in it.
#[derive(Default)]
struct Flight {
    batch: Batch,
    members: Vec<usize>,
    /// When it was begun.
    started: Option<Instant>,
    /// It begins with memcached's delayed flush, which is nobody's.
    flush: bool,
}

impl Worker {
    /// A worker with its inbox, ready to [`run`](Self::run) on a thread of its own.
    ///
    /// # Errors
    /// If the event queue can't be made.
    pub fn new(shared: Arc<Shared>, mut session: Box<dyn Session>) -> io::Result<(Self, Arc<Inbox>)> {
        let poll = Poll::new()?;
        let inbox = Arc::new(Inbox::new(Waker::new(poll.registry(), WAKE)?));
        let engine_fds = session.event_fds();
        for fd in &engine_fds {
            poll.registry().register(&mut SourceFd(fd), ENGINE, Interest::READABLE)?;
        }
        let worker = Self {
            shared,
            inbox: Arc::clone(&inbox),
            poll,
            session,
            engine_fds,
            connections: Slab::new(),
            ready: VecDeque::new(),
            flights: Vec::new(),
            parked: VecDeque::new(),
            spare: Vec::new(),
            input: vec![0; READ_BYTES],
            output: Output::default(),
            holding: false,
            deadline: None,
            sweep: Sweep::new(),
        };
        Ok((worker, inbox))
    }

    /// Serves until the server stops and everything received is answered, or the time for that is over.
    ///
    /// # Errors
    /// If waiting for events fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let shared = Arc::clone(&self.shared);
            let time = shared.store.time();
            let ctx = Context {
                now_ms: time.now_ms,
                time,
                elapsed_us: 0,
                shared: &shared,
                operations_end: usize::MAX,
            };
            let mut woken = false;
            for event in &events {
                match event.token() {
                    WAKE => woken = true,
                    ENGINE => {}
                    Token(token) => self.on_event(token - FIRST_CONNECTION, event, &ctx),
                }
            }
            self.release(&ctx);
            self.land(&ctx);
            self.rest(&ctx);
            self.go_on(&ctx);
            self.turn(&ctx);
            if woken {
                self.admit(&ctx);
                self.look(&ctx);
                if shared.draining.load(Relaxed) && self.deadline.is_none() {
                    self.drain(&ctx);
                }
            }
            self.sweep(&ctx);
            if let Some(deadline) = self.deadline
                && (self.connections.is_empty() || Instant::now() >= deadline)
            {
                return Ok(());
            }
        }
    }

    /// Whether a batch may be begun, or gone on with.
    fn has_room(&self, shared: &Shared) -> bool {
        self.flights.len() < shared.options.batches_in_flight && !shared.snapshots.gate.is_closed()
    }

    /// Says that nothing is in flight, when a snapshot waits for that. What is parked stands between two steps.
    fn rest(&self, ctx: &Context<'_>) {
        let gate = &ctx.shared.snapshots.gate;
        if gate.is_closed() && self.flights.is_empty() {
            let turn = gate.turn();
            if turn != 0 && !self.inbox.rests(turn) {
                self.inbox.arrive(turn);
                gate.tell();
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let has_room = self.has_room(&self.shared);
        if has_room && (!self.ready.is_empty() || self.next_parked(&self.shared).is_some()) {
            return Some(Duration::ZERO);
        }
        let until_stop = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Without room for its batch, what settles first wakes us.
        let flush_due_ms = self.shared.counters.memcached.flush_due_ms().filter(|_| has_room);
        let release_ms = self.holding.then(|| self.shared.connections.pause.until_ms(self.shared.now_ms()));
        let due_ms = flush_due_ms.into_iter().chain(release_ms).chain(self.sweep.due_ms()).min();
        let until_due = due_ms.map(|due| Duration::from_millis(due.saturating_sub(self.shared.now_ms())));
        until_stop.into_iter().chain(until_due).min()
    }

    fn on_event(&mut self, key: usize, event: &mio::event::Event, ctx: &Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        connection.read_closed |= event.is_read_closed() || event.is_error();
        if event.is_writable() {
            let sent = connection.flush(ctx.now_ms);
            self.count_sent(sent, usize::from(sent > 0));
        }
        self.after(key, ctx);
    }

    /// Queues a connection that wants a turn, and drops one that is over.
    fn after(&mut self, key: usize, ctx: &Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.account(ctx);
        if let Some(due_ms) = connection.output_due_ms(ctx) {
            self.sweep.watch(due_ms);
        }
        if connection.is_over() {
            // One that is queued is dropped when its turn comes.
            if !connection.queued {
                self.close(key);
            }
        } else if !connection.queued && connection.wants_turn(ctx) {
            connection.queued = true;
            self.ready.push_back(key);
        }
    }

    fn count_sent(&self, bytes: usize, writes: usize) {
        Counters::add(&self.shared.counters.bytes_out, bytes);
        Counters::add(&self.shared.counters.writes, writes);
    }

    fn close(&mut self, key: usize) {
        let mut connection = self.connections.remove(key);
        connection.shut_down(&mut self.input);
        self.shared.connections.leave(&connection.entry);
        self.shared.counters.memcached.went(&connection.entry, connection.ended(), &self.shared);
        connection.account_gone(&self.shared.limits);
        self.inbox.closed();
        self.shared.counters.connected.fetch_sub(1, Relaxed);
    }

    /// The first parked batch that may go on. One that waits for a single connection waits until that has read what it was given.
    fn next_parked(&self, shared: &Shared) -> Option<usize> {
        self.parked.iter().position(|flight| match flight.members[..] {
            [key] => !self.connections[key].is_behind(shared),
            _ => true,
        })
    }

    /// Executes the next part of a parked batch, one a turn: others come in between.
    fn go_on(&mut self, ctx: &Context<'_>) {
        let has_room = self.has_room(ctx.shared);
        let next = if has_room && !self.parked.is_empty() { self.next_parked(ctx.shared) } else { None };
        if let Some(flight) = next.and_then(|at| self.parked.remove(at)) {
            self.execute(flight, ctx);
        }
    }

    /// Fills one batch from the connections that want a turn, and executes it.
    fn turn(&mut self, ctx: &Context<'_>) {
        let flush_due = self.shared.counters.memcached.flush_due_ms().is_some_and(|due| due <= ctx.now_ms);
        let idle = self.ready.is_empty() && !flush_due;
        if idle || !self.has_room(ctx.shared) {
            return;
        }
        let mut flight = self.spare.pop().unwrap_or_default();
        flight.started = Some(Instant::now());
        let options = &ctx.shared.options;
        flight.batch.bound(options.turn_answer_bytes, options.transaction_bytes_max);
        if flush_due {
            crate::memcached::add_due_flush(&mut flight.batch, ctx);
            flight.flush = !flight.batch.is_empty();
        }
        let (mut bytes, mut reads, mut commands) = (0, 0, 0);
        let mut alone = Vec::new();
        let mut ends = false;
        for _ in 0..self.ready.len() {
            if ends || ctx.full(&flight.batch) {
                break;
            }
            let Some(key) = self.ready.pop_front() else { break };
            let connection = &mut self.connections[key];
            connection.queued = false;
            if connection.wants_turn(ctx) {
                let taken = connection.take(&mut flight.batch, ctx, &mut self.input);
                self.holding |= connection.paused;
                bytes += taken.bytes;
                reads += usize::from(taken.bytes > 0);
                commands += taken.commands;
                // What takes many turns is the last of its batch, and keeps nobody behind it waiting.
                ends = connection.is_long();
                if connection.waiting {
                    let members = if connection.alone { &mut alone } else { &mut flight.members };
                    members.push(key);
                }
            }
            self.after(key, ctx);
        }
        let counters = &self.shared.counters;
        Counters::add(&counters.bytes_in, bytes);
        Counters::add(&counters.reads, reads);
        Counters::add(&counters.commands, commands);
        if flight.members.is_empty() && flight.batch.is_empty() {
            self.spare.push(flight);
        } else {
            self.execute(flight, ctx);
        }
        if !alone.is_empty() {
            // For those who wait until what was done before is safe from power loss. It holds exchanges of databases at most.
            let mut flight = self.spare.pop().unwrap_or_default();
            flight.started = Some(Instant::now());
            flight.members = alone;
            for &key in &flight.members {
                self.connections[key].push_alone(&mut flight.batch);
            }
            flight.batch.sync();
            self.execute(flight, ctx);
        }
    }

    fn execute(&mut self, mut flight: Flight, ctx: &Context<'_>) {
        Counters::add(&self.shared.counters.batches, 1);
        self.session.execute(&mut flight.batch);
        match self.session.settled(&flight.batch) {
            Some(proof) => self.answer(flight, &proof, ctx),
            None => self.flights.push(flight),
        }
    }

    /// Answers the batches that have settled. One may set another free, so it goes on while any does.
    fn land(&mut self, ctx: &Context<'_>) {
        let mut landed = true;
        while landed {
            landed = false;
            let mut i = 0;
            while let Some(flight) = self.flights.get_mut(i) {
                let done = self.session.poll(&mut flight.batch);
                match if done { self.session.settled(&flight.batch) } else { None } {
                    Some(proof) => {
                        let flight = self.flights.remove(i);
                        self.answer(flight, &proof, ctx);
                        landed = true;
                    }
                    None => i += 1,
                }
            }
        }
    }

    fn answer(&mut self, mut flight: Flight, proof: &Settled, ctx: &Context<'_>) {
        let (mut sent, mut writes) = (0, 0);
        let elapsed = flight.started.map_or(Duration::ZERO, |started| started.elapsed());
        let ctx = &Context { elapsed_us: elapsed.as_micros() as u64, ..*ctx };
        if std::mem::take(&mut flight.flush) {
            self.shared.connections.flushed();
        }
        let (mut members, mut needed) = (std::mem::take(&mut flight.members), None);
        members.retain(|&key| {
            let connection = &mut self.connections[key];
            let bytes = connection.answer(&flight.batch, proof, ctx, &mut self.output, &mut needed);
            (sent, writes) = (sent + bytes, writes + usize::from(bytes > 0));
            let waits = connection.waiting;
            connection.parked_bytes = 0;
            self.after(key, ctx);
            waits
        });
        flight.members = members;
        self.count_sent(sent, writes);
        self.output.clear();
        self.output.bytes.shrink_to(KEEP_OUTPUT_BYTES);
        if !flight.batch.is_whole() {
            return self.park(flight, needed, ctx);
        }
        debug_assert!(flight.members.is_empty(), "a batch that is whole answers everybody");
        flight.batch.clear();
        flight.members.clear();
        self.spare.push(flight);
    }

    /// Keeps the rest of a batch for a later turn. Of its answers only those are kept that a command goes on to need, up to the
    /// operation `needed`.
    fn park(&mut self, mut flight: Flight, needed: Option<usize>, ctx: &Context<'_>) {
        match needed {
            Some(needed) => flight.batch.run_to(needed),
            None => flight.batch.forget_answers(),
        }
        if let [key] = flight.members[..] {
            self.connections[key].parked_bytes = flight.batch.input_bytes();
            self.after(key, ctx);
        }
        self.parked.push_back(flight);
    }

    /// Looks at the connections that others have something for.
    fn look(&mut self, ctx: &Context<'_>) {
        let (mut sent, mut writes) = (0, 0);
        for (key, id) in self.inbox.take_nudges() {
            let found = self.connections.get_mut(key).filter(|connection| connection.entry.id() == id);
            if let Some(connection) = found {
                let bytes = connection.look(ctx, &mut self.output);
                (sent, writes) = (sent + bytes, writes + usize::from(bytes > 0));
                self.after(key, ctx);
            }
        }
        self.count_sent(sent, writes);
        self.output.clear();
        self.output.bytes.shrink_to(KEEP_OUTPUT_BYTES);
    }

    /// Goes on with the commands that were held, when the pause is over.
    fn release(&mut self, ctx: &Context<'_>) {
        if !self.holding || ctx.shared.connections.pause.until_ms(ctx.now_ms) > 0 {
            return;
        }
        self.holding = false;
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.paused = false;
                connection.entry.set(flag::BLOCKED, false);
            }
            self.after(key, ctx);
        }
    }

    /// Takes the connections that were handed over.
    fn admit(&mut self, ctx: &Context<'_>) {
        for Arrival { stream, protocol } in self.inbox.take() {
            let entry = self.connections.vacant_entry();
            let token = Token(entry.key() + FIRST_CONNECTION);
            let key = entry.key();
            let connection = entry.insert(Connection::new(stream, protocol, ctx.now_ms));
            connection.draining = self.deadline.is_some();
            if let Err(error) = connection::register(self.poll.registry(), token, &mut connection.stream) {
                tracing::warn!(%error, "a connection could not be registered");
                self.close(key);
                continue;
            }
            connection.readable = connection.draining;
            let entry = Arc::clone(&connection.entry);
            self.shared.connections.enter(&entry, Arc::clone(&self.inbox), key);
            self.shared.counters.memcached.came(&entry, &self.shared);
            if let Some(due_ms) = connection.due_ms(ctx) {
                self.sweep.watch(due_ms);
            }
            self.after(key, ctx);
        }
    }

    /// Reads once more from every connection, and closes each when that is answered and sent.
    fn drain(&mut self, ctx: &Context<'_>) {
        self.deadline = Some(Instant::now() + self.shared.options.drain);
        // Nothing is held any more.
        self.shared.connections.pause.end();
        self.release(ctx);
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.draining = true;
                connection.asleep = false;
                connection.readable = true;
            }
            self.after(key, ctx);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for (_, connection) in &self.connections {
            self.shared.connections.leave(&connection.entry);
        }
        for fd in &self.engine_fds {
            // The session closes them next; a failure here means that they are gone already.
            let _gone = self.poll.registry().deregister(&mut SourceFd(fd));
        }
        for (_, connection) in &mut self.connections {
            connection.account_gone(&self.shared.limits);
        }
        let open = self.connections.len() + self.inbox.bury();
        self.shared.counters.connected.fetch_sub(open as u64, Relaxed);
    }
}
