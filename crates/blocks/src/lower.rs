//! The medium under the blocks, of either kind.

use std::io;
use std::os::fd::RawFd;

use terrace_media::{AlignedBuf, CountersSnapshot};

/// A finished device read: token, what was asked for, and the bytes.
pub struct Finished {
    /// The token it was submitted with.
    pub token: u64,
    /// The bytes read.
    pub buf: AlignedBuf,
    /// Whether they could be read.
    pub result: io::Result<()>,
}

/// Blocks of the lower tier, as bytes. Offsets are from the start of the tier.
pub trait Lower: Send + Sync + 'static {
    /// A session's queue of reads.
    type Queue: Send;
    /// Whether records are read straight from the medium, without waiting.
    const DIRECT: bool;
    /// 1 for byte-addressable media, 2 for block media: [`terrace_engine::record::Head::tier`].
    const TIER: u8;
    /// The tier's name in statistics.
    const NAME: &'static str;
    /// Writes and block starts are multiples of this.
    const UNIT: usize;

    /// Size in bytes.
    fn len(&self) -> u64;
    /// Bytes of blocks between the two copies of the manifest: 0 where they lie side by side in front of all blocks.
    fn manifests_apart(&self) -> u64 {
        0
    }
    /// Whether it holds no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads from a directly readable medium.
    ///
    /// # Panics
    /// On block media.
    fn read_now(&self, offset: u64, out: &mut [u8]);
    /// Starts fetching.
    fn prefetch(&self, offset: u64, len: usize);
    /// Reads and waits.
    ///
    /// # Errors
    /// The device's.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// The longest that [`resize`](Self::resize) can make it while it is open; `None` if it keeps its size.
    fn len_max(&self) -> Option<u64> {
        None
    }
    /// Makes the tier so many bytes long, rounded up to what its medium can have. What is added reads as zeros, and what was behind
    /// the end is gone. Durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// `Unsupported` if it can't be resized; the device's, such as too little space: it is as long as it was then.
    #[track_caller]
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this medium keeps its size"))
    }
    /// Has the medium keep room for the first `len` bytes: see [`terrace_media::BlockDevice::reserve`].
    ///
    /// # Errors
    /// What the file system says, such as too little space.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Where what was ever written ends: from there on it reads as zeros. It may be said too high.
    fn written_end(&self) -> u64 {
        self.len()
    }
    /// Writes; durable after the next [`sync`](Self::sync). Offset and length are multiples of [`UNIT`](Self::UNIT).
    ///
    /// # Errors
    /// The device's.
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Clears aligned words, each atomically; durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// The device's.
    #[track_caller]
    fn clear_words(&self, offsets: &[u64]) -> io::Result<()>;
    /// Starts writing back what is in these bytes, whoever stored it: a process that died may have left it in a cache only.
    /// Durable after the next [`sync`](Self::sync).
    #[track_caller]
    fn secure(&self, offset: u64, len: usize);
    /// Waits until what this thread wrote is durable.
    ///
    /// # Errors
    /// The device's; then it stays failed.
    #[track_caller]
    fn sync(&self) -> io::Result<()>;
    /// A session's queue.
    ///
    /// # Errors
    /// If the system refuses one.
    fn queue(&self) -> io::Result<Self::Queue>;
    /// Starts a read of whole [`UNIT`](Self::UNIT)s; `false` if too many are in flight.
    fn submit(&self, queue: &mut Self::Queue, token: u64, offset: u64, len: usize) -> bool;
    /// Collects finished reads; with `wait`, at least one if any is in flight.
    fn reap(&self, queue: &mut Self::Queue, wait: bool, out: &mut Vec<Finished>);
    /// A descriptor that polls readable when reads have finished.
    fn fd(&self, queue: &Self::Queue) -> Option<RawFd>;
    /// What it is, for people.
    fn describe(&self) -> String;
    /// Accesses so far.
    fn counters(&self) -> CountersSnapshot;
}
