//! The newest record of each key, of as many keys as fit into a share of the DRAM.
//!
//! ```text
//!   pass 1   | from ============= to |   given up: it did not fit      |
//!   pass 2                           | from ============ to | given up |
//!   pass 3                                                  | from  to |      shards are ranges of the hash
//! ```
//!
//! Every pass sees all records of the store and decides over the keys of its shards. It begins with all that are left; where they
//! don't fit the last one is given up for this pass, until the others fit. So nobody has to know how many keys there are.
//!
//! # Invariants
//! * The shards from `from` to `to` have seen every record of their keys that was offered.
//! * They hold at most `most` bytes, or are one shard.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::*;

use parking_lot::Mutex;
use terrace_index::Address;

use crate::record::{Kind, Lifetime};
use crate::space::Found;

/// One shard is decided in a pass, however little DRAM there is.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 10;
/// Room for a key.
pub(super) const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

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

/// A winner, packed. `place` is 0 where there is none.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    version: u64,
    /// An address, or a place in the log:48; kind:2, database:4, alone:1, from the log:1.
    place: u64,
    expire_at: u64,
    check: u32,
    words: u32,
}

const LOG: u64 = 1 << 55;
const ALONE: u64 = 1 << 54;
const PLACE: u64 = (1 << 48) - 1;

impl Entry {
    fn of_media(found: &Found) -> Self {
        let place = found.address.raw()
            | (found.kind as u64) << 48
            | u64::from(found.db & 15) << 50
            | u64::from(found.life.alone) * ALONE;
        Self {
            hash: found.hash,
            version: found.version,
            place,
            expire_at: found.life.expire_at,
            check: found.check,
            words: found.words,
        }
    }
    fn of_log((hash, check): (u64, u32), version: u64, place: u64, life: Lifetime) -> Self {
        let place = place & PLACE | u64::from(life.alone) * ALONE | LOG;
        Self { hash, version, place, expire_at: life.expire_at, check, words: 0 }
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

/// An open table of winners.
#[derive(Default)]
struct Shard {
    table: Vec<Entry>,
    taken: usize,
}

impl Shard {
    fn bytes(&self) -> usize {
        self.table.len() * size_of::<Entry>()
    }
    /// Where a key is, or would be; its table has a free place.
    fn find(table: &[Entry], hash: u64, check: u32) -> Option<usize> {
        let own = u128::from(hash << SHARD_BITS) * table.len() as u128;
        let start = (own >> 64) as usize;
        let places = (start..table.len()).chain(0..start);
        places.into_iter().find(|&at| {
            let entry = &table[at];
            entry.place == 0 || (entry.hash, entry.check) == (hash, check)
        })
    }
    fn offer(&mut self, offered: Entry) {
        if let Some(at) = Self::find(&self.table, offered.hash, offered.check)
            && self.table[at].place != 0
        {
            if self.table[at].loses_to(&offered) {
                self.table[at] = offered;
            }
            return;
        }
        if (self.taken + 1) * 8 > self.table.len() * 7 {
            self.grow();
        }
        if let Some(at) = Self::find(&self.table, offered.hash, offered.check) {
            self.table[at] = offered;
            self.taken += 1;
        }
    }
    /// By a quarter: a table that is twice as long as it need be would halve what a pass decides.
    fn grow(&mut self) {
        let length = self.table.len() + (self.table.len() / 4).max(2);
        let mut table = Vec::new();
        table.reserve_exact(length);
        table.resize(length, Entry::default());
        for entry in self.table.drain(..).filter(|entry| entry.place != 0) {
            if let Some(at) = Self::find(&table, entry.hash, entry.check) {
                table[at] = entry;
            }
        }
        self.table = table;
    }
}

/// Which part of the whole a pass is, for progress.
#[derive(Clone, Copy)]
pub(super) struct Share {
    from: u64,
    shards: u64,
}

impl Share {
    /// Of `total`, what is done when so much of the pass is.
    pub fn of(self, done: u64, total: u64) -> u64 {
        let done = u128::from(total) * u128::from(self.from) + u128::from(done) * u128::from(self.shards);
        (done / SHARDS as u128) as u64
    }
}

/// See the module.
pub(super) struct Winners {
    shards: Box<[Mutex<Shard>]>,
    from: usize,
    to: AtomicUsize,
    /// Shards of the pass before.
    width: usize,
    bytes: AtomicUsize,
    most: usize,
}

impl Winners {
    /// For a first pass of at most so many bytes.
    pub fn new(most: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            from: 0,
            to: SHARDS.into(),
            width: SHARDS,
            bytes: 0.into(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    /// The next pass begins, with at most so many bytes. `false`: all keys were decided over.
    pub fn next_pass(&mut self, most: u64) -> bool {
        let from = std::mem::replace(&mut self.from, *self.to.get_mut());
        self.width = self.from - from;
        self.to = SHARDS.into();
        self.bytes = 0.into();
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        self.from < SHARDS
    }

    /// What part of all keys the pass decides over, about: as large a part as the one before it.
    pub fn share(&self) -> Share {
        Share { from: self.from as u64, shards: (SHARDS - self.from).min(self.width) as u64 }
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
        let number = (hash >> (64 - SHARD_BITS)) as usize;
        if number < self.from || number >= self.to.load(Acquire) {
            return;
        }
        let mut shard = self.shards[number].lock();
        // It may have been given up meanwhile.
        if number >= self.to.load(Acquire) {
            return;
        }
        let before = shard.bytes();
        shard.offer(entry());
        let grown = shard.bytes() - before;
        // Under the lock: who gives the shard up must find its bytes counted.
        let all = if grown > 0 { self.bytes.fetch_add(grown, AcqRel) + grown } else { 0 };
        drop(shard);
        if all > self.most {
            while self.bytes.load(Acquire) > self.most && self.give_up_last() {}
        }
    }

    /// Leaves the last shard to a later pass. `false`: it is the only one.
    fn give_up_last(&self) -> bool {
        let to = self.to.load(Acquire);
        if to <= self.from + 1 {
            return false;
        }
        if self.to.compare_exchange(to, to - 1, AcqRel, Relaxed).is_ok() {
            let given_up = std::mem::take(&mut *self.shards[to - 1].lock());
            self.bytes.fetch_sub(given_up.bytes(), AcqRel);
        }
        true
    }

    /// Takes out the winners of this pass, and frees the table as it goes.
    pub fn take(&mut self) -> impl Iterator<Item = Winner> + '_ {
        let decided = self.from..*self.to.get_mut();
        self.shards[decided].iter().flat_map(|shard| {
            let Shard { table, .. } = std::mem::take(&mut *shard.lock());
            table.into_iter().filter(|entry| entry.place != 0).filter_map(|entry| entry.winner())
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
        for most in [ENTRY_BYTES, KEYS * ENTRY_BYTES / 7, KEYS * ENTRY_BYTES * 2] {
            let mut winners = Winners::new(most);
            let (mut passes, mut all) = (0u64, BTreeMap::new());
            loop {
                offer_all(&winners, KEYS);
                // One shard is taken however large it is.
                assert!(*winners.bytes.get_mut() as u64 <= most.max(KEYS / SHARDS as u64 * ENTRY_BYTES * 3));
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
            match most {
                ENTRY_BYTES => assert_eq!(passes, SHARDS as u64),
                most if most > KEYS * ENTRY_BYTES => assert_eq!(passes, 1),
                _ => assert!((7..=12).contains(&passes), "{passes} passes"),
            }
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
