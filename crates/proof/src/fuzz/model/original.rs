//! The originals, where there are any to compare with: what the models say is theirs to judge.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Served;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; killed when dropped.
pub(crate) struct Original {
    child: Child,
    address: SocketAddr,
    /// Makes it forget its data, and the answer.
    forget: (&'static [u8], &'static [u8]),
}

/// How to start one.
struct Recipe {
    command: Command,
    /// What it says when it is there.
    ready: &'static str,
    forget: (&'static [u8], &'static [u8]),
}

impl Original {
    /// Starts the Redis that the environment variable `TERRACE_REDIS_ORIGINAL` names; `None` if it names none.
    ///
    /// # Errors
    /// If it does not start.
    pub fn redis() -> Result<Option<Self>, String> {
        Self::start("TERRACE_REDIS_ORIGINAL", |binary, port| {
            let mut command = Command::new(binary);
            command.args(["--bind", "127.0.0.1", "--save", "", "--port", port]);
            Recipe { command, ready: "accept connections", forget: (b"FLUSHALL\r\n", b"+OK\r\n") }
        })
    }

    /// Starts the memcached that the environment variable `TERRACE_MEMCACHED_ORIGINAL` names; `None` if it names none.
    ///
    /// # Errors
    /// If it does not start.
    pub fn memcached() -> Result<Option<Self>, String> {
        Self::start("TERRACE_MEMCACHED_ORIGINAL", |binary, port| {
            let mut command = Command::new(binary);
            // Its background threads refer to records now and then, which shows: see `Model::needs_quiet`.
            let quiet = "no_lru_crawler,no_lru_maintainer";
            command.args(["-vv", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-o", quiet, "-p", port]);
            Recipe { command, ready: "server listening", forget: (b"flush_all\r\n", b"OK\r\n") }
        })
    }

    fn start(variable: &str, command: fn(&OsStr, &str) -> Recipe) -> Result<Option<Self>, String> {
        let Some(binary) = std::env::var_os(variable) else { return Ok(None) };
        // Another process may take the free port first; then the server ends without a word of being ready.
        for _ in 0..10 {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
            let address = address.map_err(|error| format!("a free port: {error}"))?;
            let Recipe { mut command, ready, forget } = command(&binary, &address.port().to_string());
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = child.map_err(|error| format!("starting {}: {error}", binary.display()))?;
            let (out, err) = (child.stdout.take(), child.stderr.take());
            let original = Self { child, address, forget };
            // One of the two says it; both are emptied for ever.
            let (sender, receiver) = std::sync::mpsc::channel();
            let pipes =
                [out.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), err.map(|pipe| Box::new(pipe) as _)];
            for pipe in pipes.into_iter().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                        if String::from_utf8_lossy(&line).contains(ready) {
                            let _nobody_waits = sender.send(());
                        }
                    }
                });
            }
            drop(sender);
            if receiver.recv_timeout(PATIENCE).is_ok() {
                return Ok(Some(original));
            }
        }
        Err(format!("{} does not start", binary.display()))
    }

    /// New connections to it, its data forgotten.
    ///
    /// # Errors
    /// If that fails.
    pub fn connect(&self, connections: usize) -> Result<Sockets, String> {
        let connect = || {
            let stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok((stream, Vec::new()))
        };
        let all: std::io::Result<_> = (0..connections).map(|_| connect()).collect();
        let mut sockets = Sockets(all.map_err(|error| error.to_string())?);
        let (command, answer) = self.forget;
        sockets.send(0, command)?;
        let received = sockets.receive(0, &|received| received.len() >= answer.len())?;
        if received == answer { Ok(sockets) } else { Err(super::expect::shown(&received)) }
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Connections, and what came on each.
pub(crate) struct Sockets(Vec<(TcpStream, Vec<u8>)>);

impl Served for Sockets {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        self.0[connection].0.write_all(bytes).map_err(|error| format!("sending: {error}"))
    }

    fn receive(&mut self, connection: usize, is_enough: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, String> {
        let (stream, received) = &mut self.0[connection];
        let mut buffer = [0; 65536];
        while !is_enough(received) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    let received = super::expect::shown(received);
                    return Err(format!("waiting for an answer: {error} behind {received}"));
                }
            }
        }
        Ok(std::mem::take(received))
    }
}
