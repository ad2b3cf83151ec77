//! Where to listen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;

/// An address to listen on, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Don't.
    Off,
    /// Here; port 0 takes a free one.
    At(SocketAddr),
}

impl Listen {
    /// A port of the loopback.
    pub fn loopback(port: u16) -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }
    /// The address, if there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
    /// Whether one could listen here now.
    ///
    /// # Errors
    /// If not; the text names the address.
    pub fn probe(self) -> io::Result<()> {
        let Self::At(address) = self else { return Ok(()) };
        match TcpListener::bind(address) {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), format!("listening on {address}: {error}"))),
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
            .map_err(|_| format!("{text:?}: expected ADDR:PORT such as 127.0.0.1:6379, or off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = Listen::At(address).probe().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()));
        Listen::Off.probe().unwrap();
        Listen::loopback(0).probe().unwrap();
    }

    #[test]
    fn addresses_and_off() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("127.0.0.1:6379".parse(), Ok(Listen::loopback(6379)));
        assert_eq!("localhost:1".parse(), Ok(Listen::loopback(1)));
        assert!("[::1]:6379".parse::<Listen>().unwrap().address().is_some());
        for wrong in ["6379", "", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(wrong.parse::<Listen>().unwrap_err().contains("ADDR:PORT"), "{wrong:?}");
        }
    }
}
