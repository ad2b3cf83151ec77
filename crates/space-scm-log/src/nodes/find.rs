//! Finding records in nodes: the tree of fences, fingerprints in DRAM, one read of the medium.

use std::ops::{Bound, ControlFlow};

use terrace_engine::record::{Head, Kind as RecordKind, NewRecord, RecordView};
use terrace_index::{Address, Direction, Key, Lookup, OrderedIndex, Verdict};
use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::{Descriptor, Seen};
use super::layout::{ENTRIES_MAX, ENTRY_BYTES, Entry, INLINE_BYTES, entry_at};
use crate::directory::LOST;
use crate::layout::EDGE_BYTES;
use crate::sync::spin_loop;

/// Keys that are looked up at once.
const AT_ONCE: usize = 16;
/// Set in the address of a node's entry.
const IN_NODE: u64 = 1 << 46;

/// The fingerprint of a key.
#[inline]
pub fn fp_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The place of a node's entry, if the address is one's.
#[inline]
pub fn place_of(address: Address) -> Option<u64> {
    (address.raw() & IN_NODE != 0).then_some(address.raw() & !IN_NODE)
}

impl<R: ByteRegion> Nodes<R> {
    /// Where a slot starts, from the first page on.
    #[inline]
    pub(crate) fn place_of_slot(&self, slot: u32) -> u64 {
        let (page, i) = self.slots.page_of(slot);
        self.medium.page_at(page) + (EDGE_BYTES + i * self.slot_bytes) as u64
    }
    /// The slot of a page in which a place is.
    pub(crate) fn slot_at(&self, place: u64) -> Option<u32> {
        let page = self.medium.page_of(place)?;
        let i =
            (place - self.medium.page_at(page)).checked_sub(EDGE_BYTES as u64)? as usize / self.slot_bytes;
        let slots = self.slots.of_page(page);
        Some(slots.start + i as u32).filter(|slot| slots.contains(slot))
    }
    #[inline]
    pub(super) fn address_of(&self, slot: u32, i: usize) -> Address {
        Address::new(IN_NODE | (self.place_of_slot(slot) + entry_at(i) as u64))
    }
    /// The slot of the node where a key belongs.
    #[inline]
    pub(crate) fn floor(&self, db: u8, key: &[u8]) -> Option<u32> {
        self.tree.floor_address(db, key).map(slot_of)
    }
    /// The same of several keys, and their descriptors are on their way.
    pub(crate) fn floors<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> Key<'k>,
        mut show: impl FnMut(usize, Option<u32>),
    ) {
        self.tree.floor_batch(count, key, |i, address| {
            let slot = address.map(slot_of);
            slot.into_iter().for_each(|slot| terrace_index::prefetch(self.slots.descriptor(slot)));
            show(i, slot);
        });
    }
    /// The same, with the node's fence.
    pub(crate) fn floor_with(&self, db: u8, key: &[u8]) -> Option<(u32, Vec<u8>)> {
        let mut fence = Vec::new();
        let slot = self.tree.floor(db, key, &mut fence).map(slot_of)?;
        Some((slot, fence))
    }
    /// The node behind a fence, with its fence.
    pub(crate) fn next_of(&self, db: u8, fence: &[u8]) -> Option<(u32, Vec<u8>)> {
        self.beside(db, fence, Direction::Forward)
    }
    /// The node before a fence, with its fence.
    pub(crate) fn before(&self, db: u8, fence: &[u8]) -> Option<(u32, Vec<u8>)> {
        self.beside(db, fence, Direction::Backward)
    }
    fn beside(&self, db: u8, fence: &[u8], direction: Direction) -> Option<(u32, Vec<u8>)> {
        let mut found = None;
        self.tree.range(db, Bound::Excluded(fence), direction, &mut |key, address| {
            found = Some((slot_of(address), key.to_vec()));
            ControlFlow::Break(())
        });
        found
    }

    /// The same as [`read_at`](Self::read_at), of the copy that this thread's NUMA node has, if there is one.
    #[inline]
    pub(crate) fn read_near(&self, place: u64) -> Option<Entry> {
        match &self.replicas {
            None => self.read_at(place),
            Some(replicas) => replicas.read(self, place),
        }
    }
    /// Reads the entry at a place.
    #[inline]
    pub(crate) fn read_at(&self, place: u64) -> Option<Entry> {
        Entry::decode(&self.bytes_at(place), self.medium.store_id, place)
    }
    /// Its bytes, whatever they are.
    #[inline]
    pub(crate) fn bytes_at(&self, place: u64) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        if self.medium.page_of(place).is_some() && self.medium.rest_of_page(place) >= ENTRY_BYTES {
            self.medium.region.read(self.medium.at(place), &mut bytes);
        }
        bytes
    }
    /// Reads an entry of a slot.
    pub(crate) fn entry(&self, slot: u32, i: usize) -> Option<Entry> {
        self.read_at(self.place_of_slot(slot) + entry_at(i) as u64)
    }

    /// Shows what may be a key's in the node where it belongs, until `visit` says to stop: which entry, of which slot. `false` if it was
    /// not stopped, and the node says that something of it is lost or one of these entries is damaged.
    #[inline]
    fn look(&self, key: &Key<'_>, mut visit: impl FnMut(u32, usize) -> bool) -> Looked {
        loop {
            let Some(slot) = self.floor(key.db, key.bytes) else { return Looked::Through };
            let descriptor: &Descriptor = self.slots.descriptor(slot);
            let seen: Seen = descriptor.read();
            let may_be = seen.with_fp(fp_of(key.hash));
            let mut left = may_be;
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                if !visit(slot, i) {
                    return Looked::Stopped;
                }
            }
            // Keys may have moved on meanwhile: then the node has left.
            if !seen.is_node() || !descriptor.is_still(&seen) {
                spin_loop();
                continue;
            }
            let mut left = may_be;
            let mut is_lost = seen.is_lost();
            while left != 0 {
                is_lost |= self.entry(slot, left.trailing_zeros() as usize).is_none();
                left &= left - 1;
            }
            return if is_lost { Looked::Lost } else { Looked::Through };
        }
    }
    /// As [`Directory::get`](crate::directory::Directory::get).
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let mut lookup = Lookup::Absent;
        let looked = self.look(key, |slot, i| {
            let address = self.address_of(slot, i);
            match verify(address) {
                Verdict::Match => lookup = Lookup::Found(address),
                Verdict::Differs => {}
                Verdict::NeedsRead => lookup = Lookup::Unread(address),
            }
            !matches!(lookup, Lookup::Found(_))
        });
        if looked == Looked::Lost && lookup == Lookup::Absent {
            let address = Address::new(LOST);
            match verify(address) {
                Verdict::Match => lookup = Lookup::Found(address),
                Verdict::Differs => {}
                Verdict::NeedsRead => lookup = Lookup::Unread(address),
            }
        }
        lookup
    }
    /// The addresses of entries that may be a key's.
    pub(crate) fn may_be(&self, key: &Key<'_>, mut show: impl FnMut(Address)) {
        let looked = self.look(key, |slot, i| {
            show(self.address_of(slot, i));
            true
        });
        if looked == Looked::Lost {
            show(Address::new(LOST));
        }
    }
    /// The same of several keys, as they are likely to be, for whoever loads them.
    pub(crate) fn likely<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> Key<'k>,
        mut show: impl FnMut(Address),
    ) {
        let mut slots = [None; AT_ONCE];
        for first in (0..count).step_by(AT_ONCE) {
            let here = (count - first).min(AT_ONCE);
            self.floors(here, |i| key(first + i), |i, slot| slots[i] = slot);
            for (i, slot) in slots.iter().enumerate().take(here) {
                let Some(slot) = *slot else { continue };
                let mut left = self.slots.descriptor(slot).read().with_fp(fp_of(key(first + i).hash));
                while left != 0 {
                    show(self.address_of(slot, left.trailing_zeros() as usize));
                    left &= left - 1;
                }
            }
        }
    }
    /// Where the records are that entries of a key's hash lead to, until `show` says to stop.
    pub(crate) fn places(&self, key: &Key<'_>, mut show: impl FnMut(u64) -> bool) {
        self.look(key, |slot, i| {
            let entry = self.entry(slot, i).filter(|entry| entry.key == key.hash);
            entry.and_then(|entry| entry.place()).is_none_or(&mut show)
        });
    }

    /// The record that an entry leads to; nothing if another one is there: swapped lines may hold one that is whole.
    pub(crate) fn record_of<'a>(
        &self,
        entry: &Entry,
        place: u64,
        bytes: &'a mut Vec<u8>,
    ) -> Option<RecordView<'a>> {
        self.medium.read_entry(place, bytes).filter(|view| view.head.version == entry.version)
    }
    /// A node's line and its entries are on their way (BonsaiKV section 4.1.3).
    pub(crate) fn load(&self, slot: u32) {
        terrace_index::prefetch(self.slots.descriptor(slot));
        let start = self.place_of_slot(slot) + entry_at(0) as u64;
        self.medium.region.prefetch(self.medium.at(start), self.entries * ENTRY_BYTES);
    }
    /// The hash of the key of a database's entry.
    pub(crate) fn hash_of_entry(&self, entry: &Entry, db: u8) -> u64 {
        match entry.place() {
            Some(_) => entry.key,
            None => self.hasher.key(db, &entry.texts().0[..entry.lengths().0]).hash,
        }
    }
    /// Shows the entries of a node that count, with the key of each, those that are records first; nothing of one whose key can't be read.
    /// `bytes` is room for that.
    pub(crate) fn each_entry(
        &self,
        slot: u32,
        bitmap: u64,
        bytes: &mut Vec<u8>,
        mut show: impl FnMut(usize, Option<(&[u8], Entry)>),
    ) {
        let mut raw = [0; ENTRIES_MAX * ENTRY_BYTES];
        let start = self.place_of_slot(slot) + entry_at(0) as u64;
        let end = (u64::BITS - bitmap.leading_zeros()) as usize * ENTRY_BYTES;
        self.medium.region.read(self.medium.at(start), &mut raw[..end]);
        let (raw, _) = raw.as_chunks::<ENTRY_BYTES>();
        let entry = |i: usize| Entry::decode(&raw[i], self.medium.store_id, start + (i * ENTRY_BYTES) as u64);
        let (mut left, mut references) = (bitmap, 0u64);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(entry) = entry(i) else {
                show(i, None);
                continue;
            };
            match entry.place() {
                Some(place) => {
                    references |= 1 << i;
                    // All records are on their way before the first is read.
                    if self.medium.page_of(place).is_some() {
                        self.medium.region.prefetch(self.medium.at(place), ENTRY_BYTES);
                    }
                }
                None => show(i, Some((&entry.texts().0[..entry.lengths().0], entry))),
            }
        }
        while references != 0 {
            let i = references.trailing_zeros() as usize;
            references &= references - 1;
            let Some((entry, place)) = entry(i).and_then(|entry| Some((entry, entry.place()?))) else {
                continue;
            };
            show(i, self.record_of(&entry, place, bytes).map(|view| (view.key, entry)));
        }
    }
}

/// How a search through a node ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// All was shown.
    Through,
    /// It was stopped.
    Stopped,
    /// All was shown, and something is lost that may have been the key's.
    Lost,
}

/// The slot that a fence leads to.
#[inline]
pub fn slot_of(address: Address) -> u32 {
    (address.raw() - 1) as u32
}
/// And back.
pub fn address_of_slot(slot: u32) -> Address {
    Address::new(u64::from(slot) + 1)
}

/// Shows the record that an entry is.
pub fn with_record<T>(entry: &Entry, db: u8, tier: u8, show: impl FnOnce(&RecordView<'_>) -> T) -> T {
    let (key, value) = entry.texts();
    let (key_bytes, value_bytes) = entry.lengths();
    debug_assert!(key_bytes <= INLINE_BYTES && value_bytes <= INLINE_BYTES, "lengths of an entry");
    let (key, value) = (&key[..key_bytes], &value[..value_bytes]);
    let record = NewRecord {
        version: entry.version,
        kind: RecordKind::Value,
        db,
        flags: 0,
        state: 0,
        expire_at: 0,
        token: 0,
        key,
        value,
    };
    let head = Head { tier, ..record.head() };
    show(&RecordView { head, key, value, checksum: 0 })
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

    use std::sync::Arc;

    use terrace_engine::hash::KeyHasher;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::medium::{Geometry, Medium};
    use crate::nodes::layout::FP_WORDS;

    /// Nodes of a page, and a key whose record is to be found at an address that `moves` decides while a look-up is at the old one.
    fn found_while(moves: impl Fn(&Nodes<HeapRegion>, &Seen)) {
        let geometry = Geometry { page_bytes: 2048, buckets: 0, bytes: 80 << 10 };
        let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
        let nodes = Nodes::new(Arc::new(Medium::new(region, 0, geometry, 1)), KeyHasher::new(7), None);
        nodes.slots.add_page(0);
        let key = nodes.hasher.key(0, b"k");
        let entry = Entry::inline(b"k", b"v", 1);
        for (slot, i) in [(0, 0), (0, 1), (1, 0)] {
            let place = nodes.place_of_slot(slot) + entry_at(i) as u64;
            nodes.medium.region.write(nodes.medium.at(place), &entry.encode(1, place));
        }
        let fps = [u64::from(fp_of(key.hash)) * 0x101; FP_WORDS];
        let seen = Seen::new(1, fps, 1, 0, false);
        nodes.slots.begin(0, &seen);
        nodes.lead(0, b"", 0);
        let mut before = None;
        let looked = nodes.find(&key, |address| {
            let first = *before.get_or_insert_with(|| {
                moves(&nodes, &seen);
                address
            });
            if address == first { Verdict::Differs } else { Verdict::Match }
        });
        assert!(matches!(looked, Lookup::Found(_)), "a key that is there was missed");
    }

    #[test]
    fn a_key_is_found_while_its_entry_moves_within_its_node() {
        found_while(|nodes, seen| nodes.slots.change(0, &seen.with(2, seen.fps)));
    }

    #[test]
    fn a_key_is_found_while_another_node_takes_the_place_of_its_own() {
        found_while(|nodes, seen| {
            nodes.slots.begin(1, seen);
            nodes.lead(0, b"", 1);
            nodes.slots.leave(0);
        });
    }
}
