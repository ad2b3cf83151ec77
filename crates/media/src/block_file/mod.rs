//! A preallocated file as block media.
//!
//! ```text
//!   BlockFile --- write_at, read_at, sync: pwrite, pread, fdatasync
//!       |
//!     queue() --> FileQueue --- Ring: io_uring
//!                           '-- Crew: threads that pread, where io_uring is refused
//! ```
//!
//! # Thread safety
//! A `BlockFile` is shared freely; a queue belongs to one thread. Syncs are serialised: the kernel reports a failed
//! write-back to one `fdatasync` only, so a second one that ran beside it could succeed in error.
//!
//! # Invariants
//! A file is buffered or O_DIRECT for life. A sync that failed stays failed: the kernel may have dropped the pages,
//! and no later success says anything about them.

mod create;
mod crew;
mod io_loop;
mod queue;
mod ring;
mod signal;
mod sticky;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};

pub use create::BlockFileOptions;
pub use queue::FileQueue;

use crate::{AlignedBuf, BlockDevice, Counters, IO_ALIGN};
use crew::{Crew, CrewQueue};
use queue::Reader;
use sticky::StickySync;

/// A file, written and read in whole pages and never mapped.
pub struct BlockFile {
    shared: Arc<Shared>,
    /// Whether this system lets us have a ring; found out when the file was opened.
    ring: bool,
    /// Threads for queues without a ring, started when the first one is made.
    crew: OnceLock<Arc<Crew>>,
}

/// What queues keep alive.
struct Shared {
    file: File,
    len: AtomicU64,
    direct: bool,
    filesystem: String,
    /// For whoever is told of a failure.
    path: PathBuf,
    counters: Counters,
    sync: StickySync,
}

impl BlockFile {
    /// Makes a file of `len` bytes (rounded up to whole pages). It reads as zeros, and takes room on the disk as it is
    /// [reserved](BlockDevice::reserve) and written, or at once if it is written through.
    ///
    /// # Errors
    /// `AlreadyExists` if it exists, `InvalidInput` if `len` is 0, and what the file system says, such as too little
    /// space. A file that could not be made whole is removed again.
    pub fn create(path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<Self> {
        Self::with(path, create::create(path, len, options)?, options)
    }

    /// Opens a file at the size it has, less what is not a whole page.
    ///
    /// # Errors
    /// If it can't be opened for reading and writing.
    pub fn open(path: &Path, options: &BlockFileOptions) -> io::Result<Self> {
        Self::with(path, create::open(path, options)?, options)
    }

    /// The same to be looked at: it is opened for reading only, and writes to it fail.
    ///
    /// # Errors
    /// If it can't be opened for reading.
    pub fn look(path: &Path, options: &BlockFileOptions) -> io::Result<Self> {
        Self::with(path, create::open_to(path, options, false)?, options)
    }

    fn with(path: &Path, (file, direct): (File, bool), options: &BlockFileOptions) -> io::Result<Self> {
        let len = file.metadata()?.len() / IO_ALIGN as u64 * IO_ALIGN as u64;
        let filesystem = crate::detect::filesystem_of(&file)?;
        let (counters, sync) = (Counters::default(), StickySync::default());
        let len = AtomicU64::new(len);
        let shared = Arc::new(Shared { file, len, direct, filesystem, path: path.into(), counters, sync });
        Ok(Self { shared, ring: options.ring && ring::available(), crew: OnceLock::new() })
    }

    /// What was obtained, for people: `ext4 file, O_DIRECT, io_uring`.
    pub fn describe(&self) -> String {
        let access = if self.shared.direct { "O_DIRECT" } else { "buffered" };
        let reads = if self.ring { "io_uring" } else { "reader threads" };
        format!("{} file, {access}, {reads}", self.shared.filesystem)
    }

    /// Whether accesses go around the page cache.
    pub fn is_direct(&self) -> bool {
        self.shared.direct
    }

    /// Whether queues use io_uring.
    pub fn has_ring(&self) -> bool {
        self.ring
    }
}

impl std::fmt::Debug for BlockFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockFile({}, {} bytes)", self.describe(), self.len())
    }
}

impl Shared {
    /// Whole pages inside the file are what may be asked for.
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let aligned = offset.is_multiple_of(IO_ALIGN as u64) && len.is_multiple_of(IO_ALIGN);
        if aligned && offset.checked_add(len as u64).is_some_and(|end| end <= self.len.load(Acquire)) {
            return Ok(());
        }
        let text = format!(
            "{len} bytes at {offset} are not whole pages of a file of {} bytes",
            self.len.load(Relaxed)
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn count_read(&self, len: usize) {
        self.counters.reads(1);
        self.counters.read_bytes(len as u64);
    }
}

impl BlockDevice for BlockFile {
    type Queue = FileQueue;

    fn len(&self) -> u64 {
        self.shared.len.load(Acquire)
    }

    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.shared.check(offset, buf.len())?;
        self.shared.count_read(buf.len());
        io_loop::read_full(&self.shared.file, buf, offset)
    }

    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.shared.check(offset, buf.len())?;
        self.shared.counters.writes(1);
        self.shared.counters.write_bytes(buf.len() as u64);
        io_loop::write_full(&self.shared.file, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.counters.fences(1);
        let told = |error: rustix::io::Errno| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("fdatasync of {}: {error}", self.shared.path.display()))
        };
        self.shared
            .sync
            .run(|| rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.shared.file)).map_err(told))
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        let Shared { file, len: current, path, .. } = &*self.shared;
        let before = current.load(Acquire);
        let whole = len > 0 && len.is_multiple_of(IO_ALIGN as u64);
        if !whole {
            let text = format!("{len} bytes are not whole pages");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if len <= before {
            // First nobody may ask for what is going to be gone.
            current.store(len, Release);
            return file.set_len(len);
        }
        if let Err(error) = file.set_len(len) {
            let text = format!("making {} {len} bytes long: {error}", path.display());
            return Err(io::Error::new(error.kind(), text));
        }
        current.store(len, Release);
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let Shared { file, len: current, path, .. } = &*self.shared;
        create::reserve(file, len.min(current.load(Acquire))).map_err(|error| {
            let text = format!("reserving {len} bytes of {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })
    }

    fn written_end(&self) -> u64 {
        create::written_end(&self.shared.file, self.len())
    }

    fn queue(&self, depth: usize) -> io::Result<FileQueue> {
        if self.ring {
            // Rings can run out (locked memory, descriptors) even where they are allowed.
            if let Ok(ring) = ring::Ring::new(self.shared.clone(), depth) {
                return Ok(FileQueue::new(Reader::Ring(Box::new(ring)), self.shared.clone(), depth));
            }
        }
        let crew = match self.crew.get() {
            Some(crew) => crew.clone(),
            None => {
                // Two threads may start one each; the loser's goes when its queue does.
                let crew = Arc::new(Crew::start()?);
                self.crew.get_or_init(|| crew.clone()).clone()
            }
        };
        let reader = Reader::Crew(CrewQueue::new(self.shared.clone(), crew, depth)?);
        Ok(FileQueue::new(reader, self.shared.clone(), depth))
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}
