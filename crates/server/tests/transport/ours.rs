//! A server on whatever it is to listen on, and words with it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use terrace::{OpenStore, Options};
use terrace_server::{Endpoint, Server, ServerOptions};

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A free port of the loopback.
pub fn free_port() -> Vec<Endpoint> {
    vec![Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into())]
}

/// A running server and its store.
pub struct Ours {
    pub server: Server,
    store: OpenStore,
}

impl Ours {
    /// Starts one that keeps nothing.
    pub fn start(options: ServerOptions) -> Self {
        let store = Options { engine: "dram".into(), dram_records: Some(64 << 20), ..Options::default() };
        let store = terrace::open(store).unwrap();
        let free = Some((Ipv4Addr::LOCALHOST, 0).into());
        let server = Server::start(store.clone(), ServerOptions { admin: free, ..options }).unwrap();
        Self { server, store }
    }

    /// A connection to the Redis port.
    pub fn redis(&self) -> TcpStream {
        patient(TcpStream::connect(self.server.addresses().redis.unwrap()).unwrap())
    }

    /// A number of `/metrics`, such as `connections_closed_over_limit_total{limit="idle"}`.
    pub fn metric(&self, name: &str) -> u64 {
        let mut admin = patient(TcpStream::connect(self.server.addresses().admin.unwrap()).unwrap());
        admin.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        admin.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("terrace_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until a number of `/metrics` is so.
    pub fn wait_for(&self, name: &str, value: u64) {
        let from = Instant::now();
        while self.metric(name) != value {
            assert!(from.elapsed() < PATIENCE, "{name} is {} and not {value}", self.metric(name));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn stop(self) {
        self.server.shutdown().unwrap();
        self.store.close().unwrap();
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request and expects exactly this answer.
pub fn ask(client: &mut (impl Read + Write), request: &str, answer: &str) {
    client.write_all(request.as_bytes()).unwrap();
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap();
    // The beginning of large ones is enough to see what is wrong.
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let got = String::from_utf8_lossy(&got);
    assert!(got == answer, "{:?} and not {:?} to {:?}", short(&got), short(answer), short(request));
}

/// Whether the server has ended the connection; waits until it says anything.
pub fn is_closed(client: &mut impl Read) -> bool {
    match client.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}
