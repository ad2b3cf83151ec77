//! `stats settings`.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::memcached::reply;

use crate::memcached::limits;
use crate::protocol::Context;

/// What exporters read, of things that are not here.
const ABSENT: [(&str, &str); 11] = [
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
    reply::stat(out, "verbosity", state.verbosity.load(Relaxed));
    reply::stat(out, "evictions", if options.evicts { "on" } else { "off" });
    reply::stat(out, "shutdown_command", yes(options.shutdown_command && options.on_stop.is_some()));
    reply::stat(out, "num_threads", options.threads.max(1));
    reply::stat(out, "stat_key_prefix", char::from(options.memcached_prefix_delimiter));
    reply::stat(out, "detail_enabled", yes(state.detail(options.memcached_detail)));
    reply::stat(out, "cas_enabled", "yes");
    reply::stat(out, "binding_protocol", "ascii");
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
    for (name, value) in ABSENT {
        reply::stat(out, name, value);
    }
    reply::stat(out, "ssl_enabled", yes(options.tls.is_some()));
}
