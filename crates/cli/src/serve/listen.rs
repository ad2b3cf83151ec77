//! Where to listen.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;

use terrace_server::Endpoint;

/// An address to listen on, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Don't.
    Off,
    /// Here; port 0 takes a free one.
    At(SocketAddr),
}

impl Listen {
    /// The address, if there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse()
            .map(Self::At)
            .map_err(|_| format!("{text:?}: expected ADDR:PORT such as 127.0.0.1:9100, or off"))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}

/// What a protocol is spoken on: nothing, or a list with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners(pub Vec<Endpoint>);

impl Listeners {
    /// A port of the loopback.
    pub fn loopback(port: u16) -> Self {
        Self(vec![Endpoint::Tcp((Ipv4Addr::LOCALHOST, port).into())])
    }
}

impl FromStr for Listeners {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::default()),
            text => text
                .split(',')
                .map(|part| part.trim().parse())
                .collect::<Result<_, String>>()
                .map(Self)
                .map_err(|why| format!("{why}, several with commas between them, or off")),
        }
    }
}

impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("off"),
            [first, rest @ ..] => {
                write!(f, "{first}")?;
                rest.iter().try_for_each(|endpoint| write!(f, ",{endpoint}"))
            }
        }
    }
}

/// Whether one could listen on a port now.
///
/// # Errors
/// If not; the text names the address.
pub fn probe(address: SocketAddr) -> io::Result<()> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("listening on {address}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = probe(address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()));
        probe("127.0.0.1:0".parse().unwrap()).unwrap();
    }

    #[test]
    fn addresses_and_off() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("localhost:1".parse(), Ok(Listen::At("127.0.0.1:1".parse().unwrap())));
        assert_eq!("127.0.0.1:6379".parse(), Ok(Listeners::loopback(6379)));
        assert_eq!("off".parse(), Ok(Listeners::default()));
        let list = "127.0.0.1:1,tls:[::1]:2,unix:770:/run/s";
        assert_eq!(list.parse::<Listeners>().unwrap().to_string(), list);
        for wrong in ["6379", "", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:1,", "127.0.0.1:1,off"] {
            assert!(wrong.parse::<Listeners>().unwrap_err().contains("ADDR:PORT"), "{wrong:?}");
            assert!(wrong.parse::<Listen>().unwrap_err().contains("ADDR:PORT"), "{wrong:?}");
        }
    }
}
