//! What the lists of a policy hear: of slots that were let go, filled and touched. A policy without lists hears nothing.
//!
//! # Invariants
//! * In a step, what was let go comes before what was filled: a slot that is filled again was let go in an earlier step or in
//!   this one.
//! * Of what is told only slots count that hold a record now. One that is let go meanwhile is told of in a later step, before
//!   its slab can change class.

use terrace_blocks::Lower;
use terrace_engine::space::Context;

use crate::evict::Evicting;
use crate::part::Part;
use crate::retired::Cooling;
use crate::slab::NONE;
use crate::space::SlabSpace;
use terrace_policy::SlotId;

/// Where each slab stands among those of its class and partition.
struct Places(Vec<u32>);

impl<L: Lower> SlabSpace<L> {
    fn places(&self) -> Places {
        let mut places = vec![NONE; self.slabs.count()];
        for class in 0..self.slabs.classes.count() {
            for partition in 0..self.slabs.partitions() {
                for (place, slab) in self.slabs.places_of(class, partition).into_iter().enumerate() {
                    if let Some(known) = places.get_mut(slab as usize) {
                        *known = place as u32;
                    }
                }
            }
        }
        Places(places)
    }

    /// A slot's partition, its class, and its number there.
    fn listed_as(&self, places: &Places, offset: u64) -> Option<(usize, usize, SlotId)> {
        let slab = self.slabs.slab_of(offset);
        let class = self.slabs.class_of(slab)?;
        let place = places.0.get(slab as usize).copied().filter(|place| *place != NONE)?;
        let number = (offset % self.slabs.slab_bytes as u64) as usize / self.slabs.classes.bytes(class);
        Some((
            self.slabs.partition_of(slab),
            class,
            (place as usize * self.slabs.slots_in(class) + number) as SlotId,
        ))
    }

    /// Tells a class's part of a partition; the caller has the first.
    fn tell(&self, (first, partition, class): (&mut Evicting, usize, usize), tell: impl FnOnce(&mut Part)) {
        match partition {
            0 => tell(&mut first.parts[class]),
            _ => tell(&mut self.others.lock(partition).evicting.parts[class]),
        }
    }

    /// Slots that were let go leave their lists.
    pub(crate) fn unlist(&self, first: &mut Evicting, cooling: &mut Cooling) {
        if cooling.let_go.is_empty() {
            return;
        }
        let places = self.places();
        for offset in cooling.let_go.drain(..) {
            if let Some((partition, class, slot)) = self.listed_as(&places, offset) {
                self.tell((first, partition, class), |part| part.removed(slot, 0, false));
            }
        }
    }

    /// Lists hear what was told.
    pub(crate) fn hear(&self, first: &mut Evicting, context: &dyn Context) {
        if !self.policy.has_lists() {
            return;
        }
        let mut told = self.policy.take_told().peekable();
        if told.peek().is_none() {
            return;
        }
        let places = self.places();
        for (offset, is_filled) in told {
            let slot = self.slabs.is_slot(offset).then(|| self.slabs.slot(offset));
            if !slot.is_some_and(|slot| slot.is_live() && !slot.is_staged()) {
                continue;
            }
            let Some((partition, class, number)) = self.listed_as(&places, offset) else { continue };
            self.tell((first, partition, class), |part| {
                part.extend((number as usize + 1).next_multiple_of(self.slabs.slots_in(class)));
                if is_filled {
                    part.filled(number, self.hash_for_lists(offset, context));
                } else {
                    part.accessed(number);
                }
            });
        }
    }

    /// The hash of the key in a slot, if lists ask for hashes.
    pub(crate) fn hash_for_lists(&self, offset: u64, context: &dyn Context) -> u32 {
        if self.policy.asks_for_hashes() { self.hash_of(offset, context) as u32 } else { 0 }
    }

    /// The hash of the key in a slot.
    pub(crate) fn hash_of(&self, offset: u64, context: &dyn Context) -> u64 {
        let words = self.slabs.slot(offset).record();
        let (mut bytes, mut db) = (Vec::new(), 0);
        words.consistently(|head| {
            bytes.clear();
            words.copy_bytes(head.meta.key_word(), head.meta.key_bytes(), &mut bytes);
            db = head.meta.db();
        });
        context.hasher().key(db, &bytes).hash
    }
}
