//! A simulated block device.
//!
//! # Thread safety
//! One lock a device; it is taken before the recorder's.
//!
//! # Invariants
//! A page that differs from what the image was opened with has its flag set in `dirty`.
//! With a history, every page written since the last sync that succeeded has its durable content there.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_media::{AlignedBuf, BlockDevice, Counters, IO_ALIGN, caller};

use crate::fault::{Access, Fault, FaultKind, Faults};
use crate::queue::{QueueOrder, SimQueue};
use crate::recorder::Recorder;
use crate::replay::SECTOR_BYTES;
use crate::rng::Rng;
use crate::trace::{Event, MediumId, SiteKind};

/// A device that records writes and syncs (when made by a [`Recorder`]) or a plain one for a crash image. Clones share
/// the bytes.
#[derive(Clone)]
pub struct SimBlock {
    inner: Arc<Inner>,
}

struct Inner {
    len: u64,
    state: Mutex<State>,
    tap: Option<(Recorder, MediumId)>,
    counters: Counters,
}

struct State {
    bytes: Vec<u8>,
    dirty: Vec<usize>,
    is_dirty: Vec<bool>,
    faults: Faults,
    history: Option<History>,
    /// Where the crash left something, and what is durable there.
    patched: Vec<(usize, Vec<u8>)>,
    order: QueueOrder,
    queues: u64,
}

/// Earlier content of pages, by number.
#[derive(Default)]
struct History {
    /// Before the last write.
    before: BTreeMap<usize, Vec<u8>>,
    /// At the last sync, of pages written since.
    durable: BTreeMap<usize, Vec<u8>>,
}

impl SimBlock {
    /// A plain device with this content.
    ///
    /// # Panics
    /// If the length is not a multiple of 4096.
    pub fn from_image(image: Vec<u8>) -> Self {
        Self::new(image, None)
    }

    pub(crate) fn new(bytes: Vec<u8>, tap: Option<(Recorder, MediumId)>) -> Self {
        assert!(bytes.len().is_multiple_of(IO_ALIGN), "a block device holds whole pages");
        let pages = bytes.len() / IO_ALIGN;
        let len = bytes.len() as u64;
        let state = State {
            bytes,
            dirty: Vec::new(),
            is_dirty: vec![false; pages],
            faults: Faults::default(),
            history: None,
            patched: Vec::new(),
            order: QueueOrder::InOrder,
            queues: 0,
        };
        Self { inner: Arc::new(Inner { len, state: Mutex::new(state), tap, counters: Counters::default() }) }
    }

    /// The content now, whether durable or not.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.inner.state.lock().bytes.clone()
    }

    /// Makes accesses to come fail.
    pub fn inject(&self, fault: Fault) {
        self.inner.state.lock().faults.add(fault);
    }

    /// Takes back every fault that was injected, a failed sync's memory included: the device was repaired.
    pub fn heal(&self) {
        self.inner.state.lock().faults.clear();
    }

    /// How many accesses failed or lied so far.
    pub fn faults_fired(&self) -> u64 {
        self.inner.state.lock().faults.fired
    }

    /// Remembers from now on what pages held before they were written, for [`FaultKind::Stale`] and
    /// [`lose_unsynced`](Self::lose_unsynced).
    pub fn keep_history(&self) {
        self.inner.state.lock().history.get_or_insert_default();
    }

    /// Power loss, or the kernel giving up pages whose write-back failed: each page written since the last sync that
    /// succeeded stays, goes back to what it was then, or is torn between the two, as the seed says. Needs
    /// [`keep_history`](Self::keep_history). Says how many pages changed.
    pub fn lose_unsynced(&self, seed: u64) -> usize {
        let mut rng = Rng::new(seed);
        let mut state = self.inner.state.lock();
        let durable = state.history.as_mut().map(|history| std::mem::take(&mut history.durable));
        let mut lost = 0;
        for (page, old) in durable.unwrap_or_default() {
            let fate = rng.below(3);
            let sectors = rng.bits();
            for (sector, old) in old.chunks_exact(SECTOR_BYTES).enumerate() {
                if fate == 0 || fate == 1 && sectors >> sector & 1 == 1 {
                    let at = page * IO_ALIGN + sector * SECTOR_BYTES;
                    state.bytes[at..at + SECTOR_BYTES].copy_from_slice(old);
                }
            }
            state.touch(page);
            lost += usize::from(fate < 2);
        }
        lost
    }

    /// Rot at rest: flips bits of one byte.
    ///
    /// # Panics
    /// If it is outside the device.
    pub fn rot(&self, offset: u64, mask: u8) {
        let mut state = self.inner.state.lock();
        state.bytes[offset as usize] ^= mask;
        state.touch(offset as usize / IO_ALIGN);
    }

    /// Writes bytes that no engine wrote: nothing is recorded, nothing fails.
    ///
    /// # Panics
    /// If they are outside the device.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        let mut state = self.inner.state.lock();
        state.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        for page in start / IO_ALIGN..(start + bytes.len()).div_ceil(IO_ALIGN) {
            state.touch(page);
        }
    }

    /// How the queues made from now on complete their reads.
    pub fn set_queue_order(&self, order: QueueOrder) {
        self.inner.state.lock().order = order;
    }

    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Makes a crash image anew: undoes every change since the last call by copying the dirty pages back from `base`, and
    /// forgets faults and queue orders that the last check set.
    pub(crate) fn restore(&self, base: &[u8]) {
        let mut state = self.inner.state.lock();
        state.patched.clear();
        while let Some(page) = state.dirty.pop() {
            state.is_dirty[page] = false;
            let range = page * IO_ALIGN..(page + 1) * IO_ALIGN;
            state.bytes[range.clone()].copy_from_slice(&base[range]);
        }
        state.faults = Faults::default();
        state.history = None;
        state.order = QueueOrder::InOrder;
        state.queues = 0;
    }

    /// Sets bytes of a crash image, within one page.
    pub(crate) fn patch(&self, offset: usize, bytes: &[u8]) {
        let mut state = self.inner.state.lock();
        let durable = state.bytes[offset..offset + bytes.len()].to_vec();
        state.patched.push((offset, durable));
        state.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.touch(offset / IO_ALIGN);
    }

    /// A copy in which what the crash left is written and not synced: a process died, the page cache lives on.
    pub(crate) fn recorded_unsynced(&self, recorder: &Recorder) -> Self {
        let state = self.inner.state.lock();
        let mut durable = state.bytes.clone();
        for (offset, bytes) in state.patched.iter().rev() {
            durable[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let mut pages: Vec<usize> = state.patched.iter().map(|(offset, _)| offset / IO_ALIGN).collect();
        pages.sort_unstable();
        pages.dedup();
        let copy = recorder.block(durable);
        for page in pages {
            let mut buf = AlignedBuf::zeroed(IO_ALIGN);
            buf.copy_from_slice(&state.bytes[page * IO_ALIGN..(page + 1) * IO_ALIGN]);
            let written = copy.write_at((page * IO_ALIGN) as u64, &buf);
            debug_assert!(written.is_ok(), "a new device has no faults");
        }
        copy
    }

    /// Makes the next [`restore`](Self::restore) copy this page.
    pub(crate) fn mark_page(&self, page: usize) {
        self.inner.state.lock().touch(page);
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let aligned = offset.is_multiple_of(IO_ALIGN as u64) && len.is_multiple_of(IO_ALIGN);
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= self.inner.len);
        if aligned && inside {
            return Ok(());
        }
        let why = format!("{len} bytes at {offset:#x} are misaligned or outside the device");
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

impl SimBlock {
    /// Whether the read that is submitted now is a late one, and by how many reaps.
    pub(crate) fn late(&self, offset: u64, len: usize) -> u32 {
        let mut state = self.inner.state.lock();
        state.faults.lateness(offset..offset + len as u64)
    }
}

impl State {
    fn touch(&mut self, page: usize) {
        if !std::mem::replace(&mut self.is_dirty[page], true) {
            self.dirty.push(page);
        }
    }

    /// Stores whole pages or, of a write that failed half-way, whole sectors.
    fn store(&mut self, start: usize, bytes: &[u8]) {
        let pages = start / IO_ALIGN..(start + bytes.len()).div_ceil(IO_ALIGN);
        if let Some(history) = &mut self.history {
            for page in pages.clone() {
                let old = &self.bytes[page * IO_ALIGN..(page + 1) * IO_ALIGN];
                history.before.insert(page, old.to_vec());
                history.durable.entry(page).or_insert_with(|| old.to_vec());
            }
        }
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        pages.for_each(|page| self.touch(page));
    }

    fn read(&self, start: usize, out: &mut [u8], fault: Option<FaultKind>) {
        let done = fault.map_or(out.len(), |kind| kind.done(out.len()));
        out[..done].copy_from_slice(&self.bytes[start..start + done]);
        match (fault, &self.history) {
            (Some(FaultKind::Stale), Some(history)) => {
                for (i, page) in out.chunks_exact_mut(IO_ALIGN).enumerate() {
                    if let Some(before) = history.before.get(&(start / IO_ALIGN + i)) {
                        page.copy_from_slice(before);
                    }
                }
            }
            (Some(FaultKind::Flip { byte, mask }), _) if !out.is_empty() => {
                let at = byte as usize % out.len();
                out[at] ^= mask;
            }
            _ => {}
        }
    }

    /// Where a misdirected access of `len` bytes goes.
    fn elsewhere(&self, start: usize, len: usize, fault: Option<FaultKind>) -> usize {
        let Some(FaultKind::Misdirected { pages }) = fault else { return start };
        let places = (self.bytes.len() - len) / IO_ALIGN + 1;
        (start / IO_ALIGN + pages as usize) % places * IO_ALIGN
    }
}

impl BlockDevice for SimBlock {
    type Queue = SimQueue;

    fn len(&self) -> u64 {
        self.inner.len
    }

    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.check(offset, buf.len())?;
        self.inner.counters.reads(1);
        self.inner.counters.read_bytes(buf.len() as u64);
        let mut state = self.inner.state.lock();
        let fault = state.faults.next(Access::Read, offset..offset + buf.len() as u64);
        let start = state.elsewhere(offset as usize, buf.len(), fault);
        state.read(start, buf, fault);
        fault.map_or(Ok(()), |kind| kind.error(Access::Read))
    }

    #[track_caller]
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        let at = caller::noted();
        self.check(offset, buf.len())?;
        self.inner.counters.writes(1);
        self.inner.counters.write_bytes(buf.len() as u64);
        let mut state = self.inner.state.lock();
        let fault = state.faults.next(Access::Write, offset..offset + buf.len() as u64);
        let start = state.elsewhere(offset as usize, buf.len(), fault);
        let done = fault.map_or(buf.len(), |kind| kind.done(buf.len()));
        state.store(start, &buf[..done]);
        if let Some((recorder, medium)) = &self.inner.tap
            && done > 0
        {
            // Whole pages: what a partial write left of its last page is what is there now.
            let end = (start + done).next_multiple_of(IO_ALIGN);
            recorder.push(|trace| {
                let (site, bytes) =
                    (trace.note_site(at, SiteKind::Write), trace.keep(&state.bytes[start..end]));
                Event::BlockWrite { medium: *medium, site, offset: start as u64, bytes }
            });
        }
        fault.map_or(Ok(()), |kind| kind.error(Access::Write))
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        let at = caller::noted();
        self.inner.counters.fences(1);
        let mut state = self.inner.state.lock();
        let fault = state.faults.next(Access::Sync, 0..0);
        fault.map_or(Ok(()), |kind| kind.error(Access::Sync))?;
        if let Some(history) = &mut state.history {
            history.durable.clear();
        }
        if let Some((recorder, medium)) = &self.inner.tap {
            recorder.push(|trace| Event::Sync { medium: *medium, site: trace.note_site(at, SiteKind::Sync) });
        }
        Ok(())
    }

    /// The device stays as long as it was made: it is a file's longest length. What is cut off reads as zeros, at once; a crash
    /// may bring any page of it back until the next sync, as from a file whose new length was not safe yet.
    #[track_caller]
    fn resize(&self, len: u64) -> io::Result<()> {
        if len > self.inner.len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let place = caller::noted();
        self.check(len, 0)?;
        let zeros = AlignedBuf::zeroed(IO_ALIGN);
        for at in (len..self.inner.len).step_by(IO_ALIGN) {
            let page = at as usize..at as usize + IO_ALIGN;
            let blank = self.inner.state.lock().bytes[page].iter().all(|byte| *byte == 0);
            if !blank {
                caller::note(place);
                self.write_at(at, &zeros)?;
            }
        }
        Ok(())
    }

    fn queue(&self, depth: usize) -> io::Result<SimQueue> {
        let mut state = self.inner.state.lock();
        state.queues += 1;
        Ok(SimQueue::new(self.clone(), depth, state.order, state.queues))
    }

    fn asks_for_callers(&self) -> bool {
        true
    }

    fn counters(&self) -> &Counters {
        &self.inner.counters
    }
}
