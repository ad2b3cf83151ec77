//! Lazy LRU (paper, 4.3), corrected: fractions are kept, a count ages when it is looked at as well as when it is touched,
//! and the cap never falls below four reads.
//!
//! What is above the tier's threshold is moved atop, the rest is ready for eviction; "atop" is where the hand comes last.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::hand::Hand;
use super::{Access, Count, Now, Policy, SlotId, Slots, Thresholds, Tier};

/// Slots that one search looks at; if all are above the threshold, the coldest of them leaves.
pub(super) const LOOKS_MAX: u32 = 256;

/// See the module.
#[derive(Debug)]
pub struct LazyLru {
    tier: Tier,
    keep_above: AtomicU32,
    cap: AtomicU32,
}

impl LazyLru {
    /// The policy of this tier. Until thresholds are known, whatever was ever touched twice is hot.
    pub fn new(tier: Tier) -> Self {
        let policy = Self { tier, keep_above: AtomicU32::new(0), cap: AtomicU32::new(0) };
        policy.set_thresholds(Thresholds { hot: Count::ONE, warm: Count::ONE });
        policy
    }
}

/// The first slot whose count is not above the limit, else the coldest of those that were looked at.
pub(super) fn not_above(
    hand: &mut Hand,
    slots: &dyn Slots,
    limit: Count,
    count: impl Fn(Access) -> Count,
) -> Option<SlotId> {
    if let Some(slot) = hand.candidate(slots, |access| count(access) <= limit) {
        return Some(slot);
    }
    let mut steps = LOOKS_MAX;
    let mut best: Option<(Count, SlotId)> = None;
    while let Some((slot, access)) = hand.next(slots, &mut steps) {
        let count = count(access);
        if best.is_none_or(|(coldest, _)| count < coldest) {
            best = Some((count, slot));
        }
        if count <= limit {
            break;
        }
    }
    hand.found(best.map(|(_, slot)| slot))
}

impl Policy for LazyLru {
    const NAME: &'static str = "lazy-lru";
    const LINK_BYTES: usize = 0;
    type Part = Hand;

    fn part(&self, _slots: usize) -> Hand {
        Hand::default()
    }
    #[inline]
    fn touched(&self, access: Access, now: Now) -> Access {
        let count = access.aged(now.tick).in_sixteenths() + Count::ONE.in_sixteenths();
        Access::new(now.tick, Count::sixteenths(count.min(self.cap.load(Relaxed))))
    }
    fn count(&self, access: Access, now: Now) -> Count {
        access.aged(now.tick)
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        Access::new(now.tick, count)
    }
    fn inserted(&self, part: &mut Hand, slot: SlotId, _hash: u32) {
        part.inserted(slot);
    }
    fn removed(&self, part: &mut Hand, slot: SlotId, _hash: u32, _evicted: bool) {
        part.removed(slot);
    }
    fn victim(&self, part: &mut Hand, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        let limit = Count::sixteenths(self.keep_above.load(Relaxed));
        not_above(part, slots, limit, |access| access.aged(now.tick))
    }
    fn passed(&self, part: &mut Hand) {
        part.passed();
    }
    fn set_thresholds(&self, thresholds: Thresholds) {
        let keep_above = if self.tier == Tier::Dram { thresholds.hot } else { thresholds.warm };
        self.keep_above.store(keep_above.in_sixteenths(), Relaxed);
        self.cap.store(thresholds.hot.doubled().max(Count::whole(4)).in_sixteenths(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u32) -> Now {
        Now { tick, ..Now::default() }
    }

    #[test]
    fn eq_1() {
        let policy = LazyLru::new(Tier::Dram);
        policy.set_thresholds(Thresholds { hot: Count::whole(10), warm: Count::ONE });
        let mut access = Access::default();
        for _ in 0..5 {
            access = policy.touched(access, at(3));
        }
        assert_eq!(policy.count(access, at(3)), Count::whole(5));
        // 5 / (1 + 1) + 1 = 3.5: the fraction is kept.
        assert_eq!(policy.count(policy.touched(access, at(4)), at(4)), Count::sixteenths(56));
        // Nobody touches it: it cools nevertheless.
        assert_eq!(policy.count(access, at(7)), Count::ONE);
    }

    #[test]
    fn the_cap_is_twice_hot_and_never_ends_promotion() {
        let policy = LazyLru::new(Tier::Dram);
        let hottest = |hot| {
            policy.set_thresholds(Thresholds { hot, warm: Count::default() });
            (0..500).fold(Access::default(), |access, _| policy.touched(access, at(0))).raw_count()
        };
        assert_eq!(hottest(Count::whole(10)), Count::whole(20));
        assert_eq!(hottest(Count::default()), Count::whole(4));
        assert_eq!(hottest(Count::whole(200)), Count::MAX);
    }
}
