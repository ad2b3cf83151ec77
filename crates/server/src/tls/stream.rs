//! A TLS session over a non-blocking TCP socket, whose handshake goes on as bytes come.
//!
//! # Invariants
//! - After [`TlsStream::read`] returned less than it could, the socket had nothing more: its next event tells of more.
//! - What the session wants to send is sent after every call; what the socket does not take then goes with its next event
//!   ([`TlsStream::flush`]). The session keeps 64 KiB of it at most.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// See the module.
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
    ended: bool,
}

impl TlsStream {
    /// A session at its beginning.
    ///
    /// # Errors
    /// If the configuration does not work.
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self { socket, session, ended: false })
    }

    /// Reads until `buffer` is full or the socket is empty; 0 is the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(n @ 1..) => {
                    filled += n;
                    continue;
                }
                // With the end announced, and without: a command that is cut short is not executed either way.
                Ok(0) => self.ended = true,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.ended {
                break;
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(_) => self.process()?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn process(&mut self) -> io::Result<()> {
        let outcome = self.session.process_new_packets();
        // What the handshake answers; after an error, the alert that says why.
        let sent = self.flush();
        match outcome {
            Ok(_) => sent,
            Err(error) => {
                tracing::debug!(%error, "a TLS connection failed");
                Err(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }

    /// Takes as many bytes as the session has room for.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let taken = self.session.writer().write(bytes)?;
            self.flush()?;
            if taken > 0 {
                return Ok(taken);
            }
            if self.has_unsent() || self.is_handshaking() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Sends what the session wants to send, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether something is left to [`flush`](Self::flush).
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether the peer's end was read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the peers have not agreed on keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Says that nothing more is sent, in TLS and in TCP.
    pub fn shut_down(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        self.flush()?;
        self.socket.shutdown(Shutdown::Write)
    }

    /// The socket, for an event queue.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}
