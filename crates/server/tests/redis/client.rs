//! A client that sends any bytes and reads whole answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use terrace_protocol::resp::{Value, write_request};

/// Longer than any answer takes; a server that does not answer fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// If that fails.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the server takes none for a long time, or has closed.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a command.
    pub fn command(&mut self, args: &[&str]) {
        let mut request = Vec::new();
        write_request(args, &mut request);
        self.send(&request);
    }

    /// Sends a command and reads its answer.
    pub fn ask(&mut self, args: &[&str]) -> Value {
        self.command(args);
        self.answer()
    }

    /// Reads one answer.
    ///
    /// # Panics
    /// If none comes, or the bytes are none.
    pub fn answer(&mut self) -> Value {
        loop {
            if let Some((value, len)) = Value::decode(&self.received).unwrap() {
                self.received.drain(..len);
                return value;
            }
            assert!(self.receive() > 0, "closed before the answer: {}", self.received.escape_ascii());
        }
    }

    /// Reads up to and including these bytes.
    ///
    /// # Panics
    /// If they don't come.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        while !self.received.ends_with(end) {
            assert!(self.receive() > 0, "closed after {}", self.received.escape_ascii());
        }
        std::mem::take(&mut self.received)
    }

    /// Reads exactly these bytes.
    ///
    /// # Panics
    /// If others come.
    pub fn expect(&mut self, bytes: &[u8]) {
        while self.received.len() < bytes.len() {
            assert!(self.receive() > 0, "closed after {}", self.received.escape_ascii());
        }
        let rest = self.received.split_off(bytes.len());
        assert_eq!(
            std::mem::replace(&mut self.received, rest).escape_ascii().to_string(),
            bytes.escape_ascii().to_string()
        );
    }

    /// Reads until the server closes.
    ///
    /// # Panics
    /// If it does not.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() > 0 {}
        std::mem::take(&mut self.received)
    }

    /// Says that no more is sent.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Another handle of the same connection, with a buffer of its own.
    pub fn try_clone(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap(), received: Vec::new() }
    }

    /// One read; 0 at the end.
    fn receive(&mut self) -> usize {
        let mut buffer = [0; 65536];
        let read = loop {
            match self.stream.read(&mut buffer) {
                // A store with an SSD was opened on this thread: its ring's work interrupts.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(n) => {
                self.received.extend_from_slice(&buffer[..n]);
                n
            }
            // What was sent behind the end resets the connection; its end it is all the same.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error} after {}", self.received.escape_ascii()),
        }
    }
}

/// An answer `OK`.
pub fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// A string.
pub fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// An error.
pub fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}
