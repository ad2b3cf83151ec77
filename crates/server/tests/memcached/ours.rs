//! Our server on a free port of the loopback, over a store in DRAM.

use std::net::{Ipv4Addr, SocketAddr};

use terrace::{OpenStore, Options};
use terrace_server::{Endpoint, Server, ServerOptions};

/// The longest value of the tests' servers, in bytes; the original's default, so that both can be compared.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// A running server and its store.
pub struct Ours {
    server: Server,
    /// The store, to look behind the server's back.
    pub store: OpenStore,
    /// Where it speaks memcached.
    pub address: SocketAddr,
}

impl Ours {
    /// Starts a server with two workers, and room for all that a test stores.
    ///
    /// # Panics
    /// If that fails.
    pub fn start() -> Self {
        Self::start_with(64 << 20)
    }

    /// Starts a server with this many bytes for records.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_with(record_bytes: u64) -> Self {
        let options = ServerOptions {
            memcached_value_bytes_max: VALUE_BYTES_MAX,
            memcached_counts_items: true,
            ..ServerOptions::default()
        };
        Self::start_as(record_bytes, options)
    }

    /// Starts a server with this many bytes for records and options of the test's own.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_as(record_bytes: u64, options: ServerOptions) -> Self {
        Self::start_over(Options { dram_records: Some(record_bytes), ..Options::default() }, options)
    }

    /// Starts a server over a store in DRAM with other options.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_over(store: Options, options: ServerOptions) -> Self {
        let store = terrace::open(Options { engine: "dram".into(), ..store }).unwrap();
        let memcached = vec![Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
        let options = ServerOptions { memcached, threads: 2, ..options };
        let server = Server::start(store.clone(), options).unwrap();
        let address = server.addresses().memcached.unwrap();
        Self { server, store, address }
    }

    /// Ends it, and checks that nothing in it failed.
    ///
    /// # Panics
    /// If something did.
    pub fn stop(self) {
        assert!(self.server.is_healthy(), "a worker died");
        self.server.shutdown().unwrap();
        self.store.close().unwrap();
    }
}
