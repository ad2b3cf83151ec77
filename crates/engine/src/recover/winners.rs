//! The newest record of each key, of as many keys as fit into a share of the DRAM.
//!
//! ```text
//!   pass 1   | from =========== last |   given up: it did not fit          |
//!   pass 2                           | from ========== last |   given up   |
//!   pass 3                                                  | from == last |      ranges of the hash
//! ```
//!
//! Every pass sees all records of the store and decides over the keys in a range of hashes. It begins with all that are left; where
//! they don't fit the last quarter is given up for this pass, until the others fit. So nobody has to know how many keys there are.
//!
//! The table consists of stripes, so that several threads can fill it, and a stripe of chunks of one size: memory of tables that grow
//! would be scattered over the allocator's sizes, and take several times as much.
//!
//! # Invariants
//! * What was offered of keys up to `last`, which only falls, was taken. What is there of others means nothing.
//! * A stripe holds at most `most` entries, but where nearly all keys have one hash.

use std::sync::atomic::Ordering::*;

use parking_lot::Mutex;
use terrace_index::Address;

use crate::record::{Kind, Lifetime};
use crate::space::Found;
use crate::sync::AtomicU64;

/// Room for a key: its entry, and its share of what finds it.
pub(super) const ENTRY_BYTES: u64 = size_of::<Entry>() as u64 + 4;
/// Entries that are allocated together.
const CHUNK: usize = 1 << 10;
/// Stripes at most, and entries that a stripe is worth.
const STRIPES: u64 = 64;
const STRIPE_ENTRIES: u64 = 4 * CHUNK as u64;
/// A range of hashes that is no longer is decided over at once.
const RANGE_LEAST: u64 = 1 << 24;
/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Where a key's newest record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Winner {
    Media(Found),
    /// Where it stands in the log.
    Log {
        place: u64,
        version: u64,
        life: Lifetime,
    },
}

/// A winner, packed.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    version: u64,
    /// An address, or a place in the log:48; kind:2, database:4, alone:1, from the log:1.
    place: u64,
    expire_at: u64,
    check: u32,
    words: u32,
    /// The next one of its chain.
    next: u32,
}

const LOG: u64 = 1 << 55;
const ALONE: u64 = 1 << 54;
const PLACE: u64 = (1 << 48) - 1;

impl Entry {
    fn of_media(found: &Found) -> Self {
        let place = found.address.raw()
            | ((found.kind as u64) << 48)
            | (u64::from(found.db & 15) << 50)
            | (u64::from(found.life.alone) * ALONE);
        Self {
            hash: found.hash,
            version: found.version,
            place,
            expire_at: found.life.expire_at,
            check: found.check,
            words: found.words,
            next: NONE,
        }
    }
    fn of_log((hash, check): (u64, u32), version: u64, place: u64, life: Lifetime) -> Self {
        let place = (place & PLACE) | (u64::from(life.alone) * ALONE) | LOG;
        Self { hash, version, place, expire_at: life.expire_at, check, words: 0, next: NONE }
    }
    fn is_log(&self) -> bool {
        self.place & LOG != 0
    }
    fn kind(&self) -> Kind {
        match self.place >> 48 & 3 {
            0 => Kind::Value,
            1 => Kind::Extent,
            2 => Kind::Tombstone,
            _ => Kind::Poison,
        }
    }
    fn winner(&self) -> Option<Winner> {
        let life = Lifetime { expire_at: self.expire_at, alone: self.place & ALONE != 0 };
        if self.is_log() {
            return Some(Winner::Log { place: self.place & PLACE, version: self.version, life });
        }
        Some(Winner::Media(Found {
            hash: self.hash,
            check: self.check,
            version: self.version,
            address: Address::from_raw(self.place & PLACE)?,
            words: self.words,
            kind: self.kind(),
            db: (self.place >> 50 & 15) as u8,
            life,
        }))
    }
    /// Whether a record found later takes the place of this one.
    fn loses_to(&self, later: &Self) -> bool {
        if later.is_log() && !self.is_log() && self.kind() == Kind::Poison {
            // The block has only the news that the record was damaged; in the log it is whole.
            return self.version <= later.version;
        }
        self.version < later.version
    }
}

/// Winners in chains.
#[derive(Default)]
struct Stripe {
    /// All but the last one are full.
    chunks: Vec<Vec<Entry>>,
    heads: Vec<u32>,
    /// The last hash when it was swept.
    swept: u64,
}

impl Stripe {
    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }
    fn at(&self, number: u32) -> &Entry {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
    fn at_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
    /// Which chain a hash is in. Bits above choose the pass, those below the stripe.
    fn chain(&self, hash: u64) -> usize {
        (hash >> 8) as usize % self.heads.len().max(1)
    }
    fn find(&self, hash: u64, check: u32) -> Option<u32> {
        let mut number = *self.heads.get(self.chain(hash))?;
        while number != NONE {
            let entry = self.at(number);
            if (entry.hash, entry.check) == (hash, check) {
                return Some(number);
            }
            number = entry.next;
        }
        None
    }
    fn push(&mut self, mut entry: Entry) {
        let number = self.len();
        if number >= self.heads.len() * 2 {
            self.link_all(self.heads.len() * 2 + 4);
        }
        let chain = self.chain(entry.hash);
        entry.next = std::mem::replace(&mut self.heads[chain], number as u32);
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
    }
    /// Makes so many chains of all entries.
    fn link_all(&mut self, chains: usize) {
        self.heads.clear();
        self.heads.resize(chains, NONE);
        for number in 0..self.len() as u32 {
            let chain = self.chain(self.at(number).hash);
            let next = std::mem::replace(&mut self.heads[chain], number);
            self.at_mut(number).next = next;
        }
    }
    /// Drops entries of hashes above `last`.
    fn sweep(&mut self, last: u64) {
        self.swept = last;
        let (mut kept, all) = (0usize, self.len());
        for number in 0..all {
            let entry = *self.at(number as u32);
            if entry.hash <= last {
                *self.at_mut(kept as u32) = entry;
                kept += 1;
            }
        }
        self.chunks.truncate(kept.div_ceil(CHUNK));
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.truncate(kept - (kept - 1) / CHUNK * CHUNK);
        }
        self.link_all(self.heads.len());
    }
}

/// Which part of the whole a pass is, for progress.
#[derive(Clone, Copy)]
pub(super) struct Share {
    from: u64,
    length: u64,
}

impl Share {
    /// Of `total`, what is done when so much of the pass is.
    pub fn of(self, done: u64, total: u64) -> u64 {
        let whole = u128::from(total) * u128::from(self.from) + u128::from(done) * u128::from(self.length);
        (whole >> 64) as u64
    }
}

/// See the module.
pub(super) struct Winners {
    stripes: Box<[Mutex<Stripe>]>,
    from: u64,
    last: AtomicU64,
    /// How many hashes the pass before decided over.
    length: u64,
    /// Entries of a stripe.
    most: usize,
}

impl Winners {
    /// For a first pass of at most so many bytes.
    pub fn new(most: u64) -> Self {
        let mut winners =
            Self { stripes: Box::default(), from: 0, last: u64::MAX.into(), length: u64::MAX, most: 0 };
        winners.limit(most);
        winners
    }

    fn limit(&mut self, most: u64) {
        let entries = most / ENTRY_BYTES;
        let stripes = (entries / STRIPE_ENTRIES).clamp(1, STRIPES);
        let empty = || Stripe { swept: u64::MAX, ..Stripe::default() };
        self.stripes = (0..stripes).map(|_| Mutex::new(empty())).collect();
        self.most = usize::try_from(entries / stripes).unwrap_or(usize::MAX).clamp(1, NONE as usize);
    }

    /// The next pass begins, with at most so many bytes. `false`: all keys were decided over.
    pub fn next_pass(&mut self, most: u64) -> bool {
        let last = self.last.load(Relaxed);
        if last == u64::MAX {
            return false;
        }
        self.length = last - self.from;
        self.from = last + 1;
        self.last.store(u64::MAX, Relaxed);
        self.limit(most);
        true
    }

    /// What part of all keys the pass decides over, about: as large a part as the one before it.
    pub fn share(&self) -> Share {
        Share { from: self.from, length: self.length.min(u64::MAX - self.from) }
    }

    /// A record that lies on a medium.
    pub fn offer_media(&self, found: &Found) {
        self.offer(|| Entry::of_media(found), found.hash);
    }

    /// An entry of the log that is a record of this key. All media were offered before.
    pub fn offer_log(&self, (hash, check): (u64, u32), version: u64, place: u64, life: Lifetime) {
        self.offer(|| Entry::of_log((hash, check), version, place, life), hash);
    }

    #[inline]
    fn offer(&self, entry: impl FnOnce() -> Entry, hash: u64) {
        if hash < self.from || hash > self.last.load(Relaxed) {
            return;
        }
        let entry = entry();
        let mut stripe = self.stripes[hash as usize % self.stripes.len()].lock();
        if let Some(number) = stripe.find(hash, entry.check) {
            let known = stripe.at_mut(number);
            if known.loses_to(&entry) {
                *known = Entry { next: known.next, ..entry };
            }
            return;
        }
        while stripe.len() >= self.most {
            let last = self.last.load(Relaxed);
            if stripe.swept > last {
                stripe.sweep(last);
                continue;
            }
            if last - self.from < RANGE_LEAST {
                break;
            }
            // Others may do the same for the same reason: once is enough.
            let fewer = self.from + (last - self.from) / 4 * 3;
            let _ = self.last.compare_exchange(last, fewer, Relaxed, Relaxed);
        }
        if hash <= self.last.load(Relaxed) {
            stripe.push(entry);
        }
    }

    /// Takes out the winners of this pass, and frees the table as it goes.
    pub fn take(&mut self) -> impl Iterator<Item = Winner> + '_ {
        let last = self.last.load(Relaxed);
        self.stripes.iter().flat_map(move |stripe| {
            let Stripe { chunks, .. } = std::mem::take(&mut *stripe.lock());
            let entries = chunks.into_iter().flatten();
            entries.filter(move |entry| entry.hash <= last).filter_map(|entry| entry.winner())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn found(key: u64, version: u64) -> Found {
        Found {
            hash: key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            check: key as u32,
            version,
            address: Address::new(version + 1),
            words: key as u32 & 0x3f_ffff,
            kind: Kind::Value,
            db: (key & 15) as u8,
            life: Lifetime { expire_at: key, alone: key & 1 == 1 },
        }
    }

    /// Each key comes three times, the newest in the middle.
    fn offer_all(winners: &Winners, keys: u64) {
        for round in [1, 3, 2] {
            (0..keys).for_each(|key| winners.offer_media(&found(key, key * 4 + round)));
        }
    }

    #[test]
    fn passes_decide_over_every_key_once_and_hold_no_more_than_they_may() {
        const KEYS: u64 = 20_000;
        for least in [100, 7, 1] {
            let most = KEYS.div_ceil(least) * ENTRY_BYTES * 101 / 100;
            let mut winners = Winners::new(most);
            let (mut passes, mut all) = (0u64, BTreeMap::new());
            loop {
                offer_all(&winners, KEYS);
                let held: usize = winners.stripes.iter().map(|stripe| stripe.lock().len()).sum();
                assert!(held as u64 <= (most / ENTRY_BYTES).max(1), "{held} entries");
                passes += 1;
                for winner in winners.take() {
                    let Winner::Media(winner) = winner else { panic!("nothing is in the log") };
                    assert!(all.insert(u64::from(winner.check), winner).is_none(), "decided twice");
                }
                if !winners.next_pass(most) {
                    break;
                }
            }
            assert_eq!(all.len() as u64, KEYS);
            assert!(all.iter().all(|(&key, winner)| *winner == found(key, key * 4 + 3)));
            assert!((least..=least * 3 / 2).contains(&passes), "{passes} passes");
        }
    }

    #[test]
    fn an_entry_of_the_log_replaces_an_older_record_and_the_news_of_damage() {
        let life = Lifetime { expire_at: 9, alone: true };
        for (kind, version, from_log) in [
            (Kind::Value, 6, true),
            (Kind::Value, 7, false),
            (Kind::Poison, 7, true),
            (Kind::Poison, 8, false),
        ] {
            let mut winners = Winners::new(u64::MAX);
            let there = Found { kind, version, ..found(1, version) };
            winners.offer_media(&there);
            winners.offer_log((there.hash, there.check), 7, 1234, life);
            winners.offer_log((there.hash, there.check), 5, 4321, life);
            let all: Vec<_> = winners.take().collect();
            let expected = match from_log {
                true => Winner::Log { place: 1234, version: 7, life },
                false => Winner::Media(there),
            };
            assert_eq!(all, [expected], "{kind:?} of version {version}");
        }
    }
}
