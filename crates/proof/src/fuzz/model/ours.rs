//! Our command layer, over a new store in DRAM.

use terrace_server::{Exchange, ServerOptions};

use super::Served;

/// Bytes of DRAM for a store.
const DRAM_BYTES: u64 = 16 << 20;

/// Connections, and the pieces in which their bytes arrive.
pub(super) struct Ours {
    exchange: Exchange,
    received: Vec<Vec<u8>>,
    piece_bytes: usize,
}

/// A connection to a new store.
///
/// # Errors
/// If there is none.
pub(in super::super) fn exchange(redis: bool) -> Result<Exchange, String> {
    let options = terrace::Options {
        engine: "dram".into(),
        dram_records: Some(DRAM_BYTES),
        background_threads: 0,
        ..terrace::Options::default()
    };
    let store = terrace::open(options).map_err(|error| format!("opening: {error}"))?;
    let options = ServerOptions { command_bytes_max: 1 << 20, ..ServerOptions::default() };
    let connect = if redis { Exchange::redis } else { Exchange::memcached };
    connect(store, options).map_err(|error| error.to_string())
}

impl Ours {
    /// So many connections.
    ///
    /// # Errors
    /// If there are none.
    pub fn connect(redis: bool, connections: usize, piece_bytes: usize) -> Result<Self, String> {
        let mut exchange = exchange(redis)?;
        for _ in 1..connections {
            exchange.connect();
        }
        Ok(Self { exchange, received: vec![Vec::new(); connections], piece_bytes })
    }
}

impl Served for Ours {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.chunks(self.piece_bytes) {
            let (_, answers) = self.exchange.send_to(connection, piece);
            self.received[connection].extend_from_slice(&answers);
        }
        for (other, received) in self.received.iter_mut().enumerate() {
            received.extend_from_slice(&self.exchange.pushed(other));
        }
        Ok(())
    }

    fn receive(&mut self, connection: usize, _is_enough: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, String> {
        Ok(std::mem::take(&mut self.received[connection]))
    }
}
