//! Where long buffers lie when a process has a budget of memory: in files without a name, on the disk of its store.
//!
//! ```text
//!   Buffer (short) --- memory of the process
//!   Buffer (long) ---- page cache of a file without a name: written with pwrite, read through a mapping;
//!                      the system takes its memory back when it needs it, and forgets it when the buffer goes
//! ```
//!
//! A budget bounds what can't be taken back. A value of 200 MiB that a client sends, or is sent, would exceed a small budget
//! many times over; in a file it costs a copy, and the disk only as far as memory is short.
//!
//! # Invariants
//! The first `len` bytes of the mapping were written with `pwrite`, so a full disk shows as an error of that call and never as a
//! signal. Nobody else can reach the file, so it is never cut short.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use crate::PAGE_BYTES;

/// A buffer of so many bytes is long if there is enough memory, and at most.
const LONG_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=4 << 20;
/// It is long with one part of so many of the budget.
const LONG_PART: u64 = 128;
/// All buffers that are not short take one part of so many of the budget in memory; beyond, those that are not short are long.
const ALL_PART: u64 = 16;
/// A buffer of less is short, whatever others take.
pub(crate) const SHORT_BYTES: usize = 64 << 10;

/// What buffers of this process that are not short take in memory.
static IN_MEMORY: AtomicUsize = AtomicUsize::new(0);

/// The last one that was set.
static SPILL: RwLock<Option<Arc<Spill>>> = RwLock::new(None);

/// The rule of a process.
#[derive(Debug)]
pub(crate) struct Spill {
    directory: PathBuf,
    long: usize,
    all: usize,
}

/// From now on long [buffers](crate::Buffer) of this process lie in files in this directory, so that they don't exceed `budget` bytes of
/// memory. Says whether they do: a directory that is itself in memory would save nothing.
///
/// # Errors
/// If no file can be made there.
pub fn spill_to(directory: &Path, budget: u64) -> io::Result<bool> {
    let file = nameless(directory)?;
    if crate::detect::filesystem_of(&file)? == "tmpfs" {
        return Ok(false);
    }
    *SPILL.write() = Some(Arc::new(Spill::new(directory, budget)));
    Ok(true)
}

impl Spill {
    pub(crate) fn new(directory: &Path, budget: u64) -> Self {
        let long = (budget / LONG_PART).clamp(*LONG_BYTES.start(), *LONG_BYTES.end());
        Self { directory: directory.into(), long: long as usize, all: (budget / ALL_PART) as usize }
    }

    /// The process's, if it has one.
    pub(crate) fn current() -> Option<Arc<Self>> {
        SPILL.read().clone()
    }

    /// Whether a buffer that grows from `from` bytes in memory to `to` is to leave it.
    pub(crate) fn takes(&self, from: usize, to: usize) -> bool {
        let others = IN_MEMORY.load(Relaxed).saturating_sub(counted(from));
        to >= self.long || to >= SHORT_BYTES && others + to > self.all
    }

    /// An empty one with room for so many bytes.
    pub(crate) fn begin(&self, room: usize) -> io::Result<Spilled> {
        Spilled::new(nameless(&self.directory)?, room)
    }
}

/// What a buffer with so much memory counts for.
fn counted(capacity: usize) -> usize {
    if capacity < SHORT_BYTES { 0 } else { capacity }
}

/// A buffer's memory has changed.
pub(crate) fn recount(before: usize, after: usize) {
    let (before, after) = (counted(before), counted(after));
    if before != after {
        // Wraps around where it shrinks, as the sum then does.
        IN_MEMORY.fetch_add(after.wrapping_sub(before), Relaxed);
    }
}

/// A file without a name.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).mode(0o600);
    match how.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        Ok(file) => return Ok(file),
        // Some file systems don't know it.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {}
        Err(error) => return Err(error),
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("buffer.{}.{}.tmp", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = directory.join(name);
    let file = how.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Bytes in a file without a name.
#[derive(Debug)]
pub(crate) struct Spilled {
    file: File,
    start: NonNull<u8>,
    /// Address space, of which the file has what was written.
    room: usize,
    len: usize,
}

// SAFETY: the mapping belongs to the value, not to a thread; it is written through `&mut self` alone.
unsafe impl Send for Spilled {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Spilled {}

impl Spilled {
    fn new(file: File, room: usize) -> io::Result<Self> {
        let room = room.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), room, ProtFlags::READ, MapFlags::SHARED, &file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, room, len: 0 })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: so much of the file was written and is mapped; nobody writes there, or cuts the file, while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Makes its address space so long at least.
    pub(crate) fn make_room(&mut self, room: usize) -> io::Result<()> {
        if room <= self.room {
            return Ok(());
        }
        let room = room.max(self.room * 2).next_multiple_of(PAGE_BYTES);
        // SAFETY: it is our own mapping, and `&mut self` says that no slice of it is alive.
        let start =
            unsafe { rustix::mm::mremap(self.start.as_ptr().cast(), self.room, room, MremapFlags::MAYMOVE) }?;
        self.start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.room = room;
        Ok(())
    }

    /// # Errors
    /// If the disk is full, above all; it is then as before.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.len + bytes.len();
        self.make_room(end)?;
        self.file.write_all_at(bytes, self.len as u64)?;
        self.len = end;
        Ok(())
    }

    /// Writes over what is there.
    pub(crate) fn write_at(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at as u64)
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // SAFETY: it is our own mapping, and no slice of it outlives `self`. Nothing sensible can be done if it fails.
        let _unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.room) };
    }
}
