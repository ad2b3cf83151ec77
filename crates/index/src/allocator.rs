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
//! rounded up is address space, for nobody touches it. Beyond that mimalloc looks at what it keeps when it is called, so of a process
//! that has become idle it keeps all: somebody must ask.

use std::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;

/// mimalloc's numbers for its options, by its header.
const PURGE_DELAY: std::ffi::c_int = 15;
/// What is free for so long goes back: while it stays, what it was is resident beside what comes next.
const PURGE_AFTER_MS: std::ffi::c_long = 10;
/// Up to here sizes stay as they are.
const SMALL_MAX: usize = 8 << 10;
/// Up to here they are powers of two.
const MEDIUM_MAX: usize = 64 << 10;
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

/// From now on what is freed goes back to the system soon. For the start of a program.
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

fn stretched_layout(layout: Layout) -> Layout {
    // No size that `isize` can't hold comes of it: see above.
    Layout::from_size_align(stretched(layout.size()), layout.align()).unwrap_or(layout)
}

// SAFETY: mimalloc gives at least what is asked for, at its alignment; it knows the length of each block by itself.
unsafe impl GlobalAlloc for Sparing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout has a size where our caller's has one.
        unsafe { MiMalloc.alloc(stretched_layout(layout)) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if stretched(layout.size()) == layout.size() {
            // SAFETY: our caller's promise is the one that is asked for.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        // SAFETY: as in `alloc`.
        let place = unsafe { MiMalloc.alloc(stretched_layout(layout)) };
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
        // SAFETY: it came from there, and the new size is at least our caller's, which is not 0.
        unsafe { MiMalloc.realloc(place, layout, stretched(bytes)) }
    }
}
