//! memcached's `-l`: addresses and names, with or without ports, some perhaps without TLS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The name of all interfaces.
const ALL_INTERFACES: &str = "*";

/// Whether this machine speaks IPv6: a socket that nobody hears tells.
fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The address or name; a star is all interfaces.
    pub host: String,
    /// Its port, if it has one of its own.
    pub port: Option<u16>,
    /// Without TLS, whatever `-Z` says.
    pub notls: bool,
}

/// Reads a list with commas. Each may have memcached's prefixes: `notls:`, and `tag[NAME]:`, which means nothing.
///
/// # Errors
/// If one can't be read; the text says what was expected.
pub fn read(text: &str) -> Result<Vec<Wanted>, String> {
    text.split([',', ' ', ';']).filter(|part| !part.is_empty()).map(one).collect()
}

fn one(text: &str) -> Result<Wanted, String> {
    let expected = || {
        format!(
            "-l {text:?}: expected an address or a name, with :PORT behind it or not, such as 10.0.0.5 or [::1]:11211"
        )
    };
    let (mut notls, mut rest) = (false, text);
    loop {
        let (prefix, behind) = match rest.split_once(':') {
            Some(("notls", behind)) => {
                notls = true;
                rest = behind;
                continue;
            }
            Some(parts) => parts,
            None => break,
        };
        match prefix {
            "btls" | "mtls" => {
                return Err(format!(
                    "-l {text:?}: -o ssl_verify_mode says for all addresses who shows a certificate"
                ));
            }
            _ if prefix.starts_with("proto[") => {
                return Err(format!("-l {text:?}: -B says for all addresses which protocol is spoken"));
            }
            // A name for statistics of the address, of which there are none.
            _ if prefix.starts_with("tag[") || prefix.starts_with("tag_") => rest = behind,
            _ => break,
        }
    }
    let port = |text: &str| text.parse::<u16>().map_err(|_| expected());
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        match rest.split_once(']').ok_or_else(expected)? {
            (host, "") => (host, None),
            (host, behind) => (host, Some(port(behind.strip_prefix(':').ok_or_else(expected)?)?)),
        }
    } else if rest.parse::<Ipv6Addr>().is_ok() {
        (rest, None)
    } else {
        match rest.split_once(':') {
            Some((host, text)) => (host, Some(port(text)?)),
            None => (rest, None),
        }
    };
    if host.is_empty() {
        return Err(expected());
    }
    Ok(Wanted { host: host.to_owned(), port, notls })
}

impl Wanted {
    /// The addresses behind the name, each once. A star has one for each family: sockets of IPv6 take no others.
    ///
    /// # Errors
    /// If there are none.
    pub fn resolve(&self, default_port: u16) -> anyhow::Result<Vec<SocketAddr>> {
        let port = self.port.unwrap_or(default_port);
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        if self.host == ALL_INTERFACES {
            let mut all = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))];
            if has_ipv6() {
                all.push((Ipv6Addr::UNSPECIFIED, port).into());
            }
            return Ok(all);
        }
        let mut all: Vec<SocketAddr> = (self.host.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| anyhow::anyhow!("-l {}: {error}", self.host))?
            .collect();
        all.sort();
        all.dedup();
        anyhow::ensure!(!all.is_empty(), "-l {}: the name has no address", self.host);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_ports() {
        let shown = |text: &str| match read(text) {
            Ok(all) => {
                let one = |wanted: &Wanted| {
                    let tls = if wanted.notls { "notls " } else { "" };
                    format!("{tls}{} {:?}", wanted.host, wanted.port)
                };
                all.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            Err(_) => "refused".to_owned(),
        };
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1 None"),
            ("10.0.0.1:5,::1", "10.0.0.1 Some(5); ::1 None"),
            ("[::1]:7,[fe80::1],cache.local:8", "::1 Some(7); fe80::1 None; cache.local Some(8)"),
            ("notls:127.0.0.1:6,127.0.0.1", "notls 127.0.0.1 Some(6); 127.0.0.1 None"),
            ("*,*:7", "* None; * Some(7)"),
            ("tag[a]:127.0.0.1:6,tag_b_:notls:[::1]:7", "127.0.0.1 Some(6); notls ::1 Some(7)"),
            ("proto[ascii]:127.0.0.1", "refused"),
            ("mtls:127.0.0.1", "refused"),
            ("a:b", "refused"),
            ("[::1]7", "refused"),
            ("[::1", "refused"),
            (":7", "refused"),
            ("a:99999", "refused"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_star_is_all_interfaces() {
        let all = read("*:7").unwrap()[0].resolve(5).unwrap();
        assert_eq!(all[0], SocketAddr::from(([0, 0, 0, 0], 7)));
        assert!(all.iter().all(|address| address.ip().is_unspecified() && address.port() == 7), "{all:?}");
        assert_eq!(all.len(), if has_ipv6() { 2 } else { 1 });
    }

    #[test]
    fn a_name_becomes_its_addresses() {
        let local = Wanted { host: "localhost".into(), port: None, notls: false };
        let all = local.resolve(7).unwrap();
        assert!(all.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{all:?}");
        let nobody = Wanted { host: "no such name".into(), port: Some(1), notls: false };
        assert!(nobody.resolve(7).unwrap_err().to_string().contains("no such name"));
    }
}
