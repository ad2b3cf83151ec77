//! `stats settings`.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::memcached::reply;

use crate::endpoint::{Endpoint, UNIX_MODE_DEFAULT};
use crate::memcached::watch::WAITING_BYTES_MAX;
use crate::memcached::{MemcachedProtocols, limits};
use crate::protocol::Context;
use crate::tls::{ClientAuth, TlsOptions};

/// What exporters read, of things that are not here.
const ABSENT: [(&str, &str); 17] = [
    ("num_threads_per_udp", "0"),
    ("hashpower_init", "0"),
    ("slab_automove_ratio", "0.00"),
    ("slab_automove_window", "0"),
    ("slab_automove_freeratio", "0.000"),
    ("tail_repair_time", "0"),
    ("lru_crawler_sleep", "0"),
    ("lru_crawler_tocrawl", "0"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("hot_lru_pct", "0"),
    ("warm_lru_pct", "0"),
    ("hot_max_factor", "0.00"),
    ("warm_max_factor", "0.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "0"),
    ("inline_ascii_response", "no"),
];

/// Appends it: the settings that mean something here, under memcached's names.
pub(super) fn write(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let options = &ctx.shared.options;
    let state = &ctx.shared.counters.memcached;
    let yes = |yes| if yes { "yes" } else { "no" };
    reply::stat(out, "maxbytes", ctx.shared.dram_budget());
    reply::stat(out, "maxconns", options.max_connections);
    if let Some(address) = options.memcached.iter().find_map(|endpoint| endpoint.address()) {
        reply::stat(out, "tcpport", address.port());
        reply::stat(out, "inter", address.ip());
    }
    reply::stat(out, "udpport", 0);
    unix_socket(&options.memcached, out);
    reply::stat(out, "reqs_per_event", options.connection_operations);
    reply::stat(out, "watcher_logbuf_size", WAITING_BYTES_MAX);
    reply::stat(out, "read_buf_mem_limit", ctx.shared.limits.clients_bytes.get().unwrap_or(0));
    reply::stat(out, "verbosity", state.verbosity.load(Relaxed));
    reply::stat(out, "evictions", if options.evicts { "on" } else { "off" });
    reply::stat(out, "shutdown_command", yes(options.shutdown_command && options.on_stop.is_some()));
    reply::stat(out, "num_threads", options.threads.max(1));
    reply::stat(out, "stat_key_prefix", char::from(options.memcached_prefix_delimiter));
    reply::stat(out, "detail_enabled", yes(state.detail(options.memcached_detail)));
    reply::stat(out, "cas_enabled", "yes");
    let protocols = match options.memcached_protocols {
        MemcachedProtocols::Both => "auto-negotiate",
        MemcachedProtocols::Text => "ascii",
        MemcachedProtocols::Binary => "binary",
    };
    reply::stat(out, "binding_protocol", protocols);
    reply::stat(out, "auth_enabled_sasl", "no");
    reply::stat(out, "auth_enabled_ascii", yes(options.memcached_users.is_some()));
    reply::stat(out, "item_size_max", limits(ctx).value_bytes_max);
    reply::stat(out, "maxconns_fast", "yes");
    reply::stat(out, "slab_reassign", "no");
    reply::stat(out, "slab_automove", 0);
    reply::stat(out, "lru_crawler", yes(!state.crawler_disabled.load(Relaxed)));
    reply::stat(out, "flush_enabled", yes(options.memcached_flush));
    reply::stat(out, "dump_enabled", yes(options.memcached_dump));
    reply::stat(out, "track_sizes", "no");
    reply::stat(out, "tcp_backlog", options.backlog);
    reply::stat(out, "idle_timeout", options.idle_timeout.as_secs());
    match &options.memcached_memory_file {
        Some(file) => reply::stat(out, "memory_file", file.display()),
        None => reply::stat(out, "memory_file", "(null)"),
    }
    reply::stat(out, "client_flags_size", size_of::<u32>());
    for (name, value) in ABSENT {
        reply::stat(out, name, value);
    }
    reply::stat(out, "ssl_enabled", yes(options.tls.is_some()));
    if let Some(tls) = &ctx.shared.tls {
        certificates(&tls.options(), out);
    }
}

/// The Unix socket, if there is one, and its permissions: memcached's default where there is none.
fn unix_socket(endpoints: &[Endpoint], out: &mut Vec<u8>) {
    let socket = endpoints.iter().find_map(|endpoint| match endpoint {
        Endpoint::Unix { path, mode } => Some((path, mode)),
        _ => None,
    });
    match socket {
        Some((path, _)) => reply::stat(out, "domain_socket", path.display()),
        None => reply::stat(out, "domain_socket", "NULL"),
    }
    let mode = socket.map_or(UNIX_MODE_DEFAULT, |(_, mode)| *mode);
    reply::stat(out, "umask", format_args!("{mode:o}"));
}

/// TLS, as it is now: the files may be others than at the start.
fn certificates(tls: &TlsOptions, out: &mut Vec<u8>) {
    let key = tls.key_file.as_ref().unwrap_or(&tls.cert_file);
    reply::stat(out, "ssl_chain_cert", tls.cert_file.display());
    reply::stat(out, "ssl_key", key.display());
    let mode = match tls.client_auth {
        ClientAuth::No => 0,
        ClientAuth::Optional => 1,
        ClientAuth::Yes => 2,
    };
    reply::stat(out, "ssl_verify_mode", mode);
    match &tls.ca_file {
        Some(file) => reply::stat(out, "ssl_ca_cert", file.display()),
        None => reply::stat(out, "ssl_ca_cert", "NULL"),
    }
    // PEM, as memcached numbers it.
    reply::stat(out, "ssl_keyformat", 1);
    reply::stat(out, "ssl_kernel_tls", "no");
    reply::stat(out, "ssl_min_version", if tls.only_tls13 { "tlsv1.3" } else { "tlsv1.2" });
}
