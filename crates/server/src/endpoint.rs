//! Where a server listens, and where its clients are.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The mode of a Unix socket where nobody says: only its owner may connect.
pub const UNIX_MODE_DEFAULT: u32 = 0o700;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP port; 0 takes a free one.
    Tcp(SocketAddr),
    /// A TCP port on which TLS is spoken; needs [`ServerOptions::tls`](crate::ServerOptions::tls).
    Tls(SocketAddr),
    /// A Unix socket.
    Unix {
        /// Where it lies in the file system.
        path: PathBuf,
        /// Its permissions; writing is connecting.
        mode: u32,
    },
}

impl Endpoint {
    /// The address, unless it is a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Tls(address) => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// Whether only programs of this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.address().is_none_or(|address| is_loopback(&address))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Endpoint {
    /// As [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            // What stands before the first colon of another path would be taken for a mode.
            Self::Unix { path, mode: UNIX_MODE_DEFAULT } if path.has_root() => {
                write!(f, "unix:{}", path.display())
            }
            Self::Unix { path, mode } => write!(f, "unix:{mode:o}:{}", path.display()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text:?}: expected ADDR:PORT such as 127.0.0.1:6379, tls:ADDR:PORT, unix:PATH, or unix:MODE:PATH such as \
                 unix:770:/run/terrace.sock"
            )
        };
        let address = |text: &str| {
            text.replacen("localhost:", "127.0.0.1:", 1).parse::<SocketAddr>().map_err(|_| expected())
        };
        if let Some(rest) = text.strip_prefix("tls:") {
            return address(rest).map(Self::Tls);
        }
        let Some(rest) = text.strip_prefix("unix:") else { return address(text).map(Self::Tcp) };
        let (mode, path) = match rest.split_once(':') {
            Some((mode, path)) if !mode.contains('/') => (unix_mode(mode).ok_or_else(expected)?, path),
            _ => (UNIX_MODE_DEFAULT, rest),
        };
        if path.is_empty() {
            return Err(expected());
        }
        Ok(Self::Unix { path: path.into(), mode })
    }
}

/// Permissions in octal.
pub fn unix_mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'))
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address and a port.
    Ip(SocketAddr),
    /// The path of the server's Unix socket; its clients have none of their own.
    Unix(Arc<str>),
}

impl Address {
    /// Whether this end is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => is_loopback(address),
            Self::Unix(_) => true,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Address {
    /// As Redis writes it: Unix sockets have port 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{path}:0"),
        }
    }
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let all =
            ["127.0.0.1:6379", "[::1]:1", "tls:0.0.0.0:2", "unix:/a/b", "unix:770:/a:b", "unix:700:a:b/c"];
        for text in all {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("unix:a/b".parse::<Endpoint>().unwrap().to_string(), "unix:700:a/b");
        assert_eq!("localhost:1".parse(), Ok(Endpoint::Tcp(([127, 0, 0, 1], 1).into())));
        for wrong in [
            "6379",
            "",
            "127.0.0.1",
            "127.0.0.1:99999",
            "tls:unix:/a",
            "unix:",
            "unix:999:/a",
            "unix:1777:/a",
        ] {
            assert!(wrong.parse::<Endpoint>().unwrap_err().contains("ADDR:PORT"), "{wrong:?}");
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        let is_local = |text: &str| text.parse::<Endpoint>().unwrap().is_local();
        assert!(is_local("127.9.9.9:1") && is_local("[::1]:1") && is_local("unix:/a"));
        assert!(is_local("[::ffff:127.0.0.1]:1"), "as a listener for both families sees the loopback");
        assert!(!is_local("0.0.0.0:1") && !is_local("tls:[::]:1") && !is_local("10.0.0.1:1"));
    }
}
