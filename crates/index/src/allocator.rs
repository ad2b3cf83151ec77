//! The program's allocator: mimalloc, asked so that it keeps little of what is freed.
//!
//! ```text
//!   asked for         given from mimalloc as
//!   up to 8 KiB       it is
//!   up to 64 KiB      a power of two: of the stretches of 512 KiB that each thread keeps for each size there are three, not twelve
//!   up to 512 KiB     a piece of its own, as what is larger: threads would keep stretches of 4 MiB for each size
//! ```
//!
//! A thread keeps the stretch that it used last of a size for its next allocation, and nobody else can give that back; what is
//! rounded up is address space: where something longer lay before, its pages go back when the shorter one is given. Beyond
//! that mimalloc looks at what it keeps when it is called, so of a process that has become idle it keeps all: somebody must ask.

use std::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;

/// mimalloc's numbers for its options, by its header.
const PURGE_DELAY: std::ffi::c_int = 15;
/// What is free for so long goes back: while it stays, what it was is resident beside what comes next. Long values that are overwritten as
/// fast as they come leave tens of megabytes even in 10 ms.
const PURGE_AFTER_MS: std::ffi::c_long = 0;
/// Up to here sizes stay as they are.
const SMALL_MAX: usize = 8 << 10;
/// Up to here they are powers of two.
const MEDIUM_MAX: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// mimalloc gives what is longer a piece of its own.
const SHARED_MAX: usize = 512 << 10;

// SAFETY: as mimalloc's header declares them.
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set(option: std::ffi::c_int, value: std::ffi::c_long);
}

/// Gives freed memory back to the system at once: all that whole pages of the allocator hold, whoever freed it. Blocks that
/// another thread's heap keeps for its next allocation stay.
pub fn give_back() {
    // SAFETY: any thread may call it at any time; it touches free memory alone.
    unsafe { mi_collect(true) };
}

/// From now on what is freed goes back to the system at once. For the start of a program.
pub fn keep_little() {
    // SAFETY: it stores a number that is looked at when something is freed.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_AFTER_MS) };
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sparing;

fn stretched(bytes: usize) -> usize {
    if bytes <= SMALL_MAX || bytes > SHARED_MAX {
        bytes
    } else if bytes <= MEDIUM_MAX {
        bytes.next_power_of_two()
    } else {
        SHARED_MAX + 1
    }
}

/// What something longer left behind the first `bytes` of a block goes back, in whole pages.
///
/// # Safety
/// The block is as long as [`stretched`] says of `bytes`, and nobody has been given it yet.
unsafe fn let_tail_go(place: *mut u8, bytes: usize) {
    let (start, end) = (place as usize + bytes, place as usize + stretched(bytes));
    let (first, last) = (start.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES);
    // What is longer than that comes from the system.
    if bytes <= MEDIUM_MAX && first < last && !place.is_null() {
        // SAFETY: these pages lie in the block, behind all that anybody will read. Where the system refuses, they stay.
        let _ = unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DONTNEED) };
    }
}

fn stretched_layout(layout: Layout) -> Layout {
    // No size that `isize` can't hold comes of it: see above.
    Layout::from_size_align(stretched(layout.size()), layout.align()).unwrap_or(layout)
}

// SAFETY: mimalloc gives at least what is asked for, at its alignment; it knows the length of each block by itself.
unsafe impl GlobalAlloc for Sparing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout has a size where our caller's has one; the block is new.
        unsafe {
            let place = MiMalloc.alloc(stretched_layout(layout));
            let_tail_go(place, layout.size());
            place
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if stretched(layout.size()) == layout.size() {
            // SAFETY: our caller's promise is the one that is asked for.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        // SAFETY: as in `alloc`.
        let place = unsafe { self.alloc(layout) };
        if !place.is_null() {
            // What is rounded up stays untouched.
            // SAFETY: so many bytes were just given.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: it came from there.
        unsafe { MiMalloc.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: it came from there, and the new size is at least our caller's, which is not 0. Only the first `bytes` are our caller's.
        unsafe {
            let place = MiMalloc.realloc(place, layout, stretched(bytes));
            let_tail_go(place, bytes);
            place
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of the process that are in memory, of those that hold these bytes.
    fn resident(place: *mut u8, bytes: usize) -> usize {
        let first = place as usize / PAGE_BYTES * PAGE_BYTES;
        let pages = (place as usize + bytes - first).div_ceil(PAGE_BYTES);
        let mut found = vec![0u8; pages];
        // SAFETY: the vector has a byte for each page, and what is not mapped is an error.
        let error =
            unsafe { libc::mincore(first as *mut libc::c_void, pages * PAGE_BYTES, found.as_mut_ptr()) };
        assert_eq!(error, 0);
        found.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn where_something_longer_lay_a_shorter_one_takes_no_more_than_itself() {
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        let (long, short) = (layout(60 << 10), layout(33 << 10));
        // SAFETY: what is given is written within its length, and goes back with its layout.
        unsafe {
            let give = |layout: Layout| {
                let place = Sparing.alloc(layout);
                place.write_bytes(7, layout.size());
                place
            };
            let before: Vec<_> = (0..16).map(|_| give(long)).collect();
            before.iter().for_each(|place| Sparing.dealloc(*place, long));
            let after: Vec<_> = (0..16).map(|_| give(short)).collect();
            let again = after.iter().filter(|place| before.contains(place)).count();
            assert!(again > 0, "no block was given twice");
            for place in &after {
                let pages = resident(*place, 64 << 10);
                assert!(pages <= short.size() / PAGE_BYTES + 2, "{pages} pages");
            }
            after.iter().for_each(|place| Sparing.dealloc(*place, short));
        }
    }
}
