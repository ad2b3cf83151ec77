//! Records of slots that lie in pages, too: what comes up keeps its place below as its *home*, and leaves for nothing.
//!
//! ```text
//!   page --> DRAM, home kept --> slot, home kept --> page: the index is swung, nothing is written
//!     '-------------------------------^
//! ```
//!
//! So reads alone write no page, however often they move a record. A slot's home is let go with the slot: when a newer version was
//! issued, as that of a record in DRAM is (rule R3), or when its record leaves for it.
//!
//! # Invariants
//! * A home is of the very version that the slot holds. Both are set under the key's lock.
//! * It counts as live in its page, once, for as long as the slot has it.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::space::{Context, Space};
use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};

use super::Middle;
use crate::location::Location;
use crate::space::SlabSpace;

impl<L: Lower> SlabSpace<L> {
    /// A record is found at `to` from now on, and no more in its home or where that was: if `to` is a slot it is the home of that.
    pub(crate) fn keep_home(&self, to: Address, home: Address, words: usize) {
        match (&self.middle, self.locations.location(to), self.locations.location(home)) {
            (Some(middle), Location::Pmem(at), Location::Page(..)) => middle.slabs.set_home(at, home),
            _ => self.release_copy(home, words),
        }
    }

    /// The slot of the middle tier at an address, and the home of its record.
    pub(crate) fn slot_and_home(&self, address: Address) -> Option<(&Middle, u64, Address)> {
        let (Some(middle), Location::Pmem(at)) = (&self.middle, self.locations.location(address)) else {
            return None;
        };
        Some((middle, at, middle.slabs.home(at)?))
    }

    /// Under the key's lock: a copy of a page's record, of this version, lies at `to`. If the page was the home of the slot at an
    /// address, that is there now.
    pub(crate) fn move_home_below(
        &self,
        address: Address,
        version: u64,
        (from, to): (Address, Address),
    ) -> bool {
        self.slot_and_home(address).is_some_and(|(middle, at, home)| {
            let is_page = home == from && !self.is_in_middle(to);
            is_page && middle.slabs.version(at) == version && middle.slabs.move_home(at, from, Some(to))
        })
    }

    /// Whether a slot of the middle tier holds a record of this version.
    pub(crate) fn middle_holds(&self, at: u64, version: u64) -> bool {
        self.middle.as_ref().is_some_and(|middle| middle.slabs.version(at) == version)
    }

    /// A page's copy can't be read: if a slot has it for a home, it has none any more, and will be written when it leaves. Whether
    /// one had.
    pub(crate) fn drop_home_below(&self, (from, words): (Address, usize)) -> bool {
        let Some(middle) = &self.middle else { return false };
        let dropped = middle.slabs.with_home(from).is_some_and(|at| middle.slabs.move_home(at, from, None));
        if dropped {
            self.release_copy(from, words);
        }
        dropped
    }

    /// A slot's record is found in its home again, if it has one: whatever refers to the slot refers to that. Whether it does.
    pub(super) fn leave_for_home<I: Index>(
        &self,
        middle: &Middle,
        (at, key): (u64, &Key<'_>),
        (version, expire_at): (u64, u64),
        index: &I,
        context: &dyn Context,
    ) -> bool {
        if middle.slabs.home(at).is_none() {
            return false;
        }
        let from = self.locations.pmem(at);
        let verify = |other| if self.is_or_has_home(other, from) { Verdict::Match } else { Verdict::Differs };
        index.update(key, verify, |found| {
            let Lookup::Found(other) = found else { return (Change::Keep, false) };
            let slot = match self.locations.location(other) {
                Location::Dram(offset) => Some(self.slabs.slot(offset)),
                Location::Pmem(_) | Location::Page(..) => None,
            };
            if slot.is_some_and(|slot| !slot.is_live() || slot.version() != version)
                || middle.slabs.version(at) != version
            {
                return (Change::Keep, false);
            }
            let Some(home) = middle.slabs.take_home(at) else { return (Change::Keep, false) };
            self.note_deadline(home, expire_at, context);
            // Before the slot is let go: whoever clears it waits for trust in this page.
            middle.moved_seq.fetch_max(self.generation(home), SeqCst);
            self.details.from_middle_home.fetch_add(1, Relaxed);
            let change = match slot {
                // It stays in DRAM, clean.
                Some(slot) => {
                    slot.settle(home);
                    Change::Keep
                }
                None => Change::Set(home),
            };
            middle.release(at);
            (change, true)
        })
    }
}
