//! The memory under the slabs: a part of a byte-addressable region, and what is done to it.
//!
//! # Thread safety
//! Reads run at any time; all else is done by one background step at a time, and by an opening.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_media::{ByteRegion, CountersSnapshot};

use super::layout::{LINE_BYTES, SlabHeader, SlotPlace};
use super::{fill, format, free, grow};
use crate::sync::AtomicU64;

/// A slot that is to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// Where it starts, from the first slab on.
    pub at: u64,
    /// Its commit word.
    pub commit: u64,
    /// Where its bytes are among those of all: from here to the next one's.
    pub bytes: usize,
}

/// The memory, whatever region it is. Offsets are from the first slab's start.
pub trait Medium: Send + Sync {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;
    /// The longest that it can be made; `None` if it keeps its size.
    fn len_max(&self) -> Option<u64>;
    /// Makes it so long; see [`ByteRegion::resize`].
    fn resize(&self, len: u64) -> io::Result<()>;
    /// Reads.
    fn read(&self, at: u64, out: &mut [u8]);
    /// An aligned word.
    fn load(&self, at: u64) -> u64;
    /// Starts fetching.
    fn prefetch(&self, at: u64, len: usize);
    /// Fills slots: see `fill.rs`. All are durable when it returns.
    fn fill(&self, slots: &[Filling], bytes: &[u8]);
    /// Lets slots go that start there: see `free.rs`. They are free, durably, when it returns.
    fn clear(&self, slots: &[u64]);
    /// Gives a slab to a class: see `format.rs`.
    fn format(&self, header: &SlabHeader, slab_bytes: usize);
    /// Makes it longer, for slabs behind those that there are: see `grow.rs`.
    fn grow(&self, headers: &[SlabHeader], slab_bytes: usize) -> io::Result<()>;
    /// Makes a slab known that is not used yet; durable after [`fence`](Self::fence).
    fn blank(&self, header: &SlabHeader, slab_bytes: usize);
    /// Starts writing back a line, whoever stored what is in it; durable after [`fence`](Self::fence).
    fn secure(&self, at: u64);
    /// Waits until what this thread secured is durable.
    fn fence(&self);
    /// What it is, for people.
    fn describe(&self) -> String;
    /// Accesses so far.
    fn counters(&self) -> CountersSnapshot;
}

/// Bytes `base..base + len` of a region.
pub struct Area<R> {
    pub(crate) region: Arc<R>,
    pub(crate) base: u64,
    len: AtomicU64,
    description: String,
}

impl<R: ByteRegion> Area<R> {
    /// # Panics
    /// If the part is not inside the region, or starts inside a line.
    pub fn new(region: Arc<R>, base: u64, len: u64, description: String) -> Self {
        assert!(base + len <= region.len() && base.is_multiple_of(256), "the slabs lie in their region");
        Self { region, base, len: AtomicU64::new(len), description }
    }
}

impl<R: ByteRegion> Medium for Area<R> {
    fn size_bytes(&self) -> u64 {
        self.len.load(Acquire)
    }
    fn len_max(&self) -> Option<u64> {
        Some(self.region.len_max()?.saturating_sub(self.base))
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.region.resize(self.base + len)?;
        self.len.store(len, Release);
        Ok(())
    }
    fn read(&self, at: u64, out: &mut [u8]) {
        self.region.read(self.base + at, out);
    }
    fn load(&self, at: u64) -> u64 {
        self.region.load_u64(self.base + at)
    }
    fn prefetch(&self, at: u64, len: usize) {
        self.region.prefetch(self.base + at, len);
    }
    fn fill(&self, slots: &[Filling], bytes: &[u8]) {
        fill::fill(self, slots, bytes);
    }
    fn clear(&self, slots: &[u64]) {
        free::clear(self, slots);
    }
    fn format(&self, header: &SlabHeader, slab_bytes: usize) {
        format::format(self, header, slab_bytes);
    }
    fn grow(&self, headers: &[SlabHeader], slab_bytes: usize) -> io::Result<()> {
        grow::grow(self, headers, slab_bytes)
    }
    fn blank(&self, header: &SlabHeader, slab_bytes: usize) {
        self.region.write_nt(self.base + u64::from(header.slab) * slab_bytes as u64, &header.encode());
    }
    fn secure(&self, at: u64) {
        self.region.flush(self.base + at, LINE_BYTES);
    }
    fn fence(&self) {
        self.region.fence();
    }
    fn describe(&self) -> String {
        self.description.clone()
    }
    fn counters(&self) -> CountersSnapshot {
        self.region.counters().snapshot()
    }
}

/// A slot's place in the use of its slab that a header tells of.
pub fn place(header: &SlabHeader, offset: u32) -> SlotPlace {
    SlotPlace { seq: header.seq, slab: header.slab, offset }
}
