//! Where copies are, by the address of the record.
//!
//! ```text
//!   bucket: a cache line of 8 entries       entry:  63    48 47 46 45                     0
//!                                                  | tag:16 |seen:2| 1 + word of the copy  |     0: empty
//! ```
//!
//! Where a bucket is full, entries go to another one that the hash names, too; where both are, one is lost to the next: that copy is
//! not found any more, and leaves with its page. The number of buckets doubles as entries come.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Frames;

use crate::sync::AtomicU64;

const WAYS: usize = 8;
const SEEN_SHIFT: u32 = 46;
const SEEN: u64 = 3 << SEEN_SHIFT;
const TAG_SHIFT: u32 = 48;
const WORD: u64 = (1 << SEEN_SHIFT) - 1;
const FIRST_BUCKETS: u64 = 8;
/// Of the most that pages take, the table may grow to this part: an entry for each 64 bytes.
const PART: usize = 8;
/// Words in front of a copy: the record's address, and the sequence number of its slot's use.
pub(super) const FRONT_WORDS: usize = 2;

/// See the module.
pub(super) struct Table {
    /// One frame; memory that was never touched is not there.
    memory: Frames,
    buckets: AtomicU64,
    most: u64,
}

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    #[inline]
    pub fn of(address: u64) -> Self {
        let mixed = address.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self((mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }
    /// For counting how often it was missed.
    pub fn raw(self) -> u64 {
        self.0
    }
    fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }
    /// The low ones of each say a bucket.
    fn bits(self) -> [u64; 2] {
        [self.0 >> 8, self.0.rotate_right(40) ^ self.0]
    }
}

/// How often a copy was found since it came, up to 3.
#[inline]
fn seen(entry: u64) -> u64 {
    (entry & SEEN) >> SEEN_SHIFT
}

#[inline]
fn is_empty(entry: u64) -> bool {
    entry & WORD == 0
}

impl Table {
    /// For copies in so many bytes of pages; `None` where the system has no address space for it.
    pub fn new(most_bytes: usize) -> Option<Self> {
        let line = WAYS * 8;
        let most = (most_bytes / PART / line).next_power_of_two().max(FIRST_BUCKETS as usize);
        let memory = Frames::try_sparse(1, most * line)?;
        Some(Self { memory, buckets: AtomicU64::new(0), most: most as u64 })
    }

    /// Of no copies, ever.
    pub fn none() -> Self {
        Self { memory: Frames::new(0, 8), buckets: AtomicU64::new(0), most: 0 }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.buckets.load(Relaxed) * (WAYS * 8) as u64
    }

    /// Entries that it has.
    pub fn capacity(&self) -> u64 {
        self.buckets.load(Relaxed) * WAYS as u64
    }

    /// Both buckets of a hash; `None` if there are none.
    #[inline]
    fn buckets_now(&self, hash: Hash) -> Option<[&[AtomicU64]; 2]> {
        // Acquire: what was moved when the table grew is there.
        let mask = self.buckets.load(Acquire).checked_sub(1)?;
        let words = self.memory.words(0);
        Some(hash.bits().map(|bits| {
            let at = (bits & mask) as usize * WAYS;
            &words[at..at + WAYS]
        }))
    }

    /// The first entry that leads to a copy that is looked for, if `is_it` says so.
    #[inline]
    fn look(&self, hash: Hash, mut is_it: impl FnMut(u64) -> bool) -> Option<&AtomicU64> {
        for bucket in self.buckets_now(hash)? {
            for entry in bucket {
                // Acquire: the words are stored before the entry.
                let value = entry.load(Acquire);
                if value >> TAG_SHIFT == hash.tag() && !is_empty(value) && is_it((value & WORD) - 1) {
                    return Some(entry);
                }
            }
        }
        None
    }

    /// The entry, and the copy's words and what follows them.
    #[inline]
    pub fn find<'t, 'f>(
        &'t self,
        frames: &'f Frames,
        address: u64,
        seq: u64,
    ) -> Option<(&'t AtomicU64, &'f [AtomicU64])> {
        let mut copy = None;
        let entry = self.look(Hash::of(address), |word| {
            let words = frames.words_from(word);
            let is_it = words[0].load(Relaxed) == address && words[1].load(Relaxed) == seq;
            copy = is_it.then(|| &words[FRONT_WORDS..]);
            is_it
        })?;
        Some((entry, copy?))
    }

    /// Counts that the copy of an entry was found.
    #[inline]
    pub fn saw(&self, entry: &AtomicU64) {
        let value = entry.load(Relaxed);
        if !is_empty(value) && seen(value) < 3 {
            // If it changed meanwhile, the count is lost.
            let _ = entry.compare_exchange(value, value + (1 << SEEN_SHIFT), Relaxed, Relaxed);
        }
    }

    /// See [`super::Cache::touch`].
    #[inline]
    pub fn touch(&self, address: u64) -> bool {
        let buckets = self.buckets_now(Hash::of(address));
        buckets.into_iter().flatten().for_each(terrace_blocks::prefetch_line);
        buckets.is_some()
    }

    /// See [`super::Cache::touch_copy`].
    #[inline]
    pub fn touch_copy(&self, frames: &Frames, address: u64) -> bool {
        let load = |word| {
            terrace_blocks::prefetch(frames.words_from(word));
            true
        };
        self.look(Hash::of(address), load).is_some()
    }

    /// A copy starts at this word of all frames. Whether there is one entry more than before. The caller holds `Filling`.
    pub fn insert(&self, address: u64, word: u64) -> bool {
        let hash = Hash::of(address);
        if self.buckets.load(Relaxed) == 0 && self.most > 0 {
            self.buckets.store(FIRST_BUCKETS.min(self.most), Release);
        }
        let Some(buckets) = self.buckets_now(hash) else { return false };
        let free =
            buckets.iter().flat_map(|bucket| bucket.iter()).find(|entry| is_empty(entry.load(Relaxed)));
        let least = || buckets[0].iter().min_by_key(|entry| seen(entry.load(Relaxed)));
        let Some(entry) = free.or_else(least) else { return false };
        let more = is_empty(entry.load(Relaxed));
        entry.store(hash.tag() << TAG_SHIFT | (word + 1), Release);
        more
    }

    /// The entry of the copy that starts at this word, and how often it was found; `None` if none leads there any more.
    pub fn entry_of(&self, address: u64, word: u64) -> Option<(&AtomicU64, u64)> {
        let leads = |entry: &&AtomicU64| entry.load(Relaxed) & WORD == word + 1;
        let mut buckets = self.buckets_now(Hash::of(address))?.into_iter();
        let entry = buckets.find_map(|bucket| bucket.iter().find(leads))?;
        Some((entry, seen(entry.load(Relaxed))))
    }

    /// The copy of an entry is at another word now, and was found so often.
    pub fn swing(&self, entry: &AtomicU64, word: u64, seen: u64) {
        let tag = entry.load(Relaxed) >> TAG_SHIFT;
        entry.store(tag << TAG_SHIFT | seen << SEEN_SHIFT | (word + 1), Release);
    }

    /// Nobody finds its copy any more.
    pub fn remove(&self, entry: &AtomicU64) {
        entry.store(0, Release);
    }

    /// Doubles it if that is allowed. Whoever looks meanwhile may not find what moves. The caller holds `Filling`.
    pub fn grow(&self, frames: &Frames) {
        let buckets = self.buckets.load(Relaxed);
        if buckets * 2 > self.most {
            return;
        }
        let words = self.memory.words(0);
        for at in 0..buckets as usize * WAYS {
            let value = words[at].load(Relaxed);
            if is_empty(value) {
                continue;
            }
            let address = frames.words_from((value & WORD) - 1)[0].load(Relaxed);
            let bucket = (at / WAYS) as u64;
            // Of two hashes that name this bucket either will do.
            let bits = Hash::of(address).bits().into_iter().find(|bits| bits & (buckets - 1) == bucket);
            if bits.is_some_and(|bits| bits & buckets != 0) {
                words[at + buckets as usize * WAYS].store(value, Relaxed);
                words[at].store(0, Relaxed);
            }
        }
        self.buckets.store(buckets * 2, Release);
    }

    /// Nothing is in it: its memory goes back to the system.
    pub fn clear(&self) {
        if self.buckets.swap(0, AcqRel) != 0 {
            self.memory.release(0);
        }
    }
}
