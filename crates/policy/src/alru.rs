//! Approximate LRU (Redis's way, with which the paper compares): of five slots at random, the one touched longest ago.

use super::{Access, Count, Now, Policy, SlotId, Slots};

/// Slots that are compared.
const SAMPLES: u32 = 5;
/// Draws for them: some hit empty slots.
const DRAWS_MAX: u32 = 64;

/// See the module. The stamp is the fine clock; there is no count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alru;

/// What a partition samples from.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// One more than the highest slot ever inserted.
    slots: u32,
    random: u64,
    candidate: Option<SlotId>,
}

impl Sampled {
    fn draw(&mut self) -> SlotId {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.random >> 32) * u64::from(self.slots)) >> 32) as SlotId
    }
}

impl Policy for Alru {
    const NAME: &'static str = "alru";
    const LINK_BYTES: usize = 0;
    type Part = Sampled;

    fn part(&self, _slots: usize) -> Sampled {
        Sampled::default()
    }
    #[inline]
    fn touched(&self, _access: Access, now: Now) -> Access {
        Access::new(now.fine, Count::ONE)
    }
    fn count(&self, access: Access, _now: Now) -> Count {
        access.raw_count()
    }
    fn entering(&self, count: Count, now: Now) -> Access {
        Access::new(now.fine, count)
    }
    fn inserted(&self, part: &mut Sampled, slot: SlotId, _hash: u32) {
        part.slots = part.slots.max(slot + 1);
    }
    fn removed(&self, part: &mut Sampled, _slot: SlotId, _hash: u32, _evicted: bool) {
        part.candidate = None;
    }
    fn victim(&self, part: &mut Sampled, slots: &dyn Slots, now: Now) -> Option<SlotId> {
        if part.slots == 0 {
            return None;
        }
        if part.candidate.is_none_or(|slot| slots.access(slot).is_none()) {
            part.candidate = (0..DRAWS_MAX)
                .filter_map(|_| {
                    let slot = part.draw();
                    slots.access(slot).map(|access| (access.age(now.fine), slot))
                })
                .take(SAMPLES as usize)
                .max()
                .map(|(_, slot)| slot);
        }
        part.candidate
    }
    fn passed(&self, part: &mut Sampled) {
        part.candidate = None;
    }
}
