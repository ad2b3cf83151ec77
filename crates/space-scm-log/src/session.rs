//! What a session keeps: frames that it fills.

use std::sync::atomic::Ordering::*;

use terrace_engine::space::Room;
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::space::ScmSpace;

/// A frame that is being filled.
struct Open {
    frame: u32,
    words: usize,
}

/// See the module.
#[derive(Default)]
pub struct Local {
    /// The first one is filled.
    open: std::collections::VecDeque<Open>,
    taken: Vec<u32>,
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// How many frames records of these lengths need beside what is left of the first one, if any order must do.
    fn frames_for(&self, local: &Local, records: &[usize]) -> usize {
        let frame = self.dram.frame_words();
        let left = local.open.front().map_or(0, |open| frame - open.words);
        let (total, longest) = records
            .iter()
            .fold((0, 0), |(total, longest), words| (total + words, words.max(&longest).to_owned()));
        if total <= left {
            return 0;
        }
        // What does not hold the longest any more may be left empty.
        total.div_ceil((frame + 1).saturating_sub(longest).max(1))
    }
    /// Frames for records of these lengths.
    pub(crate) fn prepare_frames(&self, local: &mut Local, records: &[usize]) -> Room {
        let wanted = self.frames_for(local, records) + usize::from(!local.open.is_empty());
        let missing = wanted.saturating_sub(local.open.len());
        if missing == 0 {
            return Room::Ready;
        }
        if missing > self.dram.count() / 2 {
            return Room::Full;
        }
        if !self.dram.take(missing, records.len() > 1, &mut local.taken) {
            return Room::Wait;
        }
        local.open.extend(local.taken.drain(..).map(|frame| Open { frame, words: 0 }));
        Room::Ready
    }
    /// Whether there is room for these.
    #[inline]
    pub(crate) fn has_frames(&self, local: &Local, records: &[usize]) -> bool {
        let wanted = self.frames_for(local, records) + usize::from(!local.open.is_empty());
        !local.open.is_empty() && local.open.len() >= wanted
    }
    /// The frame, and the word in it, where a record of so many words goes.
    ///
    /// # Panics
    /// If no room was made for it.
    #[inline]
    pub(crate) fn place_in_frame(&self, local: &mut Local, words: usize) -> (u32, usize) {
        let frame_words = self.dram.frame_words();
        while local.open.front().is_some_and(|open| open.words + words > frame_words) {
            self.seal_first(local);
        }
        let Some(open) = local.open.front_mut() else { panic!("room for {words} words was made before") };
        let at = open.words;
        open.words += words;
        (open.frame, at)
    }
    fn seal_first(&self, local: &mut Local) {
        let Some(Open { frame, words }) = local.open.pop_front() else { return };
        if words == 0 {
            self.dram.give(&[frame]);
        } else {
            self.dram.seal(frame);
        }
    }
    /// Gives back what no record lies in; all of it if somebody waits.
    pub(crate) fn give_frames_back(&self, local: &mut Local, all: bool) {
        while local.open.len() > 1 || all && !local.open.is_empty() {
            let last = if all { None } else { local.open.pop_back() };
            match last {
                Some(open) if open.words == 0 => self.dram.give(&[open.frame]),
                Some(open) => local.open.push_front(open),
                None => self.seal_first(local),
            }
        }
    }
    /// Whether somebody waits for frames.
    pub(crate) fn wants_frames(&self) -> bool {
        self.dram.is_wanted.load(Relaxed)
    }
}
