//! Listening sockets: TCP ports and Unix sockets, bound, accepting, and removed at the end.
//!
//! # Invariants
//! - A Unix socket has its permissions before anybody can connect.
//! - Another server's socket is never taken away: only one on which nobody listens is replaced, and only our own is removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::net::{TcpListener, UnixListener};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};

use crate::endpoint::{Address, Endpoint};
use crate::worker::Transport;

/// A socket that listens.
pub(crate) struct ListeningSocket {
    kind: Kind,
    /// Where it listens, with the port that port 0 became.
    endpoint: Endpoint,
}

enum Kind {
    Tcp(TcpListener),
    Unix { listener: UnixListener, file: SocketFile },
}

/// What was accepted.
pub(crate) struct Accepted {
    /// Non-blocking, registered nowhere.
    pub transport: Transport,
    /// The client's end.
    pub remote: Address,
    /// Our end.
    pub local: Address,
}

impl ListeningSocket {
    /// Binds and listens; `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// If that is impossible; the text names the address.
    pub fn bind(endpoint: &Endpoint, backlog: u32) -> io::Result<Self> {
        let bound = match endpoint {
            Endpoint::Tcp(address) | Endpoint::Tls(address) => bind_tcp(*address, backlog).map(Kind::Tcp),
            Endpoint::Unix { path, mode } => bind_unix(path, *mode, backlog),
        };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("listening on {endpoint}: {error}"));
        let kind = bound.map_err(named)?;
        let mut endpoint = endpoint.clone();
        if let (Kind::Tcp(listener), Endpoint::Tcp(address) | Endpoint::Tls(address)) = (&kind, &mut endpoint)
        {
            *address = listener.local_addr()?;
        }
        Ok(Self { kind, endpoint })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What an event queue watches.
    pub fn source(&mut self) -> &mut dyn mio::event::Source {
        match &mut self.kind {
            Kind::Tcp(listener) => listener,
            Kind::Unix { listener, .. } => listener,
        }
    }

    /// Takes a connection that waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else if accepting failed.
    pub fn accept(&self) -> io::Result<Accepted> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, remote) = listener.accept()?;
                stream.set_nodelay(true)?;
                let local = stream.local_addr()?.into();
                Ok(Accepted { transport: Transport::Tcp(stream), remote: remote.into(), local })
            }
            Kind::Unix { listener, file } => {
                let (stream, _) = listener.accept()?;
                let address = Address::Unix(Arc::clone(&file.name));
                Ok(Accepted { transport: Transport::Unix(stream), remote: address.clone(), local: address })
            }
        }
    }
}

/// What the kernel keeps of answers that it can't send yet, for each connection. By itself it would take 4 MiB: a few hundred clients
/// that don't read fill the memory that it has for all connections, and it drops others' packets. What is beyond waits here, within
/// our own limits.
const UNSENT_BYTES: u32 = 128 << 10;

fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket(family, Some(ipproto::TCP))?;
    // A port whose last connections are not quite gone can be taken again.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // So that 0.0.0.0 and [::] can have the same port.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Accepted connections have it from here.
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog_of(backlog))?;
    Ok(TcpListener::from_std(socket.into()))
}

fn bind_unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Kind> {
    remove_stale(path)?;
    let socket = socket(AddressFamily::UNIX, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile::made(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, backlog_of(backlog))?;
    Ok(Kind::Unix { listener: UnixListener::from_std(socket.into()), file })
}

fn socket(family: AddressFamily, protocol: Option<rustix::net::Protocol>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, protocol)?)
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// Removes a socket that a server left behind when it was killed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket lies there"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

/// Our Unix socket's file, which goes when we go.
struct SocketFile {
    path: PathBuf,
    name: Arc<str>,
    /// Device and inode: by the end, another server may have put its own there.
    identity: (u64, u64),
}

impl SocketFile {
    fn made(path: &Path) -> io::Result<Self> {
        // The directory that is current at the end may be another one.
        let path = std::path::absolute(path)?;
        let found = fs::symlink_metadata(&path)?;
        let name = path.to_string_lossy().into();
        Ok(Self { path, name, identity: (found.dev(), found.ino()) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn unix(path: &Path, mode: u32) -> Endpoint {
        Endpoint::Unix { path: path.to_owned(), mode }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as a killed server leaves it");
        let first = ListeningSocket::bind(&unix(&path, 0o640), 8).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let second = ListeningSocket::bind(&unix(&path, 0o700), 8).err().unwrap();
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        assert!(second.to_string().contains(&path.display().to_string()), "{second}");
        let _client = UnixStream::connect(&path).unwrap();
        let accepted = first.accept().unwrap();
        assert!(accepted.remote.is_local() && accepted.local.to_string().ends_with("/s:0"));
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn the_kernel_keeps_little_for_who_does_not_read() {
        let listener = ListeningSocket::bind(&Endpoint::Tcp(([127, 0, 0, 1], 0).into()), 8).unwrap();
        let &Endpoint::Tcp(address) = listener.endpoint() else { panic!("{}", listener.endpoint()) };
        let client = std::net::TcpStream::connect(address).unwrap();
        socket2::SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
        let mut accepted = loop {
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                accepted => break accepted.unwrap(),
            }
        };
        // Without the bound it takes some 4 MiB.
        let (piece, mut taken) = ([0; 32 << 10], 0);
        let full = loop {
            match accepted.transport.write(&piece) {
                Ok(bytes) => taken += bytes,
                Err(error) => break error,
            }
        };
        assert!(full.kind() == ErrorKind::WouldBlock && taken < 1 << 20, "{full}: {taken} bytes");
    }

    #[test]
    fn what_is_not_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        fs::write(&path, "precious").unwrap();
        let refused = ListeningSocket::bind(&unix(&path, 0o700), 8).err().unwrap();
        assert!(refused.to_string().contains("no socket"), "{refused}");
        fs::remove_file(&path).unwrap();
        let ours = ListeningSocket::bind(&unix(&path, 0o700), 8).unwrap();
        fs::rename(&path, dir.path().join("away")).unwrap();
        let theirs = ListeningSocket::bind(&unix(&path, 0o700), 8).unwrap();
        drop(ours);
        UnixStream::connect(&path).unwrap();
        drop(theirs);
        assert!(!path.exists());
    }

    #[test]
    fn both_families_can_have_one_port() {
        let first = ListeningSocket::bind(&Endpoint::Tcp(([0, 0, 0, 0], 0).into()), 8).unwrap();
        let port = first.endpoint().address().unwrap().port();
        assert_ne!(port, 0);
        // A machine without IPv6 has nothing to show here.
        match ListeningSocket::bind(&format!("[::]:{port}").parse().unwrap(), 8) {
            Ok(second) => assert_eq!(second.endpoint().address().unwrap().port(), port),
            Err(error) => assert_ne!(error.kind(), ErrorKind::AddrInUse, "{error}"),
        }
    }
}
