//! What to evict: the keys of the oldest block.
//!
//! ```text
//!            front                                        back
//!   order    | oldest | ..  ..  ..  .. | newest |  <--- has_begun: a page begins, and its slot goes to the back
//!                |
//!                | has nothing to report now: a page that nobody wrote to yet, a block that can't be read
//!                v
//!   later    | .. | .. |         in front of `order` again after some looks, and before nothing is said to be left
//! ```
//!
//! Sequence numbers are given in ascending order, so that the slots are in the order of their blocks without being
//! compared. A block that is found to hold no key leaves the order: none comes back to it. So each is looked at once
//! for each time that it is used, and as often as it has keys to give.
//!
//! Nothing is ordered before somebody asks for the oldest keys. The first time costs a walk over all slots.
//!
//! # Thread safety
//! `order` has a lock, which is innermost: sessions take it for each page that they begin, inside those of the pool and
//! of the free slots. Nobody holds it over a walk, a read or a write. [`oldest_keys`](Blocks::oldest_keys) is called by
//! one thread at a time.
//!
//! # Invariants
//! * A slot is in one of the two lists at most; it goes to the back of `order` whenever it begins to hold records, so
//!   that what its place says is true of its present use.
//! * A slot that holds keys is in one of them, unless it just begins. Before nothing is said to be found each has been
//!   looked at.

use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Kind, RecordView};
use terrace_engine::space::{Context, FoundKeys};
use terrace_index::AnyIndex;

use crate::blocks::Blocks;
use crate::layout::FooterEntry;
use crate::links::Links;
use crate::listed::Listed;
use crate::lower::Lower;
use crate::pieces::total_bytes;
use crate::slots::State;
use crate::sync::Mutex;
use crate::tombstones::Copies;

const ORDER: usize = 0;
const LATER: usize = 1;

/// Keys to be reported of a block that is read: the next ones cost another read of all of it.
pub const KEYS_A_LOAD: usize = 4096;

/// Where keys are evicted, this part of a block is gained at least if it is moved: as much as is written.
const LEAST_GAIN_PART: u64 = 2;

/// Those that were put off come again after so many looks at least.
const LOOKS_LEAST: usize = 64;

/// The slots in the order of their blocks; `None` before anybody asks for it.
#[derive(Default)]
pub(crate) struct Oldest {
    order: Mutex<Option<Order>>,
}

struct Order {
    links: Links,
    /// Looks before those that were put off come again: as many as leave their share in all looks small.
    left: usize,
    /// Slots that were put off since they came last.
    put_off: usize,
}

/// What the oldest block had to give.
enum Gave {
    /// Keys: it may have more.
    Keys,
    /// Nothing for now.
    NothingYet,
    /// Nothing, now or later.
    Nothing,
}

impl Order {
    /// The slot to be looked at; `None` if all were since `again` was set. Sets it when those that were put off come
    /// again.
    fn first(&mut self, again: &mut bool) -> Option<u32> {
        let first = self.links.first(ORDER);
        if *again || (self.left > 0 && first.is_some()) {
            return first;
        }
        *again = true;
        self.links.put_all_first(LATER, ORDER);
        (self.left, self.put_off) = (LOOKS_LEAST + 2 * self.put_off, 0);
        self.links.first(ORDER)
    }
    fn looked(&mut self, slot: u32, gave: &Gave) {
        self.left = self.left.saturating_sub(1);
        match gave {
            Gave::Keys => {}
            Gave::NothingYet => {
                self.put_off += 1;
                self.links.put_last(LATER, slot);
            }
            Gave::Nothing => self.links.leave(slot),
        }
    }
}

impl Oldest {
    /// Bytes of DRAM.
    pub fn bytes(&self) -> u64 {
        self.order.lock().as_ref().map_or(0, |order| order.links.bytes() as u64)
    }
}

impl<L: Lower> Blocks<L> {
    /// A slot begins to hold records, with a newer sequence number than all before.
    pub fn has_begun(&self, number: u32) {
        if let Some(order) = self.oldest.order.lock().as_mut() {
            order.links.reserve(self.slots.len().max(number as usize + 1));
            order.links.put_last(ORDER, number);
        }
    }

    /// Where keys are evicted, a block is not moved if it gains less: as space is taken, moving writes ever more for the same
    /// gain, and evicting does not.
    pub fn least_gain(&self) -> u64 {
        self.block_bytes as u64 / LEAST_GAIN_PART
    }

    /// Puts what there is in order, if nobody has yet.
    fn put_in_order(&self) {
        {
            let mut order = self.oldest.order.lock();
            if order.is_some() {
                return;
            }
            // From now on those that begin are noted.
            *order = Some(Order { links: Links::new(2, self.slots.len()), left: 0, put_off: 0 });
        }
        let holds = |state| matches!(state, State::Mutable | State::ReadOnly | State::Sealed);
        let mut blocks: Vec<(u64, u32)> = (0u32..)
            .zip(self.slots.iter())
            .filter(|(_, slot)| holds(slot.state()))
            .map(|(number, slot)| (slot.seq.load(Relaxed), number))
            .collect();
        self.counts.looked_at.fetch_add(self.slots.len() as u64, Relaxed);
        blocks.sort_unstable();
        for (_, number) in blocks.into_iter().rev() {
            if let Some(order) = self.oldest.order.lock().as_mut()
                && !order.links.is_in_any(number)
            {
                order.links.put_first(ORDER, number);
            }
        }
    }

    /// The block or page whose keys go next, once any have gone: what it still holds is not worth moving.
    pub fn next_to_go(&self) -> Option<u32> {
        self.oldest.order.lock().as_ref().and_then(|order| order.links.first(ORDER))
    }

    /// Reports up to `count` live keys of the oldest block or page that has any, and whether there was one; none after those
    /// that give back as much as a block takes. Called from background steps alone.
    pub fn oldest_keys(
        &self,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        count: usize,
        found: &mut FoundKeys<'_>,
    ) -> bool {
        self.put_in_order();
        let mut again = false;
        loop {
            let first = |order: &mut Order| order.first(&mut again);
            let Some(number) = self.oldest.order.lock().as_mut().and_then(first) else { return false };
            self.counts.looked_at.fetch_add(1, Relaxed);
            let seq = self.slots[number as usize].seq.load(Acquire);
            let gave = self.keys_of(number, copies, index, context, (count, &mut *found));
            if let Some(order) = self.oldest.order.lock().as_mut()
                // Else it began anew meanwhile, and stands at the back.
                && self.slots[number as usize].seq.load(Acquire) == seq
            {
                order.looked(number, &gave);
            }
            if matches!(gave, Gave::Keys) {
                return true;
            }
        }
    }

    /// Reports up to `count` live keys of a block or page.
    fn keys_of(
        &self,
        number: u32,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        (count, found): (usize, &mut FoundKeys<'_>),
    ) -> Gave {
        let slot = &self.slots[number as usize];
        let state = slot.state();
        // Pages in DRAM too: of a store full of large values they may hold every key.
        if matches!(state, State::Free | State::Extents | State::Freeing) {
            return Gave::Nothing;
        }
        if slot.live_bytes.load(Relaxed) <= 0 {
            // A page may be written to after this; a block that is sealed is not.
            return if state == State::Sealed { Gave::Nothing } else { Gave::NothingYet };
        }
        let keeps_key = |entry: &FooterEntry| !matches!(entry.kind, Kind::Tombstone | Kind::Poison);
        let used = slot.used_bytes.load(Relaxed);
        let listed = |entries: &[FooterEntry], i: usize, view: Option<&RecordView<'_>>| {
            let end = entries.get(i + 1).map_or(used, |next| next.offset);
            let address = copies.address(number, &entries[i], end.saturating_sub(entries[i].offset) / 8);
            keeps_key(&entries[i]) && Listed::new(&entries[i], view, address).is_in(index)
        };
        // The oldest blocks may hold nothing but tombstones, which the sweep drops once it can.
        if state == State::Sealed {
            let Some((entries, _)) = self.footer_entries(number) else { return Gave::NothingYet };
            if !(0..entries.len()).any(|i| listed(&entries, i, None)) {
                return Gave::Nothing;
            }
        }
        let Some(block) = copies.load(number, context) else { return Gave::NothingYet };
        let (mut reported, mut bytes) = (0, 0);
        for (i, entry) in block.entries.iter().enumerate() {
            let Some(view) = block.record(entry) else { continue };
            if !listed(&block.entries, i, Some(&view)) {
                continue;
            }
            found(view.head.meta.db(), view.key);
            reported += 1;
            bytes += view.head.meta.slot_words() as u64 * 8 + large_bytes(&view);
            if reported == count || bytes >= self.block_bytes as u64 {
                break;
            }
        }
        if reported > 0 { Gave::Keys } else { Gave::NothingYet }
    }
}

/// What a large value takes elsewhere.
fn large_bytes(view: &RecordView<'_>) -> u64 {
    match view.head.meta.kind() {
        Kind::Extent => total_bytes(view.value),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
