//! Records that the hash table does not lead to yet: in frames of DRAM, each filled by one session.
//!
//! # Thread safety
//! A frame belongs to one session until it is sealed, then to the keeper. Readers come by the front index, and leave before the frame is
//! filled again, for an epoch lies between.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use parking_lot::Mutex;
use terrace_blocks::{Frames, Words, fetch_words, prefetch};
use terrace_engine::record::{NewRecord, RecordMeta};
use terrace_engine::space::{Fetch, Want};
use terrace_index::{Address, Key};
use terrace_media::Buffer;

/// Set in the address of a record here.
const IN_DRAM: u64 = 1 << 47;

/// Whether a record at this address is here.
#[inline]
pub fn is_in_dram(address: Address) -> bool {
    address.raw() & IN_DRAM != 0
}

/// A frame that is full.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    pub frame: u32,
    pub words: usize,
    /// The newest version in it.
    pub last: u64,
}

/// The frames.
pub struct Dram {
    frames: Frames,
    frame_bytes: usize,
    free: Mutex<Vec<u32>>,
    pub sealed: Mutex<VecDeque<Sealed>>,
    /// A session found no frame.
    pub is_wanted: AtomicBool,
    /// Frames that are not free.
    pub used: AtomicU64,
}

impl Dram {
    pub fn new(count: usize, frame_bytes: usize) -> Self {
        Self {
            frames: Frames::new(count, frame_bytes),
            frame_bytes,
            free: Mutex::new((0..count as u32).rev().collect()),
            sealed: Mutex::default(),
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
    /// Takes so many frames, or none.
    pub fn take(&self, count: usize, out: &mut Vec<u32>) -> bool {
        let mut free = self.free.lock();
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
    /// Visits a sealed frame's records: where each is, its version, and its second word.
    pub fn each(&self, sealed: &Sealed, mut visit: impl FnMut(Address, u64, RecordMeta)) {
        let words = self.frames.words(sealed.frame);
        let mut at = 0;
        while at < sealed.words {
            let meta = RecordMeta(words[at + 1].load(Relaxed));
            visit(self.address(sealed.frame, at), words[at].load(Relaxed), meta);
            at += meta.slot_words();
        }
    }
}
