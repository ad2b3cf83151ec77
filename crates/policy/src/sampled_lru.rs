//! Sampled LRU (H-Store's way, with which the paper compares): LRU that hears of every n-th touch only.

use super::lru::{Lru, Recency};
use super::{Access, Count, Now, Policy, SlotId, Slots};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledLru;

impl Policy for SampledLru {
    const NAME: &'static str = "sampled-lru";
    const LINK_BYTES: usize = 8;
    /// The paper names no n; 100 is what H-Store's authors call cheap enough.
    const ACCESSED_EVERY: u32 = 100;
    type Part = Recency;

    fn part(&self, slots: usize) -> Recency {
        Lru.part(slots)
    }
    #[inline]
    fn touched(&self, access: Access, now: Now) -> Access {
        Lru.touched(access, now)
    }
    fn count(&self, access: Access, now: Now) -> Count {
        Lru.count(access, now)
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        Lru.entering(count, now)
    }
    fn inserted(&self, part: &mut Recency, slot: SlotId, hash: u32) {
        Lru.inserted(part, slot, hash);
    }
    fn removed(&self, part: &mut Recency, slot: SlotId, hash: u32, evicted: bool) {
        Lru.removed(part, slot, hash, evicted);
    }
    fn accessed(&self, part: &mut Recency, slot: SlotId) {
        Lru.accessed(part, slot);
    }
    fn victim(&self, part: &mut Recency, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        Lru.victim(part, slots, now)
    }
}
