//! Several regions as one: bytes are spread over them in strips, so that their bandwidths add up.
//!
//! ```text
//!   offset --> Stripes --> device, offset there        a range: its parts, each on one device
//! ```
//!
//! # Fences
//! A fence makes durable what its thread flushed, on whichever device. Each device that the thread has flushed to is fenced, and
//! no other: processors need one fence for all, and the ones behind it find nothing to wait for, but an emulated device charges
//! the burst that is its own, and a simulated one or one with a shadow knows of its own flushes alone. Devices write at
//! once: an emulated fence is over when the last of them would be done ([`ByteRegion::fence_until`]). A thread that flushed nothing
//! fences the first device, for the order of its stores.
//!
//! # Thread safety
//! As the devices'. What a thread has flushed to is its own, as in `burst`.
//!
//! # Invariants
//! - All parts of an access are inside their device, or none is asked for.
//! - A word is within a strip, for strips begin at multiples of a cache line: loads and stores of it are the device's own, atomic.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::CACHE_LINE;
use crate::byte::ByteRegion;
use crate::caller;
use crate::counters::Counters;
use crate::emulate;
use crate::homes::{Far, Homes};
use crate::stripes::{DEVICES_MAX, Part, Stripes};

/// Strips for each device that are under way in a long read, and those that a prefetch asks for at most: an emulated device starts as
/// many while one of them arrives.
const AHEAD: usize = 8;

/// Those of all devices: half of the granules that a thread can have under way.
const AHEAD_MAX: usize = 64;

/// Regions of one length in strips. It keeps its size.
pub struct StripedRegion<R> {
    devices: Vec<Arc<R>>,
    /// The first byte of each that is used.
    start: u64,
    len: u64,
    stripes: Stripes,
    /// Where devices are on several NUMA nodes.
    homes: Option<Homes>,
    /// Never used twice in a process.
    id: u64,
    asks_for_callers: bool,
    /// The sums of the devices'.
    counters: Counters,
}

/// Why regions can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripedError {
    /// None, or too many.
    #[error("{0} devices: memory is spread over {DEVICES_MAX} at most, and one at least")]
    Devices(usize),
    /// One is too short.
    #[error("device {device} has {actual} bytes, and {wanted} are needed")]
    TooShort {
        /// Which, from 0.
        device: usize,
        /// Its bytes.
        actual: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// They can't be dealt out.
    #[error("{devices} devices on {nodes} nodes: each node has as many")]
    Nodes {
        /// How many there are.
        devices: usize,
        /// To so many.
        nodes: usize,
    },
    /// What is used of each is nothing, or does not begin where a line does.
    #[error("bytes {} to {} of each device make no strips", .0.start, .0.end)]
    NoStrips(Range<u64>),
}

thread_local! {
    /// Devices that this thread has flushed to and not yet fenced, a bit for each, by region.
    static FLUSHED: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

const _: () = assert!(DEVICES_MAX <= u64::BITS as usize);

impl<R: ByteRegion> StripedRegion<R> {
    /// The same bytes of each device, as far as they make whole strips; what is beside them stays as it is.
    ///
    /// # Errors
    /// [`StripedError`].
    pub fn new(devices: Vec<Arc<R>>, bytes: Range<u64>) -> Result<Self, StripedError> {
        Self::with((Stripes::new, 1), devices, bytes)
    }

    /// The same on several nodes: the first devices are the first one's, and so on. Each node has a share of the bytes, one after the
    /// other, in strips over its own devices.
    ///
    /// # Errors
    /// [`StripedError`], if nodes would have other numbers of devices, too.
    pub fn on_nodes(devices: Vec<Arc<R>>, bytes: Range<u64>, nodes: usize) -> Result<Self, StripedError> {
        Self::with((Stripes::new, nodes), devices, bytes)
    }

    /// The same, interleaved in pages.
    ///
    /// # Errors
    /// [`StripedError`].
    pub fn interleaved(devices: Vec<Arc<R>>, bytes: Range<u64>) -> Result<Self, StripedError> {
        Self::with((Stripes::interleaved, 1), devices, bytes)
    }

    fn with(
        (stripes, nodes): (impl FnOnce(usize) -> Stripes, usize),
        devices: Vec<Arc<R>>,
        bytes: Range<u64>,
    ) -> Result<Self, StripedError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        if devices.is_empty() || devices.len() > DEVICES_MAX {
            return Err(StripedError::Devices(devices.len()));
        }
        if let Some(device) = devices.iter().position(|device| device.len() < bytes.end) {
            let actual = devices[device].len();
            return Err(StripedError::TooShort { device, actual, wanted: bytes.end });
        }
        if nodes == 0 || !devices.len().is_multiple_of(nodes) {
            return Err(StripedError::Nodes { devices: devices.len(), nodes });
        }
        let of_each = devices.len() / nodes;
        let mut stripes = stripes(of_each);
        let strip_bytes = stripes.strip_bytes();
        let each = bytes.end.saturating_sub(bytes.start) / strip_bytes * strip_bytes;
        if each == 0 || !bytes.start.is_multiple_of(CACHE_LINE as u64) {
            return Err(StripedError::NoStrips(bytes));
        }
        let node_bytes = each * of_each as u64;
        let homes = (nodes > 1).then(|| Homes::new(nodes as u32, node_bytes, Vec::new()));
        if nodes > 1 {
            stripes = stripes.on_nodes(node_bytes);
        }
        let counted = devices.iter().cloned();
        let counters = Counters::of(counted.map(|device| move || device.counters().snapshot()));
        Ok(Self {
            start: bytes.start,
            len: each * devices.len() as u64,
            stripes,
            homes,
            // Relaxed: only uniqueness is asked for.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            asks_for_callers: devices.iter().any(|device| device.asks_for_callers()),
            counters,
            devices,
        })
    }

    /// The devices, each with its own counters.
    pub fn devices(&self) -> &[Arc<R>] {
        &self.devices
    }

    /// Where a byte is: its device, and which byte of that it is.
    pub fn place(&self, offset: u64) -> (usize, u64) {
        let (device, at) = self.stripes.place(offset);
        (device, self.start + at)
    }

    #[inline]
    fn check(&self, offset: u64, len: usize) {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes at {offset} in {} bytes in strips", self.len);
    }

    #[inline]
    fn word(&self, offset: u64) -> (&R, u64, Option<Far>) {
        // A word that is misaligned is the device's to refuse: it is as much there.
        self.check(offset, 8);
        let (device, at) = self.stripes.place(offset);
        (&self.devices[device], self.start + at, self.far(device))
    }

    /// The device of a part, and where it is there.
    #[inline]
    fn of(&self, part: Part) -> (&R, u64) {
        (&self.devices[part.device], self.start + part.at)
    }

    /// Accesses of a device are of another NUMA node's until this is dropped, if it is not on this thread's.
    #[inline]
    fn far(&self, device: usize) -> Option<Far> {
        let homes = self.homes.as_ref()?;
        let node = (device / self.stripes.devices()) as u32;
        (node != homes.here()).then(Far::begin)
    }

    /// Who called, for a simulation that asks: each part of an access is its.
    #[inline]
    #[track_caller]
    fn caller(&self) -> Option<&'static Location<'static>> {
        if self.asks_for_callers { Some(caller::noted()) } else { None }
    }

    /// Does something with each part, on behalf of whoever called.
    #[inline]
    #[track_caller]
    fn each(&self, offset: u64, len: usize, mut act: impl FnMut(&R, u64, Part)) {
        self.check(offset, len);
        let caller = self.caller();
        for part in self.stripes.parts(offset, len) {
            if let Some(caller) = caller {
                caller::note(caller);
            }
            let _far = self.far(part.device);
            let (device, at) = self.of(part);
            act(device, at, part);
        }
    }

    /// Strips that are under way at once.
    #[inline]
    fn ahead(&self) -> usize {
        (AHEAD * self.devices.len()).min(AHEAD_MAX)
    }

    /// Notes devices that this thread has flushed to.
    #[inline]
    fn note_flushed(&self, devices: u64) {
        if devices == 0 {
            return;
        }
        // A thread that is ending has no table any more: it fences them all.
        let _ = FLUSHED.try_with(|flushed| {
            let mut flushed = flushed.borrow_mut();
            match flushed.iter_mut().find(|(region, _)| *region == self.id) {
                Some((_, noted)) => *noted |= devices,
                None => flushed.push((self.id, devices)),
            }
        });
    }

    /// The devices that this thread has flushed to since its last fence.
    #[inline]
    fn take_flushed(&self) -> u64 {
        let taken = FLUSHED.try_with(|flushed| {
            let mut flushed = flushed.borrow_mut();
            let at = flushed.iter().position(|(region, _)| *region == self.id);
            at.map_or(0, |at| flushed.swap_remove(at).1)
        });
        taken.unwrap_or(u64::MAX)
    }
}

impl<R: ByteRegion> ByteRegion for StripedRegion<R> {
    #[inline]
    fn len(&self) -> u64 {
        self.len
    }
    #[inline]
    fn load_u64(&self, offset: u64) -> u64 {
        let (device, at, _far) = self.word(offset);
        device.load_u64(at)
    }
    #[inline]
    #[track_caller]
    fn store_u64(&self, offset: u64, value: u64) {
        let (device, at, _far) = self.word(offset);
        // What was noted of the caller is still there for the device.
        device.store_u64(at, value);
    }
    /// Reads a range of several strips from all of their devices at once.
    #[inline]
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.check(offset, out.len());
        let mut parts = self.stripes.parts(offset, out.len());
        let mut ahead = parts.clone();
        let start = |part: Part| {
            let _far = self.far(part.device);
            let (device, at) = self.of(part);
            device.prefetch(at, part.len);
        };
        let first = parts.next();
        // Most reads are of one strip: there is nothing to overlap.
        if let Some(first) = first.filter(|first| first.len < out.len()) {
            ahead.by_ref().take(self.ahead()).for_each(start);
            let _far = self.far(first.device);
            let (device, at) = self.of(first);
            device.read(at, &mut out[..first.len]);
            for part in parts {
                if let Some(next) = ahead.next() {
                    start(next);
                }
                let _far = self.far(part.device);
                let (device, at) = self.of(part);
                device.read(at, &mut out[part.from..part.from + part.len]);
            }
        } else if let Some(only) = first {
            let _far = self.far(only.device);
            let (device, at) = self.of(only);
            device.read(at, out);
        }
    }
    #[inline]
    fn prefetch(&self, offset: u64, len: usize) {
        self.check(offset, len);
        for part in self.stripes.parts(offset, len).take(self.ahead()) {
            let _far = self.far(part.device);
            let (device, at) = self.of(part);
            device.prefetch(at, part.len);
        }
    }
    #[inline]
    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.each(offset, bytes.len(), |device, at, part| {
            device.write(at, &bytes[part.from..part.from + part.len]);
        });
    }
    #[inline]
    #[track_caller]
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        let mut devices = 0;
        self.each(offset, bytes.len(), |device, at, part| {
            device.write_nt(at, &bytes[part.from..part.from + part.len]);
            devices |= 1 << part.device;
        });
        self.note_flushed(devices);
    }
    #[inline]
    #[track_caller]
    fn flush(&self, offset: u64, len: usize) {
        let mut devices = 0;
        self.each(offset, len, |device, at, part| {
            device.flush(at, part.len);
            devices |= 1 << part.device;
        });
        self.note_flushed(devices);
    }
    #[inline]
    #[track_caller]
    fn fence(&self) {
        emulate::wait_until(self.fence_until());
    }
    #[track_caller]
    fn fence_until(&self) -> u64 {
        let caller = self.caller();
        let flushed = self.take_flushed().max(1);
        let mut until = 0;
        for (i, device) in self.devices.iter().enumerate() {
            if flushed >> i & 1 == 1 {
                if let Some(caller) = caller {
                    caller::note(caller);
                }
                let _far = self.far(i);
                until = until.max(device.fence_until());
            }
        }
        until
    }
    /// Unsupported: all devices would have to grow by the same, or none of them.
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "memory in strips over several devices keeps its size",
        ))
    }
    fn asks_for_callers(&self) -> bool {
        self.asks_for_callers
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<R> Drop for StripedRegion<R> {
    fn drop(&mut self) {
        let _ = FLUSHED.try_with(|flushed| flushed.borrow_mut().retain(|(region, _)| *region != self.id));
    }
}

impl<R> fmt::Debug for StripedRegion<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StripedRegion({} devices, {} bytes)", self.devices.len(), self.len)
    }
}

#[cfg(test)]
mod tests;
