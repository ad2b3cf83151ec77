//! Counting the DRAM that an index takes: every byte asked of the allocator, and every page of its own mappings that holds
//! memory. For measurements: a program installs [`Counting`] as its global allocator, and [`measure`]s.
//!
//! # Thread safety
//! One measurement at a time; [`measure`] sees to it. All threads' allocations count, so whoever measures lets no other work
//! run. Outside of measurements an allocation costs one more load of a flag.

use std::alloc::{GlobalAlloc, Layout};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};

use parking_lot::Mutex;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicI64 = AtomicI64::new(0);
/// Start and length of each mapping made during the measurement.
static MAPPED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
static MEASURING: Mutex<()> = Mutex::new(());

/// An allocator that counts what another one gives, as asked for (what it rounds up is not seen).
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting<A>(pub A);

fn count(bytes: usize, came: bool) {
    if COUNTING.load(Relaxed) {
        let bytes = bytes as i64;
        ALLOCATED.fetch_add(if came { bytes } else { -bytes }, Relaxed);
    }
}

// SAFETY: every call goes to the inner allocator with the arguments it came with, and its answer is returned.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), true);
        // SAFETY: our caller's promise is the one that the inner allocator asks for.
        unsafe { self.0.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), true);
        // SAFETY: our caller's promise is the one that the inner allocator asks for.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout.size(), false);
        // SAFETY: our caller's promise is the one that the inner allocator asks for.
        unsafe { self.0.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), false);
        count(size, true);
        // SAFETY: our caller's promise is the one that the inner allocator asks for.
        unsafe { self.0.realloc(place, layout, size) }
    }
}

/// Notes a mapping of an index.
#[cfg(not(shuttle))]
pub(crate) fn mapped(start: *const u8, bytes: usize) {
    if COUNTING.load(Relaxed) {
        MAPPED.lock().push((start.addr(), bytes));
    }
}

/// Forgets one that is about to go.
#[cfg(not(shuttle))]
pub(crate) fn unmapped(start: *const u8) {
    if COUNTING.load(Relaxed) {
        MAPPED.lock().retain(|(mapping, _)| *mapping != start.addr());
    }
}

/// Tells what a measurement has counted so far.
#[derive(Debug)]
pub struct Meter {
    before: i64,
    is_installed: bool,
}

impl Meter {
    /// Bytes of DRAM that were taken and not given back since the measurement began; `None` if this program's global allocator isn't
    /// [`Counting`]. Pages of mappings are asked for one by one: not for every operation.
    pub fn taken(&self) -> Option<u64> {
        let mappings = MAPPED.lock();
        let resident: usize = mappings.iter().map(|&(start, bytes)| resident_bytes(start, bytes)).sum();
        let allocated = ALLOCATED.load(Relaxed) - self.before;
        // The list of mappings itself was counted; it is a few entries.
        let bytes = (allocated - (mappings.capacity() * size_of::<(usize, usize)>()) as i64).max(0) as u64;
        self.is_installed.then_some(bytes + resident as u64)
    }
}

/// Runs `make` and returns with its result the bytes of DRAM that were taken and not given back meanwhile; `None` if this
/// program's global allocator isn't [`Counting`].
pub fn measure<R>(make: impl FnOnce() -> R) -> (R, Option<u64>) {
    metered(|_| make())
}

/// [`measure`], of which `make` can see what it has taken so far: for the most that something takes in between.
pub fn metered<R>(make: impl FnOnce(&Meter) -> R) -> (R, Option<u64>) {
    /// Ends a measurement, however it ends.
    struct Measuring;
    impl Drop for Measuring {
        fn drop(&mut self) {
            COUNTING.store(false, Relaxed);
        }
    }
    let _one = MEASURING.lock();
    // A new list: the room of an old one was not taken in this measurement.
    *MAPPED.lock() = Vec::new();
    COUNTING.store(true, Relaxed);
    let _measuring = Measuring;
    let before = ALLOCATED.load(Relaxed);
    let probe = std::hint::black_box(Box::new([0u8; 4096]));
    let is_installed = ALLOCATED.load(Relaxed) - before >= size_of_val(&*probe) as i64;
    drop(probe);
    let meter = Meter { before, is_installed };
    let made = make(&meter);
    (made, meter.taken())
}

/// Asks the kernel to back memory that nobody has touched yet with huge pages, as an engine's records are and an index's
/// buckets. Only advice: where it is refused, small pages serve.
pub fn prefer_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    const PAGE_BYTES: usize = 4096;
    let bytes = size_of_val(memory);
    // Only whole pages can be advised about.
    let head = memory.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
    if bytes > head {
        let start = memory.as_mut_ptr().wrapping_byte_add(head);
        // SAFETY: the range is inside memory that the caller lends for writing; advice changes no content.
        unsafe { libc::madvise(start.cast(), bytes - head, libc::MADV_HUGEPAGE) };
    }
}

/// Bytes of the pages of a mapping that hold memory now.
fn resident_bytes(start: usize, bytes: usize) -> usize {
    const PAGE_BYTES: usize = 4096;
    let mut resident = vec![0u8; bytes.div_ceil(PAGE_BYTES)];
    // SAFETY: the kernel writes one byte a page into `resident`, which has as many; it reads nothing at `start`, and a range
    // that isn't mapped is an error.
    let failed = unsafe {
        libc::mincore(std::ptr::without_provenance_mut(start), bytes, resident.as_mut_ptr().cast())
    };
    if failed != 0 {
        return 0;
    }
    resident.iter().filter(|&&page| page & 1 == 1).count() * PAGE_BYTES
}
