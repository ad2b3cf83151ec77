//! A hand that goes round over a partition's slots in the order in which they lie.
//!
//! A list that is only changed at its bottom, by "evict" and "move atop", *is* this: to move a record atop, the hand passes
//! it by, and the slot of an evicted record is filled again just behind the hand. So it costs no links.

use super::{Access, SlotId, Slots};

/// The hand of a partition.
#[derive(Clone, Debug, Default)]
pub struct Hand {
    at: SlotId,
    /// One more than the highest slot ever inserted.
    slots: SlotId,
    /// What the last search found, unless it was passed or removed.
    candidate: Option<SlotId>,
}

impl Hand {
    pub(super) fn inserted(&mut self, slot: SlotId) {
        self.slots = self.slots.max(slot + 1);
    }
    pub(super) fn removed(&mut self, slot: SlotId) {
        if self.candidate == Some(slot) {
            self.candidate = None;
        }
    }
    pub(super) fn passed(&mut self) {
        self.candidate = None;
    }
    /// The found slot, if its word still pleases.
    pub(super) fn candidate(&self, slots: &dyn Slots, pleases: impl Fn(Access) -> bool) -> Option<SlotId> {
        self.candidate.filter(|&slot| slots.access(slot).is_some_and(pleases))
    }
    /// Remembers what a search found.
    pub(super) fn found(&mut self, slot: Option<SlotId>) -> Option<SlotId> {
        self.candidate = slot;
        slot
    }
    /// The next occupied slot, within one turn at most `steps` further on; steps are used up.
    pub(super) fn next(&mut self, slots: &dyn Slots, steps: &mut u32) -> Option<(SlotId, Access)> {
        *steps = (*steps).min(self.slots);
        while *steps > 0 {
            *steps -= 1;
            let slot = self.at;
            self.at = if slot + 1 >= self.slots { 0 } else { slot + 1 };
            if let Some(access) = slots.access(slot) {
                return Some((slot, access));
            }
        }
        None
    }
}
