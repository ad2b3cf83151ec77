//! Copies of entries on the NUMA nodes that read them often (BonsaiKV section 4.3.2).
//!
//! ```text
//!   entry at home --far read--> sketch: hot? --> stamp begun | bytes to this node's share of the copies' memory | stamp
//!                 <--near read-- stamp counts, bytes, stamp still counts
//! ```
//!
//! The paper has a copy at its entry's offset in the memory of each other node, so that one address leads to all of them, and memory for it
//! whether it is there or not. Here the entry's number leads to one place of a table, in memory set aside for copies when the store is made.
//! Nothing of it is flushed: stamps, which say what it holds, are in DRAM ([`stamps`](super::stamps)).

use std::sync::Arc;

use terrace_media::{ByteRegion, Homes, lines_of};

use super::Nodes;
use super::dram::{Counting, Seen, Slots};
use super::layout::{ENTRIES_MAX, ENTRY_BYTES, Entry, META_BYTES, entry_at};
use super::plan::Coming;
use super::stamps::{Coherence, Stamp, Stamps};
use crate::medium::Medium;

/// Bytes for a copy: its line has another one.
const COPY_BYTES: usize = 32;
/// Copies that a NUMA node has room for at most: as many as DRAM for stamps, which is not the tier's, is given to.
const COPIES_MAX: usize = 256 << 10;

/// The NUMA nodes that a store's memory lies on, and memory of theirs for copies.
pub struct Far<R> {
    /// Which node has which bytes of the store's region.
    pub homes: Homes,
    /// Memory for copies: each node has an equal share, in their order.
    pub copies: Arc<R>,
    /// How copies stop to count.
    pub coherence: Coherence,
}

/// See the module.
pub struct Replicas<R> {
    far: Far<R>,
    /// The node of each page: of where it starts.
    page_homes: Arc<[u8]>,
    stamps: Arc<Stamps>,
    share_bytes: u64,
}

/// An entry, and who may have a copy.
struct Asked {
    here: u32,
    slot: u32,
    stamp: Stamp,
    bits: Counting,
}

impl<R: ByteRegion> Replicas<R> {
    /// Copies for a store, if there is memory for any.
    pub fn new(far: Far<R>, medium: &Medium<R>) -> Option<Self> {
        let nodes = far.homes.nodes();
        let share_bytes = far.copies.len() / u64::from(nodes);
        let room = (share_bytes / COPY_BYTES as u64).min(COPIES_MAX as u64) as usize;
        if nodes < 2 || room == 0 {
            return None;
        }
        let copies = 1 << room.ilog2();
        let home = |page| far.homes.of(medium.at(medium.page_at(page))) as u8;
        let page_homes = (0..medium.pages() as u32).map(home).collect();
        let stamps = Arc::new(Stamps::new(nodes, copies, far.coherence));
        Some(Self { far, page_homes, stamps, share_bytes })
    }
    pub fn stamps(&self) -> &Arc<Stamps> {
        &self.stamps
    }
    pub fn page_homes(&self) -> &Arc<[u8]> {
        &self.page_homes
    }
    /// The NUMA node of a page.
    pub fn home_of(&self, page: u32) -> u32 {
        self.page_homes[page as usize].into()
    }
    /// Whether a page is on the NUMA node that this thread is on, for whoever takes pages.
    pub fn is_near(&self) -> impl Fn(u32) -> bool + Send + use<R> {
        let (homes, pages) = (self.far.homes.clone(), self.page_homes.clone());
        move |page| u32::from(pages[page as usize]) == homes.here()
    }
    /// The NUMA node that a page of nodes comes to where there are so many: they take turns, so that each has as many.
    pub fn next_home(&self, pages: usize) -> u32 {
        pages as u32 % self.far.homes.nodes()
    }
    /// Where a node's copy of an entry is.
    fn copy_at(&self, node: u32, stamp: Stamp) -> u64 {
        u64::from(node) * self.share_bytes + (self.stamps.place_of(stamp) * COPY_BYTES) as u64
    }
    /// The entry at a place, if this thread is on another NUMA node and it counts.
    #[inline]
    fn asked(&self, nodes: &Nodes<R>, place: u64) -> Option<Asked> {
        let page = nodes.medium.page_of(place)?;
        let here = self.far.homes.here();
        if self.home_of(page) == here {
            return None;
        }
        let (slot, i) = nodes.entry_of(place)?;
        self.asked_of(&nodes.slots, here, slot, i)
    }
    fn asked_of(&self, slots: &Slots, here: u32, slot: u32, i: usize) -> Option<Asked> {
        let line = slots.descriptor(slot);
        let bits = line.counting()?;
        let era = bits.era_of(i)?;
        let era = if self.stamps.coherence() == Coherence::SelfInvalidate { era } else { 0 };
        Some(Asked { here, slot, stamp: Stamp::new(slot, (i, line.fp(i)), era), bits })
    }
    /// Reads an entry: a copy on this thread's NUMA node, if there is one, and else where it is.
    #[inline]
    pub fn read(&self, nodes: &Nodes<R>, place: u64) -> Option<Entry> {
        let Some(asked) = self.asked(nodes, place) else { return nodes.read_at(place) };
        let Asked { here, slot, stamp, bits } = asked;
        let (lines, store_id) = (&self.stamps.lines, nodes.medium.store_id);
        lines.near_dram.reads(1);
        if self.stamps.has(here, stamp) {
            let mut bytes = [0; ENTRY_BYTES];
            self.far.copies.read(self.copy_at(here, stamp), &mut bytes);
            lines.near_pmem.reads(1);
            // Whoever writes another copy there has begun it before.
            let copy = Entry::decode(&bytes, store_id, place).filter(|_| self.stamps.has(here, stamp));
            if copy.is_some() {
                return copy;
            }
        }
        let bytes = nodes.bytes_at(place);
        let far = lines_of(nodes.medium.at(place), ENTRY_BYTES);
        lines.far_pmem.reads(far.end - far.start);
        let entry = Entry::decode(&bytes, store_id, place)?;
        if self.stamps.begin(here, stamp, bits) {
            let is_still = nodes.slots.descriptor(slot).counting() == Some(bits);
            if is_still {
                self.write_copy(here, stamp, &bytes);
                lines.near_pmem.writes(1);
            }
            self.stamps.end(here, stamp, is_still);
            lines.near_dram.writes(1);
        }
        Some(entry)
    }
    /// Starts loading what [`read`](Self::read) will.
    pub fn prefetch(&self, nodes: &Nodes<R>, place: u64) {
        let copy = self.asked(nodes, place).filter(|asked| self.stamps.has(asked.here, asked.stamp));
        match copy {
            Some(Asked { here, stamp, .. }) => {
                self.far.copies.prefetch(self.copy_at(here, stamp), ENTRY_BYTES);
            }
            None => nodes.medium.region.prefetch(nodes.medium.at(place), ENTRY_BYTES),
        }
    }
    fn write_copy(&self, node: u32, stamp: Stamp, bytes: &[u8; ENTRY_BYTES]) {
        let mut copy = [0; COPY_BYTES];
        copy[..ENTRY_BYTES].copy_from_slice(bytes);
        self.far.copies.write(self.copy_at(node, stamp), &copy);
    }
    /// In the place of copies of entries that go from a node (`gone`, as bits), copies of those of their keys come that come to it: if
    /// writers do that ([`Coherence::Update`]). To be called once what comes counts.
    pub(super) fn update(&self, nodes: &Nodes<R>, slot: u32, before: &Seen, gone: u64, coming: &[Coming]) {
        if self.stamps.coherence() != Coherence::Update {
            return;
        }
        self.stamps.look();
        let (page, _) = nodes.slots.page_of(slot);
        let home = self.home_of(page);
        let lines = &self.stamps.lines;
        for i in (0..ENTRIES_MAX).filter(|i| gone >> i & 1 == 1) {
            for node in (0..self.far.homes.nodes()).filter(|node| *node != home) {
                if !self.stamps.clear(node, Stamp::new(slot, (i, before.fp(i)), 0)) {
                    continue;
                }
                let old = nodes.entry(slot, i);
                let is_its = |coming: &&Coming| old.is_some_and(|old| coming.entry.has_key_of(&old));
                let Some(new) = coming.iter().find(is_its) else { continue };
                let at = usize::from(new.at);
                let (stamp, place) = (Stamp::new(slot, (at, new.fp), 0), nodes.place_of_entry(slot, at));
                if self.stamps.take(node, stamp) {
                    self.write_copy(node, stamp, &new.entry.encode(nodes.medium.store_id, place));
                    lines.far_pmem.writes(1);
                    lines.far_dram.writes(1);
                    self.stamps.end(node, stamp, true);
                }
            }
        }
    }
    /// What is told of it, by name.
    pub fn details(&self) -> Vec<(&'static str, u64)> {
        let lines = &self.stamps.lines;
        let of = |counters: &terrace_media::Counters| {
            let counted = counters.snapshot();
            (counted.reads, counted.writes)
        };
        let [near_dram, far_dram, near_pmem, far_pmem] =
            [&lines.near_dram, &lines.far_dram, &lines.near_pmem, &lines.far_pmem].map(of);
        vec![
            ("bonsai_numa_nodes", self.far.homes.nodes().into()),
            ("bonsai_copies", self.stamps.copies()),
            ("bonsai_copy_reads", near_pmem.0),
            ("bonsai_far_reads", far_pmem.0),
            ("bonsai_copies_made", near_pmem.1),
            ("bonsai_copy_lines_dram_read", near_dram.0),
            ("bonsai_copy_lines_dram_written", near_dram.1),
            ("bonsai_copy_lines_far_dram_read", far_dram.0),
            ("bonsai_copy_lines_far_dram_written", far_dram.1),
            ("bonsai_copy_lines_far_pmem_written", far_pmem.1),
        ]
    }
}

impl<R: ByteRegion> Nodes<R> {
    /// The slot of a place, and which of its entries starts there.
    fn entry_of(&self, place: u64) -> Option<(u32, usize)> {
        let slot = self.slot_at(place)?;
        let within = (place - self.place_of_slot(slot)).checked_sub(META_BYTES as u64)? as usize;
        (within.is_multiple_of(ENTRY_BYTES) && within / ENTRY_BYTES < self.entries)
            .then_some((slot, within / ENTRY_BYTES))
    }
    fn place_of_entry(&self, slot: u32, i: usize) -> u64 {
        self.place_of_slot(slot) + entry_at(i) as u64
    }
}

const _: () = assert!(ENTRY_BYTES <= COPY_BYTES);

#[cfg(all(test, not(shuttle)))]
mod tests;
