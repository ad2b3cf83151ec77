//! A region whose type is only known at run time.

use std::io;
use std::sync::Arc;

use crate::byte::ByteRegion;
use crate::counters::Counters;

/// Some region. What is compiled for this one is compiled once, at the price of an indirect call for each access.
pub struct AnyRegion(Arc<dyn ByteRegion>);

impl AnyRegion {
    /// Forgets a region's type.
    pub fn new(region: Arc<impl ByteRegion>) -> Self {
        Self(region)
    }
}

impl ByteRegion for AnyRegion {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.0.load_u64(offset)
    }
    fn store_u64(&self, offset: u64, value: u64) {
        self.0.store_u64(offset, value);
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.0.read(offset, out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.0.prefetch(offset, len);
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.0.write_nt(offset, bytes);
    }
    fn flush(&self, offset: u64, len: usize) {
        self.0.flush(offset, len);
    }
    fn fence(&self) {
        self.0.fence();
    }
    fn len_max(&self) -> Option<u64> {
        self.0.len_max()
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.0.resize(len)
    }
    fn counters(&self) -> &Counters {
        self.0.counters()
    }
}
