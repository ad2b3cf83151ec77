//! A block lower tier: a file or device of its own.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use terrace_media::{
    AlignedBuf, BlockDevice, BlockQueue, Completion, CountersSnapshot, IO_ALIGN, read_agreed,
};

use crate::lower::{Finished, Lower};

/// Reads a session may have in flight.
const DEPTH: usize = 64;

/// A block device from `base` on.
pub struct BlockTier<D> {
    device: Arc<D>,
    base: u64,
    description: String,
    manifests_apart: u64,
}

/// A session's queue and a buffer for what it reaps.
pub struct Queue<Q> {
    queue: Q,
    completions: Vec<Completion>,
}

impl<D: BlockDevice> BlockTier<D> {
    /// A tier on a device, from byte `base` on.
    ///
    /// # Panics
    /// If `base` is not a multiple of [`IO_ALIGN`] or not inside the device.
    pub fn new(device: Arc<D>, base: u64, description: String) -> Self {
        assert!(base.is_multiple_of(IO_ALIGN as u64) && base < device.len(), "the tier lies on its device");
        Self { device, base, description, manifests_apart: 0 }
    }

    /// The same with so many bytes of blocks, a multiple of their size, between the copies of the manifest.
    #[must_use]
    pub fn with_manifests_apart(mut self, bytes: u64) -> Self {
        self.manifests_apart = bytes;
        self
    }
}

impl<D: BlockDevice> Lower for BlockTier<D> {
    type Queue = Queue<D::Queue>;
    const DIRECT: bool = false;
    const TIER: u8 = 2;
    const NAME: &'static str = "ssd";
    const UNIT: usize = IO_ALIGN;

    fn len(&self) -> u64 {
        self.device.len() - self.base
    }
    fn manifests_apart(&self) -> u64 {
        self.manifests_apart
    }
    fn len_max(&self) -> Option<u64> {
        // What a file can't have is found out when it is asked for.
        Some(u64::MAX - self.base - IO_ALIGN as u64)
    }
    #[track_caller]
    fn resize(&self, len: u64) -> io::Result<()> {
        self.device.resize((self.base + len).next_multiple_of(IO_ALIGN as u64))
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.device.reserve(self.base + len)
    }
    fn written_end(&self) -> u64 {
        self.device.written_end().saturating_sub(self.base)
    }
    fn read_now(&self, _offset: u64, _out: &mut [u8]) {
        unreachable!("block media are read through a queue");
    }
    fn prefetch(&self, _offset: u64, _len: usize) {}
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = offset / IO_ALIGN as u64 * IO_ALIGN as u64;
        let skip = (offset - from) as usize;
        let mut buf = AlignedBuf::zeroed(skip + out.len());
        self.device.read_at(self.base + from, &mut buf)?;
        out.copy_from_slice(&buf[skip..skip + out.len()]);
        Ok(())
    }
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut buf = AlignedBuf::zeroed(bytes.len());
        buf[..bytes.len()].copy_from_slice(bytes);
        self.device.write_at(self.base + offset, &buf)
    }
    #[track_caller]
    fn clear_words(&self, offsets: &[u64]) -> io::Result<()> {
        for &offset in offsets {
            let from = offset / IO_ALIGN as u64 * IO_ALIGN as u64;
            let at = (offset - from) as usize;
            let mut page = AlignedBuf::zeroed(IO_ALIGN);
            // What it brings goes back to the device, with whatever else lies in that page.
            let mut read = AlignedBuf::zeroed(IO_ALIGN);
            read_agreed(&mut page, |bytes| {
                self.device.read_at(self.base + from, &mut read)?;
                bytes.copy_from_slice(&read);
                Ok(())
            })?;
            if page[at..at + 8] == [0; 8] {
                // Most blocks of large values have nothing where a page has its trailer.
                continue;
            }
            page[at..at + 8].fill(0);
            self.device.write_at(self.base + from, &page)?;
        }
        Ok(())
    }
    #[track_caller]
    fn secure(&self, _offset: u64, _len: usize) {}
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }
    fn queue(&self) -> io::Result<Self::Queue> {
        Ok(Queue { queue: self.device.queue(DEPTH)?, completions: Vec::new() })
    }
    fn submit(&self, queue: &mut Self::Queue, token: u64, offset: u64, len: usize) -> bool {
        queue.queue.submit(token, self.base + offset, AlignedBuf::zeroed(len)).is_ok()
    }
    fn reap(&self, queue: &mut Self::Queue, wait: bool, out: &mut Vec<Finished>) {
        queue.queue.reap(wait, &mut queue.completions);
        let finished = |c: Completion| Finished { token: c.token, buf: c.buf, result: c.result };
        out.extend(queue.completions.drain(..).map(finished));
    }
    fn fd(&self, queue: &Self::Queue) -> Option<RawFd> {
        queue.queue.event_fd()
    }
    fn describe(&self) -> String {
        self.description.clone()
    }
    fn counters(&self) -> CountersSnapshot {
        self.device.counters().snapshot()
    }
}
