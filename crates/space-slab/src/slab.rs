//! DRAM slabs: an arena cut into slabs of one size, each given to a class of slots while it is in use.
//!
//! ```text
//!   arena  [ slab: class 3 ][ slab: free ][ slab: class 0 ][ slab: class 3, draining ] ..
//!   pool of class 3, partition 0: its slabs, those with free slots, how many slots are free
//! ```
//!
//! A slab belongs to the *partition* that its number names (TaC, 5.5): each partition has pools and free slabs of its own, which who
//! takes a slot tries first. Where they have none it is *stolen* from another one's: no room is lost to whose it is.
//!
//! # Thread safety
//! A pool, that is a class's share of a partition, has a lock; free slabs have one that is taken inside. A slot belongs to who
//! took it until the index knows it, then to who holds its key's critical section.
//!
//! # Invariants
//! * A slab's counts and lists are changed under the lock of its pool. It loses its class only when all its slots are free,
//!   and by a background step that has all partitions to itself: who has one of them may walk the slots of a class.
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
    /// Of so many slots, those that somebody has: records, and sessions that will put some.
    pub fn taken(&self, slots: usize) -> u32 {
        (slots as u32).saturating_sub(self.free.load(Relaxed))
    }
    /// A slot's record has this stamp now, and had another one before.
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

/// The slabs of a class in a partition.
#[derive(Default)]
pub(crate) struct Pool {
    /// All, in places that they keep; `NONE` where one left.
    pub slabs: Vec<u32>,
    /// Those with free slots.
    open: Vec<u32>,
    /// Free slots, but for those of slabs that are draining.
    pub free: usize,
    /// Slots that were ever taken.
    pub taken: u64,
}

/// Slabs that no class has.
struct FreeSlabs {
    /// Of each partition.
    slabs: Box<[Vec<u32>]>,
    /// Those that may not be in use now, whose memory the system has: the index needs it, or the store was given less.
    parked: Vec<u32>,
}

impl FreeSlabs {
    fn count(&self) -> usize {
        self.slabs.iter().map(Vec::len).sum()
    }
}

/// The arena.
pub(crate) struct Slabs {
    pub classes: Classes,
    pub slab_bytes: usize,
    /// 2^64 / `slab_bytes`, rounded up: to multiply by it is to divide.
    slab_inverse: u64,
    pub table: Box<[Slab]>,
    frames: Frames,
    partitions: usize,
    /// Those of a class together, one a partition.
    pools: Box<[Mutex<Pool>]>,
    free: Mutex<FreeSlabs>,
    /// Slabs whose slots are all free, for [`take_empty`](Self::take_empty).
    empty: Mutex<Vec<u32>>,
    /// Slabs that may be in use.
    pub target: DramTarget,
    /// A class that a write found no slot of, since background steps looked last, or `NONE`: it waits for one.
    pub pressing: AtomicU32,
    /// The same of a read, which does not wait.
    pub wanting: AtomicU32,
    /// Slots that were taken from another partition than was asked.
    pub stolen: AtomicU64,
}

/// See [`Slabs::slab_inverse`]. It is exact for powers of two, and by less than a slab's length too large for others.
///
/// # Panics
/// If an arena of so many slabs is too long for that.
fn inverse(slab_bytes: usize, slabs: u32) -> u64 {
    let bytes = slab_bytes as u128;
    let inverse = (1u128 << 64).div_ceil(bytes);
    let arena_bytes = bytes * u128::from(slabs);
    assert!(
        (inverse * bytes - (1 << 64)) * arena_bytes < 1 << 64 && inverse < 1 << 64,
        "{slabs} slabs of {bytes} bytes are more than can be told apart"
    );
    inverse as u64
}

impl Slabs {
    /// `count` slabs for records of up to `longest` bytes, which may become more later, but never more than `most`.
    /// `target` makes what says how many may be in use, of as many as there are. One partition: see
    /// [`with_partitions`](Self::with_partitions).
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
            partitions: 1,
            pools: (0..classes.count()).map(|_| Mutex::default()).collect(),
            free: Mutex::new(FreeSlabs {
                slabs: [(0..count as u32).rev().collect()].into(),
                parked: (count as u32..all).rev().collect(),
            }),
            frames,
            empty: Mutex::new(Vec::new()),
            target: target(all as usize),
            pressing: AtomicU32::new(NONE),
            wanting: AtomicU32::new(NONE),
            stolen: AtomicU64::new(0),
            classes,
            slab_bytes,
            slab_inverse: inverse(slab_bytes, all),
        }
    }
    /// The same in so many partitions, at least one; nothing is in use yet.
    pub fn with_partitions(self, partitions: usize) -> Self {
        let pools = self.classes.count() * partitions;
        let of = |partition, free: &FreeSlabs| {
            let is_its = |slab: &u32| *slab as usize % partitions == partition;
            free.slabs.iter().flatten().copied().filter(is_its).collect()
        };
        {
            let mut free = self.free.lock();
            free.slabs = (0..partitions).map(|partition| of(partition, &free)).collect();
        }
        Self { partitions, pools: (0..pools).map(|_| Mutex::default()).collect(), ..self }
    }
    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions
    }
    /// The partition of a slab.
    #[inline]
    pub fn partition_of(&self, slab: u32) -> usize {
        slab as usize % self.partitions
    }
    #[inline]
    fn pool(&self, class: usize, partition: usize) -> &Mutex<Pool> {
        &self.pools[class * self.partitions + partition]
    }
    fn pools_of(&self, class: usize) -> &[Mutex<Pool>] {
        &self.pools[class * self.partitions..][..self.partitions]
    }
    /// How many there are, with those that may not be in use.
    pub fn count(&self) -> usize {
        self.table.len()
    }
    /// The slab that a slot lies in.
    #[inline]
    pub fn slab_of(&self, offset: u64) -> u32 {
        self.split(offset).0
    }
    /// The slab that a slot lies in, and where in it.
    #[inline]
    fn split(&self, offset: u64) -> (u32, usize) {
        let slab = ((u128::from(offset) * u128::from(self.slab_inverse)) >> 64) as u64;
        debug_assert_eq!(slab, offset / self.slab_bytes as u64);
        (slab as u32, (offset - slab * self.slab_bytes as u64) as usize)
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
        let (slab, at) = self.split(offset);
        Words(&self.frames.words(slab)[(at + SLOT_HEAD) / 8..])
    }
    /// A slot. Its slab has a class as long as somebody has the slot or looks at it inside an epoch.
    #[inline]
    pub fn slot(&self, offset: u64) -> Slot<'_> {
        let (slab, at) = self.split(offset);
        let words = self.frames.words(slab);
        let start = at / 8;
        let length = self.class_of(slab).map_or(0, |class| self.classes.bytes(class) / 8);
        Slot(&words[start..(start + length.max(SLOT_HEAD / 8 + 3)).min(words.len())])
    }
    /// A slot as far as one needs it who knows nothing of its record: for what stands in its head.
    #[inline]
    pub fn slot_head(&self, offset: u64) -> Slot<'_> {
        let (slab, at) = self.split(offset);
        Slot(&self.frames.words(slab)[at / 8..][..SLOT_HEAD / 8 + 1])
    }
    /// Slots that a slab of this class holds.
    pub fn slots_in(&self, class: usize) -> usize {
        self.slab_bytes / self.classes.bytes(class)
    }
    /// How many slabs a class has.
    pub fn held(&self, class: usize) -> usize {
        let of = |pool: &Mutex<Pool>| pool.lock().slabs.iter().filter(|slab| **slab != NONE).count();
        self.pools_of(class).iter().map(of).sum()
    }
    /// The slabs of a class.
    pub fn slabs_of(&self, class: usize) -> Vec<u32> {
        let of = |partition| self.places_of(class, partition);
        (0..self.partitions).flat_map(of).filter(|slab| *slab != NONE).collect()
    }
    /// The places of a class's slabs in a partition; `NONE` where one left.
    pub fn places_of(&self, class: usize, partition: usize) -> Vec<u32> {
        self.pool(class, partition).lock().slabs.clone()
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
    /// Free slots of a class, and how many were ever taken.
    pub fn demand(&self, class: usize) -> (usize, u64) {
        let of = |(free, taken), pool: &Mutex<Pool>| {
            let pool = pool.lock();
            (free + pool.free, taken + pool.taken)
        };
        self.pools_of(class).iter().fold((0, 0), of)
    }
    /// Slabs that a class could have at once.
    pub fn free_slabs(&self) -> usize {
        let free = self.free.lock();
        let used = self.count() - free.count() - free.parked.len();
        self.target.frames().saturating_sub(used).min(free.count())
    }
    /// Slabs that classes have.
    pub fn used_slabs(&self) -> usize {
        let free = self.free.lock();
        self.count() - free.count() - free.parked.len()
    }

    /// A slot for a record of this class, of this partition if that has one, else of another; `None` if there is none now.
    #[inline]
    pub fn take(&self, class: usize, partition: usize) -> Option<u64> {
        self.take_in(class, partition).or_else(|| self.steal(class, partition))
    }

    #[cold]
    fn steal(&self, class: usize, partition: usize) -> Option<u64> {
        let mut others = (1..self.partitions).map(|on| (partition + on) % self.partitions);
        let stolen = others.find_map(|other| self.take_in(class, other))?;
        self.stolen.fetch_add(1, Relaxed);
        Some(stolen)
    }

    fn take_in(&self, class: usize, partition: usize) -> Option<u64> {
        let mut pool = self.pool(class, partition).lock();
        loop {
            let Some(&number) = pool.open.last() else {
                let slab = self.take_slab(partition)?;
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

    fn take_slab(&self, partition: usize) -> Option<u32> {
        let mut free = self.free.lock();
        let used = self.count() - free.count() - free.parked.len();
        if used >= self.target.frames() { None } else { free.slabs[partition].pop() }
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
        let mut pool = self.pool(class, self.partition_of(number)).lock();
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
        let mut pool = self.pool(class, self.partition_of(number)).lock();
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

    /// Whether [`take_empty`](Self::take_empty) has something to look at.
    pub fn has_empty(&self) -> bool {
        !self.empty.lock().is_empty()
    }

    /// Takes slabs away from their classes that hold nothing and are draining, or of which the class has enough. Called by
    /// the background step that has all partitions to itself: to others a slab that has a class keeps it.
    pub fn take_empty(&self) -> bool {
        let empty = std::mem::take(&mut *self.empty.lock());
        let mut any = false;
        for number in empty {
            let Some(class) = self.class_of(number) else { continue };
            let mut pool = self.pool(class, self.partition_of(number)).lock();
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
        self.free.lock().slabs[self.partition_of(number)].push(number);
    }

    /// Gives the memory of free slabs beyond the allowance back to the system, and takes it again where that has grown.
    pub fn park(&self) -> bool {
        let allowed = self.target.frames();
        let mut free = self.free.lock();
        let mut any = false;
        while free.parked.len() + allowed < self.count()
            && let Some(slab) = free.slabs.iter_mut().max_by_key(|slabs| slabs.len()).and_then(Vec::pop)
        {
            self.frames.release(slab);
            free.parked.push(slab);
            any = true;
        }
        while free.parked.len() + allowed > self.count()
            && let Some(slab) = free.parked.pop()
        {
            self.frames.take_back(slab);
            free.slabs[self.partition_of(slab)].push(slab);
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
        let mut taken: Vec<u64> = (0..3 * per_slab).map(|_| slabs.take(small, 0).unwrap()).collect();
        let mut distinct = taken.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), taken.len());
        assert_eq!((slabs.take(small, 0), slabs.take(large, 0)), (None, None));

        // All slots of one slab go: it is drained, and another class has it.
        let victim = slabs.slab_of(taken[0]);
        slabs.drain(victim);
        assert_eq!(slabs.take(large, 0), None);
        let (of_victim, rest): (Vec<u64>, Vec<u64>) =
            taken.iter().partition(|&&offset| slabs.slab_of(offset) == victim);
        taken = rest;
        for offset in of_victim {
            assert_eq!(slabs.class_of(victim), Some(small));
            slabs.give(offset);
        }
        assert!(slabs.take_empty());
        assert_eq!(slabs.class_of(victim), None);
        assert_eq!(slabs.slab_of(slabs.take(large, 0).unwrap()), victim);

        // What came back is taken again before anything else can be.
        let back = taken.swap_remove(5);
        slabs.give(back);
        assert_eq!(slabs.take(small, 0), Some(back));
        assert_eq!(slabs.take(small, 0), None);
    }

    #[test]
    fn an_empty_slab_is_given_up_where_there_are_others() {
        let slabs = slabs(4, 4);
        let class = slabs.classes.of(4).unwrap();
        let taken: Vec<u64> = (0..4 * slabs.slots_in(class)).map(|_| slabs.take(class, 0).unwrap()).collect();
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
        let fill = || std::iter::from_fn(|| slabs.take(class, 0)).count() / slabs.slots_in(class);
        assert_eq!((slabs.count(), fill()), (7, 3));
        slabs.target.resize(6 * 4096).unwrap();
        assert_eq!(fill(), 0, "the memory is the system's until background steps take it");
        assert!(slabs.park());
        assert_eq!((fill(), slabs.used_slabs()), (3, 6));
    }

    #[test]
    fn who_finds_nothing_in_a_partition_takes_from_another() {
        let slabs = slabs(4, 4).with_partitions(2);
        let class = slabs.classes.of(4).unwrap();
        let per_slab = slabs.slots_in(class);
        let partition_of = |offset| slabs.partition_of(slabs.slab_of(offset));
        let own: Vec<u64> = (0..2 * per_slab).map(|_| slabs.take(class, 1).unwrap()).collect();
        assert!(own.iter().all(|&offset| partition_of(offset) == 1));
        assert_eq!((slabs.stolen.load(Relaxed), slabs.places_of(class, 0).len()), (0, 0));
        let stolen = slabs.take(class, 1).unwrap();
        assert_eq!((partition_of(stolen), slabs.stolen.load(Relaxed)), (0, 1));
        slabs.give(own[7]);
        assert_eq!(slabs.take(class, 1), Some(own[7]), "its own first");
        assert_eq!(slabs.take(class, 0).map(partition_of), Some(0));
        let all = std::iter::from_fn(|| slabs.take(class, 0)).count() + 2 + own.len();
        assert_eq!((all, slabs.demand(class)), (4 * per_slab, (0, all as u64 + 1)));

        // A slab that is empty comes back to its own partition.
        let victim = slabs.slab_of(own[0]);
        slabs.drain(victim);
        let of_victim = |offset: &&u64| slabs.slab_of(**offset) == victim;
        own.iter().filter(of_victim).for_each(|&offset| slabs.give(offset));
        assert!(slabs.has_empty() && slabs.take_empty());
        assert_eq!(slabs.slab_of(slabs.take(class, 1).unwrap()), victim);
    }
}
