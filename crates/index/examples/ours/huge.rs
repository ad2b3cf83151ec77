//! Lines of 64 bytes in huge pages, where the kernel gives them.

/// A mapping of `T`s that are written once, when it is made.
pub struct Huge<T> {
    start: *const T,
    count: usize,
}

impl<T: Copy> Huge<T> {
    /// Maps `count` values and fills them; the mapping lives as long as the program.
    pub fn new(count: usize, value: impl Fn(u64) -> T) -> Self {
        const HUGE_PAGE_BYTES: usize = 2 << 20;
        let bytes = count * size_of::<T>() + HUGE_PAGE_BYTES;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED, "no memory for {bytes} bytes");
        // SAFETY: advice on the mapping just made changes no content.
        unsafe { libc::madvise(mapping, bytes, libc::MADV_HUGEPAGE) };
        let start = mapping.wrapping_byte_add(mapping.align_offset(HUGE_PAGE_BYTES)).cast::<T>();
        for i in 0..count {
            // SAFETY: value `i` is inside the mapping, which is a huge page longer than the values, and nobody else has it.
            unsafe { start.wrapping_add(i).write(value(i as u64)) };
        }
        Self { start, count }
    }
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count as u64
    }
    /// Number `i`, which the caller knows to be below the count.
    #[inline]
    pub fn at(&self, i: u64) -> &T {
        debug_assert!(i < self.count as u64);
        // SAFETY: callers ask for numbers below the count only; all values were written in `new`, and none is since.
        unsafe { &*self.start.wrapping_add(i as usize) }
    }
}
