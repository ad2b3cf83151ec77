//! Client tracking: which keys clients may have in caches of their own, and who must hear of a write.
//!
//! ```text
//!   GET by a tracking client --remember, before it is executed--> table: key -> ids
//!   write settled --written--> the key's ids, taken out of the table --> an invalidation in each one's queue
//!                          '--> clients that broadcast: those of every prefix that the key begins with
//! ```
//! A key is remembered before it is read, so that no write falls between; an invalidation reaches its client behind the
//! answers to what it sent ([`Entry::push_invalidation`]), so that no answer older than it comes after it. As in Redis, keys
//! are remembered without their database, and ids of connections that are gone stay until the key is written.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use terrace_engine::{Batch, OpKind, Settled};
use terrace_protocol::resp::{Encoder, Version};

use super::hub::cost;
use super::{Entry, Name, Registry, changes, flag, want};

const PARTS: usize = 16;
/// Redis's default of `tracking-table-max-keys`.
const KEYS_MAX: usize = 1_000_000;
/// Most bytes of the table, however many keys it may have: these have up to 64 KiB.
const TABLE_BYTES_MAX: usize = 256 << 20;
/// What an id costs beside its key, about.
const ID_BYTES: usize = 16;
/// Different prefixes of all connections: every write is compared with each of them.
pub(crate) const PREFIXES_OF_ALL_MAX: usize = 16_384;
/// Where clients that speak RESP2 hear of invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// See the module.
pub(crate) struct Tracking {
    parts: [Mutex<BTreeMap<Name, BTreeSet<u64>>>; PARTS],
    hasher: RandomState,
    /// In all parts.
    keys: AtomicUsize,
    /// What they and their ids take, about.
    bytes: AtomicUsize,
    /// Most of those.
    bytes_max: usize,
    /// `tracking-table-max-keys`; 0 for any number.
    pub keys_max: AtomicUsize,
    prefixes: Mutex<BTreeMap<Name, BTreeSet<u64>>>,
    /// Connections that track.
    clients: AtomicUsize,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            parts: Default::default(),
            hasher: RandomState::default(),
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: TABLE_BYTES_MAX,
            keys_max: AtomicUsize::new(KEYS_MAX),
            prefixes: Mutex::default(),
            clients: AtomicUsize::new(0),
        }
    }
}

impl Tracking {
    fn part(&self, key: &[u8]) -> &Mutex<BTreeMap<Name, BTreeSet<u64>>> {
        &self.parts[self.hasher.hash_one(key) as usize % PARTS]
    }

    /// Connections that track.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Keys in the table.
    pub fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    /// Prefixes that somebody listens to.
    pub fn prefixes(&self) -> usize {
        self.prefixes.lock().len()
    }

    /// Whether the table is larger than it may be.
    fn is_over(&self) -> bool {
        let keys_max = self.keys_max.load(Relaxed);
        keys_max > 0 && self.keys() > keys_max || self.bytes.load(Relaxed) > self.bytes_max
    }

    /// Keys with their ids were taken out.
    fn taken<'a>(&self, entries: impl Iterator<Item = (&'a Name, &'a BTreeSet<u64>)>) {
        for (key, ids) in entries {
            self.keys.fetch_sub(1, Relaxed);
            self.bytes.fetch_sub(cost(key) + ids.len() * ID_BYTES, Relaxed);
        }
    }
}

/// What `CLIENT TRACKING ON` asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Bits of [`flag`].
    pub flags: u32,
    /// The connection that is told instead; 0 for none.
    pub redirect: u64,
    /// With BCAST; none are all keys.
    pub prefixes: Vec<Name>,
}

/// The bits of [`flag`] that tracking sets.
const FLAGS: u32 = flag::TRACKING
    | flag::BROADCAST
    | flag::OPT_IN
    | flag::OPT_OUT
    | flag::NO_LOOP
    | flag::CACHING
    | flag::BROKEN_REDIRECT;

impl Registry {
    /// The connection tracks keys from now on; prefixes add to those before. `false`, and nothing is done, if all connections together
    /// would track too many prefixes.
    pub fn track(&self, entry: &Arc<Entry>, options: Options) -> bool {
        if options.flags & flag::BROADCAST != 0 && !self.add_prefixes(entry, options.prefixes) {
            return false;
        }
        if !entry.has(flag::TRACKING) {
            self.tracking.clients.fetch_add(1, Relaxed);
            self.want(want::WRITES, true);
        }
        entry.set(FLAGS & !flag::BROADCAST, false);
        entry.set(flag::TRACKING | options.flags, true);
        entry.redirect.store(options.redirect as i64, Relaxed);
        true
    }

    fn add_prefixes(&self, entry: &Entry, mut prefixes: Vec<Name>) -> bool {
        let mut own = entry.prefixes.lock();
        if prefixes.is_empty() && own.is_empty() {
            prefixes.push(Arc::from(&b""[..]));
        }
        let mut all = self.tracking.prefixes.lock();
        let new = prefixes.iter().filter(|prefix| !all.contains_key(*prefix)).count();
        if new > 0 && all.len() + new > PREFIXES_OF_ALL_MAX {
            return false;
        }
        for prefix in prefixes {
            all.entry(Arc::clone(&prefix)).or_default().insert(entry.id());
            own.insert(prefix);
        }
        entry.kept.prefixes.store(own.iter().map(|prefix| cost(prefix)).sum(), Relaxed);
        true
    }

    /// The connection tracks nothing from now on.
    pub fn untrack(&self, entry: &Entry) {
        if !entry.has(flag::TRACKING) {
            return;
        }
        let own = std::mem::take(&mut *entry.prefixes.lock());
        {
            let mut all = self.tracking.prefixes.lock();
            for prefix in own {
                if let Some(ids) = all.get_mut(&prefix) {
                    ids.remove(&entry.id());
                    if ids.is_empty() {
                        all.remove(&prefix);
                    }
                }
            }
        }
        entry.kept.prefixes.store(0, Relaxed);
        entry.set(FLAGS, false);
        entry.redirect.store(-1, Relaxed);
        if self.tracking.clients.fetch_sub(1, Relaxed) == 1 {
            self.want(want::WRITES, false);
            // Another may have begun in between.
            if self.tracking.clients() > 0 {
                self.want(want::WRITES, true);
            }
        }
    }

    /// The connection is about to read a key.
    pub fn remember(&self, key: &[u8], entry: &Entry) {
        let tracking = &self.tracking;
        let mut evicted = Vec::new();
        {
            let mut part = tracking.part(key).lock();
            if let Some(ids) = part.get_mut(key) {
                tracking.bytes.fetch_add(if ids.insert(entry.id()) { ID_BYTES } else { 0 }, Relaxed);
            } else {
                part.insert(key.into(), BTreeSet::from([entry.id()]));
                tracking.keys.fetch_add(1, Relaxed);
                tracking.bytes.fetch_add(cost(key) + ID_BYTES, Relaxed);
            }
            while tracking.is_over() {
                // The next one in order, so any: keys come in no order. The key itself if there is no other.
                let next = part.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next();
                let next = next.or_else(|| part.iter().next()).map(|(next, _)| Arc::clone(next));
                let Some(taken) = next.and_then(|next| part.remove_entry(&next)) else { break };
                tracking.taken(std::iter::once((&taken.0, &taken.1)));
                evicted.push(taken);
            }
        }
        evicted.iter().for_each(|(key, ids)| self.invalidate(key, ids, 0));
    }

    /// What the table holds beyond what it may is forgotten, and told.
    pub fn fit_tracked(&self) {
        for part in &self.tracking.parts {
            while self.tracking.is_over() {
                let Some((key, ids)) = part.lock().pop_first() else { break };
                self.tracking.taken(std::iter::once((&key, &ids)));
                self.invalidate(&key, &ids, 0);
            }
        }
    }

    /// Tells of what these operations of a settled batch wrote, for the connection `by`.
    pub fn tell_writes(&self, batch: &Batch, proof: &Settled, ops: std::ops::Range<usize>, by: &Entry) {
        let mut keys: Vec<&[u8]> = Vec::new();
        for i in ops {
            let (op, reply) = (batch.op(i), batch.reply(i, proof));
            if matches!((&op.kind, reply), (OpKind::Flush { .. }, terrace_engine::Reply::Done)) {
                self.written(&std::mem::take(&mut keys), by.id());
                self.flushed();
            } else if changes::is_change(&op.kind, reply) {
                keys.push(batch.input(op.key));
            }
        }
        self.written(&keys, by.id());
    }

    /// Keys were written by the connection with this id; 0 for none.
    pub fn written(&self, keys: &[&[u8]], by: u64) {
        if self.wants() & want::WRITES == 0 || keys.is_empty() {
            return;
        }
        for key in keys {
            let taken = self.tracking.part(key).lock().remove_entry(*key);
            if let Some((key, ids)) = taken {
                self.tracking.taken(std::iter::once((&key, &ids)));
                self.invalidate(&key, &ids, by);
            }
        }
        self.broadcast(keys, by);
    }

    fn invalidate(&self, key: &[u8], ids: &BTreeSet<u64>, by: u64) {
        let keys = [key];
        let forms = Invalidations::new(Some(&keys));
        for id in ids {
            let entry = self.find(*id);
            let tracks = |entry: &Arc<Entry>| entry.has(flag::TRACKING) && !entry.has(flag::BROADCAST);
            if let Some(entry) = entry.filter(tracks)
                && !(entry.has(flag::NO_LOOP) && *id == by)
            {
                self.send(&entry, &forms);
            }
        }
    }

    fn broadcast(&self, keys: &[&[u8]], by: u64) {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        // Few prefixes are expected; copied, so that nothing is sent under the lock.
        let prefixes: Vec<(Name, Vec<u64>)> = {
            let prefixes = self.tracking.prefixes.lock();
            prefixes.iter().map(|(name, ids)| (Arc::clone(name), ids.iter().copied().collect())).collect()
        };
        for (prefix, ids) in prefixes {
            let fitting: Vec<&[u8]> = keys.iter().filter(|key| key.starts_with(&prefix)).copied().collect();
            if fitting.is_empty() {
                continue;
            }
            let forms = Invalidations::new(Some(&fitting));
            for entry in ids.into_iter().filter_map(|id| self.find(id)) {
                if !(entry.has(flag::NO_LOOP) && entry.id() == by) {
                    self.send(&entry, &forms);
                }
            }
        }
    }

    /// Every key was deleted, or those of a database: all caches are to be emptied.
    pub fn flushed(&self) {
        if self.wants() & want::NOTES != 0 {
            self.noted.flushed();
        }
        for part in &self.tracking.parts {
            let taken = std::mem::take(&mut *part.lock());
            self.tracking.taken(taken.iter());
        }
        let forms = Invalidations::new(None);
        for entry in self.all() {
            if entry.has(flag::TRACKING) {
                self.send(&entry, &forms);
            }
        }
    }

    /// Sends an invalidation to a tracking connection, or to the one that it named.
    fn send(&self, entry: &Entry, forms: &Invalidations<'_>) {
        let max = self.push_bytes_max();
        let redirect = entry.redirect.load(Relaxed);
        if redirect <= 0 {
            if entry.version() == Version::Resp3 {
                self.delivered(entry, entry.push_invalidation(forms.push(), max));
            }
            return;
        }
        match self.find(redirect as u64) {
            Some(target) if target.version() == Version::Resp3 => self.push(&target, forms.push()),
            Some(target) if target.has(flag::SUBSCRIBED) => self.push(&target, forms.message()),
            // RESP2 has no pushes outside of a subscription.
            Some(_) => {}
            None => {
                entry.set(flag::BROKEN_REDIRECT, true);
                if entry.version() == Version::Resp3 {
                    let mut bytes = Vec::new();
                    let mut encoder = Encoder::new(&mut bytes, Version::Resp3);
                    encoder.push(2);
                    encoder.bulk(b"tracking-redir-broken");
                    encoder.integer(redirect);
                    self.delivered(entry, entry.push_invalidation(&bytes.into(), max));
                }
            }
        }
    }
}

/// The message about some keys, or about all, in the forms in which clients get it.
struct Invalidations<'a> {
    keys: Option<&'a [&'a [u8]]>,
    push: std::cell::OnceCell<Arc<[u8]>>,
    message: std::cell::OnceCell<Arc<[u8]>>,
}

impl<'a> Invalidations<'a> {
    fn new(keys: Option<&'a [&'a [u8]]>) -> Self {
        Self { keys, push: Default::default(), message: Default::default() }
    }

    /// For RESP3.
    fn push(&self) -> &Arc<[u8]> {
        self.push.get_or_init(|| self.encode(Version::Resp3, &[b"invalidate"]))
    }

    /// For a subscriber of RESP2.
    fn message(&self) -> &Arc<[u8]> {
        self.message.get_or_init(|| self.encode(Version::Resp2, &[b"message", CHANNEL]))
    }

    fn encode(&self, version: Version, before: &[&[u8]]) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, version);
        encoder.push(before.len() + 1);
        before.iter().for_each(|part| encoder.bulk(part));
        match self.keys {
            Some(keys) => {
                encoder.array(keys.len());
                keys.iter().for_each(|key| encoder.bulk(key));
            }
            None => encoder.null(),
        }
        bytes.into()
    }
}

#[cfg(test)]
mod tests;
