//! The seam to byte-addressable media.

use crate::Counters;

/// A region of byte-addressable memory: DRAM, DAX, devdax, a CXL node, or a simulation of one.
///
/// # What is durable
/// Bytes written by [`store_u64`](Self::store_u64) and [`write`](Self::write) may survive a crash in any
/// 8-byte-aligned subset until their lines were [`flush`](Self::flush)ed and this thread then
/// [`fence`](Self::fence)d. Bytes written by [`write_nt`](Self::write_nt) count as stored and flushed.
///
/// # Thread safety
/// All methods may be called from any thread. Two threads may not write the same bytes at the same time;
/// a reader racing a writer sees some mixture of old and new words, never undefined behaviour.
///
/// # Panics
/// Offsets outside the region, and misaligned word offsets, are bugs of the caller and panic.
pub trait ByteRegion: Send + Sync + 'static {
    /// Size in bytes.
    fn len(&self) -> u64;
    /// Whether the region holds no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads an aligned word atomically (acquire).
    fn load_u64(&self, offset: u64) -> u64;
    /// Writes an aligned word atomically (release). Not durable by itself.
    fn store_u64(&self, offset: u64, value: u64);
    /// Copies bytes out of the region. On an emulated device this waits as the device would.
    fn read(&self, offset: u64, out: &mut [u8]);
    /// Starts fetching `len` bytes, so that a later [`read`](Self::read) of them waits less.
    fn prefetch(&self, offset: u64, len: usize);
    /// Copies bytes into the region through the cache. Not durable by itself.
    fn write(&self, offset: u64, bytes: &[u8]);
    /// Copies bytes into the region around the cache: stored and flushed, durable after the next fence.
    #[track_caller]
    fn write_nt(&self, offset: u64, bytes: &[u8]);
    /// Writes back every cache line that overlaps `offset..offset + len`; `offset` need not be aligned.
    #[track_caller]
    fn flush(&self, offset: u64, len: usize);
    /// Waits until everything this thread flushed before is durable. One fence is one write burst.
    #[track_caller]
    fn fence(&self);
    /// As [`fence`](Self::fence), but for the time that an emulated device takes for it: that is over at the time that this gives back, in
    /// nanoseconds of the emulation's clock; 0 if there is nothing to wait for. For who fences several devices, which write at once.
    #[track_caller]
    fn fence_until(&self) -> u64 {
        self.fence();
        0
    }
    /// The longest that it can be made while it is open; `None` if it keeps its size.
    fn len_max(&self) -> Option<u64> {
        None
    }
    /// Makes it so many bytes long, rounded up to whole pages. What is added reads as zeros; what was behind the end is gone,
    /// and reads of it that are overtaken find zeros. Nobody writes there any more, and one thread at a time changes the length.
    /// Durable after the next [`fence`](Self::fence).
    ///
    /// # Errors
    /// `Unsupported` if it keeps its size; the system's, such as too little space: it is as long as it was then.
    #[track_caller]
    fn resize(&self, _len: u64) -> std::io::Result<()> {
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this memory keeps its size"))
    }
    /// Whether it asks which line of the program each access comes from ([`caller`](crate::caller)): a simulation that crashes there.
    fn asks_for_callers(&self) -> bool {
        false
    }
    /// Accesses so far.
    fn counters(&self) -> &Counters;
}
