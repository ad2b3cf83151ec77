//! One simulated region as several devices, for memory that is striped over them.
//!
//! A crash leaves of all devices what the simulation of one leaves of its parts: each word is kept or lost by itself. A fence of one
//! device is one of all, as an `sfence` is; that each device which was flushed to is fenced is for `terrace-media`'s tests to show.

use std::io;
use std::sync::Arc;

use terrace_media::{AnyRegion, ByteRegion, Counters, StripedRegion};

/// A part of a region.
struct Device<R> {
    whole: R,
    start: u64,
    len: u64,
}

/// A region in strips over as many devices as it is cut into.
///
/// # Errors
/// If it can't be cut so.
pub fn striped<R: ByteRegion + Clone>(whole: &R, devices: u64) -> io::Result<Arc<AnyRegion>> {
    let len = whole.len() / devices;
    let device = |i| Arc::new(Device { whole: whole.clone(), start: i * len, len });
    let striped = StripedRegion::new((0..devices).map(device).collect(), 0..len).map_err(io::Error::other)?;
    Ok(AnyRegion::of(striped))
}

impl<R> Device<R> {
    fn at(&self, offset: u64, len: usize) -> u64 {
        assert!(offset + len as u64 <= self.len, "{len} bytes at {offset} of a device of {}", self.len);
        self.start + offset
    }
}

impl<R: ByteRegion> ByteRegion for Device<R> {
    fn len(&self) -> u64 {
        self.len
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.whole.load_u64(self.at(offset, 8))
    }
    #[track_caller]
    fn store_u64(&self, offset: u64, value: u64) {
        self.whole.store_u64(self.at(offset, 8), value);
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.whole.read(self.at(offset, out.len()), out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.whole.prefetch(self.at(offset, len), len);
    }
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.whole.write(self.at(offset, bytes.len()), bytes);
    }
    #[track_caller]
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.whole.write_nt(self.at(offset, bytes.len()), bytes);
    }
    #[track_caller]
    fn flush(&self, offset: u64, len: usize) {
        self.whole.flush(self.at(offset, len), len);
    }
    #[track_caller]
    fn fence(&self) {
        self.whole.fence();
    }
    fn asks_for_callers(&self) -> bool {
        self.whole.asks_for_callers()
    }
    fn counters(&self) -> &Counters {
        self.whole.counters()
    }
}
