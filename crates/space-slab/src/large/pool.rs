//! DRAM for copies of large values, in chunks of one size: no copy is ever moved, and none leaves a hole that another can't fill.
//!
//! # Thread safety
//! A chunk belongs to one [`Copied`], which is filled before others see it and never changes; the last one to let go of it gives
//! the chunks back.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_blocks::Frames;
use terrace_engine::Buffer;

use crate::sync::Mutex;

/// The chunks.
pub(super) struct Pool {
    frames: Frames,
    chunk_bytes: usize,
    chunks: Mutex<Chunks>,
}

/// Those that nobody holds, and how many are held.
struct Chunks {
    held: usize,
    /// Used before: their memory is still the process's.
    warm: Vec<u32>,
    /// Used before: the system has their memory.
    cold: Vec<u32>,
    /// From this one on none was ever used.
    fresh: u32,
}

/// A value in chunks.
pub(super) struct Copied {
    pool: Arc<Pool>,
    chunks: Box<[u32]>,
    bytes: usize,
}

impl Pool {
    /// `count` chunks, which take address space alone until they are used.
    pub fn new(count: usize, chunk_bytes: usize) -> Self {
        let chunks = Mutex::new(Chunks { held: 0, warm: Vec::new(), cold: Vec::new(), fresh: 0 });
        Self { frames: Frames::sparse(count, chunk_bytes), chunk_bytes, chunks }
    }
    /// Chunks for a value of so many bytes, if then at most `limit` are held.
    pub fn take(self: &Arc<Self>, bytes: usize, limit: usize) -> Option<Copied> {
        let wanted = bytes.div_ceil(self.chunk_bytes);
        let mut chunks = self.chunks.lock();
        if chunks.held + wanted > limit.min(self.frames.count()) {
            return None;
        }
        chunks.held += wanted;
        let mut taken = Vec::with_capacity(wanted);
        while taken.len() < wanted {
            let used = chunks.warm.pop().or_else(|| chunks.cold.pop());
            taken.push(used.unwrap_or_else(|| {
                chunks.fresh += 1;
                chunks.fresh - 1
            }));
        }
        Some(Copied { pool: self.clone(), chunks: taken.into(), bytes })
    }
    /// Gives the memory of chunks beyond so many back to the system, but for those that are held. How many the process has then.
    pub fn trim(&self, limit: usize) -> usize {
        let mut chunks = self.chunks.lock();
        while chunks.held + chunks.warm.len() > limit
            && let Some(chunk) = chunks.warm.pop()
        {
            self.frames.release(chunk);
            chunks.cold.push(chunk);
        }
        chunks.held + chunks.warm.len()
    }
    /// Chunks that are held.
    pub fn held(&self) -> usize {
        self.chunks.lock().held
    }
}

impl Copied {
    /// Takes the value in: as many bytes as it was made for.
    pub fn fill(&self, value: &[u8]) {
        for (chunk, part) in self.chunks.iter().zip(value.chunks(self.pool.chunk_bytes)) {
            let words = self.pool.frames.words(*chunk);
            let (whole, rest) = part.as_chunks::<8>();
            for (word, bytes) in words.iter().zip(whole) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
            if !rest.is_empty() {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                words[whole.len()].store(u64::from_le_bytes(last), Relaxed);
            }
        }
    }
    /// Appends the value to `out`.
    pub fn append_to(&self, out: &mut Buffer) {
        let mut left = self.bytes;
        out.reserve(left);
        for chunk in &self.chunks {
            let part = left.min(self.pool.chunk_bytes);
            left -= part;
            let words = self.pool.frames.words(*chunk);
            out.append_words(part, words[..part.div_ceil(8)].iter().map(|word| word.load(Relaxed)));
        }
    }
    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
    /// The value's length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let mut chunks = self.pool.chunks.lock();
        chunks.held -= self.chunks.len();
        chunks.warm.extend_from_slice(&self.chunks);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_whole_and_chunks_are_used_again() {
        let pool = Arc::new(Pool::new(8, 64));
        for bytes in [1, 63, 64, 65, 100, 512] {
            let value: Vec<u8> = (0..bytes).map(|i| (i * 7 + bytes) as u8).collect();
            let copied = pool.take(bytes, 8).unwrap();
            copied.fill(&value);
            let mut out = Buffer::new();
            out.extend_from_slice(&[9]);
            copied.append_to(&mut out);
            assert_eq!((out[0], &out[1..], copied.chunks()), (9, &value[..], bytes.div_ceil(64)));
        }
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn no_more_are_held_than_may_be_and_memory_goes_back() {
        let pool = Arc::new(Pool::new(8, 64));
        let copied = pool.take(200, 5).unwrap();
        assert!(pool.take(65, 5).is_none() && pool.take(64, 5).is_some());
        assert_eq!((pool.trim(2), pool.held()), (4, 4), "what is held stays");
        drop(copied);
        assert_eq!((pool.trim(2), pool.held()), (2, 0));
        let all = pool.take(512, 8).unwrap();
        assert!(pool.take(1, 9).is_none(), "there are eight");
        drop(all);
        assert_eq!(pool.trim(0), 0);
    }
}
