//! The end of an opening: what nobody adopted is freed, on the medium too.
//!
//! # Invariants
//! Three steps, each durable before the next one begins:
//! 1. [`clear_torn`](Blocks::clear_torn): flushes that a crash tore, and blocks freed by half. Were one of them there when newer
//!    blocks are trusted, the next opening would take it for damage.
//! 2. A manifest that trusts every block that is left (the machine stores it).
//! 3. [`clear_unadopted`](Blocks::clear_unadopted): other copies. Were one of them gone when the block that was adopted in its
//!    place is not trusted, rot in that block would be taken for a torn flush, and what had been safe would be missed in silence.

use std::sync::atomic::Ordering::*;

use terrace_engine::StoreError;

use crate::blocks::Blocks;
use crate::layout::TRAILER_BYTES;
use crate::lower::Lower;
use crate::scan::damaged;
use crate::slots::State;

impl<L: Lower> Blocks<L> {
    /// Clears what is no block, and writes lost headers again. Every live record and large value has been adopted; all other
    /// blocks stay as they are.
    ///
    /// # Errors
    /// The device's; [`StoreError::Corrupt`] if a block vanished.
    pub fn clear_torn(&self) -> Result<(), StoreError> {
        if let Some(error) = self.adoption_failed.lock().take() {
            return Err(error);
        }
        // The header of a block of large values may be gone: what describes them has found the others by now.
        let vanished = self.written.take_vanished();
        if let Some(&number) = vanished.iter().find(|&&slot| self.slots[slot as usize].state() == State::Free)
        {
            return Err(damaged(number, "it reads as if it had never been written"));
        }
        let torn = self.slots_where(|state, _| state == State::Freeing);
        let lost = std::mem::take(&mut *self.lost_headers.lock());
        if !torn.is_empty() || !lost.is_empty() {
            // Without a header, or a cleared one, a block that nobody describes any more would look as if it had vanished.
            lost.iter()
                .try_for_each(|&slot| self.write_extent_header(slot))
                .and_then(|()| self.lower.clear_words(&self.marks(&torn)))
                .and_then(|()| self.lower.sync())
                .map_err(StoreError::io("writing lost headers again, and clearing torn blocks"))?;
        }
        for slot in lost {
            self.slots[slot as usize].written.store(true, Relaxed);
        }
        for slot in torn {
            self.slots[slot as usize].begin(State::Free, 0, None, 0);
        }
        Ok(())
    }

    /// Frees every block that nothing was adopted in. The stored manifest trusts all others.
    ///
    /// # Errors
    /// The device's.
    pub fn clear_unadopted(&self) -> Result<(), StoreError> {
        let unadopted = self.slots_where(|state, live| state != State::Free && live == 0);
        if !unadopted.is_empty() {
            self.lower
                .clear_words(&self.marks(&unadopted))
                .and_then(|()| self.lower.sync())
                .map_err(StoreError::io("clearing blocks that hold nothing"))?;
        }
        for slot in unadopted {
            self.slots[slot as usize].begin(State::Free, 0, None, 0);
        }
        self.forget_unadopted();
        let mut free = self.slots_where(|state, _| state == State::Free);
        free.reverse();
        *self.free.slots.lock() = free;
        self.begin_backing();
        Ok(())
    }

    /// The slots whose state and live bytes are so.
    fn slots_where(&self, which: impl Fn(State, i64) -> bool) -> Vec<u32> {
        let slots = (0u32..).zip(self.slots.iter());
        slots
            .filter(|(_, slot)| which(slot.state(), slot.live_bytes.load(Relaxed)))
            .map(|(number, _)| number)
            .collect()
    }

    /// The words that make blocks of what stands in slots: of each the first of its header and of its trailer.
    fn marks(&self, slots: &[u32]) -> Vec<u64> {
        let trailer = (self.block_bytes - TRAILER_BYTES) as u64;
        let starts = slots.iter().map(|&slot| self.block_offset(slot));
        starts.flat_map(|start| [start, start + trailer]).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_engine::manifest::MANIFEST_BYTES;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;
    use crate::layout::{BlockKind, Header};

    const STORE: u64 = 1;
    const TRUSTED: u64 = 9;

    fn blocks() -> Blocks<ByteTier<HeapRegion>> {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        again(lower)
    }

    fn again(lower: ByteTier<HeapRegion>) -> Blocks<ByteTier<HeapRegion>> {
        Blocks::new(lower, 1024, STORE).unwrap()
    }

    fn scan(blocks: &Blocks<ByteTier<HeapRegion>>) -> Result<(), StoreError> {
        blocks.scan_blocks(TRUSTED, 1, &|_, _| {}, &|_, _, _| {})
    }

    fn settle(blocks: &Blocks<ByteTier<HeapRegion>>) -> Result<(), StoreError> {
        blocks.clear_torn()?;
        blocks.clear_unadopted()
    }

    #[test]
    fn a_block_that_vanished_is_damage_but_for_a_large_value_that_is_looked_for_and_one_that_was_freed() {
        let piece = |slot: u32| {
            let words = [40u64, 1 << 32, 3, u64::from(slot) | 64 << 32, 40];
            words.map(u64::to_le_bytes).concat()
        };
        for (described, freed, sound) in
            [(None, false, false), (Some(1), false, false), (Some(2), false, true)]
                .into_iter()
                .chain([(None, true, true)])
        {
            let before = blocks();
            for slot in 0..4 {
                let header = Header { store_id: STORE, seq: 3, slot, kind: BlockKind::Extents };
                before.lower.write(before.block_offset(slot), &header.encode()).unwrap();
                before.slots[slot as usize].written.store(true, Relaxed);
            }
            before.save_manifest(&[0; MANIFEST_BYTES]).unwrap();
            if freed {
                before.lower.clear_words(&[before.block_offset(2)]).unwrap();
            } else {
                before.lower.write(before.block_offset(2), &[0; 64]).unwrap();
            }
            let blocks = again(before.lower);
            scan(&blocks).unwrap();
            if let Some(slot) = described {
                blocks.adopt_pieces(&piece(slot));
            }
            let settled = settle(&blocks);
            assert_eq!(settled.is_ok(), sound, "{described:?} {freed} {settled:?}");
            if let Err(error) = settled {
                assert!(
                    error.to_string().contains("block 2") && error.to_string().contains("check --repair")
                );
                continue;
            }
            // Its header is there again, so that it can be freed like any other.
            let place = blocks.block_offset(2);
            blocks.lower.clear_words(&[place]).unwrap();
            let third = again(blocks.lower);
            scan(&third).unwrap();
            settle(&third).unwrap();
        }
    }

    #[test]
    fn a_torn_block_that_is_freed_does_not_look_as_if_it_had_vanished() {
        let before = blocks();
        for slot in before.slots.iter().take(4) {
            slot.written.store(true, Relaxed);
        }
        before.save_manifest(&[0; MANIFEST_BYTES]).unwrap();
        for slot in [0, 1, 3] {
            let header = Header { store_id: STORE, seq: 3, slot, kind: BlockKind::Extents };
            before.lower.write(before.block_offset(slot), &header.encode()).unwrap();
        }
        // All that is left of the other's header is in the word that freeing clears.
        before.lower.write(before.block_offset(2), &[7; 8]).unwrap();
        let mut lower = before.lower;
        for _ in 0..2 {
            let blocks = again(lower);
            scan(&blocks).unwrap();
            settle(&blocks).unwrap();
            lower = blocks.lower;
        }
    }
}
