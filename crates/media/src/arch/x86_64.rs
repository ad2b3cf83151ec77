//! x86-64: SSE2 is always there; the flush instruction is chosen at run time.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// From this length on, `rep movsb` beats a loop on processors with fast string moves.
const REP_MIN: usize = 1024;

/// Copies bytes out of a region.
///
/// # Safety
/// Both ranges must be valid and not overlap.
#[inline]
pub(crate) unsafe fn load_bytes(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, len) }
}

/// Copies bytes into a region, through the cache.
///
/// # Safety
/// Both ranges must be valid and not overlap.
#[inline]
pub(crate) unsafe fn store_bytes(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, len) }
}

/// A copy that the compiler can't see into, so that a race is the hardware's (defined) one. Ends of a range are
/// covered by a second access that overlaps the first, which stores the same bytes again.
#[inline]
unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: each arm touches exactly `len` bytes at `src` and `dst`, which the caller promised are valid.
    unsafe {
        match len {
            0 => {}
            1..=3 => asm!(
                "2:",
                "movzx {t:e}, byte ptr [{s} + {i}]",
                "mov byte ptr [{d} + {i}], {t:l}",
                "inc {i}",
                "cmp {i}, {n}",
                "jb 2b",
                t = out(reg) _, i = inout(reg) 0usize => _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                options(nostack),
            ),
            4..=7 => asm!(
                "mov {a:e}, dword ptr [{s}]",
                "mov {b:e}, dword ptr [{s} + {n} - 4]",
                "mov dword ptr [{d}], {a:e}",
                "mov dword ptr [{d} + {n} - 4], {b:e}",
                a = out(reg) _, b = out(reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                options(nostack, preserves_flags),
            ),
            8..=15 => asm!(
                "mov {a}, qword ptr [{s}]",
                "mov {b}, qword ptr [{s} + {n} - 8]",
                "mov qword ptr [{d}], {a}",
                "mov qword ptr [{d} + {n} - 8], {b}",
                a = out(reg) _, b = out(reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                options(nostack, preserves_flags),
            ),
            16..=32 => asm!(
                "movdqu {a}, xmmword ptr [{s}]",
                "movdqu {b}, xmmword ptr [{s} + {n} - 16]",
                "movdqu xmmword ptr [{d}], {a}",
                "movdqu xmmword ptr [{d} + {n} - 16], {b}",
                a = out(xmm_reg) _, b = out(xmm_reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                options(nostack, preserves_flags),
            ),
            33..REP_MIN => asm!(
                "2:",
                "movdqu {a}, xmmword ptr [{s} + {i}]",
                "movdqu {b}, xmmword ptr [{s} + {i} + 16]",
                "movdqu xmmword ptr [{d} + {i}], {a}",
                "movdqu xmmword ptr [{d} + {i} + 16], {b}",
                "add {i}, 32",
                "cmp {i}, {last}",
                "jb 2b",
                "movdqu {a}, xmmword ptr [{s} + {last}]",
                "movdqu {b}, xmmword ptr [{s} + {last} + 16]",
                "movdqu xmmword ptr [{d} + {last}], {a}",
                "movdqu xmmword ptr [{d} + {last} + 16], {b}",
                a = out(xmm_reg) _, b = out(xmm_reg) _, i = inout(reg) 0usize => _,
                s = in(reg) src, d = in(reg) dst, last = in(reg) len - 32,
                options(nostack),
            ),
            _ => asm!(
                "rep movsb",
                inout("rcx") len => _, inout("rsi") src => _, inout("rdi") dst => _,
                options(nostack, preserves_flags),
            ),
        }
    }
}

/// Stores whole lines around the cache.
///
/// # Safety
/// `dst` must be line-aligned, and both ranges valid for `lines` lines.
#[inline]
pub(crate) unsafe fn stream_lines(dst: *mut u8, src: *const u8, lines: usize) {
    if lines == 0 {
        return;
    }
    // SAFETY: the loop touches `lines * 64` bytes; `movntdq` needs 16-byte alignment, which a line has.
    unsafe {
        asm!(
            "2:",
            "movdqu {a}, xmmword ptr [{s}]",
            "movdqu {b}, xmmword ptr [{s} + 16]",
            "movdqu {c}, xmmword ptr [{s} + 32]",
            "movdqu {e}, xmmword ptr [{s} + 48]",
            "movntdq xmmword ptr [{d}], {a}",
            "movntdq xmmword ptr [{d} + 16], {b}",
            "movntdq xmmword ptr [{d} + 32], {c}",
            "movntdq xmmword ptr [{d} + 48], {e}",
            "add {s}, 64",
            "add {d}, 64",
            "dec {n}",
            "jnz 2b",
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, e = out(xmm_reg) _,
            s = inout(reg) src => _, d = inout(reg) dst => _, n = inout(reg) lines => _,
            options(nostack),
        );
    }
}

/// Stores aligned words around the cache.
///
/// # Safety
/// `dst` must be word-aligned, and both ranges valid for `words` words.
#[inline]
pub(crate) unsafe fn stream_words(dst: *mut u8, src: *const u8, words: usize) {
    if words == 0 {
        return;
    }
    // SAFETY: the loop touches `words * 8` bytes.
    unsafe {
        asm!(
            "2:",
            "mov {t}, qword ptr [{s} + {i}*8]",
            "movnti qword ptr [{d} + {i}*8], {t}",
            "inc {i}",
            "cmp {i}, {n}",
            "jb 2b",
            t = out(reg) _, i = inout(reg) 0usize => _, s = in(reg) src, d = in(reg) dst, n = in(reg) words,
            options(nostack),
        );
    }
}

const UNKNOWN: u8 = 0;
const CLFLUSH: u8 = 1;
const CLFLUSHOPT: u8 = 2;
const CLWB: u8 = 3;

/// Relaxed: a constant of the machine; every thread that finds it unknown computes the same value.
static FLUSH: AtomicU8 = AtomicU8::new(UNKNOWN);

#[inline]
fn flush_kind() -> u8 {
    match FLUSH.load(Relaxed) {
        UNKNOWN => detect_flush(),
        known => known,
    }
}

#[cold]
fn detect_flush() -> u8 {
    let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let kind = match (features >> 24 & 1, features >> 23 & 1) {
        (1, _) => CLWB,
        (_, 1) => CLFLUSHOPT,
        _ => CLFLUSH,
    };
    FLUSH.store(kind, Relaxed);
    kind
}

/// The name of the flush instruction in use.
pub(crate) fn flush_instruction() -> &'static str {
    match flush_kind() {
        CLWB => "clwb",
        CLFLUSHOPT => "clflushopt",
        _ => "clflush",
    }
}

/// Writes back lines.
///
/// # Safety
/// `first` must be line-aligned, and `lines` lines from it mapped.
#[inline]
pub(crate) unsafe fn flush_lines(first: *mut u8, lines: usize) {
    let kind = flush_kind();
    for i in 0..lines {
        // SAFETY: the line is mapped, and the processor has the instruction.
        unsafe {
            let line = first.add(i * super::CACHE_LINE);
            match kind {
                CLWB => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                CLFLUSHOPT => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                _ => asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }
}

/// Waits until this thread's earlier stores, flushes and streaming stores have reached the persistence domain.
#[inline]
pub(crate) fn fence() {
    // SAFETY: orders memory, touches nothing. Not `nomem`: the compiler must not move accesses across it either.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// Asks for a line; never faults.
#[inline]
pub(crate) fn prefetch(line: *const u8) {
    // SAFETY: a hint that may name any address.
    unsafe { asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) }
}

/// The time-stamp counter, where it runs at a constant rate in every power state.
#[inline]
pub(crate) fn cycles() -> u64 {
    // SAFETY: reads a register.
    unsafe { _rdtsc() }
}

/// Whether [`cycles`] is a clock.
pub(crate) fn cycles_are_a_clock() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx >> 8 & 1 == 1
}
