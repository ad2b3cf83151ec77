//! A warm start: what was in DRAM at a clean stop comes up again, hottest first, as copies of its homes.
//!
//! ```text
//! word of the hot list   address of the home:48 | count in sixteenths:16
//! ```
//!
//! # Invariants
//! * The list is a hint: a record goes up only if the index still refers to exactly that place for the key that lies there.
//!   No page is freed or written meanwhile, for that is background work, too.
//! * It takes slots that are free anyway. A record that finds none of its length stays below; after many in a row it is over.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, State, checked};
use terrace_engine::Progress;
use terrace_engine::record::{Kind, NewRecord};
use terrace_engine::space::Context;
use terrace_index::{Address, AnyIndex, Index, Key};

use crate::location::Location;
use crate::space::SlabSpace;
use terrace_policy::Count;

/// Records that are read in one step, at most: whoever waits for another step waits for these reads.
const READS_A_STEP: usize = 16;
/// After so many records in a row that found no slot DRAM counts as full.
const REFUSED_MAX: usize = 64;
const ADDRESS: u64 = (1 << Address::BITS) - 1;

/// What is still to come up, the hottest last.
#[derive(Default)]
pub(crate) struct Warming {
    list: Vec<u64>,
    /// Records in a row that found no slot.
    refused: usize,
    bytes: Vec<u8>,
}

impl Warming {
    /// Begins with a list, hottest first.
    pub fn begin(&mut self, mut list: Vec<u64>) {
        list.reverse();
        (self.list, self.refused) = (list, 0);
    }
}

impl<L: Lower> SlabSpace<L> {
    /// The homes of what is in DRAM, hottest first, at most so many.
    pub(crate) fn hot_list(&self, most: usize) -> Vec<u64> {
        let now = self.temperature.now();
        let mut list = Vec::new();
        for slab in 0..self.slabs.count() as u32 {
            let Some(class) = self.slabs.class_of(slab) else { continue };
            for number in 0..self.slabs.used_slots(slab) {
                let slot = self.slabs.slot(self.slabs.offset(slab, class, number));
                if let Some(home) = slot.home() {
                    let count = self.policy.count(slot.access(), now).in_sixteenths();
                    list.push(home.raw() | u64::from(count.min(u32::from(u16::MAX))) << Address::BITS);
                }
            }
        }
        // Of equal counts those together that lie together.
        list.sort_unstable_by_key(|hot| (std::cmp::Reverse(hot >> Address::BITS), hot & ADDRESS));
        list.truncate(most);
        list
    }

    /// One step: a few records come up.
    pub(crate) fn warm_step(
        &self,
        warming: &mut Warming,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        if warming.list.is_empty() {
            return Progress::Idle;
        }
        for _ in 0..READS_A_STEP {
            let Some(hot) = warming.list.pop() else { break };
            let fits = self.warm(hot, &mut warming.bytes, index, context);
            warming.refused = if fits { 0 } else { warming.refused + 1 };
            if warming.refused == REFUSED_MAX {
                warming.list = Vec::new();
            }
        }
        Progress::Worked
    }

    /// Lets a record come up, if it is still there. `false`: there is no room for it.
    fn warm(&self, hot: u64, bytes: &mut Vec<u8>, index: &AnyIndex, context: &dyn Context) -> bool {
        if self.dram_is_in_middle() {
            // It would be in DRAM without its slot of the middle tier.
            return true;
        }
        let Some(from) = Address::from_raw(hot & ADDRESS) else { return true };
        let Location::Page(place, first) = self.locations.location(from) else { return true };
        let Some(page) = self.blocks.slots.get(place.slot as usize) else { return true };
        let rest = self.blocks.block_bytes.saturating_sub(place.offset as usize);
        bytes.resize(first.unwrap_or(rest).min(rest), 0);
        let at = self.blocks.block_offset(place.slot) + u64::from(place.offset);
        if page.state() != State::Sealed || self.blocks.lower.read(at, bytes).is_err() {
            return true;
        }
        let Some(view) = checked(page.seq.load(Acquire), place.slot, place.offset, bytes) else {
            return true;
        };
        let (kind, db) = (view.head.meta.kind(), view.head.meta.db());
        if !matches!(kind, Kind::Value | Kind::Extent) || view.head.version <= context.flush_version(db) {
            return true;
        }
        let record = NewRecord {
            version: view.head.version,
            kind,
            db,
            flags: view.head.flags,
            state: view.head.meta.state_and_alone(),
            expire_at: view.head.expire_at,
            token: view.head.token,
            key: view.key,
            value: view.value,
        };
        let key = Key { bytes: view.key, ..context.hasher().key(db, view.key) };
        let Some(class) = self.slabs.classes.of(record.words()).filter(|_| index.contains(&key, from)) else {
            return true;
        };
        let Some(offset) = self.slabs.take(class, 0) else { return false };
        let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
        let slot = self.slabs.slot(offset);
        slot.record().write(&record);
        slab.live.fetch_add(1, Relaxed);
        let count = Count::sixteenths((hot >> Address::BITS) as u32);
        // Live before the index knows it: whoever finds it there may write over it at once.
        slot.publish(Some(from), 0, self.policy.entering(count, self.temperature.now()));
        // After it can be found: whoever takes what is here walks the slab then.
        if record.expire_at != 0 {
            slab.min_expire.fetch_min(record.expire_at, Release);
        }
        if self.lift(index, &key, from, self.locations.dram(offset)) {
            self.details.warmed.fetch_add(1, Relaxed);
            self.policy.note_filled(offset);
        } else {
            // Its home is not its own: the index refers to something else by now, which has let that go.
            self.clear_slot(offset);
        }
        true
    }
}
