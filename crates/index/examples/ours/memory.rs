//! DRAM in use: what the allocator gave out, and what the kernel holds resident (mappings included).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
pub struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc_zeroed(layout) }
    }
}

/// Bytes that the allocator has given out and not got back.
pub fn heap_bytes() -> u64 {
    BYTES.load(Relaxed)
}

/// Bytes of this process that the kernel holds in DRAM; 0 where it doesn't tell.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // SAFETY: a query without side effects.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}
