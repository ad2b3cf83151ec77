//! Arrays of buckets that grow without moving: a directory of segments, each as large as all before it together.
//!
//! ```text
//!   directory  [0]   [1]   [2]     [3]
//!               |     |     |       '--> buckets 4b .. 8b
//!               |     |     '--> buckets 2b .. 4b
//!               |     '--> buckets b .. 2b
//!               '--> buckets 0 .. b          (b = 2^base_bits)
//! ```
//!
//! # Thread safety
//! A segment's pointer is published by a releasing compare-and-swap (where several threads make one, one wins and the others
//! free theirs) and never changes until the drop, so references into it live as long as the directory.
//!
//! # Invariants
//! A directory entry is null or points `first` buckets *before* its segment, where `first` is the number of the segment's
//! first bucket; so bucket `i` is at entry + i, whatever its segment. Entry `63 - s` is the same as entry `s`, for `find`, or null
//! still while it is being made.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::memory::{self, Zeroed};
use crate::sync::AtomicPtr;

/// Segments of a directory: room for `2^(base_bits + 32)` buckets.
const SEGMENTS: usize = 33;

/// Entries of a directory: one for each value of `segment_of`, so that a look-up needs no check.
const ENTRIES: usize = 64;

/// Segments that `find` finds: those whose two entries are two, and neither is another segment's.
const FOUND: u32 = 31;

const _: () = assert!(ENTRIES - FOUND as usize >= SEGMENTS);

/// The bit of the greatest power of two in a number, whose last bit is taken for set; or 63 minus that.
///
/// `bsr` says the former, on many processors in eight steps; `lzcnt` the latter, in one. Where there is no `lzcnt` the same bytes
/// are a `bsr`. So nobody need ask which it was.
#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
#[inline]
fn either_log2(number: u64) -> usize {
    let log2: u64;
    // SAFETY: it changes nothing but a register and flags.
    unsafe {
        std::arch::asm!(
            "lzcnt {log2}, {number}", number = in(reg) number | 1, log2 = lateout(reg) log2, options(pure, nomem, nostack)
        );
    }
    // SAFETY: the number wasn't 0, so either of the two was written, and is 63 at most.
    unsafe { std::hint::assert_unchecked(log2 < 64) };
    log2 as usize
}

/// As above.
#[inline]
#[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
fn either_log2(number: u64) -> usize {
    63 - (number | 1).leading_zeros() as usize
}

/// A bucket that is there. No reference yet: in an `Option` of one the compiler would compare its sum with null again.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a, T> {
    /// As in the directory: as many buckets before the segment as its first one's number.
    entry: NonNull<T>,
    bucket: u64,
    segments: PhantomData<&'a T>,
}

impl<'a, T> Place<'a, T> {
    /// The bucket.
    #[inline]
    pub(crate) fn get(self) -> &'a T {
        // SAFETY: as in `Segments::get`; `find`, which alone makes places, took the entry of this bucket's segment.
        unsafe { &*self.entry.as_ptr().wrapping_add(self.bucket as usize) }
    }
}

/// A growing array of buckets.
pub(crate) struct Segments<T: Zeroed> {
    base_bits: u32,
    directory: [AtomicPtr<T>; ENTRIES],
}

impl<T: Zeroed> Segments<T> {
    /// A directory whose first segment will have `2^base_bits` buckets. Allocates nothing.
    pub(crate) fn new(base_bits: u32) -> Self {
        Self { base_bits, directory: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
    /// log2 of the first segment's buckets.
    #[inline]
    pub(crate) fn base_bits(&self) -> u32 {
        self.base_bits
    }
    /// Whether this bucket is in the first segment.
    #[inline]
    pub(crate) fn in_first(&self, bucket: u64) -> bool {
        bucket >> self.base_bits == 0
    }
    /// The most buckets there can be.
    pub(crate) fn limit(&self) -> u64 {
        1 << (self.base_bits + SEGMENTS as u32 - 1)
    }
    #[inline]
    fn segment_of(&self, bucket: u64) -> usize {
        // 0 for the first segment, else 1 + log2(bucket / base); the doubling spares the case of 0.
        63 - (bucket >> self.base_bits << 1 | 1).leading_zeros() as usize
    }
    /// The number of the first bucket, and how many buckets there are.
    fn range(&self, segment: usize) -> (usize, usize) {
        let base = 1usize << self.base_bits;
        if segment == 0 { (0, base) } else { (base << (segment - 1), base << (segment - 1)) }
    }
    /// Where a bucket is, or would be.
    #[inline]
    fn address_of(&self, bucket: u64) -> *const T {
        let entry = self.directory[self.segment_of(bucket)].load(Acquire);
        if entry.is_null() {
            absent(bucket);
        }
        entry.wrapping_add(bucket as usize)
    }
    /// A bucket.
    ///
    /// # Panics
    /// If its segment was never allocated.
    #[inline]
    pub(crate) fn get(&self, bucket: u64) -> &T {
        // SAFETY: the directory's entry is not null, so by the invariant it points `first` buckets before a segment that
        // holds this bucket; the segment's buckets are initialised, shared only through atomics, and live as long as self.
        unsafe { &*self.address_of(bucket) }
    }
    /// Where a bucket is, if its segment was allocated: with a constant three instructions find the segment.
    ///
    /// # Safety
    /// `BASE_BITS` are those that the directory was made with.
    #[inline]
    pub(crate) unsafe fn find<const BASE_BITS: u32>(&self, bucket: u32) -> Option<Place<'_, T>> {
        const { assert!(BASE_BITS > 0 && u32::BITS - BASE_BITS < FOUND) };
        debug_assert_eq!(BASE_BITS, self.base_bits);
        let bucket = u64::from(bucket);
        let segment = either_log2(bucket >> (BASE_BITS - 1));
        debug_assert_eq!(segment.min(63 - segment), self.segment_of(bucket));
        let entry = NonNull::new(self.directory[segment].load(Acquire))?;
        Some(Place { entry, bucket, segments: PhantomData })
    }
    /// Starts loading a bucket's line.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: u64) {
        memory::prefetch(self.address_of(bucket));
    }
    /// Makes sure that this bucket's segment is there; `false` if there is no memory for it.
    pub(crate) fn ensure(&self, bucket: u64) -> bool {
        assert!(bucket < self.limit(), "bucket {bucket} is beyond the directory");
        let segment = self.segment_of(bucket);
        if !self.directory[segment].load(Acquire).is_null() {
            return true;
        }
        let (first, count) = self.range(segment);
        let buckets = memory::allocate::<T>(count);
        if buckets.is_null() {
            return false;
        }
        let entry = buckets.wrapping_sub(first);
        assert!(!entry.is_null(), "a segment lies where its directory entry would be null");
        if self.directory[segment].compare_exchange(ptr::null_mut(), entry, AcqRel, Acquire).is_err() {
            // SAFETY: it came from `allocate(count)` just now and nobody else has seen it.
            unsafe { memory::free(buckets, count) };
        } else if segment < FOUND as usize {
            self.directory[63 - segment].store(entry, Release);
        }
        true
    }
    /// How many buckets from this one on share memory that can be given back once none of them and none after them in the
    /// segment is in use; `None` if such memory doesn't begin here.
    pub(crate) fn releasable(&self, bucket: u64) -> Option<usize> {
        let (first, count) = self.range(self.segment_of(bucket));
        let unit = memory::release_unit::<T>(count)?;
        (bucket as usize - first).is_multiple_of(unit).then_some(unit)
    }
    /// Gives the memory of `count` buckets back to the system: they become zeroes. Stray readers may be inside.
    ///
    /// # Panics
    /// If the segment was never allocated.
    pub(crate) fn release(&self, bucket: u64, count: usize) {
        debug_assert_eq!(self.releasable(bucket), Some(count));
        // SAFETY: by `releasable` these are `count` buckets of one segment, which begin a unit.
        unsafe { memory::release(self.address_of(bucket), count) };
    }
    /// Bytes of DRAM held if buckets up to `used` have been touched.
    pub(crate) fn bytes(&self, used: u64) -> u64 {
        let mut bytes = 0;
        for segment in 0..SEGMENTS {
            if self.directory[segment].load(Acquire).is_null() {
                break;
            }
            let (first, count) = self.range(segment);
            let touched = (used as usize).saturating_sub(first).min(count);
            bytes += memory::resident_bytes::<T>(count, touched);
        }
        bytes
    }
}

#[cold]
fn absent(bucket: u64) -> ! {
    panic!("bucket {bucket} is in no segment")
}

impl<T: Zeroed> Drop for Segments<T> {
    fn drop(&mut self) {
        for segment in 0..SEGMENTS {
            let entry = self.directory[segment].load(Acquire);
            if !entry.is_null() {
                let (first, count) = self.range(segment);
                // SAFETY: by the invariant this is the pointer that `allocate(count)` gave, and with `&mut self` nobody
                // holds a reference into the segment any more.
                unsafe { memory::free(entry.wrapping_add(first), count) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;

    #[test]
    fn numbers_map_to_segments() {
        let segments = Segments::<AtomicU64>::new(3);
        let expected = [(0, 0), (7, 0), (8, 1), (15, 1), (16, 2), (31, 2), (32, 3), ((8u64 << 32) - 1, 32)];
        for (bucket, segment) in expected {
            assert_eq!(segments.segment_of(bucket), segment, "bucket {bucket}");
            let (first, count) = segments.range(segment);
            assert!((first as u64..(first + count) as u64).contains(&bucket));
        }
    }

    #[test]
    fn buckets_are_found_by_either_logarithm() {
        let segments = Segments::<AtomicU64>::new(3);
        for bucket in 0..1000u32 {
            // SAFETY: the directory was made with these bits.
            let find = || unsafe { segments.find::<3>(bucket) };
            assert_eq!(find().is_some(), bucket > 0 && (bucket < 8 || !bucket.is_power_of_two()));
            assert!(segments.ensure(bucket.into()));
            assert!(std::ptr::eq(find().unwrap().get(), segments.get(bucket.into())));
            let segment = segments.segment_of(bucket.into());
            let [entry, other] = [segment, 63 - segment].map(|at| segments.directory[at].load(Acquire));
            assert_eq!(entry, other);
        }
    }

    #[test]
    #[should_panic(expected = "in no segment")]
    fn an_absent_segment_is_no_memory() {
        Segments::<AtomicU64>::new(3).get(0);
    }
}
