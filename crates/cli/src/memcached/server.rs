//! The server behind `memcached`: where it listens, and what its protocol allows.

use std::net::SocketAddr;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGUSR1};
use terrace::OpenStore;
use terrace_index::allocator::give_back;
use terrace_server::{ClientAuth, Endpoint, MoreRoomBy, OnStop, ServerOptions, StopKind, TlsOptions};

use super::listen;
use super::options::CommandLine;
use crate::serve::MemcachedAccess;

/// What the buffers of all clients may hold where nobody says: enough for items on their way in, and a small part of a large cache.
fn clients_bytes_default(dram: u64) -> u64 {
    (dram / 20).max((dram / 2).clamp(256 << 20, 1 << 30))
}

/// Where nobody says where to listen: unlike memcached, on the loopback alone.
const HOST_DEFAULT: &str = "127.0.0.1";

/// What a client's `shutdown` does: what its signal does.
fn on_stop() -> OnStop {
    OnStop::new(|kind| {
        let signal = match kind {
            StopKind::Graceful => SIGUSR1,
            _ => SIGINT,
        };
        if let Err(error) = signal_hook::low_level::raise(signal) {
            tracing::error!(%error, "a client's shutdown could not be carried out");
        }
    })
}

/// What to listen on.
///
/// # Errors
/// If a name has no address.
pub fn endpoints(line: &CommandLine) -> anyhow::Result<Vec<Endpoint>> {
    if let Some(path) = &line.socket {
        return Ok(vec![Endpoint::Unix { path: path.clone(), mode: line.socket_mode }]);
    }
    let loopback = [listen::Wanted { host: HOST_DEFAULT.into(), port: None, notls: false }];
    let wanted = if line.listen.is_empty() { &loopback[..] } else { &line.listen };
    let mut all = Vec::new();
    for one in wanted {
        let port = u16::try_from(line.port).unwrap_or(0);
        let tls = line.tls && !one.notls;
        let endpoint =
            |address: SocketAddr| if tls { Endpoint::Tls(address) } else { Endpoint::Tcp(address) };
        for endpoint in one.resolve(port)?.into_iter().map(endpoint) {
            // Names may share an address, and lists name one twice.
            if !all.contains(&endpoint) {
                all.push(endpoint);
            }
        }
    }
    Ok(all)
}

/// The server's options, but for what the store tells.
pub fn options(line: &CommandLine, access: &MemcachedAccess) -> ServerOptions {
    let extended = &line.extended;
    let dram = line.megabytes << 20;
    let clients_bytes = match extended.read_buf_mem_limit {
        0 => clients_bytes_default(dram),
        megabytes => megabytes << 20,
    };
    let tls = extended.ssl_chain_cert.as_ref().filter(|_| line.tls).map(|cert_file| TlsOptions {
        cert_file: cert_file.clone(),
        key_file: extended.ssl_key.clone(),
        ca_file: extended.ssl_ca_cert.clone(),
        client_auth: extended.ssl_verify_mode.unwrap_or(ClientAuth::No),
        only_tls13: extended.only_tls13,
    });
    let default = ServerOptions::default();
    ServerOptions {
        backlog: line.backlog,
        tls,
        // Who gives an address of a network means its clients: memcached has nothing else to offer.
        protected_mode: false,
        threads: line.threads,
        max_connections: line.connections as usize,
        memcached_value_bytes_max: line.item_bytes,
        memcached_counts_items: true,
        memcached_users: access.users(),
        memcached_protocols: line.protocols,
        memcached_memory_file: line.memory_file.clone(),
        memcached_flush: !line.no_flush,
        memcached_dump: !line.no_dump,
        memcached_watch: !line.no_watch,
        memcached_prefix_delimiter: line.delimiter.unwrap_or(default.memcached_prefix_delimiter),
        memcached_detail: line.delimiter.is_some(),
        shutdown_command: line.shutdown,
        on_stop: line.shutdown.then(on_stop),
        clients_bytes_max: usize::try_from(clients_bytes).unwrap_or(usize::MAX),
        idle_timeout: Duration::from_secs(extended.idle_timeout),
        connection_operations: line.requests.unwrap_or(default.connection_operations),
        dram_budget_bytes: dram,
        give_back: Some(give_back),
        evicts: !line.refuse,
        more_room: Some(MoreRoomBy {
            dram: "raise -m".into(),
            below: match extended.ext_path {
                Some(_) => "raise the size behind the path of -o ext_path",
                // It is kept, and with it the size that it was made with.
                None => "raise -m and begin with another file of -e, as this cache keeps its size",
            }
            .into(),
        }),
        ..default
    }
}

/// The options of a server on a store.
pub fn on(options: ServerOptions, store: &OpenStore) -> ServerOptions {
    ServerOptions { durability: "none".into(), description: store.description.clone(), ..options }
}
