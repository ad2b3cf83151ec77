//! What all mapped regions share: bounds, copies, flushes, counting, emulation.
//!
//! # Thread safety
//! Every access is atomic or assembly (`arch`), so any thread may make any at any time. The burst and the ready
//! table are the thread's own; counters are striped.
//!
//! # Invariants
//! No reference into the mapping is ever made. Every pointer handed to `arch` has passed [`Region::at`], or for reads
//! [`Region::readable`]: all of that stays mapped, a file's bytes or zeros, as long as the region lives.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{self, CACHE_LINE, lines_overlapping};
use crate::emulate::Emulation;
use crate::mapping::Mapping;
use crate::{Counters, Profile, burst};

/// What the bytes of a medium outlive, as far as flushed and fenced (or synced) ones go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survives {
    /// Nothing: they end with the process.
    Nothing,
    /// The process's death, not the machine's loss of power.
    Process,
    /// Loss of power.
    Power,
}

/// Lines that a prefetch asks for at most: more than a core has fill buffers for.
const PREFETCH_LINES_MAX: u64 = 32;

pub(crate) struct Region {
    mapping: Mapping,
    /// Its length, and the longest that it has had: what lies between them can be read, and is nothing.
    len: AtomicU64,
    reach: AtomicU64,
    /// Never used twice in a process, never 0.
    id: u64,
    counters: Counters,
    profile: Option<Profile>,
    /// What the profile adds, if anything.
    emulation: Option<Emulation>,
}

impl Region {
    pub(crate) fn new(mapping: Mapping, len: u64, profile: Option<Profile>) -> io::Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        assert!(len <= mapping.len() as u64, "{len} bytes in a mapping of {}", mapping.len());
        let emulation = match &profile {
            None => None,
            Some(profile) => Emulation::new(profile).map_err(io::Error::other)?,
        };
        // Relaxed: only uniqueness is asked for.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (len, reach) = (AtomicU64::new(len), AtomicU64::new(len));
        Ok(Self { mapping, len, reach, id, counters: Counters::default(), profile, emulation })
    }

    /// What is behind the first `len` bytes is out of bounds from now on.
    pub(crate) fn limit(&mut self, len: u64) {
        assert!(len <= self.len(), "{len} bytes of a region of {} bytes", self.len());
        (self.len, self.reach) = (AtomicU64::new(len), AtomicU64::new(len));
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        // Acquire: pairs with the release when it grows, so that what is inside is mapped.
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// It has another length, which is mapped as far as it is longer.
    pub(crate) fn set_len(&self, len: u64) {
        self.reach.fetch_max(len, Ordering::Release);
        self.len.store(len, Ordering::Release);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    pub(crate) fn emulated_ns(&self) -> u64 {
        self.emulation.as_ref().map_or(0, Emulation::charged_ns)
    }

    /// `emulated PROFILE on MEDIUM`, or just the medium.
    pub(crate) fn describe(&self, medium: &str) -> String {
        match &self.profile {
            None => medium.into(),
            Some(profile) => format!("emulated {} on {medium}", profile.name),
        }
    }

    /// What a promise may rest on: the profile's word where there is one, else the medium's.
    pub(crate) fn promises(&self, medium: Survives) -> Survives {
        match &self.profile {
            None => medium,
            Some(profile) if profile.volatile => medium.min(Survives::Process),
            Some(_) => Survives::Power,
        }
    }

    pub(crate) fn bind(&self, node: u32) -> io::Result<()> {
        crate::numa::bind(&self.mapping, node)
    }

    /// The address of a range that is inside the region.
    #[inline]
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        self.within(offset, len, self.len())
    }

    /// The address of a range that was inside the region once: for reads, which a shorter length may overtake.
    #[inline]
    fn readable(&self, offset: u64, len: usize) -> *mut u8 {
        self.within(offset, len, self.reach.load(Ordering::Acquire))
    }

    #[inline]
    fn within(&self, offset: u64, len: usize, bytes: u64) -> *mut u8 {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= bytes);
        assert!(inside, "{len} bytes at {offset} in a region of {bytes} bytes");
        // SAFETY: the offset was just checked against what is mapped, or was.
        unsafe { self.mapping.start().add(offset as usize) }
    }

    #[inline]
    fn word(&self, offset: u64, at: *mut u8) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "word at {offset}: expected a multiple of 8");
        // SAFETY: inside the region, aligned because the mapping is, and touched by atomics or assembly alone; it
        // lives as long as the mapping, which `self` keeps.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    #[inline]
    pub(crate) fn load_u64(&self, offset: u64) -> u64 {
        let word = self.word(offset, self.readable(offset, 8));
        self.count_read(offset, 8);
        // Acquire: pairs with the release in `store_u64`.
        word.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn store_u64(&self, offset: u64, value: u64) {
        // Release: what was stored before is there for whoever loads this word.
        self.word(offset, self.at(offset, 8)).store(value, Ordering::Release);
        self.counters.write_bytes(8);
    }

    #[inline]
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let from = self.readable(offset, out.len());
        self.count_read(offset, out.len());
        // SAFETY: `at` checked the source; `out` is the caller's own and can't overlap a region.
        unsafe { arch::load_bytes(out.as_mut_ptr(), from, out.len()) }
    }

    #[inline]
    fn count_read(&self, offset: u64, len: usize) {
        if len == 0 {
            return;
        }
        self.counters.reads(1);
        self.counters.read_bytes(len as u64);
        if let Some(emulation) = &self.emulation {
            emulation.read(self.id, offset, len);
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        if len == 0 {
            return;
        }
        let start = self.readable(offset, len);
        for i in 0..lines_overlapping(offset, len).min(PREFETCH_LINES_MAX) {
            arch::prefetch(start.wrapping_add(i as usize * CACHE_LINE));
        }
        if let Some(emulation) = &self.emulation {
            emulation.prefetch(self.id, offset, len);
        }
    }

    #[inline]
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` checked the target; `bytes` is not region memory, to which no slice exists.
        unsafe { arch::store_bytes(to, bytes.as_ptr(), bytes.len()) }
        self.counters.write_bytes(bytes.len() as u64);
    }

    #[inline]
    pub(crate) fn write_nt(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { arch::copy_nt(to, bytes.as_ptr(), bytes.len()) }
        self.counters.write_bytes(bytes.len() as u64);
        self.note_flushed(offset, bytes.len());
    }

    #[inline]
    pub(crate) fn flush(&self, offset: u64, len: usize) {
        let start = self.at(offset, len);
        // SAFETY: `at` checked the range, so it is mapped.
        unsafe { arch::flush(start, len) }
        self.note_flushed(offset, len);
    }

    #[inline]
    fn note_flushed(&self, offset: u64, len: usize) {
        if len == 0 {
            return;
        }
        self.counters.lines_flushed(lines_overlapping(offset, len));
        let (first, last) = match &self.emulation {
            None => (0, 0),
            Some(emulation) => emulation.granules(offset, len),
        };
        burst::note(self.id, first, last);
    }

    #[inline]
    pub(crate) fn fence(&self) {
        if let Some((emulation, granules)) = self.fence_burst() {
            emulation.burst(granules);
        }
    }

    /// As `fence`, and when the emulated device would be done with it.
    #[inline]
    pub(crate) fn fence_until(&self) -> u64 {
        self.fence_burst().map_or(0, |(emulation, granules)| emulation.burst_until(granules))
    }

    /// Fences; the granules of this thread's burst, if somebody charges for it.
    #[inline]
    fn fence_burst(&self) -> Option<(&Emulation, u64)> {
        arch::fence();
        self.counters.fences(1);
        let granules = burst::end(self.id)?;
        self.counters.writes(1);
        self.emulation.as_ref().map(|emulation| (emulation, granules))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // This thread's unfenced burst, if any, has nothing to be made durable any more.
        let _ = burst::end(self.id);
    }
}

/// Implements [`ByteRegion`](crate::ByteRegion) by a field `region: Region`.
macro_rules! byte_region {
    ($name:ident $($more:item)*) => {
        impl crate::ByteRegion for $name {
            #[inline]
            fn len(&self) -> u64 {
                self.region.len()
            }
            #[inline]
            fn load_u64(&self, offset: u64) -> u64 {
                self.region.load_u64(offset)
            }
            #[inline]
            fn store_u64(&self, offset: u64, value: u64) {
                self.region.store_u64(offset, value);
            }
            #[inline]
            fn read(&self, offset: u64, out: &mut [u8]) {
                self.region.read(offset, out);
            }
            #[inline]
            fn prefetch(&self, offset: u64, len: usize) {
                self.region.prefetch(offset, len);
            }
            #[inline]
            fn write(&self, offset: u64, bytes: &[u8]) {
                self.region.write(offset, bytes);
            }
            #[inline]
            fn write_nt(&self, offset: u64, bytes: &[u8]) {
                self.region.write_nt(offset, bytes);
            }
            #[inline]
            fn flush(&self, offset: u64, len: usize) {
                self.region.flush(offset, len);
            }
            #[inline]
            fn fence(&self) {
                self.region.fence();
            }
            #[inline]
            fn fence_until(&self) -> u64 {
                self.region.fence_until()
            }
            fn counters(&self) -> &crate::Counters {
                self.region.counters()
            }
            $($more)*
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({}, {} bytes)", stringify!($name), self.describe(), self.region.len())
            }
        }
    };
}
pub(crate) use byte_region;
