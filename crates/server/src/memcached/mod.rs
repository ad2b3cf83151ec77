//! memcached's text protocol on a connection.

use terrace_engine::{Batch, Settled};

use crate::protocol::{Context, Next, Parsed, Peer, Protocol};

/// A new connection's protocol.
pub(crate) fn connect(_peer: Peer) -> Box<dyn Protocol> {
    Box::new(Memcached)
}

/// One memcached connection.
struct Memcached;

impl Protocol for Memcached {
    fn parse(&mut self, input: &[u8], _batch: &mut Batch, _ctx: &Context<'_>) -> Parsed {
        Parsed { consumed: input.len(), commands: 1, next: Next::Close }
    }

    fn answer(&mut self, _batch: &Batch, _proof: &Settled, _ctx: &Context<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"SERVER_ERROR memcached is not there yet\r\n");
    }
}
