//! A tier in memory, of either kind, slow enough to be caught in the middle of anything.

use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;

use terrace_media::{AlignedBuf, CountersSnapshot};

use crate::lower::{Finished, Lower};
use terrace_sync::yield_now;

/// Bytes that are moved at once. A record that is rewritten can be read half old, half new.
const PIECE_BYTES: usize = 64;

/// No thread switches while the lock is held.
pub struct Medium<const DIRECT: bool>(Mutex<Vec<u8>>);

impl<const DIRECT: bool> Medium<DIRECT> {
    /// So many, zeros.
    pub fn new(bytes: usize) -> Self {
        Self(Mutex::new(vec![0; bytes]))
    }
}

impl<const DIRECT: bool> Lower for Medium<DIRECT> {
    type Queue = Vec<(u64, u64, usize)>;
    const DIRECT: bool = DIRECT;
    const TIER: u8 = if DIRECT { 1 } else { 2 };
    const NAME: &'static str = "memory";
    const UNIT: usize = 64;

    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
    fn read_now(&self, offset: u64, out: &mut [u8]) {
        for (i, piece) in out.chunks_mut(PIECE_BYTES).enumerate() {
            let at = offset as usize + i * PIECE_BYTES;
            piece.copy_from_slice(&self.0.lock().unwrap()[at..at + piece.len()]);
            yield_now();
        }
    }
    fn prefetch(&self, _offset: u64, _len: usize) {}
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_now(offset, out);
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (i, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let at = offset as usize + i * PIECE_BYTES;
            self.0.lock().unwrap()[at..at + piece.len()].copy_from_slice(piece);
            // What is empty is no race worth a switch.
            if piece.iter().any(|byte| *byte != 0) {
                yield_now();
            }
        }
        Ok(())
    }
    fn clear_words(&self, offsets: &[u64]) -> io::Result<()> {
        for &offset in offsets {
            self.0.lock().unwrap()[offset as usize..][..8].fill(0);
            yield_now();
        }
        Ok(())
    }
    fn secure(&self, _offset: u64, _len: usize) {}
    fn sync(&self) -> io::Result<()> {
        yield_now();
        Ok(())
    }
    fn queue(&self) -> io::Result<Self::Queue> {
        Ok(Vec::new())
    }
    fn submit(&self, queue: &mut Self::Queue, token: u64, offset: u64, len: usize) -> bool {
        queue.push((token, offset, len));
        true
    }
    /// The device reads as late as it may.
    fn reap(&self, queue: &mut Self::Queue, _wait: bool, out: &mut Vec<Finished>) {
        for (token, offset, len) in queue.drain(..) {
            let mut buf = AlignedBuf::zeroed(len);
            self.read_now(offset, &mut buf);
            out.push(Finished { token, buf, result: Ok(()) });
        }
    }
    fn fd(&self, _queue: &Self::Queue) -> Option<RawFd> {
        None
    }
    fn describe(&self) -> String {
        "memory".into()
    }
    fn counters(&self) -> CountersSnapshot {
        CountersSnapshot::default()
    }
}
