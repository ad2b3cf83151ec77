//! Who is let in, and what the others are told.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::net::sockopt;

use crate::endpoint::{Address, Endpoint};
use crate::protocol::{Peer, Protocol};
use crate::shared::Shared;
use crate::tls::ClientAuth;
use crate::{memcached, resp};

/// A protocol that a listener speaks.
pub(crate) struct Speaks {
    /// Makes a new connection's protocol.
    pub connect: fn(Peer) -> Box<dyn Protocol>,
    /// What a client is told when there are too many.
    pub full: &'static str,
    /// What a client is told that the protected mode keeps out.
    pub denied: &'static str,
    /// Whether clients must log in.
    login: fn(&Shared) -> bool,
}

/// Redis's protocol; the texts are its own.
pub(crate) static REDIS: Speaks = Speaks {
    connect: resp::connect,
    full: "-ERR max number of clients reached\r\n",
    denied: "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the \
             default user. In this mode connections are only accepted from the loopback interface. If you want to connect \
             from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode \
             sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the \
             same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. \
             Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by \
             editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the \
             server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' \
             option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one of the above \
             things in order for the server to start accepting connections from the outside.\r\n",
    login: |shared| !shared.redis.acl.is_open(),
};

/// memcached's text protocol.
pub(crate) static MEMCACHED: Speaks = Speaks {
    connect: memcached::connect,
    full: "ERROR Too many open connections\r\n",
    denied: "SERVER_ERROR protected mode: only clients of this machine are let in; set up users, ask clients for \
             certificates, or start the server with --protected-mode no\r\n",
    login: |shared| shared.options.memcached_users.is_some(),
};

/// Whether the protected mode keeps this client out: it comes from elsewhere, and nothing would ask who it is.
pub(super) fn is_denied(shared: &Shared, speaks: &Speaks, at: &Endpoint, remote: &Address) -> bool {
    let shows_certificate = || {
        matches!(at, Endpoint::Tls(_))
            && shared.tls.as_ref().is_some_and(|tls| tls.options().client_auth == ClientAuth::Yes)
    };
    shared.limits.protected_mode.get().is_some()
        && !remote.is_local()
        && !(speaks.login)(shared)
        && !shows_certificate()
}

/// Makes the kernel ask whether a silent peer is still there, three times, as Redis does.
pub(super) fn keep_alive(stream: &TcpStream, seconds: u64) -> io::Result<()> {
    // The kernel's own bound.
    let seconds = seconds.min(32_767);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(seconds))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs((seconds / 3).max(1)))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServerOptions;

    fn shared(options: ServerOptions) -> Shared {
        let store =
            terrace::Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Default::default() };
        Shared::alone(terrace::open(store).unwrap(), options).unwrap()
    }

    #[test]
    fn the_protected_mode_keeps_out_who_need_not_say_who_they_are() {
        let at: Endpoint = "0.0.0.0:1".parse().unwrap();
        let away: Address = Address::Ip("10.1.1.1:5".parse().unwrap());
        let here: Address = Address::Ip("127.0.0.1:5".parse().unwrap());
        let open = shared(ServerOptions::default());
        assert!(is_denied(&open, &REDIS, &at, &away) && is_denied(&open, &MEMCACHED, &at, &away));
        assert!(!is_denied(&open, &REDIS, &at, &here));
        assert!(!is_denied(&open, &REDIS, &at, &Address::Unix("/s".into())));
        open.redis.acl.require(b"secret");
        assert!(!is_denied(&open, &REDIS, &at, &away) && is_denied(&open, &MEMCACHED, &at, &away));
        open.limits.protected_mode.set(0);
        assert!(!is_denied(&open, &MEMCACHED, &at, &away));
        let users = Some(crate::MemcachedUsers::parse(b"u:p\n").unwrap());
        let closed = shared(ServerOptions { memcached_users: users, ..ServerOptions::default() });
        assert!(!is_denied(&closed, &MEMCACHED, &at, &away) && is_denied(&closed, &REDIS, &at, &away));
    }
}
