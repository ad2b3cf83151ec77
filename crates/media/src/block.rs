//! The seam to block media.

use std::io;
use std::os::fd::RawFd;

use crate::Counters;

/// Alignment of offsets, lengths and memory for every access to block media, in bytes.
pub const IO_ALIGN: usize = 4096;

/// A file or device that is read and written in whole pages and never mapped.
///
/// # What is durable
/// A completed write is in the page cache or the device: it survives the death of the process. It survives
/// power loss only after [`sync`](Self::sync); until then any 4 KiB page of it may be lost or torn at 512 bytes.
/// A `sync` that failed stays failed: every later one fails too.
///
/// # Errors
/// Every access may fail with the device's error; nothing is retried here.
pub trait BlockDevice: Send + Sync + 'static {
    /// A queue of asynchronous reads, owned by one thread.
    type Queue: BlockQueue;
    /// Size in bytes, a multiple of [`IO_ALIGN`].
    fn len(&self) -> u64;
    /// Whether the device holds no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads whole pages (`offset` and `buf.len()` are multiples of [`IO_ALIGN`]) and waits.
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()>;
    /// Writes whole pages and waits until the write completed (not until it is safe from power loss).
    #[track_caller]
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()>;
    /// Waits until every completed write is safe from power loss.
    #[track_caller]
    fn sync(&self) -> io::Result<()>;
    /// Makes it so many bytes long, a multiple of [`IO_ALIGN`]. What is added reads as zeros, and room for it is had by
    /// [`reserve`](Self::reserve); what is behind the end is gone, and
    /// reads of it fail from then on. Safe from power loss, as a write is, after [`sync`](Self::sync); until then a crash may leave
    /// either length, and behind a shorter end what was there before.
    ///
    /// # Errors
    /// `Unsupported` if it can't be; `InvalidInput` for a length that is none. It is as long as it was then.
    #[track_caller]
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this device keeps its size"))
    }
    /// Has the medium keep room for the first `len` bytes, so that writing them can't fail for want of it. What they read as stays.
    ///
    /// # Errors
    /// What the file system says, such as too little space: a part of the room may have been had.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Where what was ever written ends: from there on it reads as zeros, and nobody needs to look. It may be said too high.
    fn written_end(&self) -> u64 {
        self.len()
    }
    /// A new queue that holds up to `depth` reads in flight.
    fn queue(&self, depth: usize) -> io::Result<Self::Queue>;
    /// Whether it asks which line of the program each access comes from ([`caller`](crate::caller)): a simulation that crashes there.
    fn asks_for_callers(&self) -> bool {
        false
    }
    /// Accesses so far.
    fn counters(&self) -> &Counters;
}

/// Asynchronous reads of one thread. Dropping a queue waits for the reads in flight.
pub trait BlockQueue: Send {
    /// Queues a read of `buf.len()` bytes at `offset`; gives the buffer back if the queue is full.
    fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf>;
    /// Hands everything queued to the device and moves completed reads to `out`. With `wait`, returns
    /// only once at least one has completed or none is in flight.
    fn reap(&mut self, wait: bool, out: &mut Vec<Completion>);
    /// Reads submitted and not yet reaped.
    fn in_flight(&self) -> usize;
    /// A descriptor that polls readable when a completion may be waiting. `None` where completions only ever
    /// appear during [`reap`](Self::reap) (a simulation).
    fn event_fd(&self) -> Option<RawFd>;
}

/// One finished read.
#[derive(Debug)]
pub struct Completion {
    /// The token it was submitted with.
    pub token: u64,
    /// The buffer, filled if `result` is `Ok`.
    pub buf: AlignedBuf,
    /// Whether the read succeeded in full.
    pub result: io::Result<()>,
}

/// A heap buffer whose address and length are multiples of [`IO_ALIGN`].
pub struct AlignedBuf {
    pages: Vec<Page>,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; IO_ALIGN]);

impl AlignedBuf {
    /// A zeroed buffer of at least `len` bytes, rounded up to whole pages.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: vec![Page([0; IO_ALIGN]); len.div_ceil(IO_ALIGN)] }
    }
    /// Length in bytes, a multiple of [`IO_ALIGN`].
    pub fn len(&self) -> usize {
        self.pages.len() * IO_ALIGN
    }
    /// Whether the buffer holds no page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len())
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `pages` is a contiguous run of initialised, padding-free `Page`s of IO_ALIGN bytes each.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.len()) }
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), len) }
    }
}
