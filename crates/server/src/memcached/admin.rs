//! Commands that steer the server. The texts are memcached's.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::memcached::{Classes, Crawl, Shutdown, Watch, reply};

use super::dump::{Dump, Format};
use super::plan::Planned;
use crate::protocol::Context;
use crate::stop::StopKind;

/// `flush_all` is switched off.
pub(super) const NO_FLUSH: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// `watch` is switched off.
const NO_WATCH: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// `watch` behind other commands.
const PIPELINED_WATCH: &[u8] = b"ERROR cannot pipeline other commands before watch\r\n";
/// Too many watch.
pub(super) const MANY_WATCHERS: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";
/// There is no certificate to read anew.
const NO_TLS: &[u8] = b"Error TLS not enabled\r\n";
/// It can't be used; the log says why.
const BAD_CERTIFICATE: &[u8] =
    b"Error loading the certificate files: those in use stay; the log says why\r\n";
const NO_CRAWLER: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
const CRAWLER_RUNS: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
const NO_CLASS: &[u8] = b"NOTSTARTED no items to crawl\r\n";
const CRAWL_BY_HASH: &[u8] = b"ERROR an unknown error happened\r\n";
const NO_METADUMP: &[u8] = b"ERROR metadump not allowed\r\n";
const NO_MGDUMP: &[u8] = b"ERROR key dump not allowed\r\n";
const NO_CACHEDUMP: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
const BAD_SHUTDOWN: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
const BAD_STATS: &[u8] = b"CLIENT_ERROR bad command line\r\n";
const ILLEGAL_CLASS: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";

/// memcached's slab classes are below this.
const CLASSES_END: u64 = 64;

/// The most that `verbosity` is.
const VERBOSITY_MAX: u64 = 2;

/// `watch`; `None` names what can't be watched. `pipelined`: answers to other commands wait to be sent.
pub(super) fn watch(watch: Option<Watch>, pipelined: bool, ctx: &Context<'_>) -> Planned {
    text(match watch {
        _ if !ctx.shared.options.memcached_watch => NO_WATCH,
        _ if pipelined => PIPELINED_WATCH,
        Some(watch) => return Planned::Watch(watch),
        None => reply::ERROR,
    })
}

fn text(reply: &'static [u8]) -> Planned {
    Planned::Text { reply, noreply: false }
}

/// `lru_crawler`: expired records are found without its help, so crawling has nothing to do.
pub(super) fn lru_crawler(crawl: Crawl<'_>, ctx: &Context<'_>) -> Planned {
    let disabled = &ctx.shared.counters.memcached.crawler_disabled;
    let (classes, dump) = match crawl {
        Crawl::Enable => return text(if disabled.swap(false, Relaxed) { reply::OK } else { CRAWLER_RUNS }),
        Crawl::Disable => {
            disabled.store(true, Relaxed);
            return text(reply::OK);
        }
        Crawl::Crawl(classes) => (classes, None),
        Crawl::Metadump(classes) => (classes, Some(Format::Metadump)),
        Crawl::Mgdump(classes) => (classes, Some(Format::Mgdump)),
    };
    if disabled.load(Relaxed) {
        return text(NO_CRAWLER);
    }
    if let Some(format) = dump
        && !ctx.shared.options.memcached_dump
    {
        return text(if format == Format::Mgdump { NO_MGDUMP } else { NO_METADUMP });
    }
    match (Classes::named(classes), dump) {
        (Classes::Wrong, _) => text(BAD_CLASS),
        (Classes::Nothing, _) => text(NO_CLASS),
        (Classes::Hash, None) => text(CRAWL_BY_HASH),
        (_, None) => text(reply::OK),
        // All records are in class 1.
        (Classes::Listed { first: false }, Some(format)) => text(format.nothing()),
        (_, Some(format)) => Planned::Dump(Dump::new(format)),
    }
}

/// `stats cachedump CLASS LIMIT`.
pub(super) fn cachedump<'a>(mut args: impl Iterator<Item = &'a [u8]>, ctx: &Context<'_>) -> Planned {
    use terrace_protocol::memcached::unsigned;
    if !ctx.shared.options.memcached_dump {
        return text(NO_CACHEDUMP);
    }
    let (Some(class), Some(limit)) = (args.next(), args.next()) else { return text(BAD_STATS) };
    let (Some(class), Some(limit)) = (unsigned(class), unsigned(limit)) else { return text(reply::BAD_LINE) };
    match class {
        CLASSES_END.. => text(ILLEGAL_CLASS),
        1 => Planned::Dump(Dump::new(Format::Cachedump { limit })),
        _ => text(reply::END),
    }
}

/// `verbosity`: it is kept and told, but the log's level is the operator's.
pub(super) fn verbosity(level: u64, ctx: &Context<'_>) {
    ctx.shared.counters.memcached.verbosity.store(level.min(VERBOSITY_MAX), Relaxed);
}

/// `refresh_certs`.
pub(super) fn refresh_certs(ctx: &Context<'_>) -> &'static [u8] {
    if ctx.shared.options.tls.is_none() {
        return NO_TLS;
    }
    match ctx.shared.reload_tls() {
        Ok(()) => reply::OK,
        Err(error) => {
            tracing::warn!(%error, "refresh_certs");
            BAD_CERTIFICATE
        }
    }
}

/// `shutdown`; `None` if it is under way: then the connection ends without an answer.
pub(super) fn shutdown(how: Shutdown, ctx: &Context<'_>) -> Option<Planned> {
    let options = &ctx.shared.options;
    let kind = match (&options.on_stop, how) {
        (None, _) => return Some(text(reply::NO_SHUTDOWN)),
        _ if !options.shutdown_command => return Some(text(reply::NO_SHUTDOWN)),
        (_, Shutdown::Unknown) => return Some(text(BAD_SHUTDOWN)),
        (_, Shutdown::Now) => StopKind::Now,
        (_, Shutdown::Graceful) => StopKind::Graceful,
    };
    tracing::info!(?kind, "a client shuts the server down");
    if let Some(on_stop) = &options.on_stop {
        on_stop.call(kind);
    }
    None
}

/// Another budget of DRAM. The log says what would be possible.
pub(super) fn cache_memlimit(megabytes: u64, ctx: &Context<'_>) -> &'static [u8] {
    if megabytes < 8 {
        return b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    }
    if megabytes > 1_000_000_000 {
        return b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
    }
    match ctx.shared.resize_dram(megabytes << 20) {
        Ok(()) => reply::OK,
        Err(error) => {
            tracing::warn!(%error, "cache_memlimit");
            b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
        }
    }
}
