//! Opening and making files for block media.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::detect::filesystem_of;
use crate::{AlignedBuf, IO_ALIGN};

/// Runs of written bytes that are looked at; a file that has more is taken to be written to its end.
const EXTENTS_MAX: usize = 1 << 16;

/// Bytes of one write when a file is written through.
const PREWRITE_BYTES: usize = 1 << 20;

/// How to open a file, for life.
#[derive(Clone, Debug)]
pub struct BlockFileOptions {
    /// Go around the page cache (O_DIRECT) where the file system lets us; where it refuses, buffered.
    pub direct: bool,
    /// Read through io_uring where the system lets us; where it refuses, through threads.
    pub ring: bool,
    /// Write a new file through once: later syncs then needn't record that its blocks are in use, which makes them
    /// several times faster.
    pub prewrite: bool,
}

impl Default for BlockFileOptions {
    /// O_DIRECT and io_uring where they are to be had, and no writing through.
    fn default() -> Self {
        Self { direct: true, ring: true, prewrite: false }
    }
}

/// Makes a file; it takes room as it is reserved, unless it is written through. Whether it is O_DIRECT stands beside it.
pub(super) fn create(path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<(File, bool)> {
    let len = len.checked_next_multiple_of(IO_ALIGN as u64).filter(|len| *len > 0);
    let len =
        len.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a file needs at least one page"))?;
    // Made first and opened for life afterwards: a refused O_DIRECT would leave the new file behind.
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let made = file.set_len(len).and_then(|()| {
        let (file, direct) = open(path, options)?;
        if options.prewrite {
            reserve(&file, len)?;
            write_through(&file, len)?;
        }
        file.sync_all()?;
        // Its name must be safe too.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
        Ok((file, direct))
    });
    if made.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    made
}

/// Opens a file, O_DIRECT if wanted and possible; whether it is stands beside it.
pub(super) fn open(path: &Path, options: &BlockFileOptions) -> io::Result<(File, bool)> {
    open_to(path, options, true)
}

/// The same, to write too or to read only.
pub(super) fn open_to(path: &Path, options: &BlockFileOptions, write: bool) -> io::Result<(File, bool)> {
    let mut how = OpenOptions::new();
    how.read(true).write(write);
    if !options.direct {
        return Ok((how.open(path)?, false));
    }
    match how.clone().custom_flags(libc::O_DIRECT).open(path) {
        // Some file systems refuse at the first access, not at opening; and tmpfs, which has nothing but the page
        // cache, accepts the flag without a meaning since Linux 6.6.
        Ok(file) if direct_read_works(&file) && filesystem_of(&file)? != "tmpfs" => Ok((file, true)),
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok((how.open(path)?, false)),
    }
}

fn direct_read_works(file: &File) -> bool {
    let mut page = AlignedBuf::zeroed(IO_ALIGN);
    !matches!(rustix::io::pread(file, &mut page[..], 0), Err(Errno::INVAL | Errno::OPNOTSUPP))
}

/// Has the file system keep blocks for the first `len` bytes; the file's length stays.
pub(super) fn reserve(file: &File, len: u64) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)) {
        // Then running out of space shows at a write, as an error like any other.
        Err(Errno::OPNOTSUPP) => Ok(()),
        result => Ok(result?),
    }
}

/// Where the last bytes end that were ever written, as far as the file system tells them from holes.
pub(super) fn written_end(file: &File, len: u64) -> u64 {
    use rustix::fs::SeekFrom;
    let mut end = 0;
    for _ in 0..EXTENTS_MAX {
        // The position is nobody's: all reads and writes say where.
        let data = match rustix::fs::seek(file, SeekFrom::Data(end)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return end.min(len),
            Err(_) => return len,
        };
        match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            Ok(hole) if hole > end => end = hole,
            _ => return len,
        }
    }
    len
}

fn write_through(file: &File, len: u64) -> io::Result<()> {
    let zeros = AlignedBuf::zeroed(PREWRITE_BYTES);
    let mut offset = 0;
    while offset < len {
        let bytes = (len - offset).min(PREWRITE_BYTES as u64) as usize;
        super::io_loop::write_full(file, &zeros[..bytes], offset)?;
        offset += bytes as u64;
    }
    Ok(())
}
