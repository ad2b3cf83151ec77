//! DRAM slabs: an arena cut into slabs of one size, each given to a class of slots while it is in use.
//!
//! ```text
//!   arena  [ slab: class 3 ][ slab: free ][ slab: class 0 ][ slab: class 3, draining ] ..
//!   pool of class 3: its slabs, those with free slots, how many slots are free
//! ```
//!
//! # Thread safety
//! A class's pool has a lock; free slabs have one that is taken inside. A slot belongs to who took it until the index knows
//! it, then to who holds its key's critical section.
//!
//! # Invariants
//! * A slab's counts and lists are changed under the lock of its class. It loses its class only when all its slots are free,
//!   and by background steps, which therefore may walk the slots of a class without its lock.
//! * Slots from `fresh` on have never been taken since the slab came to its class: what stands in them means nothing.
//! * A slab that is draining is in no list of slabs with free slots; once its last slot has come back it is free.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{DramTarget, Frames, Words};

use crate::classes::Classes;
use crate::slot::Slot;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Mutex};

/// Bytes before a slot's record.
pub(crate) const SLOT_HEAD: usize = 16;
/// No slab, no class.
pub(crate) const NONE: u32 = u32::MAX;

/// What is known of a slab.
#[repr(align(64))]
pub(crate) struct Slab {
    class: AtomicU32,
    draining: AtomicU32,
    /// Slots that nobody has.
    free: AtomicU32,
    /// The first of those that were used before, as one more than its offset in 16 bytes; 0: none.
    first_free: AtomicU64,
    /// Slots below this one have been taken at least once.
    fresh: AtomicU32,
    /// Whether it is in its pool's list of slabs with free slots.
    listed: AtomicU32,
    /// Slots that hold a record.
    pub live: AtomicU32,
    /// No record that is in the log alone has an older stamp.
    oldest: AtomicU32,
    /// Slots whose record is in the log alone.
    pub dirty: AtomicI64,
    /// No record expires before this time.
    pub min_expire: AtomicU64,
    /// Whole-database flushes up to this version were applied.
    pub purged: AtomicU64,
}

impl Slab {
    /// A slot's record has this stamp now.
    pub fn stamped(&self, stamp: u32) {
        // Always an exchange, however new the stamp: whoever walks the slab sees it in the slot or leaves it here.
        self.oldest.fetch_min(stamp, AcqRel);
    }
    /// Whether records with stamps up to `upto` may be in the log alone.
    pub fn may_have(&self, upto: u32) -> bool {
        self.dirty.load(SeqCst) > 0 && self.oldest.load(Acquire) <= upto
    }
    /// All slots will be looked at now; what they have, and keep, is to be told by [`stamped`](Self::stamped) again.
    pub fn forget_stamps(&self) {
        self.oldest.swap(u32::MAX, AcqRel);
    }
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            class: AtomicU32::new(NONE),
            draining: AtomicU32::new(0),
            free: AtomicU32::new(0),
            first_free: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            listed: AtomicU32::new(0),
            live: AtomicU32::new(0),
            oldest: AtomicU32::new(u32::MAX),
            dirty: AtomicI64::new(0),
            min_expire: AtomicU64::new(u64::MAX),
            purged: AtomicU64::new(0),
        }
    }
}

/// The slabs of a class.
#[derive(Default)]
pub(crate) struct Pool {
    /// All, in places that they keep; `NONE` where one left.
    pub slabs: Vec<u32>,
    /// Those with free slots.
    open: Vec<u32>,
    /// Free slots, but for those of slabs that are draining.
    pub free: usize,
    /// Slots that were taken since background steps looked last.
    pub taken: u64,
}

/// Slabs that no class has.
struct FreeSlabs {
    slabs: Vec<u32>,
    /// Those that may not be in use now, whose memory the system has: the index needs it, or the store was given less.
    parked: Vec<u32>,
}

/// The arena.
pub(crate) struct Slabs {
    pub classes: Classes,
    pub slab_bytes: usize,
    pub table: Box<[Slab]>,
    frames: Frames,
    pools: Box<[Mutex<Pool>]>,
    free: Mutex<FreeSlabs>,
    /// Slabs whose slots are all free, for [`take_empty`](Self::take_empty).
    empty: Mutex<Vec<u32>>,
    /// Slabs that may be in use.
    pub target: DramTarget,
    /// A class that a write found no slot of, since background steps looked last, or `NONE`.
    pub wanting: AtomicU32,
}

impl Slabs {
    /// `count` slabs for records of up to `longest` bytes, which may become more later, but never more than `most`.
    /// `target` makes what says how many may be in use, of as many as there are.
    pub fn new(
        (count, most): (usize, usize),
        target: impl FnOnce(usize) -> DramTarget,
        slab_bytes: usize,
        longest: usize,
    ) -> Self {
        let classes = Classes::new(count, slab_bytes, longest);
        let frames = Frames::with_reserve(count, most, slab_bytes);
        let all = frames.count() as u32;
        Self {
            table: (0..all).map(|_| Slab::default()).collect(),
            pools: (0..classes.count()).map(|_| Mutex::default()).collect(),
            free: Mutex::new(FreeSlabs {
                slabs: (0..count as u32).rev().collect(),
                parked: (count as u32..all).rev().collect(),
            }),
            frames,
            empty: Mutex::new(Vec::new()),
            target: target(all as usize),
            wanting: AtomicU32::new(NONE),
            classes,
            slab_bytes,
        }
    }
    /// How many there are, with those that may not be in use.
    pub fn count(&self) -> usize {
        self.table.len()
    }
    /// The slab that a slot lies in.
    #[inline]
    pub fn slab_of(&self, offset: u64) -> u32 {
        (offset / self.slab_bytes as u64) as u32
    }
    /// The class of a slab, if it has one.
    #[inline]
    pub fn class_of(&self, slab: u32) -> Option<usize> {
        let class = self.table[slab as usize].class.load(Acquire);
        (class != NONE).then_some(class as usize)
    }
    /// The words from a slot's record to the end of its slab: what a reader needs.
    #[inline]
    pub fn record(&self, offset: u64) -> Words<'_> {
        let start = (offset % self.slab_bytes as u64) as usize / 8 + SLOT_HEAD / 8;
        Words(&self.frames.words(self.slab_of(offset))[start..])
    }
    /// A slot. Its slab has a class as long as somebody has the slot or looks at it inside an epoch.
    #[inline]
    pub fn slot(&self, offset: u64) -> Slot<'_> {
        let slab = self.slab_of(offset);
        let words = self.frames.words(slab);
        let start = (offset % self.slab_bytes as u64) as usize / 8;
        let length = self.class_of(slab).map_or(0, |class| self.classes.bytes(class) / 8);
        Slot(&words[start..(start + length.max(SLOT_HEAD / 8 + 3)).min(words.len())])
    }
    /// Slots that a slab of this class holds.
    pub fn slots_in(&self, class: usize) -> usize {
        self.slab_bytes / self.classes.bytes(class)
    }
    /// How many slabs a class has.
    pub fn held(&self, class: usize) -> usize {
        self.pools[class].lock().slabs.iter().filter(|slab| **slab != NONE).count()
    }
    /// The places of a class's slabs; `NONE` where one left.
    pub fn slabs_of(&self, class: usize) -> Vec<u32> {
        self.pools[class].lock().slabs.clone()
    }
    /// Slots of a slab that may hold a record, by number.
    pub fn used_slots(&self, slab: u32) -> u32 {
        self.table[slab as usize].fresh.load(Acquire)
    }
    /// Where a slab's slot starts.
    #[inline]
    pub fn offset(&self, slab: u32, class: usize, slot: u32) -> u64 {
        u64::from(slab) * self.slab_bytes as u64 + u64::from(slot) * self.classes.bytes(class) as u64
    }
    /// Whether a slot starts there that may hold a record. For background steps.
    pub fn is_slot(&self, offset: u64) -> bool {
        let slab = self.slab_of(offset);
        self.class_of(slab).is_some_and(|class| {
            let (at, bytes) = ((offset % self.slab_bytes as u64) as usize, self.classes.bytes(class));
            at.is_multiple_of(bytes) && at / bytes < self.used_slots(slab) as usize
        })
    }
    /// Free slots of a class, and how many were taken since this was asked last.
    pub fn demand(&self, class: usize) -> (usize, u64) {
        let mut pool = self.pools[class].lock();
        (pool.free, std::mem::take(&mut pool.taken))
    }
    /// Slabs that a class could have at once.
    pub fn free_slabs(&self) -> usize {
        let free = self.free.lock();
        let used = self.count() - free.slabs.len() - free.parked.len();
        self.target.frames().saturating_sub(used).min(free.slabs.len())
    }
    /// Slabs that classes have.
    pub fn used_slabs(&self) -> usize {
        let free = self.free.lock();
        self.count() - free.slabs.len() - free.parked.len()
    }

    /// A slot for a record of this class; `None` if there is none now.
    pub fn take(&self, class: usize) -> Option<u64> {
        let mut pool = self.pools[class].lock();
        loop {
            let Some(&number) = pool.open.last() else {
                let slab = self.take_slab()?;
                self.begin(&mut pool, slab, class);
                continue;
            };
            let slab = &self.table[number as usize];
            let first = slab.first_free.load(Relaxed);
            let offset = if let Some(start) = first.checked_sub(1) {
                let offset = start << 4;
                slab.first_free.store(self.slot(offset).next_free(), Relaxed);
                offset
            } else {
                let fresh = slab.fresh.load(Relaxed);
                if fresh as usize >= self.slots_in(class) {
                    slab.listed.store(0, Relaxed);
                    pool.open.pop();
                    continue;
                }
                let offset = self.offset(number, class, fresh);
                self.slot(offset).set_next_free(0);
                slab.fresh.store(fresh + 1, Release);
                offset
            };
            slab.free.fetch_sub(1, Relaxed);
            pool.free -= 1;
            pool.taken += 1;
            return Some(offset);
        }
    }

    fn take_slab(&self) -> Option<u32> {
        let mut free = self.free.lock();
        let used = self.count() - free.slabs.len() - free.parked.len();
        if used >= self.target.frames() { None } else { free.slabs.pop() }
    }

    fn begin(&self, pool: &mut Pool, number: u32, class: usize) {
        let slab = &self.table[number as usize];
        let slots = self.slots_in(class);
        slab.fresh.store(0, Relaxed);
        slab.first_free.store(0, Relaxed);
        slab.free.store(slots as u32, Relaxed);
        slab.draining.store(0, Relaxed);
        slab.listed.store(1, Relaxed);
        slab.live.store(0, Relaxed);
        slab.dirty.store(0, Relaxed);
        slab.oldest.store(u32::MAX, Relaxed);
        slab.min_expire.store(u64::MAX, Relaxed);
        slab.purged.store(0, Relaxed);
        slab.class.store(class as u32, Release);
        match pool.slabs.iter_mut().find(|slab| **slab == NONE) {
            Some(place) => *place = number,
            None => pool.slabs.push(number),
        }
        pool.open.push(number);
        pool.free += slots;
    }

    /// Gives back a slot that nobody can reach any more.
    pub fn give(&self, offset: u64) {
        let number = self.slab_of(offset);
        let Some(class) = self.class_of(number) else { return };
        let mut pool = self.pools[class].lock();
        let slab = &self.table[number as usize];
        self.slot(offset).set_next_free(slab.first_free.load(Relaxed));
        slab.first_free.store((offset >> 4) + 1, Relaxed);
        let free = slab.free.fetch_add(1, Relaxed) as usize + 1;
        let slots = self.slots_in(class);
        let draining = slab.draining.load(Relaxed) == 1;
        if !draining {
            pool.free += 1;
            if slab.listed.swap(1, Relaxed) == 0 {
                pool.open.push(number);
            }
        }
        if free == slots && (draining || pool.free >= 2 * slots) {
            self.empty.lock().push(number);
        }
    }

    /// No slot of this slab is taken any more; the slab is free once all have come back.
    pub fn drain(&self, number: u32) {
        let Some(class) = self.class_of(number) else { return };
        let mut pool = self.pools[class].lock();
        let slab = &self.table[number as usize];
        if slab.draining.swap(1, Relaxed) == 1 {
            return;
        }
        let free = slab.free.load(Relaxed) as usize;
        pool.free -= free;
        pool.open.retain(|open| *open != number);
        slab.listed.store(0, Relaxed);
        if free == self.slots_in(class) {
            self.empty.lock().push(number);
        }
    }

    /// Takes slabs away from their classes that hold nothing and are draining, or of which the class has enough. Called by
    /// background steps alone: to them a slab that has a class keeps it until they call this.
    pub fn take_empty(&self) -> bool {
        let empty = std::mem::take(&mut *self.empty.lock());
        let mut any = false;
        for number in empty {
            let Some(class) = self.class_of(number) else { continue };
            let mut pool = self.pools[class].lock();
            let (slab, slots) = (&self.table[number as usize], self.slots_in(class));
            let draining = slab.draining.load(Relaxed) == 1;
            if slab.free.load(Relaxed) as usize != slots || !(draining || pool.free >= 2 * slots) {
                continue;
            }
            if !draining {
                pool.free -= slots;
                pool.open.retain(|open| *open != number);
            }
            self.end(&mut pool, number);
            any = true;
        }
        any
    }

    /// Whether a slab is being emptied.
    pub fn is_draining(&self, number: u32) -> bool {
        self.table[number as usize].draining.load(Relaxed) == 1
    }

    fn end(&self, pool: &mut Pool, number: u32) {
        for slab in pool.slabs.iter_mut().filter(|slab| **slab == number) {
            *slab = NONE;
        }
        let slab = &self.table[number as usize];
        slab.fresh.store(0, Relaxed);
        slab.listed.store(0, Relaxed);
        slab.draining.store(0, Relaxed);
        slab.class.store(NONE, Release);
        self.free.lock().slabs.push(number);
    }

    /// Gives the memory of free slabs beyond the allowance back to the system, and takes it again where that has grown.
    pub fn park(&self) -> bool {
        let allowed = self.target.frames();
        let mut free = self.free.lock();
        let mut any = false;
        while free.parked.len() + allowed < self.count()
            && let Some(slab) = free.slabs.pop()
        {
            self.frames.release(slab);
            free.parked.push(slab);
            any = true;
        }
        while free.parked.len() + allowed > self.count()
            && let Some(slab) = free.parked.pop()
        {
            free.slabs.push(slab);
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slabs(count: usize, most: usize) -> Slabs {
        Slabs::new((count, most), |most| DramTarget::new(count, (1, most), 4096, None), 4096, 2000)
    }

    #[test]
    fn slots_come_and_go_and_slabs_change_class() {
        let slabs = slabs(3, 3);
        let (small, large) = (slabs.classes.of(4).unwrap(), slabs.classes.of(200).unwrap());
        let per_slab = slabs.slots_in(small);
        let mut taken: Vec<u64> = (0..3 * per_slab).map(|_| slabs.take(small).unwrap()).collect();
        let mut distinct = taken.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), taken.len());
        assert_eq!((slabs.take(small), slabs.take(large)), (None, None));

        // All slots of one slab go: it is drained, and another class has it.
        let victim = slabs.slab_of(taken[0]);
        slabs.drain(victim);
        assert_eq!(slabs.take(large), None);
        let (of_victim, rest): (Vec<u64>, Vec<u64>) =
            taken.iter().partition(|&&offset| slabs.slab_of(offset) == victim);
        taken = rest;
        for offset in of_victim {
            assert_eq!(slabs.class_of(victim), Some(small));
            slabs.give(offset);
        }
        assert!(slabs.take_empty());
        assert_eq!(slabs.class_of(victim), None);
        assert_eq!(slabs.slab_of(slabs.take(large).unwrap()), victim);

        // What came back is taken again before anything else can be.
        let back = taken.swap_remove(5);
        slabs.give(back);
        assert_eq!(slabs.take(small), Some(back));
        assert_eq!(slabs.take(small), None);
    }

    #[test]
    fn an_empty_slab_is_given_up_where_there_are_others() {
        let slabs = slabs(4, 4);
        let class = slabs.classes.of(4).unwrap();
        let taken: Vec<u64> = (0..4 * slabs.slots_in(class)).map(|_| slabs.take(class).unwrap()).collect();
        assert_eq!(slabs.free_slabs(), 0);
        for offset in taken {
            slabs.give(offset);
        }
        assert!(slabs.take_empty());
        assert_eq!((slabs.free_slabs(), slabs.used_slabs()), (3, 1));
        slabs.target.resize(2 * 4096).unwrap();
        assert!(slabs.park());
        assert_eq!((slabs.free_slabs(), slabs.used_slabs()), (1, 1));
    }

    #[test]
    fn slabs_in_reserve_are_used_once_they_are_allowed() {
        let slabs = slabs(3, 7);
        let class = slabs.classes.of(4).unwrap();
        let fill = || std::iter::from_fn(|| slabs.take(class)).count() / slabs.slots_in(class);
        assert_eq!((slabs.count(), fill()), (7, 3));
        slabs.target.resize(6 * 4096).unwrap();
        assert_eq!(fill(), 0, "the memory is the system's until background steps take it");
        assert!(slabs.park());
        assert_eq!((fill(), slabs.used_slabs()), (3, 6));
    }
}
