//! The command layer without sockets and threads: bytes in, answers out. For fuzzing and tests of protocols.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use terrace::OpenStore;
use terrace_engine::{Batch, Session};

use crate::endpoint::Address;
use crate::options::ServerOptions;
use crate::protocol::{Context, Next, Peer, Protocol};
use crate::shared::{Shared, wall_clock_ms};
use crate::{memcached, resp};

/// One connection to a store, played by the caller. It must be dropped before the store is closed.
pub struct Exchange {
    shared: Shared,
    session: Box<dyn Session>,
    protocol: Box<dyn Protocol>,
    /// Received and not consumed.
    input: Vec<u8>,
    closed: bool,
}

impl Exchange {
    /// A connection that speaks Redis's protocol.
    ///
    /// # Errors
    /// If the store has no session left.
    pub fn redis(store: OpenStore, options: ServerOptions) -> io::Result<Self> {
        Self::new(store, options, resp::connect)
    }
    /// A connection that speaks memcached's protocol.
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
        let nowhere = Address::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let protocol = connect(Peer { id: 1, remote: nowhere.clone(), local: nowhere, since_ms: 0 });
        Ok(Self {
            shared: Shared::alone(store, options)?,
            session,
            protocol,
            input: Vec::new(),
            closed: false,
        })
    }

    /// Shows bytes to the connection: how many commands were whole, and their answers. Waits until all are settled.
    pub fn send(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        let (mut commands, mut answers) = (0, Vec::new());
        self.input.extend_from_slice(bytes);
        while !self.closed {
            let ctx = Context {
                now_ms: wall_clock_ms(),
                elapsed_us: 0,
                shared: &self.shared,
                operations_end: usize::MAX,
            };
            let mut batch = Batch::new();
            let parsed = self.protocol.parse(&self.input, &mut batch, &ctx);
            self.input.drain(..parsed.consumed);
            if parsed.commands > 0 {
                // A command that goes on was counted when it was taken.
                commands += if parsed.consumed > 0 { parsed.commands } else { 0 };
                if parsed.next == Next::Alone {
                    batch.sync();
                }
                self.session.execute(&mut batch);
                let proof = self.session.wait(&mut batch);
                self.protocol.answer(&batch, &proof, &ctx, &mut answers);
                self.protocol.entry().take_pushes(true, &mut answers);
            }
            match parsed.next {
                // Held commands stay in the input: the caller sends again.
                Next::Read | Next::Hold => break,
                Next::Again | Next::Alone => {}
                Next::Close => self.closed = true,
            }
        }
        (commands, answers)
    }

    /// Whether the connection was ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
