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

/// Address space that is kept behind a file which may grow: so many times its length, and at least so much.
const ROOM_TIMES: usize = 16;
const ROOM_LEAST: usize = 64 << 30;

/// Memory that this process mapped. It is reached through raw pointers alone.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Of what was mapped at first.
    len: usize,
    /// Where the address space that belongs to it begins, and its length: more than `len` if it may grow.
    kept: (NonNull<u8>, usize),
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

    /// The same to read only: a store to it ends the process.
    pub(crate) fn file_to_read(file: &File, len: u64) -> io::Result<Self> {
        let len = rounded(len)?;
        // SAFETY: as above.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Self::from_raw(start.cast(), len)
    }

    /// As [`file`](Self::file), with address space kept behind it, into which it can be [extended](Self::extend). Where the system gives less
    /// address space, or none, it can grow less.
    pub(crate) fn file_that_grows(file: &File, len: u64, sync: bool) -> io::Result<Self> {
        let bytes = rounded(len)?;
        let mut room = bytes.saturating_mul(ROOM_TIMES).max(ROOM_LEAST);
        while room > bytes {
            // SAFETY: as above. Nobody may touch it, and it takes no memory.
            let kept = unsafe {
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
                rustix::mm::mmap_anonymous(ptr::null_mut(), room + HUGE_PAGE_BYTES, ProtFlags::empty(), flags)
            };
            let Ok(kept) = kept else {
                room /= 2;
                continue;
            };
            let all = Self::from_raw(kept.cast(), room + HUGE_PAGE_BYTES)?;
            // Where huge pages of the file can be huge pages of ours.
            let skip = kept.addr().next_multiple_of(HUGE_PAGE_BYTES) - kept.addr();
            let start = all.start().wrapping_add(skip);
            let Some(start) = NonNull::new(start) else { break };
            let mapping = Self { start, len: bytes, kept: all.kept };
            std::mem::forget(all);
            mapping.map_file(file, 0, bytes, sync)?;
            mapping.ask_for_huge_pages();
            return Ok(mapping);
        }
        Self::file(file, len, sync)
    }

    /// The longest that [`extend`](Self::extend) can make it.
    pub(crate) fn len_max(&self) -> usize {
        let (kept, bytes) = self.kept;
        let skipped = self.start.as_ptr().addr() - kept.as_ptr().addr();
        (bytes - skipped) / PAGE_BYTES * PAGE_BYTES
    }

    /// Maps the bytes `from..to` of its file, which are there, behind what is mapped.
    ///
    /// # Panics
    /// If there is no address space for them.
    pub(crate) fn extend(&self, file: &File, from: u64, to: u64, sync: bool) -> io::Result<()> {
        let (from, to) = (rounded(from)?, rounded(to)?);
        if from < to { self.map_file(file, from, to, sync) } else { Ok(()) }
    }

    /// Takes its file away behind `to` bytes: zeros that can only be read stand there from now on, up to `from` bytes, and a read
    /// that is just under way finds either.
    ///
    /// # Panics
    /// If so much was never mapped.
    pub(crate) fn cut(&self, to: u64, from: u64) -> io::Result<()> {
        let (to, from) = (rounded(to)?, rounded(from)?);
        assert!(from <= self.len_max(), "{from} bytes of a mapping that can have {}", self.len_max());
        if to >= from {
            return Ok(());
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: it replaces a part of our own mapping, to which no reference exists; accesses are atomic or assembly, and
        // find memory there all the time: a call that is refused for its arguments, or for want of memory for its own books,
        // leaves what was there (Linux checks both before it takes anything away).
        unsafe {
            let start = self.start().wrapping_add(to).cast();
            rustix::mm::mmap_anonymous(start, from - to, ProtFlags::READ, flags)
        }?;
        Ok(())
    }

    fn map_file(&self, file: &File, from: usize, to: usize, sync: bool) -> io::Result<()> {
        assert!(to <= self.len_max(), "{to} bytes in address space for {}", self.len_max());
        let read_write = ProtFlags::READ | ProtFlags::WRITE;
        let flags = if sync { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
        // SAFETY: it replaces a part of our own address space that nobody uses, or zeros that were read there. The file's bytes
        // are only reached as region memory.
        unsafe {
            let start = self.start().wrapping_add(from).cast();
            rustix::mm::mmap(start, to - from, read_write, flags | MapFlags::FIXED, file, from as u64)
        }?;
        Ok(())
    }

    fn from_raw(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("the kernel mapped address 0"))?;
        let mapping = Self { start, len, kept: (start, len) };
        mapping.ask_for_huge_pages();
        Ok(mapping)
    }

    fn ask_for_huge_pages(&self) {
        let (mapping, len) = (self, self.len);
        if len >= HUGE_PAGE_BYTES {
            // SAFETY: advice about our own mapping. It may be refused (no huge pages): it is only advice.
            let _ = unsafe { rustix::mm::madvise(mapping.start().cast(), len, Advice::LinuxHugepage) };
        }
    }

    /// Takes all of its pages from the machine, as far as there are some.
    pub(crate) fn populate(&self) {
        // SAFETY: advice about our own mapping, which reads as before. It may be refused.
        let _ = unsafe { rustix::mm::madvise(self.start().cast(), self.len, Advice::LinuxPopulateWrite) };
    }

    /// The first byte, aligned to [`PAGE_BYTES`].
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped at first.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, len) = self.kept;
        // SAFETY: mapped by us with this length, and nobody holds a pointer into it beyond our life.
        let result = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
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
