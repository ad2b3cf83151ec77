//! The instructions that move bytes to and from memory and make them durable, one file a processor family.
//!
//! ```text
//!             load_bytes  store_bytes   flush_lines            fence     stream_lines / stream_words
//!   x86_64    SSE2, rep movsb           clwb|clflushopt|clflush sfence    movntdq / movnti
//!   others    atomic words              dc cvap | dc cvac       dsb sy    plain stores, then flush
//! ```
//!
//! # Invariants
//! Nothing here makes a reference to the region's memory: it is touched by assembly or by atomics alone, so that a
//! reader that races a writer (another thread, another process, a device) reads some mixture and nothing worse.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::*;

/// Bytes that are written back together.
pub const CACHE_LINE: usize = 64;

/// The cache lines, by number, that overlap `len` bytes at `start` (an address or a line-aligned region's offset): what a
/// flush of these bytes writes back, on real media and in simulations of them.
#[inline]
pub fn lines_of(start: u64, len: usize) -> std::ops::Range<u64> {
    let line = CACHE_LINE as u64;
    let end = if len == 0 { start / line } else { (start + len as u64).div_ceil(line) };
    start / line..end
}

/// How many these are.
#[inline]
pub(crate) fn lines_overlapping(start: u64, len: usize) -> u64 {
    let lines = lines_of(start, len);
    lines.end - lines.start
}

/// Writes back every cache line that overlaps `len` bytes at `start`.
///
/// # Safety
/// The bytes must be mapped.
#[inline]
pub(crate) unsafe fn flush(start: *mut u8, len: usize) {
    let lines = lines_of(start.addr() as u64, len);
    let first = start.map_addr(|_| lines.start as usize * CACHE_LINE);
    // SAFETY: a line that overlaps mapped bytes is mapped, because pages are whole lines.
    unsafe { flush_lines(first, (lines.end - lines.start) as usize) }
}

/// Copies around the cache where the processor can: whole lines are streamed; a line covered in part is streamed by
/// words where its edges allow, else stored and flushed. After the next [`fence`] all of it is durable.
///
/// # Safety
/// `dst` and `src` must be valid for `len` bytes and not overlap; `dst` is region memory, `src` is not.
#[inline]
pub(crate) unsafe fn copy_nt(dst: *mut u8, src: *const u8, len: usize) {
    let head = (dst.addr().wrapping_neg() % CACHE_LINE).min(len);
    let lines = (len - head) / CACHE_LINE;
    let tail = (len - head) % CACHE_LINE;
    let body = lines * CACHE_LINE;
    // SAFETY: head + body + tail = len, so each part is within the caller's ranges; after `head` bytes `dst` is
    // line-aligned unless nothing is left.
    unsafe {
        copy_nt_partial(dst, src, head);
        stream_lines(dst.add(head), src.add(head), lines);
        copy_nt_partial(dst.add(head + body), src.add(head + body), tail);
    }
}

/// # Safety
/// As [`copy_nt`], and the bytes lie within one line.
#[inline]
unsafe fn copy_nt_partial(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(lines_overlapping(dst.addr() as u64, len) <= 1, "a part of one line");
    if len == 0 {
        return;
    }
    // SAFETY: the caller's promise; words are aligned where they are streamed.
    unsafe {
        if dst.addr().is_multiple_of(8) && len.is_multiple_of(8) {
            stream_words(dst, src, len / 8);
        } else {
            store_bytes(dst, src, len);
            flush(dst, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overlapping_line_is_counted() {
        for start in 0..130u64 {
            for len in 0..300usize {
                let mut lines: Vec<u64> = (start..start + len as u64).map(|byte| byte / 64).collect();
                lines.dedup();
                assert_eq!(lines_overlapping(start, len), lines.len() as u64, "{start}+{len}");
            }
        }
    }

    #[test]
    fn copies_move_exactly_their_bytes() {
        let source: Vec<u8> = (0..6000u32).map(|i| (i * 31 % 251) as u8).collect();
        for at in [0usize, 1, 3, 7, 8, 13, 63] {
            for len in (0..140).chain([255, 256, 257, 1023, 1024, 1025, 4096, 5000]) {
                for out in [false, true] {
                    let mut target = vec![0xEEu8; 6000];
                    // SAFETY: both vectors hold 6000 bytes, and at + len is less.
                    unsafe {
                        let (dst, src) = (target.as_mut_ptr().add(at), source.as_ptr().add(at / 2));
                        if out { load_bytes(dst, src, len) } else { store_bytes(dst, src, len) }
                    }
                    assert_eq!(&target[at..at + len], &source[at / 2..at / 2 + len], "{at}+{len}");
                    assert!(target[..at].iter().chain(&target[at + len..]).all(|b| *b == 0xEE), "{at}+{len}");
                }
            }
        }
    }
}
