//! CLOCK over slots: the hand clears the flag of what was touched since its last turn and takes the coldest of the next few
//! that were not.
//!
//! Counts are halved once an epoch. The hand looks at a window of untouched slots instead of taking the first, because it
//! is the victim's count that a record from below has to beat: a warm victim would keep hotter ones out.

use super::hand::Hand;
use super::{Access, Count, Now, Policy, SlotId, Slots};

/// Untouched slots among which the coldest is chosen.
const WINDOW: u32 = 8;
/// Slots that one search looks at.
const LOOKS_MAX: u32 = 256;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Policy for Clock {
    const NAME: &'static str = "clock";
    const LINK_BYTES: usize = 0;
    type Part = Hand;

    fn part(&self, _slots: usize) -> Hand {
        Hand::default()
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
    fn inserted(&self, part: &mut Hand, slot: SlotId, _hash: u32) {
        part.inserted(slot);
    }
    fn removed(&self, part: &mut Hand, slot: SlotId, _hash: u32, _evicted: bool) {
        part.removed(slot);
    }
    fn victim(&self, part: &mut Hand, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        if let Some(slot) = part.candidate(slots, |access| access.seen() == 0) {
            return Some(slot);
        }
        let (mut steps, mut untouched) = (LOOKS_MAX, 0);
        // Untouched before touched, cold before warm.
        let mut best: Option<(bool, Count, SlotId)> = None;
        while untouched < WINDOW
            && let Some((slot, access)) = part.next(slots, &mut steps)
        {
            let touched = access.seen() > 0;
            if touched {
                slots.set_access(slot, access.with_seen(0));
            } else {
                untouched += 1;
            }
            let this = (touched, self.count(access, now), slot);
            if best.is_none_or(|best| (this.0, this.1) < (best.0, best.1)) {
                best = Some(this);
            }
        }
        part.found(best.map(|(_, _, slot)| slot))
    }
    fn passed(&self, part: &mut Hand) {
        part.passed();
    }
}
