//! `stats`.

mod classes;
mod general;
mod settings;
mod totals;

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::memcached::{Words, reply};

use super::admin;
use super::plan::Planned;
use crate::endpoint::{Address, Endpoint};
use crate::protocol::Context;
use crate::registry::Kind;
pub(super) use totals::Totals;

/// What `stats` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Extstore,
    Conns,
    Detail,
    Reset,
}

const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
/// `stats detail` is switched off, as all listing of keys.
const NO_DETAIL: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";

/// By the words after `stats`; words beyond those that mean something don't matter.
pub(super) fn plan(mut args: Words<'_>, ctx: &Context<'_>) -> Planned {
    let text = |reply| Planned::Text { reply, noreply: false };
    let state = &ctx.shared.counters.memcached;
    Planned::Stats(match args.next() {
        None => Report::General,
        Some(b"settings") => Report::Settings,
        Some(b"items") => Report::Items,
        Some(b"slabs") => Report::Slabs,
        Some(b"sizes") => Report::Sizes,
        Some(b"extstore") => Report::Extstore,
        Some(b"conns") => Report::Conns,
        Some(b"reset") => Report::Reset,
        Some(b"cachedump") => return admin::cachedump(args, ctx),
        Some(b"detail") if !ctx.shared.options.memcached_dump => return text(NO_DETAIL),
        Some(b"detail") => match args.next() {
            Some(b"on") => {
                state.set_detail(true);
                return text(reply::OK);
            }
            Some(b"off") => {
                state.set_detail(false);
                return text(reply::OK);
            }
            Some(b"dump") => Report::Detail,
            _ => return text(DETAIL_USAGE),
        },
        Some(_) => return text(reply::ERROR),
    })
}

/// Appends a report to the connection with this id.
pub(super) fn write(report: Report, by: u64, ctx: &Context<'_>, out: &mut Vec<u8>) {
    let state = &ctx.shared.counters.memcached;
    match report {
        Report::General => general::write(ctx, out),
        Report::Settings => settings::write(ctx, out),
        Report::Items => classes::items(ctx, out),
        Report::Slabs => classes::slabs(ctx, out),
        Report::Extstore => {}
        Report::Sizes => reply::stat(out, "sizes_status", "disabled"),
        Report::Conns => conns(by, ctx, out),
        Report::Detail => state.prefixes.dump(out),
        Report::Reset => {
            state.reset(Totals::since_the_start(&ctx.shared.store.stats(), ctx));
            return out.extend_from_slice(reply::RESET);
        }
    }
    out.extend_from_slice(reply::END);
}

/// memcached's sockets: those that listen, whose numbers begin with a 0, and connections by their ids, which `watch` tells too.
fn conns(by: u64, ctx: &Context<'_>, out: &mut Vec<u8>) {
    let uptime = ctx.shared.started.elapsed().as_secs();
    for (i, endpoint) in ctx.shared.options.memcached.iter().enumerate() {
        let address = match endpoint {
            Endpoint::Unix { path, .. } => format!("unix:{}", path.display()),
            Endpoint::Tcp(address) | Endpoint::Tls(address) => format!("tcp:{address}"),
        };
        reply::stat(out, format_args!("0{i}:addr"), address);
        reply::stat(out, format_args!("0{i}:state"), "conn_listening");
        reply::stat(out, format_args!("0{i}:secs_since_last_cmd"), uptime);
    }
    for entry in ctx.shared.connections.all().iter().filter(|entry| entry.kind == Kind::Memcached) {
        let id = entry.id();
        let idle_ms = ctx.now_ms.saturating_sub(entry.last_ms.load(Relaxed));
        reply::stat(out, format_args!("{id}:addr"), told(&entry.peer.remote));
        reply::stat(out, format_args!("{id}:listen_addr"), told(&entry.peer.local));
        let state = match () {
            () if id == by => "conn_parse_cmd",
            // The rest of a command is to come.
            () if entry.input_bytes.load(Relaxed) > 0 => "conn_nread",
            () => "conn_read",
        };
        reply::stat(out, format_args!("{id}:state"), state);
        reply::stat(out, format_args!("{id}:secs_since_last_cmd"), idle_ms / 1000);
    }
}

/// An address as memcached tells it.
fn told(address: &Address) -> String {
    match address {
        Address::Ip(address) => format!("tcp:{address}"),
        Address::Unix(path) => format!("unix:{path}"),
    }
}
