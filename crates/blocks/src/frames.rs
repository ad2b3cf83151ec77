//! DRAM for pages: one lazily touched allocation, cut into frames.
//!
//! It asks for huge pages, but not where a frame's memory was given back: the kernel puts pages together in the background, and a huge
//! one around a frame that is gone would bring it back, beside what the budget counts.
//!
//! # Thread safety
//! Words are atomics. Who may write which words is the business of pages (`words.rs`); a frame changes hands only after an
//! epoch has passed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::RangeInclusive;

use rustix::mm::Advice;

use crate::sync::{AtomicU64, Mutex};

const HUGE_PAGE: usize = 2 << 20;
/// How many times as large as at first a store's DRAM may become while it is open.
const RESERVE: usize = 4;

/// Memory for pages.
pub struct Frames {
    base: *mut AtomicU64,
    layout: Layout,
    frame_words: usize,
    count: usize,
    /// How many frames have given their memory back, of each stretch as long as a huge page; nothing where those are not asked for.
    gone: Mutex<Box<[u32]>>,
}

// SAFETY: the allocation is owned, never moves, and is only reached as atomics.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    /// `count` frames of `frame_bytes` bytes, all zeros. Whoever calls keeps the product far below `isize::MAX`.
    pub fn new(count: usize, frame_bytes: usize) -> Self {
        Self::try_new(count, frame_bytes, Advice::LinuxHugepage)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(count, frame_bytes)))
    }
    /// Frames of which few may ever be used: each takes memory of its own, and no huge page around it.
    pub fn sparse(count: usize, frame_bytes: usize) -> Self {
        Self::try_sparse(count, frame_bytes)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(count, frame_bytes)))
    }
    /// The same; `None` where the system gives none.
    pub fn try_sparse(count: usize, frame_bytes: usize) -> Option<Self> {
        Self::try_new(count, frame_bytes, Advice::LinuxNoHugepage)
    }
    fn try_new(count: usize, frame_bytes: usize, advice: Advice) -> Option<Self> {
        let layout = Self::layout(count, frame_bytes);
        // SAFETY: the layout isn't empty.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            return None;
        }
        let mut gone = Vec::new();
        if layout.size() >= HUGE_PAGE {
            // SAFETY: the range is the allocation just made; the advice changes no byte of it. A refusal costs speed only.
            let _ = unsafe { rustix::mm::madvise(base.cast(), layout.size(), advice) };
            if matches!(advice, Advice::LinuxHugepage) {
                gone.resize(layout.size().div_ceil(HUGE_PAGE), 0);
            }
        }
        let gone = Mutex::new(gone.into_boxed_slice());
        Some(Self { base: base.cast(), layout, frame_words: frame_bytes / 8, count, gone })
    }
    fn layout(count: usize, frame_bytes: usize) -> Layout {
        let bytes = (count * frame_bytes).max(8);
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { 64 };
        // SAFETY: `align` is a power of two, and sizes near isize::MAX don't pass the options' checks.
        unsafe { Layout::from_size_align_unchecked(bytes, align) }
    }
    /// Frames of which `count` will be used, and more may be later: four times as many, but no more than `most`. Those that are not
    /// used take address space alone, as if they had been released; where the system gives none of it, there are just `count`.
    pub fn with_reserve(count: usize, most: usize, frame_bytes: usize) -> Self {
        let reserved = count.saturating_mul(RESERVE).min(most).max(count);
        let Some(frames) = Self::try_new(reserved, frame_bytes, Advice::LinuxHugepage) else {
            return Self::new(count, frame_bytes);
        };
        (count..reserved).for_each(|frame| frames.goes(frame as u32));
        frames
    }
    /// The stretches that a frame lies in.
    fn stretches(&self, frame: u32) -> RangeInclusive<usize> {
        let bytes = self.frame_words * 8;
        let start = frame as usize * bytes;
        start / HUGE_PAGE..=(start + bytes.max(1) - 1) / HUGE_PAGE
    }
    fn advise(&self, stretch: usize, advice: Advice) {
        let start = stretch * HUGE_PAGE;
        let bytes = HUGE_PAGE.min(self.layout.size() - start);
        // SAFETY: the range lies in the allocation; the advice changes no byte of it. A refusal costs memory or speed only.
        let _ = unsafe { rustix::mm::madvise(self.base.cast::<u8>().add(start).cast(), bytes, advice) };
    }
    /// No huge page is to be made around this frame.
    fn goes(&self, frame: u32) {
        let mut gone = self.gone.lock();
        for stretch in self.stretches(frame) {
            let Some(frames) = gone.get_mut(stretch) else { return };
            *frames += 1;
            if *frames == 1 {
                self.advise(stretch, Advice::LinuxNoHugepage);
            }
        }
    }
    /// A frame that was [released](Self::release), or lay in reserve, is about to be used.
    pub fn take_back(&self, frame: u32) {
        let mut gone = self.gone.lock();
        for stretch in self.stretches(frame) {
            let Some(frames) = gone.get_mut(stretch) else { return };
            *frames = frames.saturating_sub(1);
            if *frames == 0 {
                self.advise(stretch, Advice::LinuxHugepage);
            }
        }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Gives a frame's memory back to the system. It reads as zeros when it is used again, after [`take_back`](Self::take_back).
    pub fn release(&self, frame: u32) {
        const PAGE: usize = 4096;
        self.goes(frame);
        let start = (frame as usize * self.frame_words * 8).next_multiple_of(PAGE);
        let end = ((frame as usize + 1) * self.frame_words * 8) / PAGE * PAGE;
        if end > start && self.layout.align() >= PAGE {
            // SAFETY: the whole pages of a frame that nobody uses, inside the allocation; they are zero afterwards, and
            // zeros are valid words.
            let _ = unsafe {
                rustix::mm::madvise(
                    self.base.cast::<u8>().add(start).cast(),
                    end - start,
                    Advice::LinuxDontNeed,
                )
            };
        }
    }
    /// The words of all frames, one after another, from this one on.
    #[inline]
    pub fn words_from(&self, word: u64) -> &[AtomicU64] {
        let all = self.count * self.frame_words;
        let from = (word as usize).min(all);
        debug_assert!(from as u64 == word, "word {word} of {all}");
        // SAFETY: the rest of the allocation, which lives as long as `self`; atomics may be shared.
        unsafe { std::slice::from_raw_parts(self.base.add(from), all - from) }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const FRAME: usize = 96 << 10;
    const PAGE: usize = 4096;

    /// Bytes of a frame that take memory.
    fn held(frames: &Frames, frame: u32) -> usize {
        let start = frames.words(frame).as_ptr().cast::<libc::c_void>().cast_mut();
        let mut resident = [0u8; FRAME / PAGE];
        // SAFETY: the kernel writes a byte for each page of the frame, which lies in a mapping.
        assert_eq!(unsafe { libc::mincore(start, FRAME, resident.as_mut_ptr()) }, 0);
        resident.iter().filter(|&&page| page & 1 == 1).count() * PAGE
    }
    /// Makes huge pages wherever they may be made, as the kernel does in the background; `false` where it can't.
    fn put_together(frames: &Frames) -> bool {
        const COLLAPSE: libc::c_int = 25;
        let mut any = false;
        for start in (0..frames.layout.size() / HUGE_PAGE).map(|stretch| stretch * HUGE_PAGE) {
            // SAFETY: the range lies in the allocation, and no byte of it changes.
            any |= unsafe {
                libc::madvise(frames.base.cast::<u8>().add(start).cast(), HUGE_PAGE, COLLAPSE) == 0
            };
        }
        any
    }

    #[test]
    fn what_was_given_back_stays_away() {
        let frames = Frames::new(100, FRAME);
        let all = || 0..frames.count() as u32;
        let touch = |frame: u32| frames.words(frame).iter().for_each(|word| word.store(1, Relaxed));
        all().for_each(touch);
        if !put_together(&frames) {
            // No huge pages here.
            return;
        }
        let is_gone = |frame: &u32| frame % 3 == 1 && *frame < 60;
        all().filter(is_gone).for_each(|frame| frames.release(frame));
        put_together(&frames);
        let sum = |frames: &Frames| all().map(|frame| held(frames, frame)).sum::<usize>();
        let kept = all().filter(|frame| !is_gone(frame)).count() * FRAME;
        assert_eq!(sum(&frames), kept);
        for frame in all().filter(is_gone) {
            frames.take_back(frame);
            assert!(frames.words(frame).iter().all(|word| word.load(Relaxed) == 0));
            touch(frame);
        }
        assert!(put_together(&frames), "none is gone any more");
    }

    #[test]
    fn what_lies_in_reserve_is_away_until_it_is_used() {
        let frames = Frames::with_reserve(30, 100, FRAME);
        let away = |frames: &Frames| frames.gone.lock().iter().filter(|&&gone| gone > 0).count();
        // Frames in use fill the first stretch and a part of the second.
        assert_eq!(frames.gone.lock()[0], 0);
        assert_eq!(away(&frames), 100 * FRAME / HUGE_PAGE);
        (30..100).for_each(|frame| frames.take_back(frame));
        assert_eq!(away(&frames), 0);
    }
}
