//! The command layer without sockets and threads: bytes in, answers out. For fuzzing and tests of protocols.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use terrace::OpenStore;
use terrace_engine::{Batch, Session};

use crate::endpoint::Address;
use crate::options::ServerOptions;
use crate::output::Output;
use crate::protocol::{Answered, Context, Next, Peer, Protocol};
use crate::shared::Shared;
use crate::{memcached, resp};

/// Connections to a store, played by the caller. It must be dropped before the store is closed.
pub struct Exchange {
    shared: Shared,
    session: Box<dyn Session>,
    connect: fn(Peer) -> Box<dyn Protocol>,
    seats: Vec<Seat>,
}

/// One connection.
struct Seat {
    protocol: Box<dyn Protocol>,
    /// Received and not consumed.
    input: Vec<u8>,
    closed: bool,
}

impl Exchange {
    /// A connection that speaks Redis's protocol, numbered 0.
    ///
    /// # Errors
    /// If the store has no session left.
    pub fn redis(store: OpenStore, options: ServerOptions) -> io::Result<Self> {
        Self::new(store, options, resp::connect)
    }
    /// A connection that speaks memcached's protocol, numbered 0.
    ///
    /// # Errors
    /// As [`redis`](Self::redis).
    pub fn memcached(store: OpenStore, options: ServerOptions) -> io::Result<Self> {
        Self::new(store, options, memcached::connect)
    }

    fn new(
        store: OpenStore,
        options: ServerOptions,
        connect: fn(Peer) -> Box<dyn Protocol>,
    ) -> io::Result<Self> {
        let session = store.session().map_err(io::Error::other)?;
        let shared = Shared::alone(store, options)?;
        let mut exchange = Self { shared, session, connect, seats: Vec::new() };
        exchange.connect();
        Ok(exchange)
    }

    /// Another connection to the same store, with the same protocol: its number.
    pub fn connect(&mut self) -> usize {
        let nowhere = Address::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let id = self.seats.len() as u64 + 1;
        let since_ms = self.shared.now_ms();
        let protocol = (self.connect)(Peer { id, remote: nowhere.clone(), local: nowhere, since_ms });
        self.shared.connections.enter_alone(protocol.entry());
        self.seats.push(Seat { protocol, input: Vec::new(), closed: false });
        self.seats.len() - 1
    }

    /// Shows bytes to the first connection, as [`send_to`](Self::send_to).
    pub fn send(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        self.send_to(0, bytes)
    }

    /// Shows bytes to a connection: how many commands were whole, and their answers, with what others had pushed to it. Waits
    /// until all are settled.
    ///
    /// # Panics
    /// If there is no connection of this number.
    pub fn send_to(&mut self, connection: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
        let mut answers = Vec::new();
        let commands = self.exchange(connection, bytes, &mut |turn| answers.append(turn));
        (commands, answers)
    }

    /// The same for the first connection, but the answers are forgotten turn by turn, as a socket takes them: how many commands were
    /// whole.
    pub fn send_unheard(&mut self, bytes: &[u8]) -> usize {
        self.exchange(0, bytes, &mut Vec::clear)
    }

    /// Hands the answers of each turn to `hear`.
    fn exchange(&mut self, connection: usize, bytes: &[u8], hear: &mut dyn FnMut(&mut Vec<u8>)) -> usize {
        let seat = &mut self.seats[connection];
        let (mut commands, mut answers) = (0, Vec::new());
        seat.input.extend_from_slice(bytes);
        let mut consumed = 0;
        while !seat.closed {
            hear(&mut answers);
            let time = self.shared.store.time();
            let ctx = Context {
                now_ms: time.now_ms,
                time,
                elapsed_us: 0,
                shared: &self.shared,
                operations_end: usize::MAX,
            };
            let mut batch = Batch::new();
            let options = &self.shared.options;
            batch.bound(options.turn_answer_bytes, options.transaction_bytes_max);
            seat.protocol.entry().take_pushes(true, &mut answers);
            let parsed = seat.protocol.parse(&seat.input[consumed..], &mut batch, &ctx);
            consumed += parsed.consumed;
            if parsed.commands > 0 {
                // A command that goes on was counted when it was taken.
                commands += if parsed.consumed > 0 { parsed.commands } else { 0 };
                if parsed.next == Next::Alone {
                    seat.protocol.push_alone(&mut batch);
                    batch.sync();
                }
                let entry = Arc::clone(seat.protocol.entry());
                let (mut told, mut answered) = (0, false);
                loop {
                    self.session.execute(&mut batch);
                    let proof = self.session.wait(&mut batch);
                    let executed = batch.executed();
                    self.shared.connections.settled(&batch, &proof, told..executed, &entry, ctx.now_ms);
                    told = executed;
                    let mut needed = None;
                    if !answered {
                        let mut out = Output::default();
                        match seat.protocol.answer(&batch, &proof, &ctx, &mut out) {
                            Answered::All => answered = true,
                            Answered::Part(rest) => needed = (rest.from < executed).then_some(rest.to),
                        }
                        out.pieces(&batch).for_each(|piece| answers.extend_from_slice(piece));
                    }
                    if batch.is_whole() {
                        break;
                    }
                    match needed {
                        Some(to) => batch.run_to(to),
                        None => batch.forget_answers(),
                    }
                }
                entry.take_pushes(true, &mut answers);
            }
            match parsed.next {
                // Held commands stay in the input: the caller sends again.
                Next::Read | Next::Hold | Next::Asleep => break,
                Next::Again | Next::Alone => {}
                Next::Close => seat.closed = true,
            }
            seat.closed |= seat.protocol.entry().is_killed();
        }
        seat.input.drain(..consumed);
        hear(&mut answers);
        if seat.closed {
            self.shared.connections.leave(seat.protocol.entry());
        }
        commands
    }

    /// What others have pushed to a connection since it was last answered.
    ///
    /// # Panics
    /// If there is no connection of this number.
    pub fn pushed(&mut self, connection: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.seats[connection].protocol.entry().take_pushes(true, &mut bytes);
        bytes
    }

    /// Whether the first connection was ended.
    pub fn is_closed(&self) -> bool {
        self.seats.first().is_none_or(|seat| seat.closed)
    }
}
