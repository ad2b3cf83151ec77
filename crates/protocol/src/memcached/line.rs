//! One line to one request header, or to the error that memcached answers. Pure: no state between lines.

use super::command::{Command, StoreVerb};
use super::meta::{Key, Meta, SetMode};
use super::number::{digits, digits32, signed, signed_digits, unsigned};
use super::reply::{BAD_DELTA, BAD_EXPTIME, BAD_LINE, ERROR, META_NOOP};
use super::words::{Args, Words};
use super::{CloseReason, KEY_BYTES_MAX, admin, meta};

/// What a line says.
pub(super) enum Line<'a> {
    /// A request without a data block.
    Command(Command<'a>),
    /// A storage command; its data block follows.
    Store(Header<'a>),
    /// An error to answer (not with noreply), and the bytes of a data block to skip.
    Refused { reply: &'static [u8], noreply: bool, skip: u64 },
    /// Not a client of ours.
    Close(CloseReason),
}

/// A storage command without its data block.
pub(super) struct Header<'a> {
    pub(super) kind: HeaderKind<'a>,
    pub(super) value_bytes: usize,
    pub(super) noreply: bool,
}

/// What is particular to classic and to meta commands.
pub(super) enum HeaderKind<'a> {
    Classic { verb: StoreVerb, key: &'a [u8], flags: u32, exptime: i64 },
    Meta { meta: Meta<'a>, mode: SetMode },
}

impl<'a> Header<'a> {
    /// The key.
    pub(super) fn key(&self) -> Key<'a> {
        match &self.kind {
            HeaderKind::Classic { key, .. } => Key::plain(key),
            HeaderKind::Meta { meta, .. } => meta.key,
        }
    }
    /// Whether the key must not keep its old value if this one is too large: memcached deletes it after `set` and any `ms`.
    pub(super) fn deletes_if_too_large(&self) -> bool {
        matches!(self.kind, HeaderKind::Meta { .. } | HeaderKind::Classic { verb: StoreVerb::Set, .. })
    }
}

/// memcached's bound on lengths: with its line end, a block's length fits 31 bits.
pub(super) const VALUE_BYTES_MAX: i64 = i32::MAX as i64 - 2;

pub(super) fn refused<'a>(reply: &'static [u8]) -> Line<'a> {
    Line::Refused { reply, noreply: false, skip: 0 }
}

/// Shorter ones, their line end included, are no command.
pub(super) const LINE_BYTES_MIN: usize = 4;

/// Reads a line, given without its line end.
///
/// A command that clients send often must stand at the start of its line; one that steers the server may have spaces before it.
pub(super) fn parse(line: &[u8]) -> Line<'_> {
    let verb = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let words = Words::new(&line[verb.len()..]);
    match verb {
        b"get" => get(words, false),
        b"gets" => get(words, true),
        b"gat" => get_and_touch(words, false),
        b"gats" => get_and_touch(words, true),
        b"set" => store(StoreVerb::Set, Args::new(words)),
        b"add" => store(StoreVerb::Add, Args::new(words)),
        b"replace" => store(StoreVerb::Replace, Args::new(words)),
        b"append" => store(StoreVerb::Append, Args::new(words)),
        b"prepend" => store(StoreVerb::Prepend, Args::new(words)),
        b"cas" => store(StoreVerb::Cas(0), Args::new(words)),
        b"incr" => arithmetic(Args::new(words), false),
        b"decr" => arithmetic(Args::new(words), true),
        b"touch" => touch(Args::new(words)),
        b"delete" => delete(Args::new(words)),
        b"version" => Line::Command(Command::Version),
        b"stats" => Line::Command(Command::Stats { args: words }),
        b"watch" => Line::Command(Command::Watch(admin::watch(words))),
        b"quit" => Line::Command(Command::Quit),
        b"mg" => meta::get(words),
        b"ms" => meta::set(words),
        b"md" => meta::delete_or_number(words, false),
        b"ma" => meta::delete_or_number(words, true),
        b"me" => meta::debug(words),
        b"mn" => Line::Command(Command::Answered { reply: META_NOOP, noreply: false }),
        _ => steering(line),
    }
}

/// Commands that steer the server, and what is none.
fn steering(line: &[u8]) -> Line<'_> {
    let mut words = Words::new(line);
    let Some(verb) = words.next() else { return refused(ERROR) };
    let args = Args::new(words);
    match verb {
        b"flush_all" => flush_all(args),
        b"verbosity" => verbosity(args),
        b"cache_memlimit" => cache_memlimit(args),
        b"lru_crawler" => admin::lru_crawler(args),
        b"lru" => admin::lru(args),
        b"slabs" => admin::slabs(args),
        b"extstore" => admin::extstore(args),
        b"shutdown" => Line::Command(Command::Shutdown(admin::shutdown(&args))),
        b"refresh_certs" => Line::Command(Command::RefreshCerts { noreply: args.noreply() }),
        // A web browser that was tricked into posting commands here is cut off before it comes to them.
        _ if args.last().starts_with(b"HTTP/") => Line::Close(CloseReason::Http),
        _ => Line::Refused { reply: ERROR, noreply: args.noreply() || verb == b"noreply", skip: 0 },
    }
}

fn key_fits(key: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX
}

fn get(keys: Words<'_>, cas: bool) -> Line<'_> {
    if keys.clone().next().is_none() || !keys.clone().all(key_fits) {
        return refused(BAD_LINE);
    }
    Line::Command(Command::Get { keys, cas })
}

fn get_and_touch(mut keys: Words<'_>, cas: bool) -> Line<'_> {
    let (Some(exptime), Some(_)) = (keys.next(), keys.clone().next()) else { return refused(BAD_LINE) };
    let Some(exptime) = signed_digits(exptime) else { return refused(BAD_EXPTIME) };
    if !keys.clone().all(key_fits) {
        return refused(BAD_LINE);
    }
    Line::Command(Command::GetAndTouch { exptime, keys, cas })
}

/// `VERB KEY FLAGS EXPTIME LENGTH [CAS]`: once the length is known, the data block is skipped after an error.
fn store(verb: StoreVerb, args: Args<'_>) -> Line<'_> {
    let length = (args.count() >= 4).then(|| signed_digits(args.get(3))).flatten();
    let length = length.filter(|bytes| (0..=VALUE_BYTES_MAX).contains(bytes));
    let Some(length) = length.map(i64::unsigned_abs) else { return refused(BAD_LINE) };
    let noreply = args.noreply();
    header(verb, &args, length, noreply)
        .map_or(Line::Refused { reply: BAD_LINE, noreply, skip: length + 2 }, Line::Store)
}

fn header<'a>(verb: StoreVerb, args: &Args<'a>, length: u64, noreply: bool) -> Option<Header<'a>> {
    let key = args.get(0);
    if !key_fits(key) {
        return None;
    }
    let flags = u32::try_from(unsigned(args.get(1))?).ok()?;
    let exptime = signed(args.get(2))?;
    let verb = match verb {
        StoreVerb::Cas(_) => StoreVerb::Cas(digits(args.get(4))?),
        other => other,
    };
    let kind = HeaderKind::Classic { verb, key, flags, exptime };
    Some(Header { kind, value_bytes: usize::try_from(length).ok()?, noreply })
}

fn arithmetic(args: Args<'_>, down: bool) -> Line<'_> {
    if args.count() < 2 {
        return refused(BAD_LINE);
    }
    let (key, noreply) = (args.get(0), args.noreply());
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    match digits(args.get(1)) {
        Some(delta) => Line::Command(Command::Arithmetic { key, delta, down, noreply }),
        None => Line::Refused { reply: BAD_DELTA, noreply, skip: 0 },
    }
}

fn touch(args: Args<'_>) -> Line<'_> {
    if args.count() < 2 {
        return refused(BAD_LINE);
    }
    let (key, noreply) = (args.get(0), args.noreply());
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    match signed_digits(args.get(1)) {
        Some(exptime) => Line::Command(Command::Touch { key, exptime, noreply }),
        None => Line::Refused { reply: BAD_EXPTIME, noreply, skip: 0 },
    }
}

/// `delete KEY [noreply]`; what else follows means nothing.
fn delete(args: Args<'_>) -> Line<'_> {
    if args.count() == 0 {
        return refused(BAD_LINE);
    }
    let (key, noreply) = (args.get(0), args.noreply());
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    Line::Command(Command::Delete { key, noreply })
}

fn flush_all(args: Args<'_>) -> Line<'_> {
    let noreply = args.noreply();
    if args.count() == usize::from(noreply) {
        return Line::Command(Command::FlushAll { delay: 0, noreply });
    }
    match signed_digits(args.get(0)) {
        Some(delay) => Line::Command(Command::FlushAll { delay, noreply }),
        None => Line::Refused { reply: BAD_EXPTIME, noreply, skip: 0 },
    }
}

fn verbosity(args: Args<'_>) -> Line<'_> {
    let noreply = args.noreply();
    match digits32(args.get(0)) {
        Some(level) => Line::Command(Command::Verbosity { level: level.into(), noreply }),
        None => Line::Refused { reply: BAD_LINE, noreply, skip: 0 },
    }
}

fn cache_memlimit(args: Args<'_>) -> Line<'_> {
    let noreply = args.noreply();
    match digits32(args.get(0)) {
        Some(megabytes) => Line::Command(Command::CacheMemlimit { megabytes: megabytes.into(), noreply }),
        None => Line::Refused { reply: ERROR, noreply, skip: 0 },
    }
}
