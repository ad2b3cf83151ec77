//! `stats`.

use std::sync::atomic::AtomicU64;

use terrace_protocol::memcached::{Words, reply};

use super::answer::VERSION;
use super::state::COUNTS;
use super::{DATABASE, limits};
use crate::protocol::Context;
use crate::shared::Counters;

/// What `stats` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Reset,
    Refused(&'static [u8]),
}

impl Report {
    /// By the words after `stats`; words beyond the first don't matter.
    pub(super) fn named(mut args: Words<'_>) -> Self {
        match args.next() {
            None => Self::General,
            Some(b"settings") => Self::Settings,
            Some(b"items") => Self::Items,
            Some(b"slabs") => Self::Slabs,
            Some(b"sizes") => Self::Sizes,
            Some(b"reset") => Self::Reset,
            Some(b"cachedump") => Self::Refused(b"CLIENT_ERROR stats cachedump not allowed\r\n"),
            Some(_) => Self::Refused(reply::ERROR),
        }
    }
}

/// Appends a report. `items` and `slabs` are empty but for what has a meaning here: there are no slab classes.
pub(super) fn write(report: Report, ctx: &Context<'_>, out: &mut Vec<u8>) {
    match report {
        Report::General => general(ctx, out),
        Report::Settings => settings(ctx, out),
        Report::Items => {}
        Report::Slabs => slabs(ctx, out),
        Report::Sizes => reply::stat(out, "sizes_status", "disabled"),
        Report::Reset => {
            ctx.shared.counters.memcached.reset();
            return out.extend_from_slice(reply::RESET);
        }
        Report::Refused(text) => return out.extend_from_slice(text),
    }
    out.extend_from_slice(reply::END);
}

fn general(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let shared = ctx.shared;
    let counters = &shared.counters;
    let store = shared.store.stats();
    let read = |counter: &AtomicU64| Counters::read(counter);
    reply::stat(out, "pid", std::process::id());
    reply::stat(out, "uptime", shared.started.elapsed().as_secs());
    reply::stat(out, "time", ctx.now_ms / 1000);
    reply::stat(out, "version", VERSION);
    reply::stat(out, "pointer_size", usize::BITS);
    reply::stat(out, "max_connections", shared.options.max_connections);
    reply::stat(out, "curr_connections", read(&counters.connected));
    reply::stat(out, "total_connections", read(&counters.accepted));
    reply::stat(out, "rejected_connections", read(&counters.rejected));
    for (count, name) in COUNTS {
        reply::stat(out, name, counters.memcached.read(count));
    }
    reply::stat(out, "bytes_read", read(&counters.bytes_in));
    reply::stat(out, "bytes_written", read(&counters.bytes_out));
    reply::stat(out, "limit_maxbytes", shared.dram_budget());
    reply::stat(out, "threads", shared.options.threads.max(1));
    reply::stat(out, "bytes", store.tiers.iter().map(|tier| tier.live_bytes).sum::<u64>());
    reply::stat(out, "curr_items", shared.store.len(DATABASE));
    reply::stat(out, "evictions", store.evicted);
    reply::stat(out, "expired", store.expired);
    reply::stat(out, "engine", store.engine);
    reply::stat(out, "index", store.index);
    reply::stat(out, "index_bytes", store.index_bytes);
    for tier in &store.tiers {
        let name = tier.tier;
        reply::stat(out, format_args!("tier_{name}_records"), tier.records);
        reply::stat(out, format_args!("tier_{name}_live_bytes"), tier.live_bytes);
        reply::stat(out, format_args!("tier_{name}_used_bytes"), tier.used_bytes);
        reply::stat(out, format_args!("tier_{name}_capacity_bytes"), tier.capacity_bytes);
        reply::stat(out, format_args!("tier_{name}_hits"), tier.hits);
    }
    for (name, failure) in [("log", &store.log_failure), ("tier", &store.tier_failure)] {
        if let Some(failure) = failure {
            reply::stat(out, format_args!("{name}_failure"), &failure.what);
            reply::stat(out, format_args!("{name}_failed_since"), failure.since_ms / 1000);
        }
    }
}

fn settings(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let options = &ctx.shared.options;
    reply::stat(out, "maxbytes", ctx.shared.dram_budget());
    reply::stat(out, "maxconns", options.max_connections);
    if let Some(address) = options.memcached.iter().find_map(|endpoint| endpoint.address()) {
        reply::stat(out, "tcpport", address.port());
        reply::stat(out, "inter", address.ip());
    }
    reply::stat(out, "udpport", 0);
    reply::stat(out, "evictions", if options.evicts { "on" } else { "off" });
    reply::stat(out, "num_threads", options.threads.max(1));
    reply::stat(out, "cas_enabled", "yes");
    reply::stat(out, "item_size_max", limits(ctx).value_bytes_max);
    reply::stat(out, "binding_protocol", "ascii");
    reply::stat(out, "flush_enabled", "yes");
    reply::stat(out, "dump_enabled", "no");
    reply::stat(out, "shutdown_command", "no");
}

fn slabs(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let store = ctx.shared.store.stats();
    reply::stat(out, "active_slabs", 0);
    reply::stat(out, "total_malloced", store.tiers.iter().map(|tier| tier.used_bytes).sum::<u64>());
}
