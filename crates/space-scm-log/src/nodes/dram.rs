//! What DRAM has of nodes: fingerprints and bitmaps (BonsaiKV section 4.1.3), a line for each slot, and slots that are free.
//!
//! # Thread safety
//! One thread at a time changes it. Readers note a version of a descriptor, and confirm it once they have read what they want.
//! An entry that is let go is not written over before every session has left: it is *retired* until then.

use std::sync::OnceLock;

use super::eras::Eras;
use super::layout::{BITMAP, ENTRIES_MAX, FP_WORDS};
use crate::sync::{AtomicU64, Mutex, fence, spin_loop};
use std::sync::atomic::Ordering::*;

/// Behind the bitmap: a version, odd while it changes.
const VERSION_ONE: u64 = 1 << ENTRIES_MAX;
const VERSION_MASK: u64 = !BITMAP;
/// The upper bits of a version are an era, and so many changes are in one.
const ERA_AT: u32 = ENTRIES_MAX as u32 + 8;
const ERA_ONE: u64 = 1 << ERA_AT;
/// Beside a sequence number.
const LOST: u64 = 1 << 63;
const STALE: u64 = 1 << 62;
const IS_NODE: u64 = 1 << 61;
const DB_AT: u32 = 57;
const TEXT_PLACES_AT: u32 = 53;
const SEQUENCE: u64 = (1 << TEXT_PLACES_AT) - 1;
/// More room than for so many slots that are let go is not kept.
const LEAVING_KEPT: usize = 1024;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// What is known of a slot: a line.
#[derive(Default)]
#[repr(align(64))]
pub struct Descriptor {
    fps: [AtomicU64; FP_WORDS],
    /// Which entries count, and a version.
    bits: AtomicU64,
    /// Entries that were let go, and behind them when.
    retired: AtomicU64,
    /// The node's sequence number, the places that its fence takes, its database, and whether something of it is lost.
    about: AtomicU64,
}

/// A descriptor, as it was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    bits: u64,
    /// The fingerprints.
    pub fps: [u64; FP_WORDS],
    about: u64,
}

impl Seen {
    /// Of a node that there is not yet.
    pub fn new(bitmap: u64, fps: [u64; FP_WORDS], sequence: u64, db: u8, is_lost: bool) -> Self {
        let about = sequence & SEQUENCE | u64::from(db & 15) << DB_AT | IS_NODE;
        Self { bits: bitmap & BITMAP, fps, about: about | if is_lost { LOST } else { 0 } }
    }
    /// The same, and the last so many places have the text of the node's fence.
    pub fn and_text(mut self, places: usize) -> Self {
        self.about |= (places as u64 & 15) << TEXT_PLACES_AT;
        self
    }
    /// The same with other entries.
    pub fn with(self, bitmap: u64, fps: [u64; FP_WORDS]) -> Self {
        Self { bits: bitmap & BITMAP, fps, about: self.about }
    }
    /// The same, and the medium has something else, which is damaged: the node is not to be changed there.
    pub fn and_stale(mut self) -> Self {
        self.about |= STALE;
        self
    }
    /// Which entries count.
    #[inline]
    pub fn bitmap(&self) -> u64 {
        self.bits & BITMAP
    }
    /// Whether something of the node is lost.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.about & LOST != 0
    }
    /// Whether the medium has something damaged in its place.
    pub fn is_stale(&self) -> bool {
        self.about & STALE != 0
    }
    /// Whether there is a node.
    pub fn is_node(&self) -> bool {
        self.about & IS_NODE != 0
    }
    /// Places at the end that the text of its fence takes.
    pub fn text_places(&self) -> usize {
        (self.about >> TEXT_PLACES_AT) as usize & 15
    }
    /// Its database.
    #[inline]
    pub fn db(&self) -> u8 {
        (self.about >> DB_AT) as u8 & 15
    }
    /// Its sequence number.
    pub fn sequence(&self) -> u64 {
        self.about & SEQUENCE
    }
    /// The fingerprint of an entry.
    pub fn fp(&self, i: usize) -> u8 {
        (self.fps[i / 8] >> (i % 8 * 8)) as u8
    }
    /// Entries with a fingerprint that count, as bits.
    #[inline]
    pub fn with_fp(&self, fp: u8) -> u64 {
        let mut found = 0;
        for (word, fps) in self.fps.iter().enumerate() {
            // The high bit of each byte that is zero, exactly.
            let differs = fps ^ (u64::from(fp) * LOW_BITS);
            let high = LOW_BITS << 7;
            let zero = !(((differs & !high) + !high) | differs) & high;
            // Bytes to bits.
            let bits = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            found |= bits << (word * 8);
        }
        found & self.bitmap()
    }
}

/// Sets an entry's fingerprint.
pub fn set_fp(fps: &mut [u64; FP_WORDS], i: usize, fp: u8) {
    let shift = i % 8 * 8;
    fps[i / 8] = fps[i / 8] & !(0xff << shift) | u64::from(fp) << shift;
}

impl Descriptor {
    /// What it says, all at one time.
    #[inline]
    pub fn read(&self) -> Seen {
        loop {
            let bits = self.bits.load(Acquire);
            let fps = std::array::from_fn(|word| self.fps[word].load(Relaxed));
            let about = self.about.load(Relaxed);
            fence(Acquire);
            if bits & VERSION_ONE == 0 && self.bits.load(Relaxed) == bits {
                return Seen { bits, fps, about };
            }
            spin_loop();
        }
    }
    /// Whether it still says that.
    #[inline]
    pub fn is_still(&self, seen: &Seen) -> bool {
        fence(Acquire);
        self.bits.load(Relaxed) == seen.bits
    }
    /// Which entries count now, and the node's era; nothing while it changes.
    #[inline]
    pub fn counting(&self) -> Option<Counting> {
        let bits = self.bits.load(Acquire);
        (bits & VERSION_ONE == 0).then_some(Counting(bits))
    }
    /// The fingerprint of an entry, as long as the entry counts.
    #[inline]
    pub fn fp(&self, i: usize) -> u8 {
        (self.fps[i / 8].load(Relaxed) >> (i % 8 * 8)) as u8
    }
    /// Whether the change that comes is in another era.
    pub fn is_last_of_era(&self) -> bool {
        self.bits.load(Relaxed) & (ERA_ONE - 2 * VERSION_ONE) & VERSION_MASK == ERA_ONE - 2 * VERSION_ONE
    }
    /// Whether the first era comes behind this one.
    pub fn is_last_era(&self) -> bool {
        self.bits.load(Relaxed) >> ERA_AT == u64::MAX >> ERA_AT
    }
    /// Makes it say something else, in a new era if that is to be.
    pub fn change(&self, to: &Seen, is_new_era: bool) {
        let version = self.bits.load(Relaxed) & VERSION_MASK;
        self.bits.store(version.wrapping_add(VERSION_ONE), Relaxed);
        fence(Release);
        for (word, fps) in self.fps.iter().zip(to.fps) {
            word.store(fps, Relaxed);
        }
        self.about.store(to.about, Relaxed);
        let next = match is_new_era {
            true => (version & !(ERA_ONE - 1)).wrapping_add(ERA_ONE),
            false => version.wrapping_add(2 * VERSION_ONE),
        };
        self.bits.store(to.bitmap() | next & VERSION_MASK, Release);
    }
    /// Entries that were let go at a time when somebody may still read them: `safe` and later.
    pub fn retired(&self, safe: u64) -> u64 {
        let word = self.retired.load(Relaxed);
        // Times are cut short: one that seems later is waited for in vain, which costs a place for a while.
        let behind = (safe.wrapping_sub(1)).wrapping_sub(word >> ENTRIES_MAX) << ENTRIES_MAX >> ENTRIES_MAX;
        if word & BITMAP == 0 || behind < 1 << (63 - ENTRIES_MAX) { 0 } else { word & BITMAP }
    }
    /// Entries are let go now.
    pub fn retire(&self, entries: u64, now: u64, safe: u64) {
        let all = self.retired(safe) | entries;
        self.retired.store(all | now << ENTRIES_MAX, Relaxed);
    }
}

/// The entries of a node that count, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting(u64);

impl Counting {
    /// The node's era, if one of its entries counts.
    #[inline]
    pub fn era_of(self, i: usize) -> Option<u64> {
        (self.0 >> i & 1 == 1).then_some(self.0 >> ERA_AT)
    }
}

/// Slots, by page.
pub struct Slots {
    per_page: usize,
    pages: Box<[OnceLock<Box<[Descriptor]>>]>,
    /// Where NUMA nodes have copies of entries.
    eras: Option<Eras>,
    /// The keeper's.
    kept: Mutex<Kept>,
}

/// Slots that are free, and that are to be.
#[derive(Default)]
struct Kept {
    free: Vec<u32>,
    /// When each was let go.
    leaving: std::collections::VecDeque<(u64, u32)>,
    /// Rounds begun, and the one at whose beginning everybody who was there has left since.
    now: u64,
    safe: u64,
}

impl Slots {
    pub fn new(pages: usize, per_page: usize, eras: Option<Eras>) -> Self {
        Self { per_page, pages: (0..pages).map(|_| OnceLock::new()).collect(), eras, kept: Mutex::default() }
    }
    /// Slots of a page.
    pub fn of_page(&self, page: u32) -> std::ops::Range<u32> {
        let first = page * self.per_page as u32;
        first..first + self.per_page as u32
    }
    /// The page of a slot, and which of its slots it is.
    #[inline]
    pub fn page_of(&self, slot: u32) -> (u32, usize) {
        let per_page = self.per_page as u32;
        (slot / per_page, (slot % per_page) as usize)
    }
    /// What is known of a slot of a page of nodes.
    ///
    /// # Panics
    /// If the page never was one.
    #[inline]
    pub fn descriptor(&self, slot: u32) -> &Descriptor {
        let (page, i) = self.page_of(slot);
        let Some(all) = self.pages[page as usize].get() else { panic!("page {page} has no nodes") };
        &all[i]
    }
    /// A page is one of nodes from now on; its slots are free once they are [given](Self::give).
    pub fn add_page(&self, page: u32) {
        let make = || (0..self.per_page).map(|_| Descriptor::default()).collect();
        self.pages[page as usize].get_or_init(make);
        self.eras.iter().for_each(|eras| eras.add_page(page, self.per_page));
        self.of_page(page).for_each(|slot| self.begin(slot, &Seen::default()));
    }
    /// Pages that have had nodes.
    pub fn pages(&self) -> usize {
        self.pages.iter().filter(|page| page.get().is_some()).count()
    }
    /// These slots are free.
    pub fn give(&self, slots: impl Iterator<Item = u32>) {
        self.kept.lock().free.extend(slots);
    }
    /// A slot for a node, none of this page.
    pub fn take(&self, but: Option<u32>) -> Option<u32> {
        let mut kept = self.kept.lock();
        let is_other = |slot: &u32| Some(self.page_of(*slot).0) != but;
        let at = kept.free.iter().rposition(is_other)?;
        Some(kept.free.swap_remove(at))
    }
    /// How many are free that are not of this page.
    pub fn free(&self, but: Option<u32>) -> usize {
        let kept = self.kept.lock();
        if but.is_none() {
            return kept.free.len();
        }
        kept.free.iter().filter(|slot| Some(self.page_of(**slot).0) != but).count()
    }
    /// Nobody finds a slot any more: it is free once every session has left.
    pub fn leave(&self, slot: u32) {
        self.change(slot, &Seen::default());
        let mut kept = self.kept.lock();
        let now = kept.now;
        kept.leaving.push_back((now, slot));
    }
    /// A page is one of nodes no more.
    pub fn withdraw(&self, page: u32) {
        let mut kept = self.kept.lock();
        kept.free.retain(|slot| self.page_of(*slot).0 != page);
        kept.leaving.retain(|(_, slot)| self.page_of(*slot).0 != page);
    }
    /// A node is in a slot from now on.
    pub fn begin(&self, slot: u32, node: &Seen) {
        self.descriptor(slot).retired.store(0, Relaxed);
        self.put(slot, node, true);
    }
    /// The node in a slot changes.
    pub fn change(&self, slot: u32, to: &Seen) {
        self.put(slot, to, false);
    }
    fn put(&self, slot: u32, to: &Seen, is_new: bool) {
        let line = self.descriptor(slot);
        match &self.eras {
            None => line.change(to, false),
            Some(eras) => {
                let (page, i) = self.page_of(slot);
                eras.change((slot, page, i), line, to, is_new);
            }
        }
    }
    /// Places that are better left alone: copies of what was there end with all of the node's if one is taken.
    pub fn let_go(&self, slot: u32) -> u64 {
        let (page, i) = self.page_of(slot);
        self.eras.as_ref().map_or(0, |eras| eras.let_go(page, i))
    }
    /// A round begins.
    pub fn round_begins(&self) {
        self.kept.lock().now += 1;
    }
    /// Every session has left since then.
    pub fn every_session_has_left(&self) {
        let mut kept = self.kept.lock();
        kept.safe = kept.now;
        while let Some((_, slot)) = kept.leaving.front().copied().filter(|(when, _)| *when < kept.safe) {
            kept.leaving.pop_front();
            kept.free.push(slot);
        }
        if kept.leaving.is_empty() {
            // A round may let many go: their list is not to stay that long.
            kept.leaving.shrink_to(LEAVING_KEPT);
        }
    }
    /// Now, and since when nobody has left for sure.
    pub fn times(&self) -> (u64, u64) {
        let kept = self.kept.lock();
        (kept.now, kept.safe)
    }
    /// DRAM that all of it takes.
    pub fn dram_bytes(&self) -> u64 {
        let pages = self.pages() * self.per_page;
        let kept = self.kept.lock();
        (pages * size_of::<Descriptor>() + self.pages.len() * size_of::<OnceLock<Box<[Descriptor]>>>()) as u64
            + (kept.free.capacity() * 4 + kept.leaving.capacity() * 16) as u64
            + self.eras.as_ref().map_or(0, Eras::dram_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_found_whatever_is_beside_them() {
        let mut seed = 1u64;
        for _ in 0..2000 {
            let mut fps = [0; FP_WORDS];
            let mut bytes = [0u8; ENTRIES_MAX];
            for (i, byte) in bytes.iter_mut().enumerate() {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // Few, so that they repeat, and 0, 1, 0x80 and 0xff among them.
                *byte = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff][(seed >> 61) as usize];
                set_fp(&mut fps, i, *byte);
            }
            let bitmap = seed & BITMAP;
            let seen = Seen::new(bitmap, fps, 0, 3, false);
            for fp in [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
                let expected = (0..ENTRIES_MAX)
                    .filter(|i| bytes[*i] == fp && bitmap >> i & 1 == 1)
                    .fold(0, |bits, i| bits | 1 << i);
                assert_eq!(seen.with_fp(fp), expected, "{fp} of {bytes:?}");
            }
        }
    }

    #[test]
    fn what_was_let_go_is_written_over_after_everybody_has_left() {
        let slots = Slots::new(1, 2, None);
        slots.add_page(0);
        slots.give(slots.of_page(0));
        assert_eq!(slots.free(None), 2);
        let slot = slots.take(None).unwrap();
        let descriptor = slots.descriptor(slot);
        slots.round_begins();
        let (now, safe) = slots.times();
        descriptor.retire(0b101, now, safe);
        slots.leave(slot);
        slots.every_session_has_left();
        assert_eq!(descriptor.retired(slots.times().1), 0b101, "those who came since may read it");
        assert_eq!(slots.free(None), 1);
        slots.round_begins();
        assert_eq!(descriptor.retired(slots.times().1), 0b101);
        slots.every_session_has_left();
        assert_eq!(descriptor.retired(slots.times().1), 0);
        assert_eq!(slots.free(None), 2);
        slots.withdraw(0);
        assert_eq!((slots.free(None), slots.take(None)), (0, None));
    }
}
