//! Records that the hash table does not lead to yet: in frames of DRAM, each filled by one session.
//!
//! # Thread safety
//! A frame belongs to one session until it is sealed, then to the keeper. Readers come by the front index, and leave before the frame is
//! filled again, for an epoch lies between.

use std::sync::atomic::Ordering::*;

use crossbeam_utils::CachePadded;
use terrace_blocks::{Frames, Words, fetch_words, prefetch};
use terrace_engine::record::{NewRecord, RecordMeta};
use terrace_engine::space::{Fetch, Want};
use terrace_index::{Address, Key};
use terrace_media::Buffer;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex};

/// Set in the address of a record here.
const IN_DRAM: u64 = 1 << 47;

/// Frames that records which come one by one take at least.
const FEW: usize = 16;

/// Whether a record at this address is here.
#[inline]
pub fn is_in_dram(address: Address) -> bool {
    address.raw() & IN_DRAM != 0
}

/// What is known of a frame.
#[derive(Default)]
struct Frame {
    /// Words that records fill.
    filled: AtomicUsize,
    /// No more will.
    is_sealed: AtomicBool,
    /// So many of them left the front index. The keeper's.
    left: AtomicUsize,
}

/// The frames.
pub struct Dram {
    frames: Frames,
    frame_bytes: usize,
    few: usize,
    free: Mutex<Vec<u32>>,
    states: Box<[CachePadded<Frame>]>,
    /// A session found no frame.
    pub is_wanted: AtomicBool,
    /// Frames that are not free.
    pub used: AtomicU64,
}

impl Dram {
    /// So many frames. Records that come one by one take no more than `few_bytes` of them, or [`FEW`].
    pub fn new(count: usize, frame_bytes: usize, few_bytes: usize) -> Self {
        Self {
            frames: Frames::new(count, frame_bytes),
            frame_bytes,
            few: (few_bytes / frame_bytes).max(FEW).min(count),
            free: Mutex::new((0..count as u32).rev().collect()),
            states: (0..count).map(|_| CachePadded::default()).collect(),
            is_wanted: AtomicBool::new(false),
            used: AtomicU64::new(0),
        }
    }
    /// Words of a frame.
    pub fn frame_words(&self) -> usize {
        self.frame_bytes / 8
    }
    pub fn count(&self) -> usize {
        self.frames.count()
    }
    /// Bytes of all frames.
    pub fn bytes(&self) -> u64 {
        (self.frames.count() * self.frame_bytes) as u64
    }
    /// Takes so many frames, or none; for records that come one by one only while few are in use, so that what a round has to do stays
    /// little.
    pub fn take(&self, count: usize, is_step: bool, out: &mut Vec<u32>) -> bool {
        let mut free = self.free.lock();
        if !is_step && self.used.load(Relaxed) as usize + count > self.few {
            self.is_wanted.store(true, Relaxed);
            return false;
        }
        let Some(left) = free.len().checked_sub(count) else {
            self.is_wanted.store(true, Relaxed);
            return false;
        };
        out.extend(free.drain(left..));
        self.used.fetch_add(count as u64, Relaxed);
        true
    }
    /// Frames that nobody reads any more.
    pub fn give(&self, frames: &[u32]) {
        for frame in frames {
            let state = &self.states[*frame as usize];
            state.filled.store(0, Relaxed);
            state.left.store(0, Relaxed);
            state.is_sealed.store(false, Relaxed);
        }
        self.used.fetch_sub(frames.len() as u64, Relaxed);
        self.free.lock().extend_from_slice(frames);
    }

    fn words_at(&self, address: Address) -> Words<'_> {
        let at = (address.raw() & !IN_DRAM) as usize;
        Words(&self.frames.words((at / self.frame_bytes) as u32)[at % self.frame_bytes / 8..])
    }
    /// Writes a record to a frame from this word on.
    #[inline]
    pub fn write(&self, frame: u32, word: usize, record: &NewRecord<'_>) -> Address {
        Words(&self.frames.words(frame)[word..]).write(record);
        self.states[frame as usize].filled.store(word + record.words(), Release);
        self.address(frame, word)
    }
    fn address(&self, frame: u32, word: usize) -> Address {
        Address::new(IN_DRAM | (frame as usize * self.frame_bytes + word * 8) as u64)
    }
    #[inline]
    pub fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        fetch_words(self.words_at(address), key, want, out)
    }
    #[inline]
    pub fn prefetch(&self, address: Address) {
        prefetch(self.words_at(address).0);
    }
    /// The database and the key of a record.
    pub fn key_of(&self, address: Address, key: &mut Vec<u8>) -> u8 {
        let words = self.words_at(address);
        let meta = RecordMeta(words.0[1].load(Relaxed));
        key.clear();
        words.copy_bytes(meta.key_word(), meta.key_bytes(), key);
        meta.db()
    }
    /// A frame gets no more records.
    pub fn seal(&self, frame: u32) {
        self.states[frame as usize].is_sealed.store(true, Release);
    }
    /// Shows the records of versions up to `upto` that were not shown before: where each is, its version, and its second word. Frames that
    /// get no more, and of which all was shown, are put into `done`. One thread at a time.
    pub fn leave_up_to(
        &self,
        upto: u64,
        done: &mut Vec<u32>,
        mut visit: impl FnMut(Address, u64, RecordMeta),
    ) {
        for (frame, state) in self.states.iter().enumerate() {
            // Before what it says that is filled: nothing is added afterwards.
            let is_sealed = state.is_sealed.load(Acquire);
            let (filled, mut at) = (state.filled.load(Acquire), state.left.load(Relaxed));
            if at == filled && !is_sealed || filled == 0 {
                continue;
            }
            let words = self.frames.words(frame as u32);
            while at < filled && words[at].load(Acquire) <= upto {
                let meta = RecordMeta(words[at + 1].load(Relaxed));
                visit(self.address(frame as u32, at), words[at].load(Relaxed), meta);
                at += meta.slot_words();
            }
            state.left.store(at, Relaxed);
            if at == filled && is_sealed {
                // Until it is given back nothing is found in it.
                state.filled.store(0, Relaxed);
                done.push(frame as u32);
            }
        }
    }
}
