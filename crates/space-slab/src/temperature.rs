//! How often records are read: words in slots, a sketch for what is on the lower tier, or a table of words, and the clocks that
//! age all that.
//!
//! All clocks step by accesses, so that what a policy does is the same however fast the machine is.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::chosen::Chosen;
use crate::slot::Slot;
use crate::sync::{AtomicU32, AtomicU64, Mutex};
use terrace_policy::{Access, Clock, Count, Now, Policy, Sketch, Table};

/// Counts are halved every so many accesses for each record that fits DRAM (`docs/tac.md`, section 4).
const ACCESSES_A_RECORD: u64 = 25;
/// Ticks of Eq. 1's clock in as many accesses as there are records, and steps of the finer one.
const TICKS: u64 = 4;
const FINE_STEPS: u64 = 4096;
/// Counters that a sketch begins with, and words that a table does.
const SKETCH_COUNTERS: usize = 1 << 16;
const TABLE_ENTRIES: usize = 1 << 12;
/// Tells counts of large values from those of the records that describe them.
const OF_LARGE: u64 = 0x5DEE_CE66_D1CE_4E5B;
/// "No record has to go": whoever comes may enter.
pub(crate) const NO_RIVAL: u32 = u32::MAX;

/// See the module.
pub(crate) struct Temperature {
    epoch: AtomicU32,
    tick: AtomicU32,
    fine: AtomicU32,
    accesses: AtomicU64,
    /// Accesses up to which the clocks have stepped.
    stepped: Mutex<Stepped>,
    sketch: Mutex<Arc<Sketch>>,
    /// Of policies whose counts 4 bits don't hold: words instead of the sketch.
    table: Option<Mutex<Arc<Table>>>,
    /// The count, in sixteenths, of each class's next victim.
    pub rivals: Box<[AtomicU32]>,
    /// How many records its rival kept out, of each class, since background steps looked last.
    pub kept_out: Box<[AtomicU32]>,
}

/// See [`Temperature::stepped`].
#[derive(Default)]
struct Stepped {
    epoch: u64,
    tick: u64,
    fine: u64,
}

/// Steps a clock that steps every so many accesses. Whether it did.
fn step(clock: &AtomicU32, at: &mut u64, accesses: u64, every: u64) -> bool {
    let steps = accesses.saturating_sub(*at) / every.max(1);
    *at += steps * every.max(1);
    clock.fetch_add(steps as u32, Relaxed);
    steps > 0
}

impl Temperature {
    pub fn new(classes: usize, keeps_words_below: bool) -> Self {
        Self {
            epoch: AtomicU32::new(0),
            tick: AtomicU32::new(0),
            fine: AtomicU32::new(0),
            accesses: AtomicU64::new(0),
            stepped: Mutex::default(),
            table: keeps_words_below.then(|| Mutex::new(Arc::new(Table::new(TABLE_ENTRIES)))),
            sketch: Mutex::new(Arc::new(Sketch::new(SKETCH_COUNTERS))),
            rivals: (0..classes).map(|_| AtomicU32::new(NO_RIVAL)).collect(),
            kept_out: (0..classes).map(|_| AtomicU32::new(0)).collect(),
        }
    }
    /// The time that policies see.
    #[inline]
    pub fn now(&self) -> Now {
        let [tick, epoch, fine] = [&self.tick, &self.epoch, &self.fine].map(|clock| clock.load(Relaxed));
        Now { tick, epoch, fine }
    }
    /// A slot's record was read or written, and the policy is CLOCK, which asks for the epoch alone.
    #[inline]
    pub fn touch(&self, slot: Slot<'_>) {
        let old = slot.access();
        let new = Clock.touched(old, Now { epoch: self.epoch.load(Relaxed), ..Now::default() });
        if old.is_worth_storing(new) {
            slot.set_access(new);
        }
    }
    /// The same under any policy.
    pub fn touch_under(&self, slot: Slot<'_>, chosen: &Chosen) {
        let old = slot.access();
        let new = chosen.touched(old, self.now());
        if old.is_worth_storing(new) {
            slot.set_access(new);
        }
    }
    /// A record below DRAM was read. How often it was, this read counted.
    pub fn touch_below(&self, hash: u64, chosen: &Chosen) -> Count {
        if let Some(table) = &self.table {
            let (table, now) = (table.lock().clone(), self.now());
            let access = chosen.touched(table.get(hash as u32), now).with_seen(0);
            table.set(hash as u32, access);
            return chosen.count(access, now);
        }
        let sketch = self.sketch.lock().clone();
        sketch.touch(hash)
    }
    /// About how often a record below DRAM was read.
    pub fn count_below(&self, hash: u64, chosen: &Chosen) -> Count {
        match &self.table {
            Some(table) => chosen.count(table.lock().get(hash as u32), self.now()),
            None => self.sketch.lock().count(hash),
        }
    }
    /// A large value was read. How often it was, this read counted: apart from reads of the record that describes it, which stop
    /// being counted here once that is in DRAM.
    pub fn touch_large(&self, hash: u64) -> Count {
        self.sketch.lock().touch(hash ^ OF_LARGE)
    }
    /// About how often a large value was read.
    pub fn count_large(&self, hash: u64) -> Count {
        self.sketch.lock().count(hash ^ OF_LARGE)
    }
    /// A record with this word leaves DRAM.
    pub fn leaves(&self, hash: u64, access: Access, chosen: &Chosen) {
        match &self.table {
            Some(table) => table.lock().set(hash as u32, access.with_seen(0)),
            None => self.sketch.lock().raise(hash, chosen.count(access, self.now())),
        }
    }
    /// A record below DRAM was read this often when its count was kept last.
    pub fn was_below(&self, hash: u64, count: Count, chosen: &Chosen) {
        match &self.table {
            Some(table) => table.lock().set(hash as u32, chosen.entering(count, self.now())),
            None => self.sketch.lock().raise(hash, count),
        }
    }
    /// A record is in DRAM from now on.
    pub fn enters(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.lock().remove(hash as u32);
        }
    }
    /// The words of records below DRAM, where they are kept.
    pub fn words_below(&self) -> Option<Arc<Table>> {
        self.table.as_ref().map(|table| table.lock().clone())
    }
    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses.load(Relaxed)
    }
    pub fn count_accesses(&self, accesses: u64) {
        self.accesses.fetch_add(accesses, Relaxed);
    }
    /// Steps the clocks, halves counts if it is time, and lets sketch and table grow to what there is below.
    pub fn age(&self, records_above: u64, records_below: u64) {
        let (accesses, records) = (self.accesses(), records_above + records_below);
        let mut stepped = self.stepped.lock();
        step(&self.tick, &mut stepped.tick, accesses, records / TICKS);
        step(&self.fine, &mut stepped.fine, accesses, records / FINE_STEPS);
        let due = (records_above * ACCESSES_A_RECORD).max(1 << 10);
        // Once a call: what comes at once counts as one period.
        let halve = accesses.saturating_sub(stepped.epoch) >= due;
        let mut current = self.sketch.lock();
        if (current.bytes() as u64) * 2 < records_below {
            *current = Arc::new(current.doubled());
        }
        if halve {
            stepped.epoch += due;
            self.epoch.fetch_add(1, Relaxed);
            current.halve(0, 1);
        }
        drop(current);
        if let Some(table) = &self.table {
            let mut table = table.lock();
            if table.is_full() {
                *table = Arc::new(table.doubled());
            }
        }
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> u64 {
        let table = self.table.as_ref().map_or(0, |table| table.lock().bytes());
        (self.sketch.lock().bytes() + table) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_step_by_accesses() {
        let temperature = Temperature::new(1, false);
        let now_after = |accesses| {
            temperature.count_accesses(accesses);
            temperature.age(1000, 7192);
            let Now { tick, epoch, fine } = temperature.now();
            [tick, epoch, fine]
        };
        assert_eq!(now_after(2047), [0, 0, 1023]);
        assert_eq!(now_after(1), [1, 0, 1024], "four ticks and 4096 steps in 8192 accesses");
        assert_eq!(now_after(22_952), [12, 1, 12_500], "counts are halved after 25 for each record in DRAM");
    }

    #[test]
    fn words_below_go_with_the_record() {
        let temperature = Temperature::new(1, true);
        let chosen = Chosen::new("lazy-lru".parse().unwrap());
        assert_eq!(temperature.touch_below(7, &chosen), Count::ONE);
        assert_eq!(temperature.touch_below(7, &chosen), Count::whole(2));
        temperature.count_accesses(500);
        temperature.age(100, 900);
        // Two ticks later: divided by three, in sixteenths.
        assert_eq!(temperature.count_below(7, &chosen), Count::sixteenths(10));
        temperature.enters(7);
        assert_eq!(temperature.count_below(7, &chosen), Count::default());
        temperature.leaves(7, Access::new(2, Count::whole(3)).with_seen(1), &chosen);
        assert_eq!(temperature.count_below(7, &chosen), Count::whole(3));
        assert!(temperature.bytes() > Temperature::new(1, false).bytes());
    }
}
