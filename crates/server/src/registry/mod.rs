//! What connections know of each other: the list of them, what each wants to hear of, and how one reaches another.
//!
//! ```text
//!   any worker --Entry::push--> the connection's queue --nudge, wake--> Inbox of its worker
//!                                                                          |
//!   socket <-- output <-- its worker takes the queue, between answers <----'
//! ```
//! Bytes for another connection are encoded once, shared by all who get them ([`Arc`]), and put into each one's queue;
//! its worker is woken once for as many as there are by then, and copies them to the output.
//!
//! # Invariants
//! - A queue goes into the output between answers, never inside of one. What a command's own effects push to its own
//!   connection is taken behind that command's answer (as in Redis since 7.2; before, some came in front of it).
//! - What a command tells others is in their queues before its answer is sent, and what is in a connection's queue when commands
//!   come is sent before their answers. So whoever knows the answer to a command of another and then asks for anything (`PING`) has
//!   heard of it when that is answered.
//! - What is pushed while the lock of a channel is held reaches all subscribers in that order.
//! - A queue holds no more than a subscriber's output may, that in front of it included; who reads slower is closed.
//! - What nobody asked for costs one relaxed load a command, [`Registry::wants`], and a load of [`Entry::has_pushes`] a batch and connection.
//!
//! # Thread safety
//! Locks, in the order in which they may be taken: a part of the hub, its patterns; the monitors; an entry's prefixes, those
//! of all; then one of: a part of the tracked keys, the keys noted for a snapshot, the registry's list, an entry's queue, labels or
//! subscriptions, an inbox. None is held across a system call, save the waker's.

mod changes;
mod entry;
mod hub;
mod kept;
mod monitor;
mod noted;
pub(crate) mod notify;
mod pause;
mod tracking;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use terrace_engine::databases::Databases;
use terrace_engine::{Batch, Settled};

pub(crate) use entry::{CommandName, DEFAULT_USER, Entry, Kind, Labels, flag};
pub(crate) use hub::{Hub, NAME_BYTES_MAX, Name, Topic};
pub(crate) use kept::Kept;
pub(crate) use noted::{NOTED_BYTES_MAX, NOTED_KEYS_MAX, Noted, Notes};
pub(crate) use pause::Pause;
pub(crate) use tracking::{Options as TrackingOptions, PREFIXES_OF_ALL_MAX, Tracking};

use crate::limits::Bound;
use crate::worker::Inbox;

/// What some connection wants, so that others have work with it: bits of [`Registry::wants`].
pub(crate) mod want {
    /// Commands are held ([`super::Pause`]).
    pub(crate) const PAUSE: u32 = 1;
    /// Somebody sees every command ([`super::Registry::monitor`]).
    pub(crate) const COMMANDS: u32 = 2;
    /// Changes are published ([`super::notify`]).
    pub(crate) const EVENTS: u32 = 4;
    /// Somebody hears of writes ([`super::Tracking`]).
    pub(crate) const WRITES: u32 = 8;
    /// A snapshot is taken ([`super::Noted`]).
    pub(crate) const NOTES: u32 = 16;
    /// It is kept when keys are used ([`crate::accesses`]).
    pub(crate) const USES: u32 = 32;
}

/// Told whether somebody wants to hear of each key that expires.
type TellHearing = Box<dyn Fn(bool) + Send + Sync>;

/// The connections of one server.
pub(crate) struct Registry {
    wants: AtomicU32,
    /// Who is to know whether somebody wants to hear of each key that expires.
    hearing: Mutex<Option<TellHearing>>,
    /// By id, so in the order in which they came.
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    /// Those of all workers.
    inboxes: Mutex<Vec<Arc<Inbox>>>,
    /// Who listens and lets this many bytes wait is closed.
    push_bytes: Arc<Bound>,
    /// Commands held.
    pub pause: Pause,
    /// Channels.
    pub hub: Hub,
    /// Keys in the caches of clients.
    pub tracking: Tracking,
    /// Keys written while a snapshot is taken.
    pub noted: Noted,
    monitors: monitor::Monitors,
    /// Classes of events that are published.
    notified: AtomicU32,
    /// Keys written by connections, each time.
    changes: AtomicU64,
}

impl Registry {
    /// One without connections. Who listens and lets more than `push_bytes` wait is closed.
    pub fn new(push_bytes: Arc<Bound>) -> Self {
        Self {
            wants: AtomicU32::new(0),
            hearing: Mutex::default(),
            entries: Mutex::default(),
            inboxes: Mutex::default(),
            push_bytes,
            pause: Pause::default(),
            hub: Hub::default(),
            tracking: Tracking::default(),
            noted: Noted::default(),
            monitors: Default::default(),
            notified: AtomicU32::new(0),
            changes: AtomicU64::new(0),
        }
    }
}

impl Registry {
    /// Makes all workers look at their connections anew.
    pub fn recheck(&self) {
        for inbox in self.inboxes.lock().iter() {
            inbox.recheck();
        }
    }

    /// Most bytes that may wait for a connection.
    pub fn push_bytes_max(&self) -> usize {
        self.push_bytes.get().map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// Bits of [`want`]: what somebody listens to. Relaxed: who starts to listen hears of what happens after his answer,
    /// and the answer reaches the others through a socket, if at all.
    pub fn wants(&self) -> u32 {
        self.wants.load(Relaxed)
    }

    /// Sets or clears bits of [`want`].
    pub fn want(&self, bits: u32, wanted: bool) {
        if wanted {
            self.wants.fetch_or(bits, Relaxed);
        } else {
            self.wants.fetch_and(!bits, Relaxed);
        }
        self.hear_expired();
    }

    /// Has `tell` called with whether somebody wants to hear of each key that expires, whenever that may have changed.
    pub fn on_hearing(&self, tell: TellHearing) {
        *self.hearing.lock() = Some(tell);
        self.hear_expired();
    }

    fn hear_expired(&self) {
        // Under the lock, so that what is told last is true.
        if let Some(tell) = &*self.hearing.lock() {
            let wants = self.wants();
            let classes = notify::class::EXPIRED | notify::class::NEW;
            let events = wants & want::EVENTS != 0 && self.notified() & classes != 0;
            tell(events || wants & want::WRITES != 0);
        }
    }

    /// A worker begins.
    pub fn add_worker(&self, inbox: Arc<Inbox>) {
        self.inboxes.lock().push(inbox);
    }

    /// Wakes every worker.
    pub fn wake_all(&self) {
        for inbox in &*self.inboxes.lock() {
            inbox.wake_or_warn();
        }
    }

    /// Whether all workers that live have come to rest at this turn of the [`Gate`](crate::snapshot::Gate).
    pub fn all_rest(&self, turn: u64) -> bool {
        self.inboxes.lock().iter().all(|inbox| inbox.rests(turn) || inbox.is_dead())
    }

    /// A connection has come to the worker of this inbox, where `slot` is its place.
    pub fn enter(&self, entry: &Arc<Entry>, inbox: Arc<Inbox>, slot: usize) {
        entry.seat(inbox, slot);
        self.entries.lock().insert(entry.id(), Arc::clone(entry));
    }

    /// A connection has come that no worker has: who plays it looks for what is pushed to it.
    pub fn enter_alone(&self, entry: &Arc<Entry>) {
        self.entries.lock().insert(entry.id(), Arc::clone(entry));
    }

    /// A connection is closed.
    pub fn leave(&self, entry: &Arc<Entry>) {
        self.entries.lock().remove(&entry.id());
        self.unmonitor(entry);
        self.untrack(entry);
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            let names = entry.subscriptions.lock().take(topic);
            names.iter().for_each(|name| self.hub.remove(topic, name, entry));
        }
    }

    /// How many writes of keys by connections have settled.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// The connection with this id.
    pub fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.entries.lock().get(&id).cloned()
    }

    /// All connections, the oldest first.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().cloned().collect()
    }

    /// Operations of a connection have settled: tells those who want to hear of writes. What became of commands is told where
    /// these are answered, in their order; other protocols are told of here.
    pub fn settled(&self, batch: &Batch, proof: &Settled, ops: Range<usize>, by: &Entry, now_ms: u64) {
        let is_change = |i: &usize| changes::is_change(&batch.op(*i).kind, batch.reply(*i, proof));
        let changes = ops.clone().filter(is_change).count();
        if changes > 0 {
            self.changes.fetch_add(changes as u64, Relaxed);
        }
        let wants = self.wants();
        if wants & want::NOTES != 0 {
            self.noted.settled(batch, proof, ops.clone());
        }
        if wants & want::WRITES != 0 {
            self.tell_writes(batch, proof, ops.clone(), by);
        }
        if wants & want::EVENTS != 0 && by.kind != Kind::Redis {
            self.tell_events(batch, proof, ops, ("", Databases::default()), now_ms);
        }
    }

    /// Appends bytes to what waits for a connection; closes it instead if that is too much.
    pub fn push(&self, entry: &Entry, bytes: &Arc<[u8]>) {
        self.delivered(entry, entry.push(bytes, self.push_bytes_max()));
    }

    fn delivered(&self, entry: &Entry, fits: bool) {
        if !fits {
            entry.set(flag::OVERRUN, true);
        }
        if !fits && entry.kill() {
            tracing::warn!(id = entry.id(), peer = %entry.peer.remote, "a client reads too slowly what it listens to; closing");
        }
    }
}
