//! S3-FIFO (Yang et al., SOSP 2023): a small queue that lets one-hit wonders out early, a main queue, and a memory of what
//! the small one let out.

use super::ghost::Ghost;
use super::links::{Links, List};
use super::{Access, Count, Now, Policy, SlotId, Slots};

/// The small queue's share: a tenth.
const SMALL: usize = 10;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct S3Fifo;

/// The queues of a partition, newest on top.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    links: Links,
    small: List,
    main: List,
    is_small: Vec<bool>,
    ghost: Ghost,
}

impl Queues {
    fn unlink(&mut self, slot: SlotId) {
        let list = if self.is_small[slot as usize] { &mut self.small } else { &mut self.main };
        self.links.unlink(list, slot);
    }
    fn push(&mut self, slot: SlotId, small: bool) {
        if self.is_small.len() <= slot as usize {
            self.is_small.resize(slot as usize + 1, false);
        }
        self.is_small[slot as usize] = small;
        self.links.push_top(if small { &mut self.small } else { &mut self.main }, slot);
    }
    /// The bottom of the queue to take from: the small one while it has more than its share, or of the other.
    fn bottom(&self, other: bool) -> Option<SlotId> {
        let small_first = self.small.len * SMALL >= self.small.len + self.main.len;
        if small_first != other {
            self.small.bottom().or(self.main.bottom())
        } else {
            self.main.bottom().or(self.small.bottom())
        }
    }
    fn lift(&mut self, slot: SlotId, small: bool) {
        self.unlink(slot);
        self.push(slot, small);
    }
}

impl Policy for S3Fifo {
    const NAME: &'static str = "s3-fifo";
    /// Links, the queue's name, and a ghost of twice 8 bytes.
    const LINK_BYTES: usize = 25;
    type Part = Queues;

    fn part(&self, slots: usize) -> Queues {
        let mut part = Queues { links: Links::with_capacity(slots), ..Queues::default() };
        part.ghost.reserve(slots);
        part
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
    fn inserted(&self, part: &mut Queues, slot: SlotId, hash: u32) {
        let slots = part.small.len + part.main.len;
        part.ghost.reserve(slots);
        let known = part.ghost.take(hash, slots.max(1));
        part.push(slot, !known);
    }
    fn removed(&self, part: &mut Queues, slot: SlotId, hash: u32, evicted: bool) {
        part.unlink(slot);
        if evicted && part.is_small[slot as usize] {
            part.ghost.insert(hash);
        }
    }
    fn victim(&self, part: &mut Queues, slots: &dyn Slots, _now: Now) -> Option<SlotId> {
        // What must not leave comes round again; once a whole queue is so, the other one is asked.
        let (mut pinned, mut other) = (0, false);
        // Each slot is spared three times at most, and may be met in both queues.
        for _ in 0..=8 * (part.small.len + part.main.len) {
            let slot = part.bottom(other)?;
            let small = part.is_small[slot as usize];
            match slots.access(slot) {
                // Touched more than once in the small queue: on to the main one, as if new there.
                Some(access) if small && access.seen() > 1 => {
                    slots.set_access(slot, access.with_seen(0));
                    part.lift(slot, false);
                }
                Some(access) if !small && access.seen() > 0 => {
                    slots.set_access(slot, access.with_seen(access.seen() - 1));
                    part.lift(slot, false);
                }
                Some(_) => return Some(slot),
                None => {
                    part.lift(slot, small);
                    pinned += 1;
                    if pinned >= if small { part.small.len } else { part.main.len } {
                        (pinned, other) = (0, !other);
                    }
                }
            }
        }
        None
    }
    fn passed(&self, part: &mut Queues) {
        if let Some(slot) = part.bottom(false) {
            part.lift(slot, part.is_small[slot as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_small_queue_let_go_comes_back_to_the_main_one() {
        let mut part = S3Fifo.part(16);
        (0..16).for_each(|slot| S3Fifo.inserted(&mut part, slot, slot << 24));
        assert!(part.is_small[3]);
        S3Fifo.removed(&mut part, 3, 3 << 24, true);
        S3Fifo.removed(&mut part, 4, 4 << 24, false);
        S3Fifo.inserted(&mut part, 3, 3 << 24);
        S3Fifo.inserted(&mut part, 4, 4 << 24);
        assert!(!part.is_small[3], "evicted, and so remembered");
        assert!(part.is_small[4], "promoted or deleted, and so not");
        assert_eq!((part.small.len, part.main.len), (15, 1));
    }
}
