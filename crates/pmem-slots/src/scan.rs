//! Opening: what the slabs hold, and clearing what nobody adopted.
//!
//! # Invariants
//! * What a process that died left in caches alone is written back before anything rests on it: a commit word that is found as
//!   much as one that is found cleared.
//! * Found slots stay as they are until [`clear_unadopted`](PmemSlabs::clear_unadopted), before which a stored manifest trusts the
//!   pages of what was adopted in their place.

use std::sync::atomic::Ordering::*;

use terrace_engine::StoreError;

use super::layout::{LINE_BYTES, SlabHeader, SlotHead, SlotPlace, StoredSlab, StoredSlot};
use super::slab::PmemSlabs;

/// Takes a slot that counts: where it starts, and what its head says.
pub type FoundSlot<'a> = &'a mut dyn FnMut(u64, &SlotHead);

impl PmemSlabs {
    /// Finds what the slabs hold. Of those that are returned the record is damaged, and only this is known.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if something is damaged and nobody can tell whose it was.
    pub fn scan(&self, found: FoundSlot<'_>) -> Result<Vec<(u64, SlotHead)>, StoreError> {
        let mut damaged = Vec::new();
        let mut alloc = self.alloc.lock();
        alloc.free.clear();
        alloc.open.iter_mut().for_each(Vec::clear);
        alloc.of_class.iter_mut().for_each(Vec::clear);
        alloc.used.fill(0);
        let words = self.table.get(0).map_or(0, |slab| slab.taken.bytes() / 8);
        let mut unadopted = vec![vec![0; words]; self.table.len()];
        for slab in (0..self.table.len() as u32).rev() {
            let start = u64::from(slab) * self.slab_bytes as u64;
            let mut line = [0; LINE_BYTES];
            self.medium.read(start, &mut line);
            self.medium.secure(start);
            let (header, used) = match SlabHeader::decode(&line, self.store_id, slab) {
                StoredSlab::Damaged => return Err(lost(slab, "its header is damaged")),
                StoredSlab::Empty(header) => (header, false),
                StoredSlab::Used(header) => (Some(header), true),
            };
            let Some(header) = header else {
                alloc.free.push(slab);
                continue;
            };
            alloc.seq = alloc.seq.max(header.seq);
            let Some(class) = self.granules.known(header.granules) else {
                if header.granules == 0 {
                    alloc.free.push(slab);
                    continue;
                }
                return Err(lost(slab, "its header has a class that this store has not"));
            };
            self.scanned.fetch_add(1, Relaxed);
            let entry = &self.table[slab as usize];
            let mut taken = 0;
            for slot in 0..self.slots_in(class) {
                let at = self.at(slab, class, slot);
                let place = SlotPlace { seq: header.seq, slab, offset: (at - start) as u32 };
                self.medium.read(at, &mut line);
                self.medium.secure(at);
                match place.decode(&line) {
                    StoredSlot::Free => continue,
                    // Before a slab is formatted its slots are free.
                    StoredSlot::Filled(_) if !used => return Err(lost(slab, "its header was lost")),
                    _ if !used => continue,
                    StoredSlot::Filled(head) => found(at, &head),
                    StoredSlot::Damaged(head) => damaged.push((at, head)),
                    StoredSlot::Lost => {
                        let what = format!("the head of its slot at {} is damaged", at - start);
                        return Err(lost(slab, &what));
                    }
                }
                taken += 1;
                entry.taken.set(slot);
                unadopted[slab as usize][slot / 64] |= 1u64 << (slot % 64);
            }
            if used {
                entry.begin(class, header.seq);
            }
            entry.used.store(taken, Relaxed);
            if taken == 0 {
                alloc.free.push(slab);
            } else {
                // Whether it has free slots is found out when one is wanted.
                alloc.open[class].push(slab);
                alloc.of_class[class].push(slab);
                alloc.used[class] += taken as usize;
                // Nobody has read when its records expire.
                entry.min_expire.store(0, Relaxed);
            }
        }
        self.medium.fence();
        drop(alloc);
        *self.unadopted.lock() = unadopted;
        Ok(damaged)
    }

    /// The index refers to this slot.
    pub fn adopt(&self, at: u64) {
        let Some((slab, slot)) = self.number(at) else { return };
        if let Some(words) = self.unadopted.lock().get_mut(slab as usize) {
            words[slot / 64] &= !(1 << (slot % 64));
        }
        self.table[slab as usize].live.fetch_add(1, Relaxed);
    }

    /// Clears every slot that nobody adopted.
    pub fn clear_unadopted(&self) {
        let unadopted = std::mem::take(&mut *self.unadopted.lock());
        let mut slots = Vec::new();
        for (slab, words) in (0..).zip(&unadopted) {
            let Some(class) = self.class_of(slab) else { continue };
            let set = (0..words.len() * 64).filter(|slot| words[slot / 64] >> (slot % 64) & 1 == 1);
            slots.extend(set.map(|slot| self.at(slab, class, slot)));
        }
        self.clear(&slots);
    }
}

fn lost(slab: u32, what: &str) -> StoreError {
    StoreError::Corrupt(format!("PMem slab {slab}: {what}, and nobody can tell whose records it held"))
}
