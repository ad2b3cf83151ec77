//! One connection as others see it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use Ordering::{AcqRel, Acquire, Relaxed, Release};
use crossbeam_utils::atomic::AtomicCell;
use parking_lot::Mutex;
use terrace_protocol::resp::Version;

use super::Kept;
use super::hub::{Name, Subscriptions};
use crate::protocol::Peer;
use crate::worker::Inbox;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RESP.
    Redis,
    /// memcached's text protocol.
    Memcached,
}

/// A command's name, as [`Entry::ran`] takes it: thin, so that it can be stored in one step.
pub(crate) type CommandName = &'static &'static str;

/// See the module. Numbers are relaxed: each is written by the connection's worker, at most once a turn, and read by who
/// lists connections.
pub(crate) struct Entry {
    /// Who it is.
    pub peer: Peer,
    /// What it speaks.
    pub kind: Kind,
    /// Its worker's inbox, and its place there, from when the worker has it.
    seat: OnceLock<(Arc<Inbox>, usize)>,
    /// It stands in its worker's inbox.
    nudged: AtomicBool,
    killed: AtomicBool,
    queue: Mutex<Queue>,
    /// Whether `queue` may hold anything; saves its lock.
    has_pushes: AtomicBool,
    /// What it listens to.
    pub subscriptions: Mutex<Subscriptions>,
    /// Of CLIENT TRACKING BCAST.
    pub prefixes: Mutex<BTreeSet<Name>>,
    /// Names that it gave, and the like; changed by [`relabel`](Self::relabel).
    pub labels: Mutex<Labels>,
    /// When it sent its last bytes, in milliseconds since the Unix epoch.
    pub last_ms: AtomicU64,
    last_command: AtomicCell<Option<CommandName>>,
    /// The chosen database.
    pub db: AtomicU8,
    resp3: AtomicBool,
    /// Bytes received of an unfinished command.
    pub input_bytes: AtomicUsize,
    /// Bytes that its socket did not take yet.
    pub output_bytes: AtomicUsize,
    /// Bytes of the buffers for what it has sent, and for what it did not take.
    pub room: [AtomicUsize; 2],
    /// What is kept for it.
    pub kept: Kept,
    /// Commands queued behind MULTI; -1 outside of it.
    pub multi: AtomicI64,
    /// The connection that gets the invalidations meant for this one; 0 for itself, -1 without tracking.
    pub redirect: AtomicI64,
    /// Keys watched.
    pub watch: AtomicU32,
    /// Bits of [`flag`].
    pub flags: AtomicU32,
}

/// What a connection is or has asked for, as `CLIENT LIST` tells it.
pub(crate) mod flag {
    /// MONITOR.
    pub(crate) const MONITOR: u32 = 1;
    /// CLIENT NO-EVICT.
    pub(crate) const NO_EVICT: u32 = 2;
    /// CLIENT NO-TOUCH.
    pub(crate) const NO_TOUCH: u32 = 4;
    /// Subscribed to something.
    pub(crate) const SUBSCRIBED: u32 = 8;
    /// CLIENT TRACKING.
    pub(crate) const TRACKING: u32 = 16;
    /// CLIENT TRACKING with BCAST.
    pub(crate) const BROADCAST: u32 = 32;
    /// The connection that invalidations are redirected to is gone.
    pub(crate) const BROKEN_REDIRECT: u32 = 64;
    /// CLIENT TRACKING with OPTIN.
    pub(crate) const OPT_IN: u32 = 128;
    /// CLIENT TRACKING with OPTOUT.
    pub(crate) const OPT_OUT: u32 = 256;
    /// CLIENT TRACKING with NOLOOP.
    pub(crate) const NO_LOOP: u32 = 512;
    /// It did not read what it listens to.
    pub(crate) const OVERRUN: u32 = 2048;
    /// CLIENT CACHING, for the next command.
    pub(crate) const CACHING: u32 = 1024;
    /// Its next command is held by CLIENT PAUSE.
    pub(crate) const BLOCKED: u32 = 4096;
    /// What it sent is not the protocol: it is closed for that.
    pub(crate) const STRANGE: u32 = 8192;
}

/// The number of the user that connections start as: it is always the same one, whatever its rules.
pub(crate) const DEFAULT_USER: u64 = 1;

/// What a connection says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// `CLIENT SETNAME`.
    pub name: Box<[u8]>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library_name: Box<[u8]>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Box<[u8]>,
    /// The user that it authenticated as.
    pub user: Arc<str>,
    /// That user's number: one that is deleted and made again has another.
    pub user_number: u64,
}

/// Bytes from others.
#[derive(Default)]
struct Queue {
    /// Taken behind any answer.
    pushes: VecDeque<Arc<[u8]>>,
    /// Taken when all is answered that was received: see [`Entry::push_invalidation`].
    invalidations: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Entry {
    /// A connection that no worker has yet.
    pub fn new(peer: Peer, kind: Kind) -> Arc<Self> {
        let labels = Labels {
            name: Box::default(),
            library_name: Box::default(),
            library_version: Box::default(),
            user: "default".into(),
            user_number: DEFAULT_USER,
        };
        Arc::new(Self {
            last_ms: AtomicU64::new(peer.since_ms),
            peer,
            kind,
            seat: OnceLock::new(),
            nudged: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            queue: Mutex::default(),
            has_pushes: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            prefixes: Mutex::default(),
            labels: Mutex::new(labels),
            last_command: AtomicCell::new(None),
            db: AtomicU8::new(0),
            resp3: AtomicBool::new(false),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            room: Default::default(),
            kept: Kept::default(),
            multi: AtomicI64::new(-1),
            redirect: AtomicI64::new(-1),
            watch: AtomicU32::new(0),
            flags: AtomicU32::new(0),
        })
    }

    /// Changes what it says of itself.
    pub fn relabel(&self, change: impl FnOnce(&mut Labels)) {
        let mut labels = self.labels.lock();
        change(&mut labels);
        let names = [&labels.name, &labels.library_name, &labels.library_version];
        self.kept.names.store(names.map(|name| name.len()).iter().sum(), Relaxed);
    }

    /// Unique in this server's life.
    pub fn id(&self) -> u64 {
        self.peer.id
    }

    /// The version in which bytes for it are written.
    pub fn version(&self) -> Version {
        if self.resp3.load(Relaxed) { Version::Resp3 } else { Version::Resp2 }
    }

    /// Says in which version answers are written from now on.
    pub fn set_version(&self, version: Version) {
        self.resp3.store(version == Version::Resp3, Relaxed);
    }

    /// Says which command it ran last.
    pub fn ran(&self, name: CommandName) {
        self.last_command.store(Some(name));
    }

    /// The command that it ran last.
    pub fn last_command(&self) -> &'static str {
        self.last_command.load().map_or("NULL", |name| name)
    }

    /// Whether these bits of [`flag`] are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags.load(Relaxed) & flags != 0
    }

    /// Sets or clears bits of [`flag`].
    pub fn set(&self, flags: u32, on: bool) {
        if on {
            self.flags.fetch_or(flags, Relaxed);
        } else {
            self.flags.fetch_and(!flags, Relaxed);
        }
    }

    /// Its worker has it, at this place.
    pub(super) fn seat(&self, inbox: Arc<Inbox>, slot: usize) {
        let first = self.seat.set((inbox, slot)).is_ok();
        debug_assert!(first, "a connection stays with its worker");
    }

    /// Bytes that wait for the socket, here and at the worker.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.lock().bytes + self.output_bytes.load(Relaxed)
    }

    /// Appends bytes; `false` if they are too many.
    pub(super) fn push(&self, bytes: &Arc<[u8]>, max: usize) -> bool {
        self.append(bytes, max, |queue| &mut queue.pushes)
    }

    /// Appends bytes that must not reach the client before the answers to what it has sent.
    ///
    /// A key is tracked from before it is read. A write in between ends that, and the message about it, sent first, would
    /// leave the client with the answer to its read in its cache and nobody to tell it of the next write.
    pub(super) fn push_invalidation(&self, bytes: &Arc<[u8]>, max: usize) -> bool {
        self.append(bytes, max, |queue| &mut queue.invalidations)
    }

    fn append(
        &self,
        bytes: &Arc<[u8]>,
        max: usize,
        which: fn(&mut Queue) -> &mut VecDeque<Arc<[u8]>>,
    ) -> bool {
        if self.is_killed() {
            return true;
        }
        {
            let mut queue = self.queue.lock();
            if queue.bytes + bytes.len() + self.output_bytes.load(Relaxed) > max {
                *queue = Queue::default();
                return false;
            }
            queue.bytes += bytes.len();
            which(&mut queue).push_back(Arc::clone(bytes));
            self.has_pushes.store(true, Release);
        }
        self.nudge();
        true
    }

    /// Has its worker look at it.
    pub fn nudge(&self) {
        if let Some((inbox, slot)) = self.seat.get()
            && !self.nudged.swap(true, AcqRel)
        {
            inbox.nudge(*slot, self.id());
        }
    }

    /// Its worker looks at it: what comes from now on needs another nudge.
    pub fn looked_at(&self) {
        self.nudged.swap(false, AcqRel);
    }

    /// Whether others may have pushed something. Whoever has received bytes that were sent after a push sees it: the sockets between
    /// the two order them.
    pub fn has_pushes(&self) -> bool {
        self.has_pushes.load(Acquire)
    }

    /// Moves what others have pushed to `out`; with `idle`, when all received is answered, invalidations too. Of a connection that is
    /// to end nothing goes out any more: it may have come after the right to hear it had gone.
    pub fn take_pushes(&self, idle: bool, out: &mut Vec<u8>) {
        if !self.has_pushes() {
            return;
        }
        let mut queue = self.queue.lock();
        let is_too_late = self.is_killed() && queue.bytes > 0;
        if is_too_late {
            *queue = Queue::default();
            self.has_pushes.store(false, Relaxed);
            return;
        }
        let before = out.len();
        queue.pushes.drain(..).for_each(|bytes| out.extend_from_slice(&bytes));
        if idle {
            queue.invalidations.drain(..).for_each(|bytes| out.extend_from_slice(&bytes));
        }
        queue.bytes = queue.bytes.saturating_sub(out.len() - before);
        if queue.bytes == 0 {
            *queue = Queue::default();
            self.has_pushes.store(false, Relaxed);
        }
    }

    /// Ends the connection as soon as its worker comes to it, what is unsent forgotten; `false` if it was told before.
    pub fn kill(&self) -> bool {
        let first = !self.killed.swap(true, Relaxed);
        self.nudge();
        first
    }

    /// Whether it is to end.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Address;

    #[test]
    fn who_is_to_end_hears_no_more() {
        let local = Address::Unix("/x".into());
        let entry = Entry::new(Peer { id: 1, remote: local.clone(), local, since_ms: 0 }, Kind::Redis);
        let mut out = Vec::new();
        assert!(entry.push(&b"heard"[..].into(), 100));
        entry.take_pushes(true, &mut out);
        assert_eq!(out, b"heard");
        // What was published before it was told to end, and not sent yet.
        assert!(entry.push(&b"secret"[..].into(), 100));
        assert!(entry.kill() && entry.has_pushes());
        entry.take_pushes(true, &mut out);
        assert_eq!((&out[..], entry.has_pushes(), entry.waiting_bytes()), (&b"heard"[..], false, 0));
    }
}
