//! Doubly linked lists of slots, 8 bytes a slot, kept beside the slots so that walking them touches no record.

use super::SlotId;

const NONE: SlotId = SlotId::MAX;

/// Links of all slots of a partition; a slot is in at most one list.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<(SlotId, SlotId)>);

/// Ends of one list.
#[derive(Clone, Debug)]
pub struct List {
    top: SlotId,
    bottom: SlotId,
    pub(super) len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { top: NONE, bottom: NONE, len: 0 }
    }
}

fn some(slot: SlotId) -> Option<SlotId> {
    (slot != NONE).then_some(slot)
}

impl Links {
    pub(super) fn with_capacity(slots: usize) -> Self {
        Self(Vec::with_capacity(slots))
    }
    /// The neighbour nearer to the top.
    pub(super) fn above(&self, slot: SlotId) -> Option<SlotId> {
        some(self.0[slot as usize].0)
    }
    pub(super) fn push_top(&mut self, list: &mut List, slot: SlotId) {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, (NONE, NONE));
        }
        self.0[slot as usize] = (NONE, list.top);
        match some(list.top) {
            Some(top) => self.0[top as usize].0 = slot,
            None => list.bottom = slot,
        }
        list.top = slot;
        list.len += 1;
    }
    pub(super) fn unlink(&mut self, list: &mut List, slot: SlotId) {
        let (above, below) = self.0[slot as usize];
        match some(above) {
            Some(above) => self.0[above as usize].1 = below,
            None => list.top = below,
        }
        match some(below) {
            Some(below) => self.0[below as usize].0 = above,
            None => list.bottom = above,
        }
        list.len -= 1;
    }
    pub(super) fn lift(&mut self, list: &mut List, slot: SlotId) {
        if list.top != slot {
            self.unlink(list, slot);
            self.push_top(list, slot);
        }
    }
}

impl List {
    pub(super) fn bottom(&self) -> Option<SlotId> {
        some(self.bottom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a deque: the same order after any pushes, moves and removals.
        #[test]
        fn lists_are_what_a_deque_would_be(steps in prop::collection::vec((0u32..3, 0u32..12), 0..200)) {
            let (mut links, mut list) = (Links::with_capacity(4), List::default());
            let mut model = VecDeque::new();
            for (step, slot) in steps {
                let there = model.iter().position(|&s| s == slot);
                match (step, there) {
                    (0, None) => { links.push_top(&mut list, slot); model.push_front(slot); }
                    (1, Some(i)) => { links.lift(&mut list, slot); model.remove(i); model.push_front(slot); }
                    (2, Some(i)) => { links.unlink(&mut list, slot); model.remove(i); }
                    _ => {}
                }
                let upwards: Vec<_> = std::iter::successors(list.bottom(), |&slot| links.above(slot)).collect();
                prop_assert_eq!(upwards, model.iter().rev().copied().collect::<Vec<_>>());
                prop_assert_eq!(list.len, model.len());
            }
        }
    }
}
