//! A region whose type is only known at run time.

use std::io;
use std::panic::Location;
use std::sync::Arc;

use crate::byte::ByteRegion;
use crate::caller;
use crate::counters::Counters;

/// Some region. What is compiled for this one is compiled once, at the price of an indirect call for each access.
pub struct AnyRegion {
    region: Arc<dyn ByteRegion>,
    asks_for_callers: bool,
}

impl AnyRegion {
    /// Forgets a region's type.
    pub fn new(region: Arc<impl ByteRegion>) -> Self {
        Self { asks_for_callers: region.asks_for_callers(), region }
    }
    /// The same of a region that nobody else has.
    pub fn of(region: impl ByteRegion) -> Arc<Self> {
        Arc::new(Self::new(Arc::new(region)))
    }
    #[inline]
    #[track_caller]
    fn note_caller(&self) {
        if self.asks_for_callers {
            caller::note(Location::caller());
        }
    }
}

impl ByteRegion for AnyRegion {
    fn len(&self) -> u64 {
        self.region.len()
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.region.load_u64(offset)
    }
    #[track_caller]
    fn store_u64(&self, offset: u64, value: u64) {
        self.note_caller();
        self.region.store_u64(offset, value);
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.region.read(offset, out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.region.prefetch(offset, len);
    }
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.note_caller();
        self.region.write(offset, bytes);
    }
    #[track_caller]
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.note_caller();
        self.region.write_nt(offset, bytes);
    }
    #[track_caller]
    fn flush(&self, offset: u64, len: usize) {
        self.note_caller();
        self.region.flush(offset, len);
    }
    #[track_caller]
    fn fence(&self) {
        self.note_caller();
        self.region.fence();
    }
    #[track_caller]
    fn fence_until(&self) -> u64 {
        self.note_caller();
        self.region.fence_until()
    }
    fn len_max(&self) -> Option<u64> {
        self.region.len_max()
    }
    #[track_caller]
    fn resize(&self, len: u64) -> io::Result<()> {
        self.note_caller();
        self.region.resize(len)
    }
    fn asks_for_callers(&self) -> bool {
        self.asks_for_callers
    }
    fn counters(&self) -> &Counters {
        self.region.counters()
    }
}
