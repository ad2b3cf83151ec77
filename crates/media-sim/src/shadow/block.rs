//! A block device with a shadow that a power cut leaves.
//!
//! # Thread safety
//! Shared freely. A sync takes the pages that were written and not yet synced; syncs follow each other, so that one that
//! finds nothing to do returns only after the one that took its pages.
//!
//! # Invariants
//! A page is noted after its write completed: a write that completes while a sync runs waits for the next one.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_media::{AlignedBuf, BlockDevice, Counters, IO_ALIGN};

use super::outage::Outage;
use super::sabotage::{Omit, Sabotage};

/// A device (`live`) whose synced pages are copied to another one (`kept`): what power loss would leave. The live device
/// itself is never synced: it stands for a cache.
pub struct ShadowBlock<D> {
    live: D,
    kept: D,
    /// Pages whose newest completed write no sync has begun to cover.
    unsynced: Mutex<BTreeMap<u64, Box<[u8]>>>,
    /// Held by the sync that runs; whether one has failed.
    failed: Mutex<bool>,
    sabotage: Option<Sabotage>,
    outage: Arc<Outage>,
}

impl<D: BlockDevice> ShadowBlock<D> {
    /// Wraps two devices that hold the same bytes.
    ///
    /// # Panics
    /// If they differ in length.
    pub fn new(live: D, kept: D, sabotage: Option<Sabotage>, outage: Arc<Outage>) -> Self {
        assert_eq!(live.len(), kept.len(), "a shadow is as long as what casts it");
        Self { live, kept, unsynced: Mutex::default(), failed: Mutex::new(false), sabotage, outage }
    }

    /// What power loss would leave.
    pub fn kept(&self) -> &D {
        &self.kept
    }

    fn keep(&self, pages: BTreeMap<u64, Box<[u8]>>) -> io::Result<()> {
        let mut pages = pages.into_iter().peekable();
        while let Some((first, bytes)) = pages.next() {
            let mut run = bytes.into_vec();
            while let Some((_, more)) =
                pages.next_if(|(page, _)| *page == first + (run.len() / IO_ALIGN) as u64)
            {
                run.extend_from_slice(&more);
            }
            let mut buf = AlignedBuf::zeroed(run.len());
            buf.copy_from_slice(&run);
            self.kept.write_at(first * IO_ALIGN as u64, &buf)?;
        }
        Ok(())
    }
}

impl<D: BlockDevice> BlockDevice for ShadowBlock<D> {
    type Queue = D::Queue;

    fn len(&self) -> u64 {
        self.live.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.live.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.live.write_at(offset, buf)?;
        let first = offset / IO_ALIGN as u64;
        let pages = buf.chunks(IO_ALIGN).map(Box::from).zip(first..).map(|(bytes, page)| (page, bytes));
        self.unsynced.lock().extend(pages);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        let mut failed = self.failed.lock();
        self.outage.pass();
        if *failed {
            return Err(io::Error::other("an earlier sync failed, and stays failed"));
        }
        if self.sabotage.as_ref().is_some_and(|sabotage| sabotage.strikes(Omit::Sync)) {
            return Ok(());
        }
        let covered = std::mem::take(&mut *self.unsynced.lock());
        let kept = self.keep(covered);
        *failed = kept.is_err();
        kept
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.live.reserve(len)
    }
    fn queue(&self, depth: usize) -> io::Result<Self::Queue> {
        self.live.queue(depth)
    }
    fn counters(&self) -> &Counters {
        self.live.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Fault, FaultKind, SimBlock};

    const PAGES: usize = 8;

    fn page(fill: u8) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(IO_ALIGN);
        buf.fill(fill);
        buf
    }

    fn device(sabotage: Option<Sabotage>) -> ShadowBlock<SimBlock> {
        let zeros = || SimBlock::from_image(vec![0; PAGES * IO_ALIGN]);
        ShadowBlock::new(zeros(), zeros(), sabotage, Arc::default())
    }

    fn kept(device: &ShadowBlock<SimBlock>) -> Vec<u8> {
        let mut all = AlignedBuf::zeroed(PAGES * IO_ALIGN);
        device.kept().read_at(0, &mut all).unwrap();
        all.chunks(IO_ALIGN).map(|page| page[IO_ALIGN - 1]).collect()
    }

    #[test]
    fn a_sync_keeps_what_was_written_before_it() {
        let device = device(None);
        for (at, fill) in [(1, 1), (5, 5), (2, 9), (2, 2), (0, 7)] {
            device.write_at(at * IO_ALIGN as u64, &page(fill)).unwrap();
        }
        assert_eq!(kept(&device), [0; PAGES]);
        device.sync().unwrap();
        assert_eq!(kept(&device), [7, 1, 2, 0, 0, 5, 0, 0]);
        device.write_at(0, &page(8)).unwrap();
        assert_eq!(kept(&device)[0], 7);
        let mut read = AlignedBuf::zeroed(IO_ALIGN);
        device.read_at(0, &mut read).unwrap();
        assert_eq!(read[0], 8, "the process sees what it wrote");
    }

    #[test]
    fn an_omitted_sync_keeps_nothing_and_a_failed_one_stays_failed() {
        let device = self::device(Some("sync".parse().unwrap()));
        device.write_at(0, &page(1)).unwrap();
        device.sync().unwrap();
        assert_eq!(kept(&device), [0; PAGES]);
        let device = self::device(None);
        device.kept().inject(Fault::new(Access::Write, FaultKind::Io));
        device.write_at(0, &page(1)).unwrap();
        assert!(device.sync().is_err() && device.sync().is_err());
    }
}
