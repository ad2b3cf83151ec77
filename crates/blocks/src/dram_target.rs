//! How many frames may be in use: what the store was given, less what the index takes where they share it.
//!
//! It only says how many. Background steps of the spaces do the rest: they write down what is in frames that are too many, and
//! give those to the system or take them back.

use std::sync::atomic::Ordering::*;

use terrace_engine::StoreError;

use crate::sync::{AtomicU64, AtomicUsize};

/// Recovery takes so much, however little there is: with less it reads all media for a few keys at a time.
const RECOVERY_LEAST: u64 = 2 << 20;

/// See the module. A frame is a page or a slab.
pub struct DramTarget {
    bytes: AtomicU64,
    index_bytes: AtomicU64,
    aside_bytes: AtomicU64,
    listed_bytes: AtomicU64,
    with_index: bool,
    frame_bytes: u64,
    least: usize,
    most: usize,
    allowed: AtomicUsize,
}

impl DramTarget {
    /// For `frames` at first; at least `least` and at most `most` of them. `budget` bounds them and the index together, if it is
    /// given.
    pub fn new(
        frames: usize,
        (least, most): (usize, usize),
        frame_bytes: usize,
        budget: Option<u64>,
    ) -> Self {
        let frame_bytes = frame_bytes as u64;
        Self {
            bytes: AtomicU64::new(budget.unwrap_or(frames as u64 * frame_bytes)),
            index_bytes: AtomicU64::new(0),
            aside_bytes: AtomicU64::new(0),
            listed_bytes: AtomicU64::new(0),
            with_index: budget.is_some(),
            frame_bytes,
            least,
            most,
            allowed: AtomicUsize::new(frames),
        }
    }

    /// Frames that may be in use.
    #[inline]
    pub fn frames(&self) -> usize {
        self.allowed.load(Relaxed)
    }

    /// Whether the index has taken the DRAM: then what would make it grow is refused.
    pub fn index_has_it(&self) -> bool {
        self.with_index && self.frames() <= self.least
    }

    /// The index holds so many bytes now.
    pub fn index_takes(&self, bytes: u64) {
        self.index_bytes.store(bytes, Relaxed);
        // Even if it is as before: one that met a resize may have gone by the budget before it.
        self.allow();
    }

    /// So many bytes are used for something else than frames.
    pub fn set_aside(&self, bytes: u64) {
        self.aside_bytes.store(bytes, Relaxed);
        self.allow();
    }

    /// So many bytes are used for the lists of blocks: deadlines, and pieces of large values.
    pub fn lists(&self, bytes: u64) {
        self.listed_bytes.store(bytes, Relaxed);
        self.allow();
    }

    /// Bytes for frames and whatever is set aside.
    pub fn whole_bytes(&self) -> u64 {
        self.bytes.load(Relaxed).saturating_sub(self.of_index())
    }

    /// What recovery may take beside an index of so many bytes, and `held` bytes that the space holds: three quarters of the rest, for the index
    /// grows meanwhile.
    pub fn recovery_bytes(&self, index_bytes: u64, held: u64) -> u64 {
        self.index_takes(index_bytes);
        (self.whole_bytes().saturating_sub(held) / 4 * 3).max(RECOVERY_LEAST)
    }

    /// Another budget: see [`Sizing::resize_dram`](terrace_engine::space::Sizing::resize_dram).
    ///
    /// # Errors
    /// [`StoreError::Options`] if it can't be met while the store is open; the text says what can.
    pub fn resize(&self, bytes: u64) -> Result<(), StoreError> {
        // One more than can work: where the index takes of it, its next growth would be refused with less.
        let least = self.of_index() + (self.least as u64 + 1) * self.frame_bytes;
        let most = self.of_index() + self.most as u64 * self.frame_bytes;
        if !(least..=most).contains(&bytes) {
            let of_index = match self.of_index() {
                0 => String::new(),
                bytes => format!(" ({bytes} of them for the index)"),
            };
            return Err(StoreError::Options(format!(
                "{bytes} bytes of DRAM for records: while this store is open they can have {least} to {most}{of_index}; for others close it and \
                 open it with that size"
            )));
        }
        self.bytes.store(bytes, Relaxed);
        self.allow();
        Ok(())
    }

    fn of_index(&self) -> u64 {
        if self.with_index { self.index_bytes.load(Relaxed) } else { 0 }
    }

    fn allow(&self) {
        let bytes = self
            .whole_bytes()
            .saturating_sub(self.aside_bytes.load(Relaxed) + self.listed_bytes.load(Relaxed));
        // Fewer than the least can't work; writes are refused before (see `index_has_it`).
        let frames = ((bytes / self.frame_bytes) as usize).clamp(self.least, self.most);
        self.allowed.store(frames, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_the_budget_and_the_index() {
        let target = DramTarget::new(10, (2, 40), 100, Some(1000));
        target.index_takes(250);
        assert_eq!(target.frames(), 7);
        target.resize(2000).unwrap();
        assert_eq!(target.frames(), 17);
        target.index_takes(10_000);
        assert!(target.frames() == 2 && target.index_has_it());
        target.index_takes(0);
        assert_eq!(target.frames(), 20);
        for bytes in [299, 4001] {
            let text = target.resize(bytes).unwrap_err().to_string();
            assert!(text.contains("300 to 4000"), "{text}");
        }
        assert_eq!(target.frames(), 20);
    }

    #[test]
    fn what_is_set_aside_is_not_for_frames() {
        let target = DramTarget::new(10, (2, 40), 100, Some(1000));
        target.index_takes(200);
        target.set_aside(350);
        assert_eq!((target.frames(), target.whole_bytes()), (4, 800));
        target.resize(2000).unwrap();
        assert_eq!(target.frames(), 14);
        target.set_aside(0);
        assert_eq!(target.frames(), 18);
    }

    #[test]
    fn alone_frames_do_not_care_for_the_index() {
        let target = DramTarget::new(10, (2, 40), 100, None);
        target.index_takes(5000);
        assert!(target.frames() == 10 && !target.index_has_it());
        target.resize(300).unwrap();
        assert!(target.frames() == 3 && !target.index_has_it());
    }
}
