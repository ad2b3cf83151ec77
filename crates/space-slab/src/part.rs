//! A policy whose type is forgotten, and what it keeps of a class of slots: its lists, and which slots are in them.
//!
//! # Invariants
//! * A [`Part`] tells a policy of slots as its contract says, whatever it is told itself: inserted if not there, removed and
//!   accessed if there.

use std::sync::Arc;

use terrace_policy::{Access, Count, Now, Policy, SlotId, Slots, Thresholds};

/// A policy with its type forgotten.
pub(crate) trait AnyPolicy: Send + Sync {
    fn touched(&self, access: Access, now: Now) -> Access;
    fn count(&self, access: Access, now: Now) -> Count;
    fn entering(&self, count: Count, now: Now) -> Access;
    fn set_thresholds(&self, thresholds: Thresholds);
    fn part(&self) -> Box<dyn AnyPart>;
}

/// A part of it, of one class of slots.
pub(crate) trait AnyPart: Send {
    fn inserted(&mut self, slot: SlotId, hash: u32);
    fn removed(&mut self, slot: SlotId, hash: u32, evicted: bool);
    fn accessed(&mut self, slot: SlotId);
    fn victim(&mut self, slots: &dyn Slots, now: Now) -> Option<SlotId>;
    fn passed(&mut self);
}

pub(crate) struct Shared<P: Policy>(pub Arc<P>);

impl<P: Policy> AnyPolicy for Shared<P> {
    fn touched(&self, access: Access, now: Now) -> Access {
        self.0.touched(access, now)
    }
    fn count(&self, access: Access, now: Now) -> Count {
        self.0.count(access, now)
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        self.0.entering(count, now)
    }
    fn set_thresholds(&self, thresholds: Thresholds) {
        self.0.set_thresholds(thresholds);
    }
    fn part(&self) -> Box<dyn AnyPart> {
        Box::new(PartOf { policy: self.0.clone(), part: self.0.part(0) })
    }
}

struct PartOf<P: Policy> {
    policy: Arc<P>,
    part: P::Part,
}

impl<P: Policy> AnyPart for PartOf<P> {
    fn inserted(&mut self, slot: SlotId, hash: u32) {
        self.policy.inserted(&mut self.part, slot, hash);
    }
    fn removed(&mut self, slot: SlotId, hash: u32, evicted: bool) {
        self.policy.removed(&mut self.part, slot, hash, evicted);
    }
    fn accessed(&mut self, slot: SlotId) {
        self.policy.accessed(&mut self.part, slot);
    }
    fn victim(&mut self, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        self.policy.victim(&mut self.part, slots, now)
    }
    fn passed(&mut self) {
        self.policy.passed(&mut self.part);
    }
}

/// What the policy keeps of a class of slots.
pub(crate) struct Part {
    part: Box<dyn AnyPart>,
    /// Of a policy with lists: the slots that are in one.
    listed: Vec<bool>,
    has_lists: bool,
    /// Where the sweep for slots that are in none is.
    swept: SlotId,
}

impl Part {
    /// Of a policy with lists or without.
    pub fn new(part: Box<dyn AnyPart>, has_lists: bool) -> Self {
        Self { part, listed: Vec::new(), has_lists, swept: 0 }
    }
    /// The class has so many slots.
    pub fn extend(&mut self, slots: usize) {
        if self.has_lists {
            self.listed.resize(slots.max(self.listed.len()), false);
        } else if let Some(last) = slots.checked_sub(1) {
            self.part.inserted(last as SlotId, 0);
        }
    }
    /// Whether a slot is in a list.
    pub fn is_listed(&self, slot: SlotId) -> bool {
        self.listed.get(slot as usize).is_some_and(|listed| *listed)
    }
    /// A record is new in a slot.
    pub fn filled(&mut self, slot: SlotId, hash: u32) {
        if self.is_listed(slot) {
            self.part.removed(slot, hash, false);
        }
        if let Some(listed) = self.listed.get_mut(slot as usize) {
            *listed = true;
            self.part.inserted(slot, hash);
        }
    }
    /// A slot was touched; if nobody told of it before, it is new.
    pub fn accessed(&mut self, slot: SlotId) {
        if self.is_listed(slot) {
            self.part.accessed(slot);
        } else {
            self.filled(slot, 0);
        }
    }
    /// A record has left its slot, or is about to.
    pub fn removed(&mut self, slot: SlotId, hash: u32, evicted: bool) {
        if !self.has_lists {
            self.part.removed(slot, hash, evicted);
        } else if self.is_listed(slot) {
            self.listed[slot as usize] = false;
            self.part.removed(slot, hash, evicted);
        }
    }
    /// The victim could not leave, for now.
    pub fn stays(&mut self, slot: SlotId, hash: u32) {
        if self.has_lists {
            self.filled(slot, hash);
        } else {
            self.part.removed(slot, hash, false);
        }
    }
    /// See [`Policy::victim`].
    pub fn victim(&mut self, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        self.part.victim(slots, now)
    }
    /// See [`Policy::passed`].
    pub fn passed(&mut self) {
        self.part.passed();
    }
    /// Finds slots that are in no list though they should be: the next so many are looked at.
    pub fn sweep(&mut self, slots: &dyn Slots, looks: usize) {
        let looks = if self.has_lists { looks.min(self.listed.len()) } else { 0 };
        for _ in 0..looks {
            let slot = self.swept;
            self.swept = if slot as usize + 1 >= self.listed.len() { 0 } else { slot + 1 };
            if !self.is_listed(slot) && slots.access(slot).is_some() {
                self.filled(slot, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chosen::Chosen;

    struct All;
    impl Slots for All {
        fn access(&self, _slot: SlotId) -> Option<Access> {
            Some(Access::default())
        }
        fn set_access(&self, _slot: SlotId, _access: Access) {}
    }

    #[test]
    fn a_part_puts_up_with_what_comes_late_twice_or_not_at_all() {
        for name in ["lru", "sampled-lru", "s3-fifo", "sieve"] {
            let mut part = Chosen::new(name.parse().unwrap()).part();
            part.extend(4);
            part.removed(2, 0, false);
            part.filled(2, 7);
            part.filled(2, 8);
            part.accessed(1);
            part.filled(9, 0);
            assert!(part.is_listed(1) && part.is_listed(2) && !part.is_listed(9), "{name}");
            part.removed(1, 0, true);
            part.removed(1, 0, true);
            assert_eq!(part.victim(&All, Now::default()), Some(2), "{name}");
            part.removed(2, 8, true);
            assert_eq!(part.victim(&All, Now::default()), None, "{name}: nobody told of the others");
            part.sweep(&All, 100);
            assert!((0..4).all(|slot| part.is_listed(slot)), "{name}");
            let victim = part.victim(&All, Now::default()).unwrap();
            part.stays(victim, 0);
            assert_ne!(part.victim(&All, Now::default()), Some(victim), "{name}: others first");
        }
    }
}
