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
//! [`Segments::ensure`] is called by one thread at a time (its callers hold a mutex). A segment's pointer is published with
//! release and never changes until the drop, so references into it live as long as the directory.
//!
//! # Invariants
//! A directory entry is null or points `first` buckets *before* its segment, where `first` is the number of the segment's
//! first bucket; so bucket `i` is at entry + i, whatever its segment.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::bucket::Bucket;
use super::memory;
use crate::sync::AtomicPtr;

/// Segments of a directory: room for `2^(base_bits + 32)` buckets.
const SEGMENTS: usize = 33;

/// A growing array of buckets.
pub(super) struct Segments {
    base_bits: u32,
    directory: [AtomicPtr<Bucket>; SEGMENTS],
}

impl Segments {
    /// A directory whose first segment will have `2^base_bits` buckets. Allocates nothing.
    pub(super) fn new(base_bits: u32) -> Self {
        Self { base_bits, directory: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
    /// log2 of the first segment's buckets.
    #[inline]
    pub(super) fn base_bits(&self) -> u32 {
        self.base_bits
    }
    /// The most buckets there can be.
    pub(super) fn limit(&self) -> u64 {
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
    fn address_of(&self, bucket: u64) -> *const Bucket {
        let entry = self.directory[self.segment_of(bucket)].load(Acquire);
        assert!(!entry.is_null(), "bucket {bucket} is in no segment");
        entry.wrapping_add(bucket as usize)
    }
    /// A bucket.
    ///
    /// # Panics
    /// If its segment was never allocated.
    #[inline]
    pub(super) fn get(&self, bucket: u64) -> &Bucket {
        // SAFETY: the directory's entry is not null, so by the invariant it points `first` buckets before a segment that
        // holds this bucket; the segment's buckets are initialised, shared only through atomics, and live as long as self.
        unsafe { &*self.address_of(bucket) }
    }
    /// Starts loading a bucket's line.
    #[inline]
    pub(super) fn prefetch(&self, bucket: u64) {
        memory::prefetch(self.address_of(bucket));
    }
    /// Makes sure that this bucket's segment is there; `false` if there is no memory for it.
    pub(super) fn ensure(&self, bucket: u64) -> bool {
        assert!(bucket < self.limit(), "bucket {bucket} is beyond the directory");
        let segment = self.segment_of(bucket);
        if !self.directory[segment].load(Acquire).is_null() {
            return true;
        }
        let (first, count) = self.range(segment);
        let buckets = memory::allocate(count);
        if buckets.is_null() {
            return false;
        }
        let entry = buckets.wrapping_sub(first);
        assert!(!entry.is_null(), "a segment lies where its directory entry would be null");
        self.directory[segment].store(entry, Release);
        true
    }
    /// Bytes of DRAM held if buckets up to `used` have been touched.
    pub(super) fn bytes(&self, used: u64) -> u64 {
        let mut bytes = 0;
        for segment in 0..SEGMENTS {
            if self.directory[segment].load(Acquire).is_null() {
                break;
            }
            let (first, count) = self.range(segment);
            let touched = (used as usize).saturating_sub(first).min(count);
            bytes += memory::resident_bytes(count, touched);
        }
        bytes
    }
}

impl Drop for Segments {
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

    #[test]
    fn numbers_map_to_segments() {
        let segments = Segments::new(3);
        let expected = [(0, 0), (7, 0), (8, 1), (15, 1), (16, 2), (31, 2), (32, 3), ((8u64 << 32) - 1, 32)];
        for (bucket, segment) in expected {
            assert_eq!(segments.segment_of(bucket), segment, "bucket {bucket}");
            let (first, count) = segments.range(segment);
            assert!((first as u64..(first + count) as u64).contains(&bucket));
        }
    }

    #[test]
    #[should_panic(expected = "in no segment")]
    fn an_absent_segment_is_no_memory() {
        Segments::new(3).get(0);
    }
}
