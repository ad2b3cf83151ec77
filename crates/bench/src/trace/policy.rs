//! A policy with its one part, and a gate, of types that only names decide: what simulates with them is compiled once.

use terrace_policy::{
    Access, Beats, Count, Everyone, Gate, Hot, Now, Policy, SlotId, Slots, Thresholds, Tier as Name,
};

/// A tier's policy with what it keeps of its slots. See [`Policy`].
pub(super) trait AnyPolicy {
    fn accessed_every(&self) -> u32;
    fn touched(&self, access: Access, now: Now) -> Access;
    fn count(&self, access: Access, now: Now) -> Count;
    fn entering(&self, count: Count, now: Now) -> Access;
    fn inserted(&mut self, slot: SlotId, hash: u32);
    fn removed(&mut self, slot: SlotId, hash: u32, evicted: bool);
    fn accessed(&mut self, slot: SlotId);
    fn victim(&mut self, slots: &dyn Slots, now: Now) -> Option<SlotId>;
    fn passed(&mut self);
    fn set_thresholds(&self, thresholds: Thresholds);
}

struct Parted<P: Policy> {
    policy: P,
    part: P::Part,
}

/// A policy for so many slots.
pub(super) fn of_slots<P: Policy>(policy: P, slots: u32) -> Box<dyn AnyPolicy> {
    Box::new(Parted { part: policy.part(slots as usize), policy })
}

impl<P: Policy> AnyPolicy for Parted<P> {
    fn accessed_every(&self) -> u32 {
        P::ACCESSED_EVERY
    }
    fn touched(&self, access: Access, now: Now) -> Access {
        self.policy.touched(access, now)
    }
    fn count(&self, access: Access, now: Now) -> Count {
        self.policy.count(access, now)
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        self.policy.entering(count, now)
    }
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
    fn set_thresholds(&self, thresholds: Thresholds) {
        self.policy.set_thresholds(thresholds);
    }
}

/// A gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnyGate {
    Everyone,
    Hot,
    Beats,
}

impl AnyGate {
    /// See [`Gate::COMPARES`].
    pub fn compares(self) -> bool {
        match self {
            Self::Everyone => Everyone::COMPARES,
            Self::Hot => Hot::COMPARES,
            Self::Beats => Beats::COMPARES,
        }
    }
    /// See [`Gate::admits`].
    pub fn admits(self, tier: Name, count: Count, rival: Option<Count>, thresholds: &Thresholds) -> bool {
        match self {
            Self::Everyone => Everyone.admits(tier, count, rival, thresholds),
            Self::Hot => Hot.admits(tier, count, rival, thresholds),
            Self::Beats => Beats.admits(tier, count, rival, thresholds),
        }
    }
}
