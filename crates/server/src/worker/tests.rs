//! A worker whose batches settle when the test says so.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use terrace_engine::{Batch, Session, Settled};

use super::*;
use crate::options::ServerOptions;
use crate::protocol::Peer;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds back batches that name a key which begins with `slow`, as a slow device would.
struct Gate {
    open: AtomicBool,
    event: OwnedFd,
}

impl Gate {
    fn open(&self) {
        self.open.store(true, SeqCst);
        rustix::io::write(&self.event, &1u64.to_ne_bytes()).unwrap();
    }
}

struct Gated {
    session: Box<dyn Session>,
    gate: Arc<Gate>,
}

impl Session for Gated {
    fn execute(&mut self, batch: &mut Batch) {
        self.session.execute(batch);
    }
    fn poll(&mut self, batch: &mut Batch) -> bool {
        self.session.poll(batch)
    }
    fn settled(&mut self, batch: &Batch) -> Option<Settled> {
        let slow = (0..batch.len()).any(|i| batch.input(batch.op(i).key).starts_with(b"slow"));
        if slow && !self.gate.open.load(SeqCst) { None } else { self.session.settled(batch) }
    }
    fn wait(&mut self, batch: &mut Batch) -> Settled {
        self.session.wait(batch)
    }
    fn event_fds(&mut self) -> Vec<RawFd> {
        vec![self.gate.event.as_raw_fd()]
    }
}

/// A worker on its thread, without a server around it.
struct Fixture {
    gate: Arc<Gate>,
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    thread: JoinHandle<io::Result<()>>,
    listener: TcpListener,
}

impl Fixture {
    fn new(options: ServerOptions) -> Self {
        let store =
            terrace::Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Default::default() };
        let shared = Arc::new(Shared::alone(terrace::open(store).unwrap(), options).unwrap());
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let gate = Arc::new(Gate { open: AtomicBool::new(false), event });
        let session = Gated { session: shared.store.session().unwrap(), gate: gate.clone() };
        let (worker, inbox) = Worker::new(shared.clone(), Box::new(session)).unwrap();
        let thread = std::thread::spawn(move || worker.run());
        Self { gate, shared, inbox, thread, listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap() }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (stream, remote) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let local = stream.local_addr().unwrap().into();
        let peer = Peer { id: 1, remote: remote.into(), local, since_ms: 0 };
        self.shared.counters.connected.fetch_add(1, Relaxed);
        let stream = Transport::Tcp(mio::net::TcpStream::from_std(stream));
        self.inbox.send(Arrival { stream, protocol: crate::resp::connect(peer) }).unwrap();
        client
    }

    /// Sends commands, and comes back when the worker has executed them: what is sent to it next is in another batch.
    fn execute(&self, client: &mut TcpStream, request: &str) {
        let before = Counters::read(&self.shared.counters.batches);
        client.write_all(request.as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Counters::read(&self.shared.counters.batches) == before {
            assert!(Instant::now() < deadline, "the worker does not execute");
            std::thread::yield_now();
        }
    }

    fn stop(&self) {
        self.shared.draining.store(true, Relaxed);
        self.inbox.wake().unwrap();
    }

    fn join(self) {
        self.thread.join().unwrap().unwrap();
        assert_eq!(Counters::read(&self.shared.counters.connected), 0, "every connection is counted off");
    }
}

fn ask(client: &mut TcpStream, request: &str, answer: &str) {
    client.write_all(request.as_bytes()).unwrap();
    expect(client, answer);
}

fn expect(client: &mut TcpStream, answer: &str) {
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), answer);
}

/// Whether nothing has come.
fn silent(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let silent = client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
    silent
}

#[test]
fn a_slow_batch_delays_only_its_own_connections() {
    let fixture = Fixture::new(ServerOptions::default());
    let (mut slow, mut quick) = (fixture.connect(), fixture.connect());
    fixture.execute(&mut slow, "SET slow 1\r\nGET slow\r\n");
    for i in 1..=20 {
        ask(&mut quick, "INCR n\r\n", &format!(":{i}\r\n"));
    }
    // What comes behind waits, and keeps its place.
    slow.write_all(b"PING\r\nGET n\r\n").unwrap();
    ask(&mut quick, "INCR n\r\n", ":21\r\n");
    assert!(silent(&mut slow), "answered before its batch settled");
    fixture.gate.open();
    expect(&mut slow, "+OK\r\n$1\r\n1\r\n+PONG\r\n$2\r\n21\r\n");
    fixture.stop();
    fixture.join();
}

#[test]
fn a_connection_may_vanish_while_its_batch_is_in_flight() {
    let fixture = Fixture::new(ServerOptions::default());
    let mut quick = fixture.connect();
    for _ in 0..5 {
        let mut slow = fixture.connect();
        fixture.execute(&mut slow, "SET slow 1\r\n");
        ask(&mut quick, "PING\r\n", "+PONG\r\n");
        drop(slow);
        ask(&mut quick, "PING\r\n", "+PONG\r\n");
    }
    fixture.gate.open();
    ask(&mut quick, "GET slow\r\n", "$1\r\n1\r\n");
    fixture.stop();
    fixture.join();
}

#[test]
fn with_all_batches_in_flight_the_rest_waits_and_is_not_lost() {
    let fixture = Fixture::new(ServerOptions { batches_in_flight: 2, ..ServerOptions::default() });
    let mut clients: Vec<_> = (0..6).map(|_| fixture.connect()).collect();
    let request = |i: usize| format!("SET slow{i} {i}\r\nGET slow{i}\r\n");
    for (i, client) in clients.iter_mut().enumerate() {
        match i {
            0 | 1 => fixture.execute(client, &request(i)),
            _ => client.write_all(request(i).as_bytes()).unwrap(),
        }
    }
    fixture.gate.open();
    for (i, client) in clients.iter_mut().enumerate() {
        expect(client, &format!("+OK\r\n$1\r\n{i}\r\n"));
    }
    assert_eq!(Counters::read(&fixture.shared.counters.commands), 12);
    fixture.stop();
    fixture.join();
}

#[test]
fn a_shutdown_waits_for_what_is_in_flight() {
    let fixture = Fixture::new(ServerOptions { drain: Duration::from_secs(60), ..ServerOptions::default() });
    let (mut slow, mut quick) = (fixture.connect(), fixture.connect());
    fixture.execute(&mut slow, "SET slow 1\r\n");
    ask(&mut quick, "PING\r\n", "+PONG\r\n");
    fixture.stop();
    let mut end = Vec::new();
    quick.read_to_end(&mut end).unwrap();
    assert!(end.is_empty() && silent(&mut slow), "the idle one is closed, the other not yet");
    fixture.gate.open();
    slow.read_to_end(&mut end).unwrap();
    assert_eq!(end, b"+OK\r\n");
    fixture.join();
}

#[test]
fn a_shutdown_does_not_wait_forever() {
    let fixture = Fixture::new(ServerOptions { drain: Duration::from_millis(1), ..ServerOptions::default() });
    let mut slow = fixture.connect();
    fixture.execute(&mut slow, "SET slow 1\r\n");
    ask(&mut fixture.connect(), "PING\r\n", "+PONG\r\n");
    fixture.stop();
    let mut end = Vec::new();
    // Closed or reset: it was never answered.
    let _reset = slow.read_to_end(&mut end);
    assert_eq!(end, b"");
    fixture.join();
}
