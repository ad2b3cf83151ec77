//! Lazy LRU as the paper has it, for the reproduction: whole counts of one byte, aged when touched only, capped at twice
//! THR_hot whatever that is.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::hand::Hand;
use super::lazy_lru::not_above;
use super::{Access, Count, Now, Policy, SlotId, Slots, Thresholds, Tier};

/// See the module.
#[derive(Debug)]
pub struct LazyLruPaper {
    tier: Tier,
    keep_above: AtomicU32,
    cap: AtomicU32,
}

impl LazyLruPaper {
    /// The policy of this tier. Until thresholds are known, whatever was ever touched twice is hot.
    pub fn new(tier: Tier) -> Self {
        let policy = Self { tier, keep_above: AtomicU32::new(0), cap: AtomicU32::new(0) };
        policy.set_thresholds(Thresholds { hot: Count::ONE, warm: Count::ONE });
        policy
    }
}

impl Policy for LazyLruPaper {
    const NAME: &'static str = "lazy-lru-paper";
    const LINK_BYTES: usize = 0;
    type Part = Hand;

    fn part(&self, _slots: usize) -> Hand {
        Hand::default()
    }
    #[inline]
    fn touched(&self, access: Access, now: Now) -> Access {
        let count = access.aged(now.tick).floor().in_sixteenths() + Count::ONE.in_sixteenths();
        Access::new(now.tick, Count::sixteenths(count.min(self.cap.load(Relaxed))))
    }
    fn count(&self, access: Access, _now: Now) -> Count {
        access.raw_count()
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
    fn victim(&self, part: &mut Hand, slots: &dyn Slots, _now: Now) -> Option<SlotId> {
        not_above(part, slots, Count::sixteenths(self.keep_above.load(Relaxed)), Access::raw_count)
    }
    fn passed(&self, part: &mut Hand) {
        part.passed();
    }
    fn set_thresholds(&self, thresholds: Thresholds) {
        let keep_above = if self.tier == Tier::Dram { thresholds.hot } else { thresholds.warm };
        self.keep_above.store(keep_above.in_sixteenths(), Relaxed);
        self.cap.store(thresholds.hot.doubled().floor().in_sixteenths(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u32) -> Now {
        Now { tick, ..Now::default() }
    }

    #[test]
    fn eq_1_in_whole_numbers() {
        let policy = LazyLruPaper::new(Tier::Dram);
        policy.set_thresholds(Thresholds { hot: Count::whole(10), warm: Count::ONE });
        let access = (0..5).fold(Access::default(), |access, _| policy.touched(access, at(3)));
        assert_eq!(policy.touched(access, at(4)).raw_count(), Count::whole(3));
        assert_eq!(
            policy.count(access, at(1000)),
            Count::whole(5),
            "what was hot stays so until it is touched"
        );
    }

    #[test]
    fn a_threshold_of_0_ends_promotion_for_good() {
        let policy = LazyLruPaper::new(Tier::Dram);
        policy.set_thresholds(Thresholds::default());
        let access = (0..500).fold(Access::default(), |access, _| policy.touched(access, at(0)));
        assert_eq!(access.raw_count(), Count::default());
    }
}
