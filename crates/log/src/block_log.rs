//! A log area on block media.

use std::io;
use std::sync::Arc;

use terrace_media::{AlignedBuf, BlockDevice, Counters, IO_ALIGN, read_agreed};

use crate::device::{CHUNK_PAGES, Chunk, LogDevice, Tail};

/// `len` bytes of a device from `base` on, written in whole pages.
pub struct BlockLog<D> {
    device: Arc<D>,
    base: u64,
    len: u64,
}

const PAGE: u64 = IO_ALIGN as u64;
/// Pages that one read asks for.
const READ_PAGES: usize = 64;

impl<D: BlockDevice> BlockLog<D> {
    /// A log area of `len` bytes at `base` of `device`.
    ///
    /// # Panics
    /// If the area is not inside the device or not aligned to pages.
    pub fn new(device: Arc<D>, base: u64, len: u64) -> Self {
        assert!(base.is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "log areas are aligned to pages");
        assert!(base + len <= device.len(), "log area outside the device");
        Self { device, base, len }
    }
}

impl<D: BlockDevice> LogDevice for BlockLog<D> {
    fn len(&self) -> u64 {
        self.len
    }
    fn page_bytes(&self) -> usize {
        IO_ALIGN
    }
    /// One request for every 8 pages.
    #[track_caller]
    fn append(&self, tail: &mut Tail, offset: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(offset.is_multiple_of(8) && offset + bytes.len() as u64 <= self.len);
        let Tail { image, chunks } = tail;
        let image = image.get_or_insert_with(|| AlignedBuf::zeroed(IO_ALIGN));
        let mut kept = (offset % PAGE) as usize;
        let mut page = offset - kept as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let pages = (kept + rest.len()).div_ceil(IO_ALIGN).min(CHUNK_PAGES);
            let new = || Chunk { bytes: AlignedBuf::zeroed(pages * IO_ALIGN), used: 0 };
            let Chunk { bytes: chunk, used } = chunks[pages - 1].get_or_insert_with(new);
            let (now, later) = rest.split_at(rest.len().min(pages * IO_ALIGN - kept));
            let end = kept + now.len();
            chunk[..kept].copy_from_slice(&image[..kept]);
            chunk[kept..end].copy_from_slice(now);
            if *used > end {
                chunk[end..*used].fill(0);
            }
            *used = end;
            self.device.write_at(self.base + page, chunk)?;
            // The last page is what the next append continues; if it is full, that one starts a page anew.
            let last = &chunk[(pages - 1) * IO_ALIGN..end];
            image[..last.len()].copy_from_slice(last);
            page += (pages * IO_ALIGN) as u64;
            kept = 0;
            rest = later;
        }
        Ok(())
    }
    #[track_caller]
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (page, at) = (self.base + offset / PAGE * PAGE, (offset % PAGE) as usize);
        let mut image = AlignedBuf::zeroed(IO_ALIGN);
        // What it brings goes back to the device, with the groups that stand in that page.
        let mut read = AlignedBuf::zeroed(IO_ALIGN);
        read_agreed(&mut image, |bytes| {
            self.device.read_at(page, &mut read)?;
            bytes.copy_from_slice(&read);
            Ok(())
        })?;
        image[at..at + bytes.len()].copy_from_slice(bytes);
        self.device.write_at(page, &image)
    }
    fn immediate(&self) -> bool {
        false
    }
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }
    #[track_caller]
    fn secure(&self, _offset: u64, _len: u64) {}
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        debug_assert!(offset + out.len() as u64 <= self.len);
        let mut skip = (offset % PAGE) as usize;
        let mut page = offset - skip as u64;
        let mut done = 0;
        while done < out.len() {
            let pages = (skip + out.len() - done).div_ceil(IO_ALIGN).min(READ_PAGES);
            let mut buf = AlignedBuf::zeroed(pages * IO_ALIGN);
            self.device.read_at(self.base + page, &mut buf)?;
            let now = (buf.len() - skip).min(out.len() - done);
            out[done..done + now].copy_from_slice(&buf[skip..skip + now]);
            done += now;
            skip = 0;
            page += buf.len() as u64;
        }
        Ok(())
    }
    fn counters(&self) -> &Counters {
        self.device.counters()
    }
}
