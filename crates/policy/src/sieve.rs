//! SIEVE (Zhang et al., NSDI 2024): a queue that is never reordered and a hand that moves from old to new, sparing what was
//! touched since it came by.

use super::links::{Links, List};
use super::{Access, Count, Now, Policy, SlotId, Slots};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sieve;

/// The queue, newest on top, and its hand.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    links: Links,
    list: List,
    hand: Option<SlotId>,
}

impl Policy for Sieve {
    const NAME: &'static str = "sieve";
    const LINK_BYTES: usize = 8;
    type Part = Queue;

    fn part(&self, slots: usize) -> Queue {
        Queue { links: Links::with_capacity(slots), ..Queue::default() }
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
    fn inserted(&self, part: &mut Queue, slot: SlotId, _hash: u32) {
        part.links.push_top(&mut part.list, slot);
    }
    fn removed(&self, part: &mut Queue, slot: SlotId, _hash: u32, _evicted: bool) {
        if part.hand == Some(slot) {
            part.hand = part.links.above(slot);
        }
        part.links.unlink(&mut part.list, slot);
    }
    fn victim(&self, part: &mut Queue, slots: &dyn Slots, _now: Now) -> Option<SlotId> {
        let mut slot = part.hand.or(part.list.bottom())?;
        // One turn clears what it passes, so the second finds.
        for _ in 0..=2 * part.list.len {
            match slots.access(slot) {
                Some(access) if access.seen() == 0 => {
                    part.hand = Some(slot);
                    return part.hand;
                }
                Some(access) => slots.set_access(slot, access.with_seen(0)),
                None => {}
            }
            slot = part.links.above(slot).or(part.list.bottom())?;
        }
        None
    }
    fn passed(&self, part: &mut Queue) {
        part.hand = part.hand.and_then(|slot| part.links.above(slot));
    }
}
