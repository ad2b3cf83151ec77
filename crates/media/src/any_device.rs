//! A block device whose type is only known at run time.

use std::io;
use std::os::fd::RawFd;
use std::panic::Location;
use std::sync::Arc;

use crate::block::{AlignedBuf, BlockDevice, BlockQueue, Completion};
use crate::caller;
use crate::counters::Counters;

/// Some block device. What is compiled for this one is compiled once, at the price of an indirect call for each access.
pub struct AnyDevice {
    device: Arc<dyn Erased>,
    asks_for_callers: bool,
}

/// Some device's queue.
pub struct AnyQueue(Box<dyn BlockQueue>);

impl AnyDevice {
    /// Forgets a device's type.
    pub fn new(device: Arc<impl BlockDevice>) -> Self {
        Self { asks_for_callers: device.asks_for_callers(), device }
    }
    /// The same of a device that nobody else has.
    pub fn of(device: impl BlockDevice) -> Arc<Self> {
        Arc::new(Self::new(Arc::new(device)))
    }
    #[track_caller]
    fn note_caller(&self) {
        if self.asks_for_callers {
            caller::note(Location::caller());
        }
    }
}

/// [`BlockDevice`] without a type of its own for queues. Every `BlockDevice` is one.
trait Erased: Send + Sync {
    fn len(&self) -> u64;
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()>;
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
    fn resize(&self, len: u64) -> io::Result<()>;
    fn reserve(&self, len: u64) -> io::Result<()>;
    fn written_end(&self) -> u64;
    fn queue(&self, depth: usize) -> io::Result<AnyQueue>;
    fn counters(&self) -> &Counters;
}

impl<D: BlockDevice> Erased for D {
    fn len(&self) -> u64 {
        BlockDevice::len(self)
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        BlockDevice::read_at(self, offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        BlockDevice::write_at(self, offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        BlockDevice::sync(self)
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        BlockDevice::resize(self, len)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        BlockDevice::reserve(self, len)
    }
    fn written_end(&self) -> u64 {
        BlockDevice::written_end(self)
    }
    fn queue(&self, depth: usize) -> io::Result<AnyQueue> {
        Ok(AnyQueue(Box::new(BlockDevice::queue(self, depth)?)))
    }
    fn counters(&self) -> &Counters {
        BlockDevice::counters(self)
    }
}

impl BlockDevice for AnyDevice {
    type Queue = AnyQueue;
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.device.read_at(offset, buf)
    }
    #[track_caller]
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.note_caller();
        self.device.write_at(offset, buf)
    }
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.note_caller();
        self.device.sync()
    }
    #[track_caller]
    fn resize(&self, len: u64) -> io::Result<()> {
        self.note_caller();
        self.device.resize(len)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.device.reserve(len)
    }
    fn written_end(&self) -> u64 {
        self.device.written_end()
    }
    fn queue(&self, depth: usize) -> io::Result<AnyQueue> {
        self.device.queue(depth)
    }
    fn asks_for_callers(&self) -> bool {
        self.asks_for_callers
    }
    fn counters(&self) -> &Counters {
        self.device.counters()
    }
}

impl BlockQueue for AnyQueue {
    fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf> {
        self.0.submit(token, offset, buf)
    }
    fn reap(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.0.reap(wait, out);
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn event_fd(&self) -> Option<RawFd> {
        self.0.event_fd()
    }
}
