//! One line to one request header, or to the error that memcached answers. Pure: no state between lines.

use super::command::{Command, StoreVerb};
use super::login::c_string;
use super::meta::{Key, Meta, SetMode};
use super::number::{signed, unsigned};
use super::reply::{BAD_DELTA, BAD_EXPTIME, BAD_LINE, DELETE_USAGE, ERROR, META_NOOP};
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

/// Reads a line, given without its line end.
pub(super) fn parse(line: &[u8]) -> Line<'_> {
    // memcached treats the line as a C string.
    let line = c_string(line);
    let mut words = Words::new(line);
    let Some(verb) = words.next() else { return refused(ERROR) };
    match verb {
        b"get" | b"bget" => get(words, false),
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
        b"flush_all" => flush_all(Args::new(words)),
        b"version" => Line::Command(Command::Version),
        b"stats" => Line::Command(Command::Stats { args: words }),
        b"verbosity" => verbosity(Args::new(words)),
        b"cache_memlimit" => cache_memlimit(Args::new(words)),
        b"quit" => Line::Command(Command::Quit),
        b"mg" => meta::get(words),
        b"ms" => meta::set(words),
        b"md" => meta::delete_or_number(words, false),
        b"ma" => meta::delete_or_number(words, true),
        b"me" => meta::debug(words),
        b"mn" => Line::Command(Command::Answered { reply: META_NOOP, noreply: false }),
        b"lru_crawler" => admin::lru_crawler(Args::new(words)),
        b"lru" => admin::lru(Args::new(words)),
        b"slabs" => admin::slabs(Args::new(words)),
        b"extstore" => admin::extstore(Args::new(words)),
        b"shutdown" => Line::Command(Command::Shutdown(admin::shutdown(&Args::new(words)))),
        b"watch" => watch(words),
        b"refresh_certs" => Line::Command(Command::RefreshCerts { noreply: Args::new(words).noreply() }),
        _ => unknown(verb, Args::new(words)),
    }
}

fn key_fits(key: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX
}

fn get(keys: Words<'_>, cas: bool) -> Line<'_> {
    if keys.clone().next().is_none() {
        return refused(ERROR);
    }
    if !keys.clone().all(key_fits) {
        return refused(BAD_LINE);
    }
    Line::Command(Command::Get { keys, cas })
}

fn get_and_touch(mut keys: Words<'_>, cas: bool) -> Line<'_> {
    let Some(exptime) = keys.next() else { return refused(ERROR) };
    let Some(exptime) = signed(exptime) else { return refused(BAD_EXPTIME) };
    if !keys.clone().all(key_fits) {
        return refused(BAD_LINE);
    }
    Line::Command(Command::GetAndTouch { exptime, keys, cas })
}

fn store(verb: StoreVerb, args: Args<'_>) -> Line<'_> {
    let has_cas = matches!(verb, StoreVerb::Cas(_));
    let wanted = if has_cas { 5 } else { 4 };
    if args.count() != wanted && args.count() != wanted + 1 {
        return refused(ERROR);
    }
    let noreply = args.noreply();
    header(verb, &args, noreply).map_or(Line::Refused { reply: BAD_LINE, noreply, skip: 0 }, Line::Store)
}

fn header<'a>(verb: StoreVerb, args: &Args<'a>, noreply: bool) -> Option<Header<'a>> {
    let key = args.get(0);
    if !key_fits(key) {
        return None;
    }
    let flags = u32::try_from(unsigned(args.get(1))?).ok()?;
    let exptime = signed(args.get(2))?;
    let value_bytes = signed(args.get(3)).filter(|bytes| (0..=VALUE_BYTES_MAX).contains(bytes))?;
    let verb = match verb {
        StoreVerb::Cas(_) => StoreVerb::Cas(unsigned(args.get(4))?),
        other => other,
    };
    let kind = HeaderKind::Classic { verb, key, flags, exptime };
    Some(Header { kind, value_bytes: usize::try_from(value_bytes).ok()?, noreply })
}

fn arithmetic(args: Args<'_>, down: bool) -> Line<'_> {
    if !matches!(args.count(), 2 | 3) {
        return refused(ERROR);
    }
    let (key, noreply) = (args.get(0), args.noreply());
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    match unsigned(args.get(1)) {
        Some(delta) => Line::Command(Command::Arithmetic { key, delta, down, noreply }),
        None => Line::Refused { reply: BAD_DELTA, noreply, skip: 0 },
    }
}

fn touch(args: Args<'_>) -> Line<'_> {
    if !matches!(args.count(), 2 | 3) {
        return refused(ERROR);
    }
    let (key, noreply) = (args.get(0), args.noreply());
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    match signed(args.get(1)) {
        Some(exptime) => Line::Command(Command::Touch { key, exptime, noreply }),
        None => Line::Refused { reply: BAD_EXPTIME, noreply, skip: 0 },
    }
}

/// `delete KEY [0] [noreply]`: the 0 was once a hold time.
fn delete(args: Args<'_>) -> Line<'_> {
    let (key, hold_is_zero) = (args.get(0), args.get(1) == b"0");
    let noreply = args.count() > 1 && args.noreply();
    let valid = match args.count() {
        1 => true,
        2 => hold_is_zero || noreply,
        3 => hold_is_zero && noreply,
        _ => return refused(ERROR),
    };
    if !valid {
        return Line::Refused { reply: DELETE_USAGE, noreply, skip: 0 };
    }
    if !key_fits(key) {
        return Line::Refused { reply: BAD_LINE, noreply, skip: 0 };
    }
    Line::Command(Command::Delete { key, noreply })
}

fn flush_all(args: Args<'_>) -> Line<'_> {
    if args.count() > 2 {
        return refused(ERROR);
    }
    let noreply = args.noreply();
    if args.count() == usize::from(noreply) {
        return Line::Command(Command::FlushAll { delay: 0, noreply });
    }
    match signed(args.get(0)) {
        Some(delay) => Line::Command(Command::FlushAll { delay, noreply }),
        None => Line::Refused { reply: BAD_EXPTIME, noreply, skip: 0 },
    }
}

fn verbosity(args: Args<'_>) -> Line<'_> {
    if !matches!(args.count(), 1 | 2) {
        return refused(ERROR);
    }
    let noreply = args.noreply();
    match unsigned(args.get(0)) {
        Some(level) => Line::Command(Command::Verbosity { level, noreply }),
        None => Line::Refused { reply: BAD_LINE, noreply, skip: 0 },
    }
}

fn cache_memlimit(args: Args<'_>) -> Line<'_> {
    if !matches!(args.count(), 1 | 2) {
        return refused(ERROR);
    }
    let noreply = args.noreply();
    match unsigned(args.get(0)) {
        Some(megabytes) => Line::Command(Command::CacheMemlimit { megabytes, noreply }),
        None => Line::Refused { reply: ERROR, noreply, skip: 0 },
    }
}

fn watch(words: Words<'_>) -> Line<'_> {
    Line::Command(Command::Watch { watch: admin::watch(words), noreply: Args::new(words).noreply() })
}

/// Not a command. A web browser that was tricked into posting commands here is cut off before it comes to them.
fn unknown<'a>(verb: &'a [u8], args: Args<'a>) -> Line<'a> {
    let last = if args.count() == 0 { verb } else { args.last() };
    if last.starts_with(b"HTTP/") { Line::Close(CloseReason::Http) } else { refused(ERROR) }
}
