//! How often records are read: words in slots, a sketch for what is on the lower tier, and the clock that ages both.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::policy::{Clock, Count, Now, Policy, Sketch};
use crate::slot::Slot;
use crate::sync::{AtomicU32, AtomicU64, Mutex};

/// Counts are halved every so many accesses for each record that fits DRAM (`docs/tac.md`, section 4).
const ACCESSES_A_RECORD: u64 = 25;
/// Counters that a sketch begins with.
const SKETCH_COUNTERS: usize = 1 << 16;
/// "No record has to go": whoever comes may enter.
pub(crate) const NO_RIVAL: u32 = u32::MAX;

/// See the module.
pub(crate) struct Temperature {
    epoch: AtomicU32,
    accesses: AtomicU64,
    sketch: Mutex<Arc<Sketch>>,
    /// The count, in sixteenths, of each class's next victim.
    pub rivals: Box<[AtomicU32]>,
    /// How many records its rival kept out, of each class, since background steps looked last.
    pub kept_out: Box<[AtomicU32]>,
}

impl Temperature {
    pub fn new(classes: usize) -> Self {
        Self {
            epoch: AtomicU32::new(0),
            accesses: AtomicU64::new(0),
            sketch: Mutex::new(Arc::new(Sketch::new(SKETCH_COUNTERS))),
            rivals: (0..classes).map(|_| AtomicU32::new(NO_RIVAL)).collect(),
            kept_out: (0..classes).map(|_| AtomicU32::new(0)).collect(),
        }
    }
    /// The time that policies see.
    #[inline]
    pub fn now(&self) -> Now {
        let epoch = self.epoch.load(Relaxed);
        Now { tick: epoch, epoch, fine: epoch }
    }
    /// A slot's record was read or written.
    #[inline]
    pub fn touch(&self, slot: Slot<'_>, now: Now) {
        let old = slot.access();
        let new = Clock.touched(old, now);
        if old.is_worth_storing(new) {
            slot.set_access(new);
        }
    }
    /// A record on the lower tier was read. How often it was before.
    pub fn touch_below(&self, hash: u64) -> Count {
        let sketch = self.sketch.lock().clone();
        sketch.touch(hash)
    }
    /// About how often a record below DRAM was read.
    pub fn count_below(&self, hash: u64) -> Count {
        self.sketch.lock().count(hash)
    }
    /// A record of this count comes to the lower tier.
    pub fn enters_below(&self, hash: u64, count: Count) {
        self.sketch.lock().raise(hash, count);
    }
    pub fn count_accesses(&self, accesses: u64) {
        self.accesses.fetch_add(accesses, Relaxed);
    }
    /// Halves counts if it is time, and lets the sketch grow to as many counters as there are records below.
    pub fn age(&self, records_above: u64, records_below: u64) {
        let due = (records_above * ACCESSES_A_RECORD).max(1 << 10);
        let halve = self.accesses.load(Relaxed) >= due;
        let mut current = self.sketch.lock();
        if (current.bytes() as u64) * 2 < records_below {
            *current = Arc::new(current.doubled());
        }
        if halve {
            self.accesses.fetch_sub(due, Relaxed);
            self.epoch.fetch_add(1, Relaxed);
            current.halve(0, 1);
        }
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> u64 {
        self.sketch.lock().bytes() as u64
    }
}
