//! Every other processor; on aarch64 with its cache maintenance, elsewhere without a way to write lines back
//! (so that such a machine can run a volatile store and nothing more).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const WORD: usize = 8;

/// Copies bytes out of a region.
///
/// # Safety
/// Both ranges must be valid and not overlap; `src` is region memory, `dst` is not.
#[inline]
pub(crate) unsafe fn load_bytes(dst: *mut u8, src: *const u8, len: usize) {
    let mut i = 0;
    while i < len {
        // SAFETY: i < len, and a word is taken only where it is aligned and whole; atomics make a race defined.
        unsafe {
            let from = src.add(i).cast_mut();
            if from.addr().is_multiple_of(WORD) && len - i >= WORD {
                let word = AtomicU64::from_ptr(from.cast()).load(Relaxed);
                dst.add(i).cast::<u64>().write_unaligned(word);
                i += WORD;
            } else {
                dst.add(i).write(AtomicU8::from_ptr(from).load(Relaxed));
                i += 1;
            }
        }
    }
}

/// Copies bytes into a region, through the cache.
///
/// # Safety
/// Both ranges must be valid and not overlap; `dst` is region memory, `src` is not.
#[inline]
pub(crate) unsafe fn store_bytes(dst: *mut u8, src: *const u8, len: usize) {
    let mut i = 0;
    while i < len {
        // SAFETY: as in `load_bytes`.
        unsafe {
            let to = dst.add(i);
            if to.addr().is_multiple_of(WORD) && len - i >= WORD {
                AtomicU64::from_ptr(to.cast()).store(src.add(i).cast::<u64>().read_unaligned(), Relaxed);
                i += WORD;
            } else {
                AtomicU8::from_ptr(to).store(src.add(i).read(), Relaxed);
                i += 1;
            }
        }
    }
}

/// Stores whole lines and writes them back.
///
/// # Safety
/// `dst` must be line-aligned, and both ranges valid for `lines` lines.
#[inline]
pub(crate) unsafe fn stream_lines(dst: *mut u8, src: *const u8, lines: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        store_bytes(dst, src, lines * super::CACHE_LINE);
        flush_lines(dst, lines);
    }
}

/// Stores aligned words of one line and writes it back.
///
/// # Safety
/// `dst` must be word-aligned, and both ranges valid for `words` words.
#[inline]
pub(crate) unsafe fn stream_words(dst: *mut u8, src: *const u8, words: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        store_bytes(dst, src, words * WORD);
        super::flush(dst, words * WORD);
    }
}

/// Whether `dc cvap` (to the point of persistence) exists; without it only `dc cvac` (to the point of coherency).
#[cfg(target_arch = "aarch64")]
fn has_cvap() -> bool {
    use std::sync::OnceLock;
    static CVAP: OnceLock<bool> = OnceLock::new();
    // SAFETY: getauxval reads this process's own auxiliary vector.
    *CVAP.get_or_init(|| unsafe { libc::getauxval(libc::AT_HWCAP) } & libc::HWCAP_DCPOP != 0)
}

/// The name of the flush instruction in use.
pub(crate) fn flush_instruction() -> &'static str {
    #[cfg(target_arch = "aarch64")]
    return if has_cvap() { "dc cvap" } else { "dc cvac" };
    #[cfg(not(target_arch = "aarch64"))]
    return "none";
}

/// Writes back lines.
///
/// # Safety
/// `first` must be line-aligned, and `lines` lines from it mapped.
#[inline]
pub(crate) unsafe fn flush_lines(first: *mut u8, lines: usize) {
    #[cfg(target_arch = "aarch64")]
    {
        let cvap = has_cvap();
        for i in 0..lines {
            // SAFETY: the line is mapped. `sys` spells `dc cvap`, which assemblers refuse below ARMv8.2.
            unsafe {
                let line = first.add(i * super::CACHE_LINE);
                if cvap {
                    std::arch::asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
                } else {
                    std::arch::asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags));
                }
            }
        }
    }
    #[cfg(not(target_arch = "aarch64"))]
    let _ = (first, lines);
}

/// Waits until this thread's earlier stores and flushes have completed.
#[inline]
pub(crate) fn fence() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches nothing.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "aarch64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Asks for a line; never faults.
#[inline]
pub(crate) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that may name any address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "aarch64"))]
    let _ = line;
}

/// Not used: there is no cheap clock here.
pub(crate) fn cycles() -> u64 {
    0
}

/// Whether [`cycles`] is a clock.
pub(crate) fn cycles_are_a_clock() -> bool {
    false
}
