//! Who listens to what: channels, patterns of channels, shard channels.
//!
//! Channels are spread over parts, each with a lock of its own. A message is pushed to all who get it while the lock of its
//! channel's part is held: so all of them see the messages of a channel in the same order, and who unsubscribes gets what
//! was published before, and nothing after.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use terrace_protocol::resp::{Encoder, Version};

use super::{Entry, Registry};
use crate::effort::Effort;
use crate::resp::glob::{self, Glob};

const PARTS: usize = 16;

/// Something to listen to. The order is that of [`Subscriptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// A channel's or a pattern's name.
pub(crate) type Name = Arc<[u8]>;

/// By id, so that the oldest is first.
type Subscribers = BTreeMap<u64, Arc<Entry>>;

/// Who listens to a pattern.
struct Listeners {
    pattern: Glob,
    subscribers: Subscribers,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Hub {
    channels: Parts,
    shards: Parts,
    patterns: RwLock<BTreeMap<Name, Listeners>>,
    /// Of `patterns`; saves its lock.
    pattern_count: AtomicUsize,
    /// Subscriptions to channels and patterns; who has only that to tell need not speak when it is 0.
    listened: AtomicUsize,
}

#[derive(Default)]
struct Parts {
    parts: [Mutex<HashMap<Name, Subscribers>>; PARTS],
    hasher: RandomState,
}

impl Parts {
    fn of(&self, name: &[u8]) -> &Mutex<HashMap<Name, Subscribers>> {
        &self.parts[self.hasher.hash_one(name) as usize % PARTS]
    }

    /// The names that somebody listens to and the pattern matches, as far as the effort goes.
    fn names(&self, pattern: Option<&Glob>, effort: &mut Effort) -> Vec<Name> {
        let mut fits = |name: &&Name| pattern.is_none_or(|pattern| pattern.matches(name, effort));
        let mut names = Vec::new();
        for part in &self.parts {
            names.extend(part.lock().keys().filter(&mut fits).cloned());
        }
        names
    }

    fn count(&self, name: &[u8]) -> usize {
        self.of(name).lock().get(name).map_or(0, BTreeMap::len)
    }
}

impl Hub {
    /// Whether a message could reach anybody.
    pub fn is_listened_to(&self) -> bool {
        self.listened.load(Relaxed) > 0
    }

    /// From now on the connection gets what is published there.
    pub fn add(&self, topic: Topic, name: &Name, entry: &Arc<Entry>) {
        let insert = |subscribers: &mut Subscribers| {
            subscribers.insert(entry.id(), Arc::clone(entry));
        };
        match topic {
            Topic::Channel => insert(self.channels.of(name).lock().entry(Arc::clone(name)).or_default()),
            Topic::Shard => insert(self.shards.of(name).lock().entry(Arc::clone(name)).or_default()),
            Topic::Pattern => {
                let mut patterns = self.patterns.write();
                let listeners = patterns.entry(Arc::clone(name)).or_insert_with(|| Listeners {
                    pattern: Glob::new(name),
                    subscribers: Subscribers::new(),
                });
                insert(&mut listeners.subscribers);
                self.pattern_count.store(patterns.len(), Relaxed);
            }
        }
        if topic != Topic::Shard {
            self.listened.fetch_add(1, Relaxed);
        }
    }

    /// What is published there from now on does not reach the connection.
    pub fn remove(&self, topic: Topic, name: &[u8], entry: &Entry) {
        let remove = |subscribers: &mut Subscribers| {
            let removed = subscribers.remove(&entry.id()).is_some();
            if removed && topic != Topic::Shard {
                self.listened.fetch_sub(1, Relaxed);
            }
            subscribers.is_empty()
        };
        match topic {
            Topic::Channel | Topic::Shard => {
                let parts = if topic == Topic::Channel { &self.channels } else { &self.shards };
                let mut part = parts.of(name).lock();
                if part.get_mut(name).is_some_and(remove) {
                    part.remove(name);
                    part.shrink_to(16);
                }
            }
            Topic::Pattern => {
                let mut patterns = self.patterns.write();
                if patterns.get_mut(name).is_some_and(|listeners| remove(&mut listeners.subscribers)) {
                    patterns.remove(name);
                }
                self.pattern_count.store(patterns.len(), Relaxed);
            }
        }
    }

    /// Whether to find the patterns that a channel matches could take long enough for others to notice, with some more like it.
    pub fn may_take_long(&self, channel: &[u8]) -> bool {
        // A match takes less than a quarter of the channel's length squared.
        self.patterns().saturating_mul(channel.len()).saturating_mul(channel.len()) > 1 << 20
    }

    /// Sends a message to all who listen; returns how many get it, each subscription counted. `None`, and nobody gets it, if it takes
    /// more than the effort to find out which patterns the channel matches.
    pub fn publish(
        &self,
        channel: &[u8],
        message: &[u8],
        registry: &Registry,
        effort: &mut Effort,
    ) -> Option<usize> {
        let part = self.channels.of(channel).lock();
        // Under the lock of the part: who listens to a channel and a pattern gets both in the same order as others.
        let patterns = (self.pattern_count.load(Relaxed) > 0).then(|| self.patterns.read());
        let mut fitting = Vec::new();
        if let Some(patterns) = &patterns {
            fitting.extend(patterns.iter().filter(|(_, known)| known.pattern.matches(channel, effort)));
        }
        if effort.is_over() {
            return None;
        }
        let mut count = 0;
        if let Some(subscribers) = part.get(channel) {
            count += Forms::new(&[b"message", channel, message]).push(subscribers, registry);
        }
        for (pattern, Listeners { subscribers, .. }) in fitting {
            let parts = [&b"pmessage"[..], pattern, channel, message];
            count += Forms::new(&parts).push(subscribers, registry);
        }
        Some(count)
    }

    /// The same for a shard channel.
    pub fn publish_to_shard(&self, channel: &[u8], message: &[u8], registry: &Registry) -> usize {
        let part = self.shards.of(channel).lock();
        let Some(subscribers) = part.get(channel) else { return 0 };
        Forms::new(&[b"smessage", channel, message]).push(subscribers, registry)
    }

    /// The channels, or shard channels, that somebody listens to and the pattern matches, as far as the effort goes.
    pub fn names(&self, topic: Topic, pattern: Option<&Glob>, effort: &mut Effort) -> Vec<Name> {
        let parts = if topic == Topic::Shard { &self.shards } else { &self.channels };
        parts.names(pattern, effort)
    }

    /// How many channels, or shard channels, somebody listens to.
    pub fn channels(&self, topic: Topic) -> usize {
        let parts = if topic == Topic::Shard { &self.shards } else { &self.channels };
        parts.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// How many connections listen to a channel, or a shard channel.
    pub fn count(&self, topic: Topic, name: &[u8]) -> usize {
        if topic == Topic::Shard { self.shards.count(name) } else { self.channels.count(name) }
    }

    /// Different patterns that somebody listens to.
    pub fn patterns(&self) -> usize {
        self.pattern_count.load(Relaxed)
    }
}

/// One message in both versions of the protocol, encoded when the first connection of that version gets it.
pub(crate) struct Forms<'a> {
    parts: &'a [&'a [u8]],
    encoded: [std::cell::OnceCell<Arc<[u8]>>; 2],
}

impl<'a> Forms<'a> {
    /// The message of these parts.
    pub fn new(parts: &'a [&'a [u8]]) -> Self {
        Self { parts, encoded: Default::default() }
    }

    /// As this version writes it.
    pub fn of(&self, version: Version) -> &Arc<[u8]> {
        self.encoded[usize::from(version == Version::Resp3)].get_or_init(|| {
            let mut bytes = Vec::with_capacity(self.parts.iter().map(|part| part.len() + 16).sum());
            let mut encoder = Encoder::new(&mut bytes, version);
            encoder.push(self.parts.len());
            self.parts.iter().for_each(|part| encoder.bulk(part));
            bytes.into()
        })
    }

    fn push(&self, subscribers: &Subscribers, registry: &Registry) -> usize {
        // One that has ended, for it had too much waiting, may listen to many patterns more.
        for entry in subscribers.values().filter(|entry| !entry.is_killed()) {
            registry.push(entry, self.of(entry.version()));
        }
        subscribers.len()
    }
}

/// Most bytes that the names of one connection may cost.
pub(crate) const NAME_BYTES_MAX: usize = 64 << 20;

/// What a name costs, here and in the hub.
pub(super) fn cost(name: &[u8]) -> usize {
    name.len() + 128
}

/// The same for one to listen to: a pattern is kept as it is compared, too.
fn cost_of(topic: Topic, name: &[u8]) -> usize {
    cost(name) + if topic == Topic::Pattern { glob::compiled_bytes(name) } else { 0 }
}

/// What one connection listens to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Name>; 3],
    bytes: usize,
}

impl Subscriptions {
    /// Whether these names may be added.
    pub fn have_room(&self, topic: Topic, names: &[Name]) -> bool {
        self.bytes + names.iter().map(|name| cost_of(topic, name)).sum::<usize>() <= NAME_BYTES_MAX
    }

    /// Adds one; whether it is new.
    pub fn add(&mut self, topic: Topic, name: &Name) -> bool {
        let added = self.names[topic as usize].insert(Arc::clone(name));
        self.bytes += if added { cost_of(topic, name) } else { 0 };
        added
    }

    /// Removes one; whether it was there.
    pub fn remove(&mut self, topic: Topic, name: &[u8]) -> bool {
        let removed = self.names[topic as usize].remove(name);
        self.bytes -= if removed { cost_of(topic, name) } else { 0 };
        removed
    }

    /// Removes all of a kind.
    pub fn take(&mut self, topic: Topic) -> BTreeSet<Name> {
        let taken = std::mem::take(&mut self.names[topic as usize]);
        self.bytes -= taken.iter().map(|name| cost_of(topic, name)).sum::<usize>();
        taken
    }

    /// What they cost.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Those of a kind.
    pub fn names(&self, topic: Topic) -> impl Iterator<Item = &Name> {
        self.names[topic as usize].iter()
    }

    /// How many of each kind.
    pub fn counts(&self) -> [usize; 3] {
        [0, 1, 2].map(|topic: usize| self.names[topic].len())
    }
}

#[cfg(test)]
mod tests;
