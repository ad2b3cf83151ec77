//! The table of the slabs: which slots are taken, and by records of which length.
//!
//! # Thread safety
//! Slots are taken and given back by background steps, under the lock of `Alloc`, and filled by who took them. Anybody reads the
//! table: a slab keeps its class as long as one of its slots is taken, and a slot that the index led to stays taken until an
//! epoch has passed.
//!
//! # Invariants
//! * A slot that is not taken is free on the medium, durably.
//! * A slab without a taken slot may change class; on the medium it has the class of the table until then.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{FooterEntry, Table};
use terrace_engine::record::{Kind, NewRecord};

use super::bits::Bits;
use super::homes::Homes;
use super::layout::{
    GRANULE, Granules, LINE_BYTES, SLAB_HEADER_BYTES, SLOT_HEAD_BYTES, SlabHeader, SlotPlace, StoredSlot,
    slots_in,
};
use super::medium::{Filling, Medium};
use crate::sync::{AtomicU32, AtomicU64, Mutex};

/// No class.
pub const NONE: u32 = u32::MAX;

/// What is known of a slab.
pub struct PmemSlab {
    /// Which use of it this is.
    pub seq: AtomicU64,
    pub(crate) class: AtomicU32,
    pub(crate) taken: Bits,
    /// Slots that were read since eviction looked at them last.
    pub seen: Bits,
    /// Slots whose record is on its way to a page, and taken slots that are not filled yet.
    pub staged: Bits,
    /// Taken slots that nothing refers to any more.
    pub gone: Bits,
    /// Taken slots that are the home of a record in DRAM: kept for a placement that asks, else there is no bit. A hint: one may be
    /// missing, or left over.
    pub lent: Option<Bits>,
    /// Where records of slots lie below, too.
    pub(crate) homes: Homes,
    /// Taken slots.
    pub(crate) used: AtomicU32,
    /// Slots that the index, or a slot in DRAM, refers to.
    pub live: AtomicU32,
    /// No record expires before this time.
    pub min_expire: AtomicU64,
    /// Whole-database flushes up to this version were applied.
    pub purged: AtomicU64,
}

/// Which slots may be taken.
#[derive(Default)]
pub(crate) struct Alloc {
    /// Slabs without a taken slot.
    pub free: Vec<u32>,
    /// By class: slabs with a taken slot, and one that is free, perhaps.
    pub open: Vec<Vec<u32>>,
    /// By class: all slabs that are not free.
    pub of_class: Vec<Vec<u32>>,
    /// By class: taken slots.
    pub used: Vec<usize>,
    /// A slab of which no slot is taken any more, so that it will be free.
    pub draining: Option<u32>,
    /// No slot of this slab and those behind it is taken any more: the tier is to end here.
    pub end: u32,
    /// The newest use of a slab.
    pub seq: u64,
}

/// The slabs.
pub struct PmemSlabs {
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) granules: Granules,
    /// The length of a slab, header and all.
    pub slab_bytes: usize,
    pub(crate) store_id: u64,
    /// What is known of each slab.
    pub table: Table<PmemSlab>,
    /// Whether slabs have bits for homes.
    pub(crate) lends: bool,
    pub(crate) alloc: Mutex<Alloc>,
    /// How often a slab was given to a class.
    pub formatted: AtomicU64,
    /// Bytes of DRAM for homes.
    pub(crate) homes_bytes: AtomicU64,
    /// Of an opening: slots that were found and that nobody has adopted yet, a bit each, by slab.
    pub(crate) unadopted: Mutex<Vec<Vec<u64>>>,
    /// Slabs whose slots it looked at.
    pub scanned: AtomicU64,
}

/// Slots that are filled together.
#[derive(Default)]
pub struct Fills {
    slots: Vec<Filling>,
    bytes: Vec<u8>,
}

impl Fills {
    /// None are.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.bytes.clear();
    }
}

impl PmemSlab {
    /// One that holds nothing.
    pub(crate) fn new(slab_bytes: usize, lends: bool) -> Self {
        let slots = slots_in(slab_bytes, 1);
        Self {
            seq: AtomicU64::new(0),
            class: AtomicU32::new(NONE),
            taken: Bits::new(slots),
            seen: Bits::new(slots),
            staged: Bits::new(slots),
            gone: Bits::new(slots),
            lent: lends.then(|| Bits::new(slots)),
            homes: Homes::default(),
            used: AtomicU32::new(0),
            live: AtomicU32::new(0),
            min_expire: AtomicU64::new(u64::MAX),
            purged: AtomicU64::new(0),
        }
    }
    /// It is new again.
    pub(crate) fn forget(&self) {
        self.class.store(NONE, Release);
        self.min_expire.store(u64::MAX, Relaxed);
        self.purged.store(0, Relaxed);
    }
    /// It is of this class from now on.
    pub(crate) fn begin(&self, class: usize, seq: u64) {
        self.seq.store(seq, Release);
        self.class.store(class as u32, Release);
    }
}

impl PmemSlabs {
    /// Slabs of `slab_bytes` on a medium, for records of up to `longest` bytes. What is there is found by a scan, or made
    /// by [`make`](Self::make).
    /// `lends`: whether it is kept which slots are homes of records in DRAM.
    pub fn new(
        medium: Box<dyn Medium>,
        slab_bytes: usize,
        longest: usize,
        store_id: u64,
        lends: bool,
    ) -> Self {
        debug_assert!(slab_bytes.is_multiple_of(GRANULE), "slabs are whole granules");
        let granules = Granules::new(slab_bytes, longest);
        let count = (medium.size_bytes() / slab_bytes as u64) as usize;
        let table = Table::with(count, &|| PmemSlab::new(slab_bytes, lends));
        let classes = granules.count();
        let alloc = Alloc {
            free: (0..count as u32).rev().collect(),
            end: count as u32,
            open: vec![Vec::new(); classes],
            of_class: vec![Vec::new(); classes],
            used: vec![0; classes],
            ..Alloc::default()
        };
        let (alloc, unadopted) = (Mutex::new(alloc), Mutex::new(Vec::new()));
        let (formatted, homes_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            medium,
            granules,
            slab_bytes,
            store_id,
            table,
            lends,
            alloc,
            formatted,
            homes_bytes,
            unadopted,
            scanned: AtomicU64::new(0),
        }
    }

    /// Makes the slabs of a new store known on the medium; durable when it returns.
    pub fn make(&self) {
        for slab in 0..self.table.len() as u32 {
            let header = SlabHeader { store_id: self.store_id, seq: 0, slab, granules: 0 };
            self.medium.blank(&header, self.slab_bytes);
        }
        self.medium.fence();
    }

    /// The slab that a slot lies in.
    #[inline]
    pub fn slab_of(&self, at: u64) -> u32 {
        (at / self.slab_bytes as u64) as u32
    }
    /// A slot's place in its slab's use.
    #[inline]
    pub(crate) fn place(&self, at: u64) -> SlotPlace {
        let slab = self.slab_of(at);
        let seq = self.table[slab as usize].seq.load(Acquire);
        SlotPlace { seq, slab, offset: (at % self.slab_bytes as u64) as u32 }
    }
    /// The class of a slab, if it has one.
    #[inline]
    pub fn class_of(&self, slab: u32) -> Option<usize> {
        let class = self.table.get(slab as usize)?.class.load(Acquire);
        (class != NONE).then_some(class as usize)
    }
    /// Bytes of a class's slot.
    #[inline]
    pub fn slot_bytes(&self, class: usize) -> usize {
        usize::from(self.granules.of_slot(class)) * GRANULE
    }
    /// Slots that a slab of this class holds.
    pub fn slots_in(&self, class: usize) -> usize {
        slots_in(self.slab_bytes, self.granules.of_slot(class))
    }
    /// Where a slab's slot starts.
    #[inline]
    pub fn at(&self, slab: u32, class: usize, slot: usize) -> u64 {
        u64::from(slab) * self.slab_bytes as u64 + (SLAB_HEADER_BYTES + slot * self.slot_bytes(class)) as u64
    }
    /// Which slot of its slab starts there; `None` if none does.
    pub fn number(&self, at: u64) -> Option<(u32, usize)> {
        let slab = self.slab_of(at);
        let bytes = self.slot_bytes(self.class_of(slab)?);
        let offset = ((at % self.slab_bytes as u64) as usize).checked_sub(SLAB_HEADER_BYTES)?;
        (offset.is_multiple_of(bytes)).then_some((slab, offset / bytes))
    }
    /// Whether a slab's slot is taken.
    #[inline]
    pub fn is_taken(&self, slab: u32, slot: usize) -> bool {
        self.table[slab as usize].taken.is_set(slot)
    }
    /// The class for a record of so many words; `None` if it is too long for any.
    pub fn class_for(&self, words: usize) -> Option<usize> {
        self.granules.class(words)
    }
    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.granules.count()
    }
    /// Whether a record of so many words fits a taken slot.
    pub fn holds(&self, at: u64, words: usize) -> bool {
        let class = self.class_of(self.slab_of(at));
        class.is_some_and(|class| words * 8 + SLOT_HEAD_BYTES <= self.slot_bytes(class))
    }
    /// Whether a slab's slot holds a record that something refers to and that is not on its way already.
    #[inline]
    pub fn may_leave(&self, slab: u32, slot: usize) -> bool {
        let entry = &self.table[slab as usize];
        entry.taken.is_set(slot) && !entry.staged.is_set(slot) && !entry.gone.is_set(slot)
    }
    /// Taken slots of a slab.
    pub fn used(&self, slab: u32) -> u32 {
        self.table[slab as usize].used.load(Relaxed)
    }
    /// Shows where a slab's taken slots start, until `show` says no. For background steps.
    pub fn taken_of(&self, slab: u32, show: &mut dyn FnMut(u64) -> bool) {
        let Some(class) = self.class_of(slab) else { return };
        let taken = (0..self.slots_in(class)).filter(|&slot| self.is_taken(slab, slot));
        for slot in taken {
            if !show(self.at(slab, class, slot)) {
                return;
            }
        }
    }
    /// What the medium is, for people.
    pub fn describe(&self) -> String {
        self.medium.describe()
    }
    /// Accesses so far.
    pub fn counters(&self) -> terrace_media::CountersSnapshot {
        self.medium.counters()
    }
    /// Slabs without a record.
    pub fn free_slabs(&self) -> usize {
        self.alloc.lock().free.len()
    }
    /// The slabs of a class that hold a record.
    pub fn slabs_of(&self, class: usize) -> Vec<u32> {
        self.alloc.lock().of_class[class].clone()
    }
    /// How many slabs of a class hold a record.
    pub fn held(&self, class: usize) -> usize {
        self.alloc.lock().of_class[class].len()
    }
    /// Slots of a class that could be taken without another slab.
    pub fn free_slots(&self, class: usize) -> usize {
        let alloc = self.alloc.lock();
        let slots = self.slots_in(class);
        let is_shut = |slab: &&u32| **slab >= alloc.end || alloc.draining == Some(**slab);
        let free_of =
            |slab: &u32| slots.saturating_sub(self.table[*slab as usize].used.load(Relaxed) as usize);
        let shut: usize = alloc.of_class[class].iter().filter(is_shut).map(free_of).sum();
        (alloc.of_class[class].len() * slots).saturating_sub(alloc.used[class] + shut)
    }
    /// Taken slots of all classes, and their bytes.
    pub fn taken_slots(&self) -> (usize, u64) {
        let alloc = self.alloc.lock();
        let used = alloc.used.iter().enumerate();
        used.fold((0, 0), |(slots, bytes), (class, &used)| {
            (slots + used, bytes + used as u64 * self.slot_bytes(class) as u64)
        })
    }
    /// Slabs that hold a record.
    pub fn held_slabs(&self) -> usize {
        self.alloc.lock().of_class.iter().map(Vec::len).sum()
    }
    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        let entries = self.table.bytes() / std::mem::size_of::<PmemSlab>();
        let bits = self.table.get(0).map_or(0, |slab| slab.taken.bytes());
        (self.table.bytes() + entries * bits * (4 + usize::from(self.lends))) as u64 + self.homes_bytes()
    }

    /// A slot of this class; `None` if there is none. A slab is formatted for it if need be.
    pub fn take(&self, class: usize) -> Option<u64> {
        let mut alloc = self.alloc.lock();
        let slots = self.slots_in(class);
        loop {
            let Some(&slab) = alloc.open[class].last() else {
                self.begin(&mut alloc, class)?;
                continue;
            };
            let entry = &self.table[slab as usize];
            let Some(slot) = entry.taken.first_clear(slots) else {
                alloc.open[class].pop();
                continue;
            };
            for bits in [&entry.seen, &entry.gone] {
                bits.clear(slot);
            }
            // Before it counts as taken: nobody else may make anything of what stands in it.
            entry.staged.set(slot);
            entry.taken.set(slot);
            entry.used.fetch_add(1, Relaxed);
            alloc.used[class] += 1;
            return Some(self.at(slab, class, slot));
        }
    }

    /// Gives a free slab to a class.
    fn begin(&self, alloc: &mut Alloc, class: usize) -> Option<()> {
        // One that has been of this class before needs no formatting.
        let same = alloc.free.iter().rposition(|&slab| self.class_of(slab) == Some(class));
        let slab = match same {
            Some(i) => alloc.free.swap_remove(i),
            None => {
                let slab = alloc.free.pop()?;
                alloc.seq += 1;
                let granules = self.granules.of_slot(class);
                let header = SlabHeader { store_id: self.store_id, seq: alloc.seq, slab, granules };
                self.medium.format(&header, self.slab_bytes);
                self.formatted.fetch_add(1, Relaxed);
                self.table[slab as usize].begin(class, alloc.seq);
                slab
            }
        };
        let entry = &self.table[slab as usize];
        entry.min_expire.store(u64::MAX, Relaxed);
        entry.purged.store(0, Relaxed);
        alloc.open[class].push(slab);
        alloc.of_class[class].push(slab);
        Some(())
    }

    /// Adds a record to those that are filled together, in a slot taken for it. `temperature` goes with it.
    pub fn add(
        &self,
        fills: &mut Fills,
        at: u64,
        entry: &FooterEntry,
        temperature: u8,
        record: &NewRecord<'_>,
    ) {
        debug_assert!(record.kind != Kind::Poison, "what is damaged does not come here");
        let place = self.place(at);
        fills.slots.push(Filling { at, commit: place.commit(record.version), bytes: fills.bytes.len() });
        place.encode(entry, temperature, record, &mut fills.bytes);
        let slab = &self.table[place.slab as usize];
        if record.expire_at != 0 {
            slab.min_expire.fetch_min(record.expire_at, Release);
        }
    }

    /// Fills them: all are durable when it returns, and count as live.
    pub fn fill(&self, fills: &Fills) {
        self.medium.fill(&fills.slots, &fills.bytes);
        for slot in &fills.slots {
            self.table[self.slab_of(slot.at) as usize].live.fetch_add(1, Relaxed);
            self.set_staged(slot.at, false);
        }
    }

    /// Nothing refers to a slot any more, but somebody may still read it.
    pub fn let_go(&self, at: u64) {
        let Some((slab, slot)) = self.number(at) else { return };
        let entry = &self.table[slab as usize];
        entry.gone.set(slot);
        entry.live.fetch_sub(1, Release);
    }
    /// A taken slot is not filled after all.
    pub fn give_back(&self, at: u64) {
        self.give(&mut self.alloc.lock(), at);
    }
    /// No slot of this slab is taken any more; it is free once all have been cleared. One at a time: whether there is one
    /// that is being emptied is [`draining`](Self::draining).
    pub fn drain(&self, slab: u32) {
        let Some(class) = self.class_of(slab) else { return };
        let mut alloc = self.alloc.lock();
        alloc.open[class].retain(|&other| other != slab);
        alloc.draining = Some(slab);
    }
    /// The slab that is being emptied.
    pub fn draining(&self) -> Option<u32> {
        self.alloc.lock().draining
    }
    /// It can't be emptied.
    pub fn stop_draining(&self) {
        let mut alloc = self.alloc.lock();
        if let Some(slab) = alloc.draining.take()
            && slab < alloc.end
            && let Some(class) = self.class_of(slab)
        {
            alloc.open[class].push(slab);
        }
    }

    /// Slots that were let go, that nobody reads any more and whose successors are durable, may be taken again.
    pub fn clear(&self, slots: &[u64]) {
        self.medium.clear(slots);
        let mut alloc = self.alloc.lock();
        for &at in slots {
            self.give(&mut alloc, at);
        }
    }

    /// A slot that is free on the medium may be taken.
    pub(crate) fn give(&self, alloc: &mut Alloc, at: u64) {
        let Some((slab, slot)) = self.number(at) else { return };
        let Some(class) = self.class_of(slab) else { return };
        let entry = &self.table[slab as usize];
        entry.taken.clear(slot);
        alloc.used[class] -= 1;
        let (draining, beyond) = (alloc.draining == Some(slab), slab >= alloc.end);
        let open = &mut alloc.open[class];
        if entry.used.fetch_sub(1, Relaxed) == 1 {
            self.forget_homes(slab);
            open.retain(|&other| other != slab);
            alloc.of_class[class].retain(|&other| other != slab);
            if !beyond {
                alloc.free.push(slab);
            }
            alloc.draining = alloc.draining.filter(|_| !draining);
        } else if !draining && !beyond && !open.contains(&slab) {
            open.push(slab);
        }
    }

    /// A slot's record was read.
    #[inline]
    pub fn note_read(&self, at: u64) {
        if let Some((slab, slot)) = self.number(at) {
            self.table[slab as usize].seen.set(slot);
        }
    }
    /// A slot's record is on its way to a page, or is not any more.
    pub fn set_staged(&self, at: u64, staged: bool) {
        let Some((slab, slot)) = self.number(at) else { return };
        let bits = &self.table[slab as usize].staged;
        if staged {
            bits.set(slot)
        } else {
            bits.clear(slot)
        };
    }

    /// What stands in the place of a taken slot's head.
    pub fn head(&self, at: u64) -> StoredSlot {
        let mut line = [0; LINE_BYTES];
        self.medium.read(at, &mut line);
        self.place(at).decode(&line)
    }
}
