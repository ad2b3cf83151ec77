//! A simulated tier: slots with access words, a policy, and no bytes.

use std::cell::Cell;

use terrace_policy::{Access, Count, Now, SlotId, Slots};

use super::policy::AnyPolicy;

const NOBODY: u32 = u32::MAX;

/// A hash of the record's key, as far as a simulation has keys.
pub(super) fn hash(record: u32) -> u64 {
    crate::rng::mix(u64::from(record) + 1)
}

struct Words(Vec<Cell<(u32, Access)>>);

impl Slots for Words {
    fn access(&self, slot: SlotId) -> Option<Access> {
        let (record, access) = self.0[slot as usize].get();
        (record != NOBODY).then_some(access)
    }
    fn set_access(&self, slot: SlotId, access: Access) {
        let cell = &self.0[slot as usize];
        cell.set((cell.get().0, access));
    }
}

/// One tier under one policy, in one partition.
pub(super) struct Tier {
    pub(super) policy: Box<dyn AnyPolicy>,
    words: Words,
    free: Vec<SlotId>,
    touches: u32,
    stores_all: bool,
}

impl Tier {
    pub(super) fn new(policy: Box<dyn AnyPolicy>, slots: u32, stores_all: bool) -> Self {
        Self {
            policy,
            words: Words(vec![Cell::new((NOBODY, Access::default())); slots as usize]),
            free: (0..slots).rev().collect(),
            touches: 0,
            stores_all,
        }
    }
    pub(super) fn slots(&self) -> u32 {
        self.words.0.len() as u32
    }
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }
    /// Deals free slots out in another order.
    pub(super) fn shuffle_free(&mut self, seed: u64) {
        self.free.sort_unstable_by_key(|&slot| crate::rng::mix(hash(slot) ^ seed));
    }
    pub(super) fn touch(&mut self, slot: SlotId, now: Now) {
        let cell = &self.words.0[slot as usize];
        let (record, old) = cell.get();
        let new = self.policy.touched(old, now);
        if self.stores_all || old.is_worth_storing(new) {
            cell.set((record, new));
        }
        let every = self.policy.accessed_every();
        if every > 0 {
            self.touches += 1;
            if self.touches == every {
                self.touches = 0;
                self.policy.accessed(slot);
            }
        }
    }
    pub(super) fn record(&self, slot: SlotId) -> u32 {
        self.words.0[slot as usize].get().0
    }
    pub(super) fn access(&self, slot: SlotId) -> Access {
        self.words.0[slot as usize].get().1
    }
    /// A slot's record has another count from now on; whether it was touched stays.
    pub(super) fn renew(&mut self, slot: SlotId, access: Access) {
        let cell = &self.words.0[slot as usize];
        let (record, old) = cell.get();
        cell.set((record, access.with_seen(old.seen())));
    }
    pub(super) fn count(&self, slot: SlotId, now: Now) -> Count {
        self.policy.count(self.access(slot), now)
    }
    /// Who would go next; `None` while there is room.
    pub(super) fn rival(&mut self, now: Now) -> Option<SlotId> {
        if self.has_room() { None } else { self.policy.victim(&self.words, now) }
    }
    pub(super) fn passed(&mut self) {
        self.policy.passed();
    }
    /// Puts a record into a free slot; `None` if there is none.
    pub(super) fn insert(&mut self, record: u32, access: Access) -> Option<SlotId> {
        let slot = self.free.pop()?;
        self.words.0[slot as usize].set((record, access));
        self.policy.inserted(slot, hash(record) as u32);
        Some(slot)
    }
    pub(super) fn remove(&mut self, slot: SlotId, evicted: bool) {
        let record = self.words.0[slot as usize].replace((NOBODY, Access::default())).0;
        self.policy.removed(slot, hash(record) as u32, evicted);
        self.free.push(slot);
    }
}
