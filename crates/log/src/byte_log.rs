//! A log area on byte-addressable media.

use std::io;
use std::sync::Arc;

use terrace_media::{ByteRegion, Counters};

use crate::device::{LogDevice, Tail};

/// `len` bytes of a region from `base` on. An append is one run of non-temporal stores and one fence: one burst.
pub struct ByteLog<R> {
    region: Arc<R>,
    base: u64,
    len: u64,
    grows: bool,
}

impl<R: ByteRegion> ByteLog<R> {
    /// A log area of `len` bytes at `base` of `region`.
    ///
    /// # Panics
    /// If the area is not inside the region or not aligned to 64 bytes.
    pub fn new(region: Arc<R>, base: u64, len: u64) -> Self {
        assert!(base.is_multiple_of(64) && len.is_multiple_of(64), "log areas are aligned to cache lines");
        assert!(base + len <= region.len(), "log area outside the region");
        Self { region, base, len, grows: false }
    }
    /// An area that may be longer than it was at the last opening: the log takes what was added, where headers are blank.
    #[must_use]
    pub fn that_grows(mut self) -> Self {
        self.grows = true;
        self
    }
}

impl<R: ByteRegion> LogDevice for ByteLog<R> {
    fn len(&self) -> u64 {
        self.len
    }
    fn page_bytes(&self) -> usize {
        64
    }
    #[track_caller]
    fn append(&self, _tail: &mut Tail, offset: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(offset.is_multiple_of(8) && offset + bytes.len() as u64 <= self.len);
        self.region.write_nt(self.base + offset, bytes);
        self.region.fence();
        Ok(())
    }
    #[track_caller]
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.append(&mut Tail::new(), offset, bytes)
    }
    fn immediate(&self) -> bool {
        true
    }
    fn grows(&self) -> bool {
        self.grows
    }
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    #[track_caller]
    fn secure(&self, offset: u64, len: u64) {
        debug_assert!(offset + len <= self.len);
        self.region.flush(self.base + offset, len as usize);
        self.region.fence();
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        debug_assert!(offset + out.len() as u64 <= self.len);
        self.region.read(self.base + offset, out);
        Ok(())
    }
    fn counters(&self) -> &Counters {
        self.region.counters()
    }
}
