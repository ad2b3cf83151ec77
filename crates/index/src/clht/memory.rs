//! Memory for segments of buckets: zeroed, and lazily so where it is large.
//!
//! Small segments come from the allocator. Larger ones are mapped, so that the kernel zeroes page by page as buckets are
//! first touched and a doubling of the table costs no pause; from 4 MiB on they are aligned for huge pages and ask for
//! them (smaller ones would lose more to a half-used page than they gain). Untouched pages of a mapping hold no DRAM and are not counted.

use super::bucket::Bucket;

#[cfg(not(shuttle))]
pub(super) use real::{allocate, free, resident_bytes};
#[cfg(shuttle)]
pub(super) use simulated::{allocate, free, resident_bytes};

/// Starts loading the line at `bucket`, which need not be valid.
#[inline]
pub(super) fn prefetch(bucket: *const Bucket) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it accesses no memory and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bucket.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bucket;
}

#[cfg(not(shuttle))]
mod real {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr;

    use super::Bucket;

    /// Segments of at least this many bytes are mapped.
    const MAP_BYTES: usize = 64 << 10;
    const PAGE_BYTES: usize = 4 << 10;
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    /// Segments of at least this many bytes use huge pages.
    const HUGE_BYTES: usize = 4 << 20;

    fn layout(count: usize) -> Option<Layout> {
        Layout::array::<Bucket>(count).ok()
    }

    /// `count` (not 0) empty buckets, or null where there is no memory.
    pub(in super::super) fn allocate(count: usize) -> *mut Bucket {
        let Some(layout) = layout(count) else { return ptr::null_mut() };
        debug_assert!(count > 0);
        if layout.size() >= MAP_BYTES {
            return map(layout.size());
        }
        // SAFETY: the layout's size is not 0. All-zero bytes are a valid Bucket: it consists of atomic integers.
        unsafe { alloc_zeroed(layout).cast() }
    }

    /// Gives back what [`allocate`] gave.
    ///
    /// # Safety
    /// `buckets` came from `allocate(count)`, was not freed, and nobody uses it any more.
    pub(in super::super) unsafe fn free(buckets: *mut Bucket, count: usize) {
        let Some(layout) = layout(count) else { return };
        if layout.size() >= MAP_BYTES {
            // SAFETY: by the contract this is a whole mapping that `map` made, and nobody uses it.
            let failed = unsafe { libc::munmap(buckets.cast(), layout.size()) };
            debug_assert_eq!(failed, 0, "munmap of a segment");
        } else {
            // SAFETY: by the contract it came from `alloc_zeroed` with this layout.
            unsafe { dealloc(buckets.cast(), layout) };
        }
    }

    /// Bytes of DRAM that a segment of `count` buckets holds once the first `touched` were used.
    pub(in super::super) fn resident_bytes(count: usize, touched: usize) -> u64 {
        let (bytes, touched) = (count * size_of::<Bucket>(), touched * size_of::<Bucket>());
        let resident = match bytes {
            HUGE_BYTES.. => touched.next_multiple_of(HUGE_PAGE_BYTES),
            MAP_BYTES.. => touched.next_multiple_of(PAGE_BYTES),
            _ => bytes,
        };
        resident as u64
    }

    /// Maps `bytes` (a power of two) of zeroes; null if the kernel refuses.
    fn map(bytes: usize) -> *mut Bucket {
        let huge = bytes >= HUGE_BYTES;
        let slack = if huge { HUGE_PAGE_BYTES } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes + slack, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        if !huge {
            return start.cast();
        }
        let head = start.align_offset(HUGE_PAGE_BYTES);
        let aligned = start.wrapping_byte_add(head);
        // SAFETY: all three ranges are inside the mapping just made, which is `slack` longer than needed; the two that are
        // unmapped hold nothing. Advice changes no content; where it is refused, small pages serve.
        unsafe {
            if head > 0 {
                libc::munmap(start, head);
            }
            if slack > head {
                libc::munmap(aligned.wrapping_byte_add(bytes), slack - head);
            }
            libc::madvise(aligned, bytes, libc::MADV_HUGEPAGE);
        }
        aligned.cast()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_kind_of_segment_is_aligned_and_empty() {
            for count in if cfg!(miri) { vec![1, 8] } else { vec![1, 8, 1 << 10, 1 << 15, 1 << 17] } {
                let buckets = allocate(count);
                assert!(!buckets.is_null());
                let bytes = count * size_of::<Bucket>();
                assert_eq!(buckets.addr() % if bytes >= HUGE_BYTES { HUGE_PAGE_BYTES } else { 64 }, 0);
                for i in [0, count / 2, count - 1] {
                    // SAFETY: `i` is below the number of buckets allocated.
                    assert!(unsafe { &*buckets.add(i) }.is_empty());
                }
                assert_eq!(resident_bytes(count, count), bytes as u64);
                // SAFETY: it came from `allocate(count)` and is used no more.
                unsafe { free(buckets, count) };
            }
        }
    }
}

/// Under shuttle an atomic is no plain integer, so buckets are made one by one.
#[cfg(shuttle)]
mod simulated {
    use super::Bucket;

    /// `count` empty buckets.
    pub(in super::super) fn allocate(count: usize) -> *mut Bucket {
        let buckets: Box<[Bucket]> = (0..count).map(|_| Bucket::empty()).collect();
        Box::into_raw(buckets).cast()
    }

    /// Gives back what [`allocate`] gave.
    ///
    /// # Safety
    /// `buckets` came from `allocate(count)`, was not freed, and nobody uses it any more.
    pub(in super::super) unsafe fn free(buckets: *mut Bucket, count: usize) {
        // SAFETY: by the contract this is the boxed slice that `allocate` took apart.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buckets, count)) });
    }

    /// Bytes as the real build would count them for a small segment.
    pub(in super::super) fn resident_bytes(count: usize, _touched: usize) -> u64 {
        count as u64 * 64
    }
}
