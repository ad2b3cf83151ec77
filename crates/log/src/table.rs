//! The block table: who uses which block.
//!
//! # Thread safety
//! One mutex in `Shared` guards it, taken by a writer once a block. No I/O happens under it.
//!
//! # Invariants
//! - A block is in exactly one place: free, in one slot's `used`, held by a writer as its reserve, being erased.
//! - A slot's `used` blocks have consecutive chain numbers, oldest first, and only its front is ever taken to be freed.
//! - `current` is the block that the slot's writer (or the last one, if it was dropped) appends to. A block behind it
//!   in `used` has been begun and its header may not be written yet.

use std::collections::{HashMap, VecDeque};

use crate::device::Tail;

/// A block that holds, or may hold, groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedBlock {
    pub block: u32,
    pub chain: u64,
    pub generation: u64,
    pub base_version: u64,
    /// Known once the block is no longer a live writer's current one.
    pub max_seq: u64,
    pub last_version: u64,
    /// No entry of it is needed any more, whatever page it stands for.
    pub needless: bool,
}

/// Where a slot's next group goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub block: u32,
    pub generation: u64,
    /// Bytes of the block in use.
    pub used: usize,
    pub max_seq: u64,
}

#[derive(Default)]
pub(crate) struct Slot {
    pub next_chain: u64,
    /// `None` if no block of the slot was ever known: then its first writer says.
    pub last_version: Option<u64>,
    /// The version its first writer was opened with, and the last one that the slot's log really held then. An engine
    /// starts all sessions at one version; that is not a position of each one's log.
    pub start: Option<(u64, u64)>,
    pub used: VecDeque<UsedBlock>,
    /// The block of the live writer, or of the last one.
    pub current: Option<u32>,
    /// What a dropped writer left, for the next one to go on with.
    pub parked: Option<(Current, Tail)>,
    pub open: bool,
    pub broken: bool,
}

/// A block taken out of its slot to be freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub slot: u16,
    pub used: UsedBlock,
}

pub(crate) struct Table {
    pub slots: HashMap<u16, Slot>,
    pub free: Vec<u32>,
    /// Erased, but not yet safe from power loss: reusable after the next sync.
    pub erased: Vec<u32>,
    /// Free blocks that a writer waits for at once, for one step.
    pub wanted: usize,
    /// Blocks being erased now.
    pub erasing: Vec<Victim>,
    /// Generations of blocks whose header is being written.
    pub opening: Vec<u64>,
    pub next_generation: u64,
    /// Whether a block is near to the thread that asks: such a one is taken first.
    pub near: Option<Box<IsNear>>,
}

/// See [`Table::near`].
pub(crate) type IsNear = dyn Fn(u32) -> bool + Send;

/// Free blocks that are looked at for a near one.
const LOOKED_AT: usize = 256;

impl Table {
    /// Whether a writer waits for more blocks than are free, and erased ones would be.
    pub fn owes_blocks(&self) -> bool {
        self.free.len() < self.wanted && !self.erased.is_empty()
    }
    /// Takes a free block.
    pub fn take(&mut self) -> Option<u32> {
        match self.near.take() {
            None => self.free.pop(),
            near @ Some(_) => {
                let block = self.take_first_of(|block| near.as_ref().is_some_and(|near| near(block)));
                self.near = near;
                block
            }
        }
    }
    /// Takes a free block, one that is wanted if there is such a one among the next ones.
    pub fn take_first_of(&mut self, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let looked_at = self.free.iter().rev().take(LOOKED_AT);
        let wanted = looked_at.enumerate().find(|(_, block)| is_wanted(**block)).map(|(back, _)| back);
        let at = self.free.len().checked_sub(1 + wanted.unwrap_or(0))?;
        Some(self.free.remove(at))
    }

    /// The highest generation such that the headers up to it have all been written.
    pub fn written_generation(&self) -> u64 {
        self.opening.iter().min().unwrap_or(&self.next_generation) - 1
    }

    fn may_free(slot: &Slot, persisted: u64, floor: u64, synced: u64) -> bool {
        let (Some(front), next) = (slot.used.front(), slot.used.get(1)) else { return false };
        let in_use = slot.open && slot.current == Some(front.block);
        // The slot's position must stay known: by the next block's header, which power loss can't take any more, or
        // because everything up to it is below the floor.
        let known = match next {
            Some(next) => next.generation <= synced,
            None => front.last_version <= floor,
        };
        !in_use && (front.needless || front.max_seq <= persisted) && known
    }

    /// Whether [`take_victims`](Self::take_victims) may find one after a sync.
    pub fn any_victim(&self, persisted: u64, floor: u64) -> bool {
        self.slots.values().any(|slot| Self::may_free(slot, persisted, floor, u64::MAX))
    }

    /// Moves what can be freed to `erasing`, each slot's oldest block first.
    pub fn take_victims(&mut self, persisted: u64, floor: u64, synced: u64) -> Vec<Victim> {
        let mut victims = Vec::new();
        for (&number, slot) in &mut self.slots {
            while Self::may_free(slot, persisted, floor, synced) {
                let Some(used) = slot.used.pop_front() else { break };
                if slot.current == Some(used.block) {
                    slot.current = None;
                    slot.parked = None;
                }
                victims.push(Victim { slot: number, used });
            }
        }
        self.erasing.extend_from_slice(&victims);
        victims
    }

    /// The oldest blocks to which nobody appends any more, at most so many, in the order of their last versions. Each slot's last one
    /// stays in any case.
    pub fn oldest(&self, most: usize) -> Vec<UsedBlock> {
        let closed = self.slots.values().flat_map(|slot| slot.used.iter().rev().skip(1));
        let mut oldest: Vec<UsedBlock> =
            closed.filter(|used| used.last_version != u64::MAX).copied().collect();
        oldest.sort_unstable_by_key(|used| used.last_version);
        oldest.truncate(most);
        oldest
    }

    /// Notes that no entry of the blocks of these generations is needed.
    pub fn supersede(&mut self, generations: &[u64]) {
        let used = self.slots.values_mut().flat_map(|slot| &mut slot.used);
        used.filter(|used| generations.contains(&used.generation)).for_each(|used| used.needless = true);
    }

    /// Every block that may hold groups.
    pub fn in_use(&self) -> impl Iterator<Item = &UsedBlock> {
        self.slots.values().flat_map(|slot| &slot.used).chain(self.erasing.iter().map(|victim| &victim.used))
    }
}
