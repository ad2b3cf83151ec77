//! Memory for segments of buckets and nodes: zeroed, and lazily so where it is large.
//!
//! Small segments come from the allocator. Larger ones are mapped, so that the kernel zeroes page by page as buckets are
//! first touched and a doubling of the table costs no pause; from 4 MiB on they are aligned for huge pages and ask for
//! them (smaller ones would lose more to a half-used page than they gain). Untouched pages of a mapping hold no DRAM and are not counted.

/// What a segment consists of.
///
/// # Safety
/// All-zero bytes are a valid value, it is changed through atomics only, and dropping it does nothing.
pub(crate) unsafe trait Zeroed: Send + Sync {
    /// The value of zeroes, where an atomic is no plain integer.
    #[cfg(shuttle)]
    fn zeroed() -> Self;
    /// Makes all zero, as the kernel does with memory that it got back.
    #[cfg(shuttle)]
    fn reset(&self);
}

// SAFETY: it is an atomic integer.
unsafe impl Zeroed for crate::sync::AtomicU64 {
    #[cfg(shuttle)]
    fn zeroed() -> Self {
        Self::new(0)
    }
    #[cfg(shuttle)]
    fn reset(&self) {
        self.store(0, std::sync::atomic::Ordering::Release);
    }
}

#[cfg(not(shuttle))]
pub(crate) use real::{allocate, free, release, release_unit, resident_bytes};
#[cfg(shuttle)]
pub(crate) use simulated::{allocate, free, release, release_unit, resident_bytes};

/// Starts loading the line at `bucket`, which need not be valid.
#[inline]
pub(crate) fn prefetch<T>(bucket: *const T) {
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

    use super::Zeroed;

    /// Segments of at least this many bytes are mapped.
    const MAP_BYTES: usize = 64 << 10;
    const PAGE_BYTES: usize = 4 << 10;
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    /// Segments of at least this many bytes use huge pages.
    const HUGE_BYTES: usize = 4 << 20;

    fn layout<T>(count: usize) -> Option<Layout> {
        Layout::array::<T>(count).ok()
    }

    /// `count` (not 0, a power of two) zeroed values, or null where there is no memory.
    pub(crate) fn allocate<T: Zeroed>(count: usize) -> *mut T {
        let Some(layout) = layout::<T>(count) else { return ptr::null_mut() };
        debug_assert!(count > 0);
        if layout.size() >= MAP_BYTES {
            return map(layout.size());
        }
        // SAFETY: the layout's size is not 0. All-zero bytes are a valid value by `Zeroed`.
        unsafe { alloc_zeroed(layout).cast() }
    }

    /// Gives back what [`allocate`] gave.
    ///
    /// # Safety
    /// `buckets` came from `allocate(count)`, was not freed, and nobody uses it any more.
    pub(crate) unsafe fn free<T: Zeroed>(buckets: *mut T, count: usize) {
        let Some(layout) = layout::<T>(count) else { return };
        if layout.size() >= MAP_BYTES {
            crate::dram::unmapped(buckets.cast());
            // SAFETY: by the contract this is a whole mapping that `map` made, and nobody uses it.
            let failed = unsafe { libc::munmap(buckets.cast(), layout.size()) };
            debug_assert_eq!(failed, 0, "munmap of a segment");
        } else {
            // SAFETY: by the contract it came from `alloc_zeroed` with this layout.
            unsafe { dealloc(buckets.cast(), layout) };
        }
    }

    /// How many buckets of a segment of `count` can be given back at a time; `None` for a segment from the allocator.
    pub(crate) fn release_unit<T: Zeroed>(count: usize) -> Option<usize> {
        let bytes = match count * size_of::<T>() {
            HUGE_BYTES.. => HUGE_PAGE_BYTES,
            MAP_BYTES.. => PAGE_BYTES,
            _ => return None,
        };
        Some(bytes / size_of::<T>())
    }

    /// Gives a unit back to the system. It stays mapped and reads as zeroes: empty buckets.
    ///
    /// # Safety
    /// The `count` buckets are a whole unit of a mapped segment.
    pub(crate) unsafe fn release<T: Zeroed>(buckets: *const T, count: usize) {
        let bytes = count * size_of::<T>();
        // SAFETY: by the contract the range is inside one private anonymous mapping, whose pages it discards. They consist
        // of atomics only, and all-zero bytes are valid ones; a thread that reads meanwhile sees old bytes or zeroes.
        let failed = unsafe { libc::madvise(buckets.cast_mut().cast(), bytes, libc::MADV_DONTNEED) };
        debug_assert_eq!(failed, 0, "madvise of unused buckets");
    }

    /// Bytes of DRAM that a segment of `count` values holds once the first `touched` were used.
    pub(crate) fn resident_bytes<T: Zeroed>(count: usize, touched: usize) -> u64 {
        let (bytes, touched) = (count * size_of::<T>(), touched * size_of::<T>());
        let resident = match bytes {
            HUGE_BYTES.. => touched.next_multiple_of(HUGE_PAGE_BYTES),
            MAP_BYTES.. => touched.next_multiple_of(PAGE_BYTES),
            _ => bytes,
        };
        resident as u64
    }

    /// Maps `bytes` (whole pages, whole huge pages if so many) of zeroes; null if the kernel refuses.
    fn map<T>(bytes: usize) -> *mut T {
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
            crate::dram::mapped(start.cast(), bytes);
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
        crate::dram::mapped(aligned.cast(), bytes);
        aligned.cast()
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

        #[test]
        fn every_kind_of_segment_is_aligned_and_zero() {
            for count in if cfg!(miri) { vec![2, 8] } else { vec![2, 8, 1 << 13, 1 << 18, 1 << 20] } {
                let values = allocate::<AtomicU64>(count);
                assert!(!values.is_null());
                let bytes = count * size_of::<AtomicU64>();
                assert_eq!(values.addr() % if bytes >= HUGE_BYTES { HUGE_PAGE_BYTES } else { 8 }, 0);
                for i in [0, count - 1] {
                    // SAFETY: `i` is below the number of values allocated.
                    assert_eq!(unsafe { &*values.add(i) }.swap(7, Relaxed), 0);
                }
                assert_eq!(resident_bytes::<AtomicU64>(count, count), bytes as u64);
                if let Some(unit) = release_unit::<AtomicU64>(count) {
                    // SAFETY: the last unit of a mapped segment.
                    unsafe { release(values.add(count - unit), unit) };
                    // SAFETY: both are among the values allocated.
                    let (first, last) = unsafe { (&*values, &*values.add(count - 1)) };
                    assert_eq!((first.load(Relaxed), last.load(Relaxed)), (7, 0));
                }
                // SAFETY: it came from `allocate(count)` and is used no more.
                unsafe { free(values, count) };
            }
        }
    }
}

/// Under shuttle an atomic is no plain integer, so buckets are made one by one.
#[cfg(shuttle)]
mod simulated {
    use super::Zeroed;

    /// `count` empty buckets.
    pub(crate) fn allocate<T: Zeroed>(count: usize) -> *mut T {
        let buckets: Box<[T]> = (0..count).map(|_| T::zeroed()).collect();
        Box::into_raw(buckets).cast()
    }

    /// Gives back what [`allocate`] gave.
    ///
    /// # Safety
    /// `buckets` came from `allocate(count)`, was not freed, and nobody uses it any more.
    pub(crate) unsafe fn free<T: Zeroed>(buckets: *mut T, count: usize) {
        // SAFETY: by the contract this is the boxed slice that `allocate` took apart.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buckets, count)) });
    }

    /// Two buckets at a time, so that small tests give some back.
    pub(crate) fn release_unit<T: Zeroed>(count: usize) -> Option<usize> {
        (count >= 2).then_some(2)
    }

    /// Makes the buckets zero, one after the other.
    ///
    /// # Safety
    /// They are inside one allocation that lives.
    pub(crate) unsafe fn release<T: Zeroed>(buckets: *const T, count: usize) {
        for i in 0..count {
            // SAFETY: by the contract.
            unsafe { &*buckets.add(i) }.reset();
        }
    }

    /// Bytes as the real build would count them for a small segment.
    pub(crate) fn resident_bytes<T: Zeroed>(count: usize, _touched: usize) -> u64 {
        (count * size_of::<T>()) as u64
    }
}
