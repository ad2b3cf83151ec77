//! Where log bytes go: the seam between the log and its two kinds of media.

use std::io;

use terrace_media::{AlignedBuf, Counters};

/// The area of a medium that a log lives in. Offsets count from the start of the area.
///
/// # Thread safety
/// All methods may be called from any thread; two threads never append to the same page at the same time.
///
/// What makes bytes durable is `#[track_caller]`: the crash explorer leaves such sites out one by one, and a site is the line
/// that decided, not this seam.
pub trait LogDevice: Send + Sync + 'static {
    /// Size of the area in bytes.
    fn len(&self) -> u64;
    /// Whether the area holds no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether it may have more blocks than the superblock says, with blank headers: the next opening takes them.
    fn grows(&self) -> bool {
        false
    }
    /// The unit of writing in bytes: log blocks are aligned to it and never share one.
    fn page_bytes(&self) -> usize;
    /// Writes `bytes` at `offset` (a multiple of 8) and waits until the write completed: it survives the death of the
    /// process. Where `offset` is inside a page, `tail` must come from the append that ended there; the bytes of that page before `offset` are then rewritten unchanged. The bytes between
    /// the end and the end of its page may be zeroed.
    #[track_caller]
    fn append(&self, tail: &mut Tail, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Replaces `bytes` at `offset`, inside one page, and waits as [`append`](Self::append) does. Nothing else changes: where
    /// the whole page is written, power loss that tears it must find the other sectors as they were.
    #[track_caller]
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Whether a completed append is already safe from power loss, and appends become safe in the order in which they
    /// complete. Otherwise pages reach the medium in any order until [`sync`](Self::sync), and a sector of 512 bytes
    /// is old or new as a whole.
    fn immediate(&self) -> bool;
    /// Waits until all completed appends are safe from power loss.
    #[track_caller]
    fn sync(&self) -> io::Result<()>;
    /// Writes back what is in these bytes, whoever stored it: a process that died may have left it in a cache only. Safe from
    /// power loss when this returns on byte-addressable media, after the next [`sync`](Self::sync) on others.
    #[track_caller]
    fn secure(&self, offset: u64, len: u64);
    /// Reads.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Accesses so far.
    fn counters(&self) -> &Counters;
}

/// Write sizes up to this many pages have a buffer of their own; longer writes are cut into several.
pub(crate) const CHUNK_PAGES: usize = 8;

/// One writer's state on a device: on block media the image of the page that it last wrote in part, and buffers.
#[derive(Default)]
pub struct Tail {
    /// The page that the writer's position is in, up to there; meaningful if that position is inside a page.
    pub(crate) image: Option<AlignedBuf>,
    /// A buffer of `i + 1` pages, made when first needed.
    pub(crate) chunks: [Option<Chunk>; CHUNK_PAGES],
}

/// A buffer of whole pages.
pub(crate) struct Chunk {
    pub(crate) bytes: AlignedBuf,
    /// All behind is zero.
    pub(crate) used: usize,
}

impl Tail {
    /// A tail for a writer that starts on a page boundary.
    pub fn new() -> Self {
        Self::default()
    }
    /// DRAM held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().flatten().map(|chunk| &chunk.bytes);
        chunks.chain(&self.image).map(|buf| buf.len()).sum()
    }
}
