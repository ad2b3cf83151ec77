//! Our server on a free port of the loopback, over a store in DRAM.

use std::net::{Ipv4Addr, SocketAddr};

use terrace::{OpenStore, Options};
use terrace_server::{Endpoint, Server, ServerOptions};

/// A running server and its store.
pub struct Ours {
    /// The server.
    pub server: Server,
    /// The store, to look behind the server's back.
    pub store: OpenStore,
    /// Where it speaks Redis's protocol.
    pub address: SocketAddr,
    /// Its admin port.
    pub admin: SocketAddr,
    /// Where it saves what it likes.
    pub dir: tempfile::TempDir,
}

impl Ours {
    /// Starts a server with two workers.
    ///
    /// # Panics
    /// If that fails.
    pub fn start() -> Self {
        Self::start_with(ServerOptions { threads: 2, ..ServerOptions::default() })
    }

    /// Starts a server with other options.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_with(options: ServerOptions) -> Self {
        Self::start_over(256 << 20, options)
    }

    /// Starts a server over a store with this many bytes for records.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_over(record_bytes: u64, options: ServerOptions) -> Self {
        let store = Options { engine: "dram".into(), dram_records: Some(record_bytes), ..Options::default() };
        let store = terrace::open(store).unwrap();
        Self::over(store, options)
    }

    /// Starts a server over a store.
    ///
    /// # Panics
    /// If that fails.
    pub fn over(store: OpenStore, options: ServerOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options;
        if options.dir.is_empty() {
            options.dir = dir.path().to_str().unwrap().into();
        }
        let free = Some((Ipv4Addr::LOCALHOST, 0).into());
        let mut options = ServerOptions { admin: free, ..options };
        options.redis.extend(free.map(Endpoint::Tcp));
        let server = Server::start(store.clone(), options).unwrap();
        let addresses = server.addresses();
        let (address, admin) = (addresses.redis.unwrap(), addresses.admin.unwrap());
        Self { server, store, address, admin, dir }
    }

    /// Where it speaks memcached's protocol, if it was asked to.
    ///
    /// # Panics
    /// If it was not.
    pub fn memcached(&self) -> SocketAddr {
        self.server.addresses().memcached.unwrap()
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

/// Asks our server.
///
/// # Panics
/// As the test.
pub fn ask_ours(test: fn(SocketAddr)) {
    let ours = Ours::start();
    test(ours.address);
    ours.stop();
}
