//! A simulated block device.
//!
//! # Thread safety
//! One lock a device; it is taken before the recorder's.
//!
//! # Invariants
//! A page that differs from what the image was opened with has its flag set in `dirty`.

use std::io;
use std::panic::Location;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_media::{AlignedBuf, BlockDevice, Counters, IO_ALIGN};

use crate::fault::{Access, Fault, Faults};
use crate::queue::{QueueOrder, SimQueue};
use crate::recorder::Recorder;
use crate::trace::{Event, MediumId};

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
    order: QueueOrder,
    queues: u64,
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
            order: QueueOrder::InOrder,
            queues: 0,
        };
        Self { inner: Arc::new(Inner { len, state: Mutex::new(state), tap, counters: Counters::default() }) }
    }

    /// The content now, whether durable or not.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.inner.state.lock().bytes.clone()
    }

    /// Makes an access to come fail.
    pub fn inject(&self, fault: Fault) {
        self.inner.state.lock().faults.add(fault);
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
        while let Some(page) = state.dirty.pop() {
            state.is_dirty[page] = false;
            let range = page * IO_ALIGN..(page + 1) * IO_ALIGN;
            state.bytes[range.clone()].copy_from_slice(&base[range]);
        }
        state.faults = Faults::default();
        state.order = QueueOrder::InOrder;
        state.queues = 0;
    }

    /// Sets bytes of a crash image, within one page.
    pub(crate) fn patch(&self, offset: usize, bytes: &[u8]) {
        let mut state = self.inner.state.lock();
        state.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.touch(offset / IO_ALIGN);
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

impl State {
    fn touch(&mut self, page: usize) {
        if !std::mem::replace(&mut self.is_dirty[page], true) {
            self.dirty.push(page);
        }
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
        state.faults.next(Access::Read)?;
        let range = offset as usize..offset as usize + buf.len();
        buf.copy_from_slice(&state.bytes[range]);
        Ok(())
    }

    #[track_caller]
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        let at = Location::caller();
        self.check(offset, buf.len())?;
        self.inner.counters.writes(1);
        self.inner.counters.write_bytes(buf.len() as u64);
        let mut state = self.inner.state.lock();
        state.faults.next(Access::Write)?;
        let start = offset as usize;
        state.bytes[start..start + buf.len()].copy_from_slice(buf);
        for page in start / IO_ALIGN..(start + buf.len()) / IO_ALIGN {
            state.touch(page);
        }
        if let Some((recorder, medium)) = &self.inner.tap {
            recorder.push(|trace| {
                let (site, bytes) = (trace.site(at), trace.keep(buf));
                Event::BlockWrite { medium: *medium, site, offset, bytes }
            });
        }
        Ok(())
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        let at = Location::caller();
        self.inner.counters.fences(1);
        let mut state = self.inner.state.lock();
        state.faults.next(Access::Sync)?;
        if let Some((recorder, medium)) = &self.inner.tap {
            recorder.push(|trace| Event::Sync { medium: *medium, site: trace.site(at) });
        }
        Ok(())
    }

    fn queue(&self, depth: usize) -> io::Result<SimQueue> {
        let mut state = self.inner.state.lock();
        state.queues += 1;
        Ok(SimQueue::new(self.clone(), depth, state.order, state.queues))
    }

    fn counters(&self) -> &Counters {
        &self.inner.counters
    }
}
