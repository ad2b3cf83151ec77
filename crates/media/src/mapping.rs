//! A piece of the address space, unmapped when dropped.

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Size of a small page in bytes: the unit of mappings.
pub const PAGE_BYTES: usize = 4096;

/// Size of a huge page in bytes: a region of at least one asks for them.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory that this process mapped. It is reached through raw pointers alone.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the mapping, not to a thread, and no reference to it is ever made.
unsafe impl Send for Mapping {}
// SAFETY: as above; accesses through `start` are atomic or assembly.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of the process's own.
    pub(crate) fn anonymous(len: u64) -> io::Result<Self> {
        let len = rounded(len)?;
        let read_write = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                read_write,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Self::from_raw(start.cast(), len)
    }

    /// The first `len` bytes of a file, shared. With `sync` (`MAP_SHARED_VALIDATE | MAP_SYNC`) a flushed line is
    /// durable without a system call; where the file can't do that the error is `EOPNOTSUPP` or `EINVAL`.
    pub(crate) fn file(file: &File, len: u64, sync: bool) -> io::Result<Self> {
        let len = rounded(len)?;
        let read_write = ProtFlags::READ | ProtFlags::WRITE;
        let flags = if sync { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
        // SAFETY: as above. The file's bytes are only reached as region memory.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, read_write, flags, file, 0) }?;
        Self::from_raw(start.cast(), len)
    }

    fn from_raw(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("the kernel mapped address 0"))?;
        let mapping = Self { start, len };
        if len >= HUGE_PAGE_BYTES {
            // SAFETY: advice about our own mapping. It may be refused (no huge pages): it is only advice.
            let _ = unsafe { rustix::mm::madvise(mapping.start().cast(), len, Advice::LinuxHugepage) };
        }
        Ok(mapping)
    }

    /// The first byte, aligned to [`PAGE_BYTES`].
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length, and nobody holds a pointer into it beyond our life.
        let result = unsafe { rustix::mm::munmap(self.start().cast(), self.len) };
        debug_assert!(result.is_ok(), "unmapping our own mapping: {result:?}");
    }
}

fn rounded(len: u64) -> io::Result<usize> {
    let refuse =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("a region of {len} bytes can't be mapped"));
    let len = usize::try_from(len).ok().filter(|len| *len > 0).ok_or_else(refuse)?;
    len.checked_next_multiple_of(PAGE_BYTES).filter(|len| *len <= isize::MAX as usize).ok_or_else(refuse)
}

/// The file of a path, opened for reading and writing and never created.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}
