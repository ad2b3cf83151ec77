//! Events that no command makes, for `watch`: records evicted, connections that come and go.

use std::io::Write as _;

use super::DATABASE;
use super::state::State;
use super::watch::{CONNECTIONS, EVICTIONS, key_of};
use crate::accesses::Access;
use crate::endpoint::Address;
use crate::registry::{Entry, Kind};
use crate::shared::Shared;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// One side closed it.
    Normal,
    /// It failed, or went over a limit.
    Error,
    /// It was silent for too long.
    Idle,
    /// The server stops.
    Shutdown,
}

impl State {
    /// A record was evicted. What it was is gone by now: its time and size are not told.
    pub(crate) fn evicted(&self, db: u8, key: &[u8], shared: &Shared) {
        let mut events = self.watchers.events();
        if db != DATABASE || !events.wants(EVICTIONS) {
            return;
        }
        let access = shared.counters.accesses.get().map(|table| table.of(DATABASE, key, shared.now_ms()));
        events.line(EVICTIONS, "eviction", shared, |out| eviction(key, access, out));
        events.finish(shared);
    }

    /// A connection has come.
    pub(crate) fn came(&self, entry: &Entry, shared: &Shared) {
        self.connection(entry, "conn_new", None, shared);
    }

    /// A connection has gone.
    pub(crate) fn went(&self, entry: &Entry, why: Ended, shared: &Shared) {
        self.connection(entry, "conn_close", Some(why), shared);
    }

    fn connection(&self, entry: &Entry, name: &str, why: Option<Ended>, shared: &Shared) {
        let mut events = self.watchers.events();
        if entry.kind != Kind::Memcached || !events.wants(CONNECTIONS) {
            return;
        }
        events.line(CONNECTIONS, name, shared, |out| peer(&entry.peer.remote, why, entry.id(), out));
        events.finish(shared);
    }
}

// Writing to a Vec can't fail.

fn eviction(key: &[u8], access: Option<Access>, out: &mut Vec<u8>) {
    let (fetched, idle) = access.map_or((false, 0), |access| (access.fetched, access.idle));
    let fetched = if fetched { "yes" } else { "no" };
    key_of(key, out);
    let _ = writeln!(out, " fetch={fetched} ttl=-1 la={idle} clsid=1 size=0");
}

fn peer(address: &Address, why: Option<Ended>, id: u64, out: &mut Vec<u8>) {
    let _ = match address {
        Address::Ip(address) => write!(out, " rip={} rport={} transport=tcp", address.ip(), address.port()),
        Address::Unix(_) => write!(out, " rip=unix rport=0 transport=local"),
    };
    if let Some(why) = why {
        let why = match why {
            Ended::Normal => "normal",
            Ended::Error => "error",
            Ended::Idle => "idle_timeout",
            Ended::Shutdown => "shutdown",
        };
        let _ = write!(out, " reason={why}");
    }
    let _ = writeln!(out, " cfd={id}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_as_memcacheds() {
        let access = Some(Access { fetched: true, idle: 7 });
        let line = text(|out| eviction(b"a b", access, out));
        assert_eq!(line, " key=a%20b fetch=yes ttl=-1 la=7 clsid=1 size=0\n");
        assert!(text(|out| eviction(b"k", None, out)).starts_with(" key=k fetch=no "));
        let address = Address::Ip("[::1]:5".parse().unwrap());
        assert_eq!(text(|out| peer(&address, None, 9, out)), " rip=::1 rport=5 transport=tcp cfd=9\n");
        let address = Address::Unix("/s".into());
        let line = text(|out| peer(&address, Some(Ended::Idle), 9, out));
        assert_eq!(line, " rip=unix rport=0 transport=local reason=idle_timeout cfd=9\n");
    }
}
