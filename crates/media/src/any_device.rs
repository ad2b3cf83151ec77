//! A block device whose type is only known at run time.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::block::{AlignedBuf, BlockDevice, BlockQueue, Completion};
use crate::counters::Counters;

/// Some block device. What is compiled for this one is compiled once, at the price of an indirect call for each access.
pub struct AnyDevice(Arc<dyn Erased>);

/// Some device's queue.
pub struct AnyQueue(Box<dyn BlockQueue>);

impl AnyDevice {
    /// Forgets a device's type.
    pub fn new(device: Arc<impl BlockDevice>) -> Self {
        Self(device)
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
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.0.write_at(offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.0.resize(len)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.0.reserve(len)
    }
    fn written_end(&self) -> u64 {
        self.0.written_end()
    }
    fn queue(&self, depth: usize) -> io::Result<AnyQueue> {
        self.0.queue(depth)
    }
    fn counters(&self) -> &Counters {
        self.0.counters()
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
