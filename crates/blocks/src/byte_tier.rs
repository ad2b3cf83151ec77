//! A byte-addressable lower tier: a part of a region.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_media::{ByteRegion, CountersSnapshot};

use crate::lower::{Finished, Lower};
use crate::sync::AtomicU64;

/// Bytes `base..base + len` of a region.
pub struct ByteTier<R> {
    region: Arc<R>,
    base: u64,
    len: AtomicU64,
    description: String,
    manifests_apart: u64,
}

impl<R: ByteRegion> ByteTier<R> {
    /// A tier on a part of a region.
    ///
    /// # Panics
    /// If the part is not inside the region.
    pub fn new(region: Arc<R>, base: u64, len: u64, description: String) -> Self {
        assert!(base + len <= region.len() && base.is_multiple_of(64), "the tier lies in its region");
        Self { region, base, len: AtomicU64::new(len), description, manifests_apart: 0 }
    }

    /// The same with so many bytes of blocks, a multiple of their size, between the copies of the manifest.
    #[must_use]
    pub fn with_manifests_apart(mut self, bytes: u64) -> Self {
        self.manifests_apart = bytes;
        self
    }
}

impl<R: ByteRegion> Lower for ByteTier<R> {
    type Queue = ();
    const DIRECT: bool = true;
    const TIER: u8 = 1;
    const NAME: &'static str = "pmem";
    const UNIT: usize = 64;

    fn len(&self) -> u64 {
        self.len.load(Acquire)
    }
    fn manifests_apart(&self) -> u64 {
        self.manifests_apart
    }
    fn len_max(&self) -> Option<u64> {
        Some(self.region.len_max()?.saturating_sub(self.base))
    }
    #[track_caller]
    fn resize(&self, len: u64) -> io::Result<()> {
        self.region.resize(self.base + len)?;
        self.len.store(len, Release);
        Ok(())
    }
    #[inline]
    fn read_now(&self, offset: u64, out: &mut [u8]) {
        self.region.read(self.base + offset, out);
    }
    #[inline]
    fn prefetch(&self, offset: u64, len: usize) {
        self.region.prefetch(self.base + offset, len);
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.region.read(self.base + offset, out);
        Ok(())
    }
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.region.write_nt(self.base + offset, bytes);
        Ok(())
    }
    #[track_caller]
    fn clear_words(&self, offsets: &[u64]) -> io::Result<()> {
        for &offset in offsets {
            self.region.store_u64(self.base + offset, 0);
            self.region.flush(self.base + offset, 8);
        }
        Ok(())
    }
    #[track_caller]
    fn secure(&self, offset: u64, len: usize) {
        self.region.flush(self.base + offset, len);
    }
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.region.fence();
        Ok(())
    }
    fn queue(&self) -> io::Result<()> {
        Ok(())
    }
    fn submit(&self, _queue: &mut (), _token: u64, _offset: u64, _len: usize) -> bool {
        false
    }
    fn reap(&self, _queue: &mut (), _wait: bool, _out: &mut Vec<Finished>) {}
    fn fd(&self, _queue: &()) -> Option<RawFd> {
        None
    }
    fn describe(&self) -> String {
        self.description.clone()
    }
    fn counters(&self) -> CountersSnapshot {
        self.region.counters().snapshot()
    }
}
