//! `watch`: connections that see what others do.
//!
//! What commands do is written down while a turn's are answered (what else happens: [`logged`](super::logged)), and goes to the watchers' queues
//! ([`Registry::push`](crate::registry::Registry::push)) when all are. While nobody watches this costs one relaxed load a turn.
//! A watcher that reads too slowly misses lines; they are counted, and the next line that it gets stands behind their number.
//!
//! # Thread safety
//! The list's lock is taken before the queue's of an entry, and while nothing else is locked.

use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use terrace_engine::Batch;
use terrace_protocol::memcached::Watch;

use super::dump::percent_encode;
use crate::protocol::Context;
use crate::registry::Entry;
use crate::shared::Shared;

/// Watchers at a time, as in memcached.
const WATCHERS_MAX: usize = 20;

/// Most bytes that wait for a watcher: memcached's `watcher_logbuf_size`.
pub(super) const WAITING_BYTES_MAX: usize = 256 << 10;

/// Classes of events, as bits.
const FETCHES: u8 = 1;
const MUTATIONS: u8 = 2;
pub(super) const EVICTIONS: u8 = 4;
pub(super) const CONNECTIONS: u8 = 8;
const DELETIONS: u8 = 16;

/// A connection that watches.
struct Watcher {
    classes: u8,
    entry: Weak<Entry>,
    /// Lines that it has missed since the last that it got.
    missed: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Watchers {
    list: Mutex<Vec<Watcher>>,
    /// What somebody watches.
    wanted: AtomicU8,
    /// Events told so far.
    events: AtomicU64,
    /// Lines that reached a watcher's queue.
    pub sent: AtomicU64,
    /// Lines that did not.
    pub skipped: AtomicU64,
}

impl Watchers {
    /// Adds one, unless there are too many.
    pub(super) fn add(&self, watch: Watch, entry: &Arc<Entry>) -> bool {
        let mut list = self.list.lock();
        list.retain(|watcher| watcher.entry.strong_count() > 0);
        if list.len() >= WATCHERS_MAX {
            return false;
        }
        let classes = [
            (watch.fetchers, FETCHES),
            (watch.mutations, MUTATIONS),
            (watch.evictions, EVICTIONS),
            (watch.connections, CONNECTIONS),
            (watch.deletions, DELETIONS),
        ];
        let classes = classes.iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, class)| all | class);
        list.push(Watcher { classes, entry: Arc::downgrade(entry), missed: 0 });
        self.want(&list);
        true
    }

    /// Watchers there are.
    pub(super) fn count(&self) -> usize {
        self.list.lock().iter().filter(|watcher| watcher.entry.strong_count() > 0).count()
    }

    fn want(&self, list: &[Watcher]) {
        self.wanted.store(list.iter().fold(0, |wanted, watcher| wanted | watcher.classes), Relaxed);
    }

    /// Where to write down what happens in a turn.
    pub(super) fn events(&self) -> Events {
        Events { wanted: self.wanted.load(Relaxed), text: Vec::new(), lines: Vec::new() }
    }

    /// Tells what happened.
    #[cold]
    fn tell(&self, events: &Events, shared: &Shared) {
        let mut list = self.list.lock();
        list.retain_mut(|watcher| {
            let Some(entry) = watcher.entry.upgrade() else { return false };
            let mut text = Vec::new();
            if watcher.missed > 0 {
                // Writing to a Vec can't fail.
                let _ = writeln!(text, "skipped={}", watcher.missed);
            }
            let (mut start, mut lines) = (0, 0);
            for &(class, end) in &events.lines {
                if watcher.classes & class != 0 {
                    text.extend_from_slice(&events.text[start..end]);
                    lines += 1;
                }
                start = end;
            }
            if lines == 0 {
                return true;
            }
            if entry.waiting_bytes() + text.len() > WAITING_BYTES_MAX {
                self.skipped.fetch_add(lines, Relaxed);
                watcher.missed += lines;
            } else {
                watcher.missed = 0;
                self.sent.fetch_add(lines, Relaxed);
                shared.connections.push(&entry, &text.into());
            }
            true
        });
        self.want(&list);
    }
}

/// What happened in a turn.
pub(super) struct Events {
    wanted: u8,
    text: Vec<u8>,
    /// Class of each line, and where it ends.
    lines: Vec<(u8, usize)>,
}

impl Events {
    /// Whether somebody watches events of this class.
    pub(super) fn wants(&self, class: u8) -> bool {
        self.wanted & class != 0
    }

    /// Whether reads are watched.
    pub(super) fn fetches(&self) -> bool {
        self.wants(FETCHES)
    }

    /// Whether writes are watched.
    pub(super) fn mutations(&self) -> bool {
        self.wants(MUTATIONS)
    }

    /// Whether deletes are watched.
    pub(super) fn deletes(&self) -> bool {
        self.wants(DELETIONS)
    }

    /// A delete by this command, which found a record with a value of this length.
    #[cold]
    pub(super) fn delete(&mut self, key: &[u8], command: &str, bytes: u64, ctx: &Context<'_>) {
        self.line(DELETIONS, "deleted", ctx.shared, |out| {
            key_of(key, out);
            let _ = writeln!(out, " cmd={command} clsid=1 size={bytes}");
        });
    }

    /// A read of a record with this many bytes, or of none. All records are in class 1.
    #[cold]
    pub(super) fn fetch(&mut self, key: &[u8], found: Option<u64>, by: u64, ctx: &Context<'_>) {
        let (status, class) = if found.is_some() { ("found", 1) } else { ("not_found", 0) };
        self.line(FETCHES, "item_get", ctx.shared, |out| {
            let size = found.unwrap_or(0);
            key_of(key, out);
            // Writing to a Vec can't fail.
            let _ = writeln!(out, " status={status} clsid={class} cfd={by} size={size}");
        });
    }

    /// A command that stores, and what became of it.
    #[cold]
    pub(super) fn mutation(&mut self, key: &[u8], what: &Mutation, by: u64, ctx: &Context<'_>) {
        let Mutation { command, status, ttl, size } = what;
        self.line(MUTATIONS, "item_store", ctx.shared, |out| {
            key_of(key, out);
            let _ = writeln!(out, " status={status} cmd={command} ttl={ttl} clsid=1 cfd={by} size={size}");
        });
    }

    /// One line: when it was, its number and its type stand before what `rest` writes.
    pub(super) fn line(&mut self, class: u8, name: &str, shared: &Shared, rest: impl FnOnce(&mut Vec<u8>)) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = shared.counters.memcached.watchers.events.fetch_add(1, Relaxed) + 1;
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        let _ = write!(self.text, "ts={seconds}.{micros:06} gid={number} type={name}");
        rest(&mut self.text);
        self.lines.push((class, self.text.len()));
    }

    /// Tells it.
    pub(super) fn finish(&self, shared: &Shared) {
        if !self.lines.is_empty() {
            shared.counters.memcached.watchers.tell(self, shared);
        }
    }
}

/// A key, as lines tell it.
pub(super) fn key_of(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b" key=");
    percent_encode(key, out);
}

/// A write, in the words of a watcher's line.
pub(super) struct Mutation {
    pub command: &'static str,
    pub status: &'static str,
    /// Seconds until it expires, 0 for never.
    pub ttl: u64,
    pub size: u64,
}

impl Mutation {
    /// What an operation of the batch was, seen from what it was asked.
    pub(super) fn of(batch: &Batch, op: usize, status: &'static str, now_ms: u64) -> Self {
        use terrace_engine::{Condition, Expiry, OpKind};
        let left = |at: u64| super::meta::seconds_left(at, now_ms);
        let (command, ttl, size) = match batch.op(op).kind {
            OpKind::Set { value, condition, expiry, .. } => {
                let command = match condition {
                    Condition::Always => "set",
                    Condition::Absent => "add",
                    Condition::Present => "replace",
                    Condition::Version(_) => "cas",
                };
                (command, if let Expiry::At(at) = expiry { left(at) } else { 0 }, value.len())
            }
            OpKind::Append { value, front, .. } => (if front { "prepend" } else { "append" }, 0, value.len()),
            OpKind::Edit { argument, .. } => {
                let (command, expire_at, size) = super::meta::told(batch.input(argument));
                (command, left(expire_at), size)
            }
            _ => ("set", 0, 0),
        };
        Self { command, status, ttl, size: size as u64 }
    }
}
