//! DRAM for pages: one lazily touched allocation, cut into frames.
//!
//! # Thread safety
//! Words are atomics. Who may write which words is the business of pages (`words.rs`); a frame changes hands only after an
//! epoch has passed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::sync::AtomicU64;

const HUGE_PAGE: usize = 2 << 20;
/// How many times as large as at first a store's DRAM may become while it is open.
const RESERVE: usize = 4;

/// Memory for pages.
pub struct Frames {
    base: *mut AtomicU64,
    layout: Layout,
    frame_words: usize,
    count: usize,
}

// SAFETY: the allocation is owned, never moves, and is only reached as atomics.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    /// `count` frames of `frame_bytes` bytes, all zeros. Whoever calls keeps the product far below `isize::MAX`.
    pub fn new(count: usize, frame_bytes: usize) -> Self {
        Self::try_new(count, frame_bytes, rustix::mm::Advice::LinuxHugepage)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(count, frame_bytes)))
    }
    /// Frames of which few may ever be used: each takes memory of its own, and no huge page around it.
    pub fn sparse(count: usize, frame_bytes: usize) -> Self {
        Self::try_new(count, frame_bytes, rustix::mm::Advice::LinuxNoHugepage)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(count, frame_bytes)))
    }
    fn try_new(count: usize, frame_bytes: usize, advice: rustix::mm::Advice) -> Option<Self> {
        let layout = Self::layout(count, frame_bytes);
        // SAFETY: the layout isn't empty.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            return None;
        }
        if layout.size() >= HUGE_PAGE {
            // SAFETY: the range is the allocation just made; the advice changes no byte of it. A refusal costs speed only.
            let _ = unsafe { rustix::mm::madvise(base.cast(), layout.size(), advice) };
        }
        Some(Self { base: base.cast(), layout, frame_words: frame_bytes / 8, count })
    }
    fn layout(count: usize, frame_bytes: usize) -> Layout {
        let bytes = (count * frame_bytes).max(8);
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { 64 };
        // SAFETY: `align` is a power of two, and sizes near isize::MAX don't pass the options' checks.
        unsafe { Layout::from_size_align_unchecked(bytes, align) }
    }
    /// Frames of which `count` will be used, and more may be later: four times as many, but no more than `most`. Those that are not
    /// used take address space alone; where the system gives none of it, there are just `count`.
    pub fn with_reserve(count: usize, most: usize, frame_bytes: usize) -> Self {
        let reserved = count.saturating_mul(RESERVE).min(most).max(count);
        Self::try_new(reserved, frame_bytes, rustix::mm::Advice::LinuxHugepage)
            .unwrap_or_else(|| Self::new(count, frame_bytes))
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Gives a frame's memory back to the system. It reads as zeros when it is used again.
    pub fn release(&self, frame: u32) {
        const PAGE: usize = 4096;
        let start = (frame as usize * self.frame_words * 8).next_multiple_of(PAGE);
        let end = ((frame as usize + 1) * self.frame_words * 8) / PAGE * PAGE;
        if end > start && self.layout.align() >= PAGE {
            // SAFETY: the whole pages of a frame that nobody uses, inside the allocation; they are zero afterwards, and
            // zeros are valid words.
            let _ = unsafe {
                rustix::mm::madvise(
                    self.base.cast::<u8>().add(start).cast(),
                    end - start,
                    rustix::mm::Advice::LinuxDontNeed,
                )
            };
        }
    }
    /// A frame's words.
    #[inline]
    pub fn words(&self, frame: u32) -> &[AtomicU64] {
        debug_assert!((frame as usize) < self.count, "frame {frame} of {}", self.count);
        // SAFETY: the frame lies within the allocation, which lives as long as `self`; atomics may be shared.
        unsafe {
            std::slice::from_raw_parts(self.base.add(frame as usize * self.frame_words), self.frame_words)
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nothing borrows from it any more.
        unsafe { dealloc(self.base.cast(), self.layout) };
    }
}
