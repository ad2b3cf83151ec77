//! A client that sends and reads bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take before a test fails; nothing is decided by it otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
pub struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// If that fails.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// A second hand on the same connection, to send while the first reads.
    ///
    /// # Panics
    /// If that fails.
    pub fn try_clone(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap() }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If that fails.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads until `end` says that what has come is all.
    ///
    /// # Panics
    /// If the connection ends or rests before.
    pub fn read_until(&mut self, end: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut got = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while !end(&got) {
            match self.stream.read(&mut chunk) {
                Ok(n @ 1..) => got.extend_from_slice(&chunk[..n]),
                other => panic!("{other:?} after {}", got.escape_ascii()),
            }
        }
        got
    }

    /// Sends a request and reads one line's worth or more of answer, up to this end.
    ///
    /// # Panics
    /// As [`read_until`](Self::read_until).
    pub fn ask(&mut self, request: &str, end: &str) -> String {
        self.send(request.as_bytes());
        String::from_utf8(self.read_until(|got| got.ends_with(end.as_bytes()))).unwrap()
    }

    /// Everything that is answered to what was sent so far: a `version` behind it marks the end.
    ///
    /// # Panics
    /// As [`read_until`](Self::read_until).
    pub fn everything(&mut self) -> Vec<u8> {
        self.send(b"version\r\n");
        let mut got = self.read_until(|got| marker(got).is_some());
        got.truncate(marker(&got).unwrap());
        got
    }

    /// Everything until the server closes.
    ///
    /// # Panics
    /// If it does not.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        self.stream.read_to_end(&mut got).unwrap();
        got
    }
}

/// Where the last line starts, if it is whole and a version.
fn marker(got: &[u8]) -> Option<usize> {
    let line = got.strip_suffix(b"\r\n")?;
    let start = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    line[start..].starts_with(b"VERSION ").then_some(start)
}
