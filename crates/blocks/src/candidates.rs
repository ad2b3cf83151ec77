//! Tombstones that a sweep may drop: a bounded list of small entries.

use std::collections::HashMap;

use terrace_engine::record::Kind;
use terrace_index::{Address, Key};

use crate::layout::FooterEntry;

/// The part of the DRAM for records that one sweep's list takes.
const PART: u64 = 32;
/// A list has room for so many, however little DRAM there is, and never for more than so many.
const LEAST: usize = 1 << 10;
const MOST: usize = 1 << 20;

/// A tombstone that the index referred to.
pub(crate) struct Candidate {
    hash: u64,
    check: u32,
    db: u8,
    struck: bool,
    pub slot: u32,
    pub words: u32,
    pub version: u64,
    pub address: Address,
    /// The key, where the index needs it.
    key: Box<[u8]>,
}

impl Candidate {
    pub fn new(slot: u32, entry: &FooterEntry, (address, words): (Address, u32), key: &[u8]) -> Self {
        let FooterEntry { hash, check, db, version, .. } = *entry;
        Self { hash, check, db, struck: false, slot, words, version, address, key: key.into() }
    }
    pub fn key(&self) -> Key<'_> {
        Key { hash: self.hash, db: self.db, bytes: &self.key }
    }
    fn id(&self) -> (u64, u32) {
        (self.hash, self.check)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Candidates {
    list: Vec<Candidate>,
    /// The sequence number of each one's block: the slot may be used for something else before the sweep ends.
    seqs: HashMap<u32, u64>,
    /// Those that were not struck off.
    left: usize,
}

impl Candidates {
    /// How many a sweep may collect in a store that has so much DRAM for records.
    pub fn most(dram_bytes: u64) -> usize {
        ((dram_bytes / PART) as usize / size_of::<Candidate>()).clamp(LEAST, MOST)
    }

    pub fn push(&mut self, candidate: Candidate, seq: u64, most: usize) {
        if self.list.capacity() == 0 {
            // At once: a list that grows holds twice its bytes while it does.
            self.list.reserve_exact(most);
        }
        self.seqs.insert(candidate.slot, seq);
        self.list.push(candidate);
        self.left += 1;
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }
    /// Whether none is left to be dropped.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// No more come: from now on they can be struck off.
    pub fn sort(&mut self) {
        self.list.sort_unstable_by_key(Candidate::id);
    }

    /// Strikes off those of whose keys one of these records is older.
    pub fn strike(&mut self, entries: &[FooterEntry]) {
        for entry in entries {
            if self.left == 0 {
                return;
            }
            let id = (entry.hash, entry.check);
            let from = self.list.partition_point(|candidate| candidate.id() < id);
            for candidate in self.list[from..].iter_mut().take_while(|candidate| candidate.id() == id) {
                if !candidate.struck && entry.version < candidate.version {
                    candidate.struck = true;
                    self.left -= 1;
                }
            }
        }
    }

    /// Those that are left, each with the sequence number of its block; the list is empty afterwards and has no memory.
    pub fn take(&mut self) -> impl Iterator<Item = (Candidate, u64)> + use<> {
        let Self { list, seqs, .. } = std::mem::take(self);
        let left = list.into_iter().filter(|candidate| !candidate.struck);
        left.filter_map(move |candidate| {
            Some(seqs.get(&candidate.slot).copied()).flatten().map(|seq| (candidate, seq))
        })
    }
}

/// Whether a sweep may drop it, now that the log brings back nothing of this version or an older one.
pub(crate) fn droppable(entry: &FooterEntry, floor: u64) -> bool {
    entry.kind == Kind::Tombstone && entry.version <= floor
}

#[cfg(test)]
mod tests {
    use terrace_engine::record::Lifetime;

    use super::*;

    fn entry(hash: u64, check: u32, version: u64) -> FooterEntry {
        FooterEntry { hash, version, check, offset: 64, kind: Kind::Tombstone, db: 0, life: Lifetime::NEVER }
    }

    #[test]
    fn an_older_record_of_the_key_strikes_and_no_other() {
        let mut all = Candidates::default();
        for (hash, check, version) in [(9, 1, 50), (3, 2, 50), (3, 1, 50), (3, 1, 40), (5, 0, 50)] {
            all.push(Candidate::new(7, &entry(hash, check, version), (Address::new(1 << 7), 4), b""), 8, 100);
        }
        all.sort();
        all.strike(&[entry(3, 1, 45), entry(9, 1, 50), entry(9, 2, 1), entry(4, 0, 1), entry(5, 0, 51)]);
        assert_eq!((all.len(), all.is_empty()), (5, false));
        let left: Vec<_> = all.take().map(|(one, seq)| (one.hash, one.check, one.version, seq)).collect();
        assert_eq!(left, [(3, 1, 40, 8), (3, 2, 50, 8), (5, 0, 50, 8), (9, 1, 50, 8)]);
        assert!(all.is_empty() && all.list.capacity() == 0);
    }

    #[test]
    fn a_tombstone_may_go_once_the_log_brings_nothing_back_that_it_hides() {
        let tombstone = entry(3, 1, 50);
        for (floor, may_go) in [(49, false), (50, true), (51, true)] {
            assert_eq!(droppable(&tombstone, floor), may_go, "{floor}");
            assert!(!droppable(&FooterEntry { kind: Kind::Value, ..tombstone }, floor));
        }
    }

    #[test]
    fn a_list_takes_a_small_part_of_the_dram() {
        for mib in [2, 64, 1 << 10, 1 << 20] {
            let bytes = Candidates::most(mib << 20) * size_of::<Candidate>();
            assert!(bytes as u64 <= ((mib << 20) / 32).max(64 << 10), "{bytes} of {mib} MiB");
        }
    }
}
