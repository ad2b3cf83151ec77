//! A locked bucket with its overflow chain: everything a writer does to entries.
//!
//! # Thread safety
//! A [`Chain`] holds the bucket's lock. Readers may be anywhere in the chain meanwhile.
//!
//! # Invariants
//! - What a reader can reach is complete: an overflow bucket is filled before it is linked.
//! - Before an entry changes its place, before slot 5 changes its meaning and before an overflow bucket leaves the chain,
//!   the sequence becomes odd.

use super::bucket::{Bucket, Entry, LINK_SLOT, SLOTS, Tag};
use super::lock::Locked;
use super::pool::Pool;
use crate::segments::Segments;
use crate::{Address, Lookup, Verdict};

/// A locked bucket and its overflow buckets.
pub(super) struct Chain<'a> {
    lock: Locked<'a>,
    pool: &'a Pool,
}

/// A place for an entry.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    bucket: &'a Bucket,
    index: usize,
    /// The number of the overflow bucket, 0 for the main one.
    overflow: u32,
}

impl<'a> Chain<'a> {
    /// Waits for the lock of this bucket; `None` if it is no longer in use.
    #[inline]
    pub(super) fn lock(buckets: &'a Segments<Bucket>, number: u64, pool: &'a Pool) -> Option<Self> {
        let lock = Locked::new(buckets.get(number), !buckets.in_first(number))?;
        Some(Self { lock, pool })
    }
    /// Takes an empty bucket into use, locked.
    pub(super) fn revive(bucket: &'a Bucket, pool: &'a Pool) -> Option<Self> {
        Some(Self { lock: Locked::revive(bucket)?, pool })
    }
    /// Empties the bucket and takes it out of use.
    pub(super) fn retire(mut self) {
        self.retain(&[]);
        self.lock.retire();
    }
    /// Makes readers distrust a miss until the lock is given back: entries of another bucket come into this one.
    pub(super) fn begin_merge(&mut self) {
        self.lock.begin_move();
    }
    /// How many overflow buckets `more` entries will need beyond those that are there.
    pub(super) fn overflow_for(&self, more: usize) -> usize {
        let free = |part: Part<'_>| (0..part.limit).filter(|&slot| part.bucket.is_free(slot)).count();
        let over = more.saturating_sub(self.parts().map(free).sum());
        // The first one takes in what slot 5 holds.
        let moved = usize::from(over > 0 && !self.lock.linked());
        (over + moved).div_ceil(SLOTS)
    }
    /// Makes readers wait until the lock is given back.
    pub(super) fn exclude_readers(&mut self) {
        self.lock.exclude_readers();
    }
    /// The buckets, main bucket first.
    #[inline]
    fn parts(&self) -> Parts<'a> {
        let limit = if self.lock.linked() { LINK_SLOT } else { SLOTS };
        let main = Part { bucket: self.lock.bucket(), limit, overflow: 0 };
        Parts { pool: self.pool, part: Some(main), next: self.first_overflow() }
    }
    #[inline]
    fn first_overflow(&self) -> u32 {
        if self.lock.linked() { self.lock.bucket().link() as u32 } else { 0 }
    }
    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        self.parts()
            .flat_map(|part| (0..part.limit).map(move |index| part.bucket.entry(index)))
            .filter(|entry| entry.address().is_some())
    }
    /// Asks about every entry with this tag until an answer is given.
    #[inline]
    fn search(&self, tag: Tag, mut accept: impl FnMut(Address, Slot<'a>) -> bool) -> Option<Slot<'a>> {
        let main = self.lock.bucket();
        let limit = if self.lock.linked() { LINK_SLOT } else { SLOTS };
        for index in main.similar(tag).filter(|&index| index < limit) {
            if let Some(address) = main.matching(index, tag) {
                let slot = Slot { bucket: main, index, overflow: 0 };
                if accept(address, slot) {
                    return Some(slot);
                }
            }
        }
        if limit == SLOTS {
            return None;
        }
        for part in self.parts().skip(1) {
            for index in part.bucket.similar(tag).filter(|&index| index < part.limit) {
                if let Some(address) = part.bucket.matching(index, tag) {
                    let slot = Slot { bucket: part.bucket, index, overflow: part.overflow };
                    if accept(address, slot) {
                        return Some(slot);
                    }
                }
            }
        }
        None
    }
    /// Asks about every entry with this tag: the first match wins, else the first that needs a read.
    #[inline]
    pub(super) fn look_up(
        &self,
        tag: Tag,
        mut verify: impl FnMut(Address) -> Verdict,
    ) -> (Lookup, Option<Slot<'a>>) {
        let mut best = (Lookup::Absent, None);
        self.search(tag, |address, slot| match verify(address) {
            Verdict::Match => {
                best = (Lookup::Found(address), Some(slot));
                true
            }
            Verdict::NeedsRead if best.1.is_none() => {
                best = (Lookup::Unread(address), Some(slot));
                false
            }
            Verdict::NeedsRead | Verdict::Differs => false,
        });
        best
    }
    /// Where exactly this entry is.
    pub(super) fn find(&self, tag: Tag, address: Address) -> Option<Slot<'a>> {
        self.search(tag, |candidate, _| candidate == address)
    }
    /// Swings a slot in use to another entry of the same tag: one atomic store.
    pub(super) fn replace(&mut self, slot: Slot<'a>, entry: Entry) {
        debug_assert_eq!(slot.bucket.entry(slot.index).tag(), entry.tag());
        slot.bucket.set(slot.index, entry);
        self.lock.changed();
    }
    /// Adds an entry in the first free place, and an overflow bucket if there is none.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        self.insert_with(entry, |pool| pool.take());
    }
    /// As [`insert`](Self::insert), with an overflow bucket from elsewhere.
    pub(super) fn insert_with(&mut self, entry: Entry, take: impl FnOnce(&Pool) -> u32) {
        let mut last = 0;
        for part in self.parts() {
            if let Some(index) = (0..part.limit).find(|&index| part.bucket.is_free(index)) {
                part.bucket.set(index, entry);
                self.lock.changed();
                return;
            }
            last = part.overflow;
        }
        let number = take(self.pool);
        let overflow = self.pool.get(number);
        if last == 0 {
            // Slot 5 becomes the link; what it holds goes along.
            let main = self.lock.bucket();
            overflow.set(0, main.entry(LINK_SLOT));
            overflow.set(1, entry);
            self.lock.begin_move();
            self.lock.set_linked(true);
            main.set_link(number);
        } else {
            overflow.set(0, entry);
            self.pool.get(last).set_next(number);
            self.lock.changed();
        }
    }
    /// Empties a slot; an overflow bucket that held nothing else leaves the chain.
    pub(super) fn remove(&mut self, slot: Slot<'a>) {
        slot.bucket.clear(slot.index);
        self.lock.changed();
        if slot.overflow != 0 && slot.bucket.is_empty() {
            self.unlink(slot.overflow);
        }
    }
    fn unlink(&mut self, number: u32) {
        self.lock.begin_move();
        let next = self.pool.get(number).next();
        let mut previous = self.first_overflow();
        if previous == number {
            self.link_first(next);
        } else {
            while self.pool.get(previous).next() != number {
                previous = self.pool.get(previous).next();
                debug_assert_ne!(previous, 0, "an overflow bucket is in the chain of its slot");
            }
            self.pool.get(previous).set_next(next);
        }
        self.pool.give_back(number);
    }
    /// Makes this the first overflow bucket, or 0 for none.
    fn link_first(&mut self, number: u32) {
        self.lock.set_linked(number != 0);
        self.lock.bucket().set_link(number);
    }
    /// Leaves these entries, which must be some of those there, in as few buckets as they need.
    pub(super) fn retain(&mut self, entries: &[Entry]) {
        self.lock.begin_move();
        let main = self.lock.bucket();
        let in_main = if entries.len() > SLOTS { LINK_SLOT } else { SLOTS };
        let (first, rest) = entries.split_at(entries.len().min(in_main));
        let mut spare = self.first_overflow();
        let mut tail = None;
        for chunk in rest.chunks(SLOTS) {
            debug_assert_ne!(spare, 0, "what is retained fits where it was");
            let bucket = self.pool.get(spare);
            fill(bucket, SLOTS, chunk);
            spare = bucket.next();
            tail = Some(bucket);
        }
        if let Some(tail) = tail {
            tail.set_next(0);
            fill(main, LINK_SLOT, first);
        } else {
            self.link_first(0);
            fill(main, SLOTS, first);
        }
        while spare != 0 {
            let next = self.pool.get(spare).next();
            self.pool.give_back(spare);
            spare = next;
        }
    }
}

/// Writes entries to the first slots and empties the others.
fn fill(bucket: &Bucket, slots: usize, entries: &[Entry]) {
    for slot in 0..slots {
        match entries.get(slot) {
            Some(&entry) => bucket.set(slot, entry),
            None => bucket.clear(slot),
        }
    }
}

/// A bucket of a chain.
#[derive(Clone, Copy)]
struct Part<'a> {
    bucket: &'a Bucket,
    /// Slots below this are for entries.
    limit: usize,
    /// The number of the overflow bucket, 0 for the main one.
    overflow: u32,
}

/// The buckets of a chain, in order.
struct Parts<'a> {
    pool: &'a Pool,
    part: Option<Part<'a>>,
    next: u32,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    #[inline]
    fn next(&mut self) -> Option<Part<'a>> {
        let part = self.part.take();
        if part.is_some() || self.next == 0 {
            return part;
        }
        let overflow = self.next;
        let bucket = self.pool.get(overflow);
        self.next = bucket.next();
        Some(Part { bucket, limit: SLOTS, overflow })
    }
}
