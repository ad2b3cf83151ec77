//! What carries a connection's bytes: TCP, a Unix socket, or TLS over TCP. All are non-blocking.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::{TcpStream, UnixStream};

use crate::tls::TlsStream;

/// A connection's socket.
pub(crate) enum Transport {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Reads once. TLS reads until `buffer` is full or the socket is empty, so that for each of them a short read means an
    /// empty socket.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes once.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes several pieces at once; TLS, which copies them anyway, one of them.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(pieces),
            Self::Unix(stream) => stream.write_vectored(pieces),
            Self::Tls(stream) => pieces.first().map_or(Ok(0), |piece| stream.write(piece)),
        }
    }

    /// Whether the peer's end was seen behind a short read: no event will tell of it.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_ended())
    }

    /// Whether bytes that [`write`](Self::write) took have not reached the socket.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_unsent())
    }

    /// Sends of those as many as the socket takes.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.flush(),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Whether the peers have not agreed on keys yet.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.is_handshaking())
    }

    /// Tells the peer that nothing more is sent.
    pub fn shut_down(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(stream) => stream.shut_down(),
        }
    }

    /// What an event queue watches.
    pub fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(stream) => stream.socket(),
        }
    }
}
