//! How many keys each database has, and how many of them expire: a word for each stripe, changed with the entry that it counts.
//!
//! ```text
//! word   63..40 keys   39..16 those that expire   15..0 check of place and counts
//! ```
//!
//! Steps of several keys count what they add in places of their own: a stripe's count may be below nothing.
//!
//! Where a word is damaged, an opening counts anew what the entries lead to.

use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::op::DATABASES;
use terrace_engine::record::RecordMeta;
use terrace_engine::space::Counted;
use terrace_media::ByteRegion;

use super::PmTable;
use super::line::chunk_of;
use crate::layout::CHUNK_HEAD_BYTES;

/// Of one stripe and database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub keys: i64,
    pub expiring: i64,
}

/// What a record counts for: a key, and one that expires.
pub type Weight = (bool, bool);

const FIELD: i64 = (1 << 24) - 1;

impl Count {
    /// Its word at this place.
    pub fn word(self, at: u64, store_id: u64) -> u64 {
        let counts = ((self.keys & FIELD) << 24 | self.expiring & FIELD) as u64;
        let mixed = (counts ^ at.rotate_left(40) ^ store_id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        counts << 16 | mixed >> 48
    }
    /// What a word at this place says, if it is one.
    pub fn of_word(word: u64, at: u64, store_id: u64) -> Option<Self> {
        let word_of = word as i64;
        let count = Self { keys: word_of >> 40, expiring: word_of << 24 >> 40 };
        (count.word(at, store_id) == word).then_some(count)
    }
    /// With one record more, and one less.
    pub fn changed(self, old: Weight, new: Weight) -> Self {
        let change = |count: i64, old: bool, new: bool| count + i64::from(new) - i64::from(old);
        Self { keys: change(self.keys, old.0, new.0), expiring: change(self.expiring, old.1, new.1) }
    }
}

impl<R: ByteRegion> PmTable<R> {
    /// What the record in a chunk counts for.
    pub(super) fn weight(&self, chunk: u64, db: u8) -> Weight {
        let (version, expires) = self.facts(chunk);
        self.weight_of(db, version, expires)
    }
    /// The same of a record with this version, and an expiry or none.
    pub(super) fn weight_of(&self, db: u8, version: u64, expires: bool) -> Weight {
        let is_counted = version > self.flushed[usize::from(db) & 15].load(Relaxed);
        (is_counted, is_counted && expires)
    }

    /// The word that a stripe's count of a database is to have, and where.
    pub(super) fn counted(&self, stripe: usize, db: u8, old: Weight, new: Weight) -> Option<(u64, u64)> {
        if old == new {
            return None;
        }
        let at = self.front.count(stripe, db);
        let (word, store_id) = (self.medium.region.load_u64(at), self.medium.store_id);
        let count = Count::of_word(word, at, store_id).unwrap_or_default();
        Some((at, count.changed(old, new).word(at, store_id)))
    }

    /// Makes all counts of some databases nothing; durable when it returns.
    pub(super) fn clear_counts(&self, databases: impl Fn(usize) -> bool) {
        for stripe in 0..self.stripes.count() {
            for db in (0..DATABASES).filter(|db| databases(*db)) {
                let at = self.front.count(stripe, db as u8);
                let word = Count::default().word(at, self.medium.store_id);
                self.medium.region.write_nt(at, &word.to_le_bytes());
            }
        }
        self.medium.region.fence();
    }

    /// Counts anew what the entries lead to: all of the index is read, and a line of each record. The first word stays damaged until all
    /// others are right, so that an opening after a crash begins again.
    #[cold]
    pub(super) fn recount(&self) -> Counted {
        let (region, store_id) = (&self.medium.region, self.medium.store_id);
        let store = |at: u64, word: u64| region.write_nt(at, &word.to_le_bytes());
        let first = self.front.count(0, 0);
        // A lane tells a count of before.
        (0..self.stripes.count()).for_each(|stripe| self.clear_lane(stripe));
        store(first, !Count::default().word(first, store_id));
        region.fence();
        let mut counts = vec![[Count::default(); DATABASES]; self.stripes.count()];
        for bucket in 0..self.buckets() {
            let counts = &mut counts[self.stripes.of(bucket)];
            self.pages.note_scanned(self.line_of(bucket));
            self.walk(bucket, |at, entry| {
                let chunk = chunk_of(entry);
                if self.pages.number(chunk).is_some() {
                    self.pages.note_scanned(at);
                    self.pages.note_scanned(chunk);
                    let meta =
                        RecordMeta(region.load_u64(self.medium.at(chunk) + CHUNK_HEAD_BYTES as u64 + 8));
                    let db = meta.db() & 15;
                    let count = &mut counts[usize::from(db)];
                    *count = count.changed((false, false), self.weight(chunk, db));
                }
                false
            });
        }
        let words = counts.iter().enumerate().flat_map(|(stripe, of)| {
            of.iter().enumerate().map(move |(db, count)| (self.front.count(stripe, db as u8), *count))
        });
        words.clone().skip(1).for_each(|(at, count)| store(at, count.word(at, store_id)));
        self.steps.clear(|_| true);
        self.save_steps();
        words.take(1).for_each(|(at, count)| store(at, count.word(at, store_id)));
        region.fence();
        self.healed.fetch_add(1, Relaxed);
        let sum = |of: fn(&Count) -> i64| {
            std::array::from_fn(|db| counts.iter().map(|counts| of(&counts[db])).sum::<i64>().max(0) as u64)
        };
        Counted { keys: sum(|count| count.keys), expiring: sum(|count| count.expiring), ..Counted::default() }
    }

    /// All counts; `None` if a word is damaged.
    pub(super) fn sum(&self) -> Option<Counted> {
        let mut all = self.steps.counts();
        let mut words = vec![0; DATABASES * 8];
        for stripe in 0..self.stripes.count() {
            self.medium.region.read(self.front.count(stripe, 0), &mut words);
            for (db, all) in all.iter_mut().enumerate() {
                let word = terrace_blocks::u64_at(&words, db * 8);
                let count = Count::of_word(word, self.front.count(stripe, db as u8), self.medium.store_id)?;
                *all = (all.0 + count.keys, all.1 + count.expiring);
            }
        }
        Some(Counted {
            keys: all.map(|(keys, _)| keys.max(0) as u64),
            expiring: all.map(|(_, expiring)| expiring.max(0) as u64),
            ..Counted::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_its_counts_and_damage_shows() {
        let count = Count { keys: 1234, expiring: 7 };
        let word = count.word(64, 9);
        assert_eq!(Count::of_word(word, 64, 9), Some(count));
        assert_eq!(Count::of_word(word, 72, 9), None, "another place's");
        assert!((0..64).all(|bit| Count::of_word(word ^ 1 << bit, 64, 9).is_none()));
        assert_eq!(Count::of_word(0, 64, 9), None, "a line that was lost");
        assert_eq!(count.changed((false, false), (true, true)), Count { keys: 1235, expiring: 8 });
        assert_eq!(count.changed((true, true), (true, false)), Count { keys: 1234, expiring: 6 });
        let none = Count::default().changed((true, true), (false, false));
        assert_eq!(none, Count { keys: -1, expiring: -1 });
        assert_eq!(Count::of_word(none.word(64, 9), 64, 9), Some(none));
    }
}
