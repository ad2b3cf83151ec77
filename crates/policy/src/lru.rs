//! LRU, kept exactly as far as touches are told: the price is a list, and a move in it for every touch.

use super::links::{Links, List};
use super::{Access, Count, Now, Policy, SlotId, Slots};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

/// A list of slots, the one touched last on top.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    links: Links,
    list: List,
}

/// Slots that a search for one that may leave looks at.
const LOOKS_MAX: usize = 256;

impl Recency {
    pub(super) fn with_capacity(slots: usize) -> Self {
        Self { links: Links::with_capacity(slots), list: List::default() }
    }
    pub(super) fn push(&mut self, slot: SlotId) {
        self.links.push_top(&mut self.list, slot);
    }
    pub(super) fn remove(&mut self, slot: SlotId) {
        self.links.unlink(&mut self.list, slot);
    }
    pub(super) fn touch(&mut self, slot: SlotId) {
        self.links.lift(&mut self.list, slot);
    }
    pub(super) fn oldest(&self, slots: &dyn Slots) -> Option<SlotId> {
        std::iter::successors(self.list.bottom(), |&slot| self.links.above(slot))
            .take(LOOKS_MAX)
            .find(|&slot| slots.access(slot).is_some())
    }
}

impl Policy for Lru {
    const NAME: &'static str = "lru";
    const LINK_BYTES: usize = 8;
    const ACCESSED_EVERY: u32 = 1;
    type Part = Recency;

    fn part(&self, slots: usize) -> Recency {
        Recency::with_capacity(slots)
    }
    #[inline]
    fn touched(&self, access: Access, now: Now) -> Access {
        access.counted(now.epoch)
    }
    fn count(&self, access: Access, now: Now) -> Count {
        access.halved(now.epoch)
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        Access::new(now.epoch, count)
    }
    fn inserted(&self, part: &mut Recency, slot: SlotId, _hash: u32) {
        part.push(slot);
    }
    fn removed(&self, part: &mut Recency, slot: SlotId, _hash: u32, _evicted: bool) {
        part.remove(slot);
    }
    fn accessed(&self, part: &mut Recency, slot: SlotId) {
        part.touch(slot);
    }
    fn victim(&self, part: &mut Recency, slots: &dyn Slots, _now: Now) -> Option<SlotId> {
        part.oldest(slots)
    }
}
