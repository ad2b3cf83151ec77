//! Which block there is most to gain in, as far as is known.
//!
//! ```text
//!              of records            of large values
//!   most      | 17 | 4 |            | 90 |              a list for each of 64 shares of a block; a slot stands
//!    ..       | 8 |                 |                   in that of what was to gain when it was looked at last
//!   least     | 3 | 12 | 55 |       | 2 | 41 |
//! ```
//!
//! What lives in a block changes at any time, and nobody is told. Whoever asks looks at slots again in turn, and at
//! those that it is about to choose: what is noted of others is as old as one such turn.
//!
//! # Thread safety
//! None of its own: it belongs to the background step that reclaims blocks.
//!
//! # Invariants
//! The sums are those of what is noted. A slot of which nothing is noted is in no list; one that is hidden counts in
//! the sums, and is in none either.

use crate::links::{LINK_BYTES, Links};

/// Shares of a block that are told apart.
const SHARES: usize = 64;
/// Of what is noted of a slot: it holds large values.
const EXTENTS: u32 = 1 << 31;

/// See the module.
#[derive(Default)]
pub struct Emptiest {
    links: Option<Links>,
    /// Of each slot what there is to gain, and whether that is of large values.
    noted: Vec<u32>,
    block_bytes: u64,
    pages: u64,
    extents: u64,
}

impl Emptiest {
    /// Bytes of DRAM for each slot.
    pub const BYTES_A_SLOT: usize = LINK_BYTES + size_of::<u32>();

    /// There are so many slots, of blocks of this size. Whether nothing was ever noted.
    pub fn begin(&mut self, slots: usize, block_bytes: usize) -> bool {
        let is_new = self.links.is_none();
        self.block_bytes = block_bytes as u64;
        self.links.get_or_insert_with(|| Links::new(2 * SHARES, slots)).reserve(slots);
        if slots > self.noted.len() {
            self.noted.reserve_exact(slots - self.noted.len());
            self.noted.resize(slots, 0);
        }
        is_new
    }
    /// What there is to gain, as far as is known, in blocks of records and of large values.
    pub fn sums(&self) -> (u64, u64) {
        (self.pages, self.extents)
    }
    /// There is so much to gain in a slot.
    pub fn note(&mut self, slot: u32, of_extents: bool, gain: u64) {
        if gain == 0 {
            return self.forget(slot);
        }
        let note = gain as u32 | if of_extents { EXTENTS } else { 0 };
        let list = self.list(note);
        let stays = self.is_listed(slot) && self.list(self.noted[slot as usize]) == list;
        self.count(slot, note);
        if let Some(links) = self.links.as_mut().filter(|_| !stays) {
            links.put_last(list, slot);
        }
    }
    /// It is not chosen until it is noted again.
    pub fn hide(&mut self, slot: u32) {
        if let Some(links) = &mut self.links {
            links.leave(slot);
        }
    }
    /// There is nothing to gain in it.
    pub fn forget(&mut self, slot: u32) {
        if self.noted.get(slot as usize).is_some_and(|&note| note != 0) {
            self.count(slot, 0);
            self.hide(slot);
        }
    }
    /// What is noted of a slot that may be chosen.
    pub fn gain(&self, slot: u32) -> Option<u64> {
        self.is_listed(slot).then(|| u64::from(self.noted[slot as usize] & !EXTENTS))
    }
    /// The first of those slots in which most is to gain, of blocks of records, of large values, or of both.
    pub fn first(&self, pages: bool, extents: bool) -> Option<u32> {
        let links = self.links.as_ref()?;
        let lists = (0..SHARES).rev().flat_map(|share| {
            [pages.then_some(2 * share), extents.then_some(2 * share + 1)].into_iter().flatten()
        });
        lists.filter_map(|list| links.first(list)).next()
    }
    /// The one behind it in its list, in which about as much is to gain.
    pub fn next(&self, slot: u32) -> Option<u32> {
        self.links.as_ref()?.next(slot)
    }
    /// The share of a block that so much is: those with the same one are not told apart.
    pub fn share(&self, gain: u64) -> usize {
        (gain * SHARES as u64 / (self.block_bytes + 1)) as usize
    }

    fn is_listed(&self, slot: u32) -> bool {
        self.links.as_ref().is_some_and(|links| links.is_in_any(slot))
    }
    fn list(&self, note: u32) -> usize {
        2 * self.share(u64::from(note & !EXTENTS)) + usize::from(note & EXTENTS != 0)
    }
    /// Counts what is noted of a slot from now on.
    fn count(&mut self, slot: u32, note: u32) {
        let before = std::mem::replace(&mut self.noted[slot as usize], note);
        for (note, is_new) in [(before, false), (note, true)] {
            let sum = if note & EXTENTS == 0 { &mut self.pages } else { &mut self.extents };
            let gain = u64::from(note & !EXTENTS);
            *sum = if is_new { *sum + gain } else { *sum - gain };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 6400;

    #[test]
    fn the_emptiest_come_first_each_kind_by_itself() {
        let mut all = Emptiest::default();
        assert!(all.first(true, true).is_none() && all.begin(8, BLOCK) && !all.begin(8, BLOCK));
        for (slot, of_extents, gain) in
            [(1, false, 3010), (2, true, 6000), (3, false, 3050), (4, false, 9), (5, true, 200)]
        {
            all.note(slot, of_extents, gain);
        }
        assert_eq!(all.sums(), (6069, 6200));
        assert_eq!((all.first(true, true), all.first(true, false), all.next(1)), (Some(2), Some(1), Some(3)));
        // One that is noted again stays where it is, unless that makes a difference.
        all.note(1, false, 3060);
        assert_eq!((all.first(true, false), all.gain(1)), (Some(1), Some(3060)));
        all.note(1, false, 20);
        assert_eq!((all.first(true, false), all.next(4)), (Some(3), Some(1)));
        all.hide(2);
        assert_eq!((all.first(false, true), all.gain(2), all.sums().1), (Some(5), None, 6200));
        all.note(2, true, 6000);
        assert_eq!((all.first(true, true), all.sums().1), (Some(2), 6200));
        all.note(2, false, BLOCK as u64);
        assert_eq!((all.sums(), all.first(true, false)), ((3050 + 9 + 20 + BLOCK as u64, 200), Some(2)));
        for slot in 0..8 {
            all.forget(slot);
            all.forget(slot);
        }
        assert_eq!((all.sums(), all.first(true, true)), ((0, 0), None));
    }

    #[test]
    fn it_takes_twelve_bytes_a_slot_and_grows_with_the_tier() {
        let mut all = Emptiest::default();
        for slots in [1000, 3000] {
            all.begin(slots, BLOCK);
            all.note(slots as u32 - 1, false, 100);
            let bytes = all.links.as_ref().unwrap().bytes() + all.noted.capacity() * size_of::<u32>();
            assert!(bytes - 2 * SHARES * LINK_BYTES <= slots * Emptiest::BYTES_A_SLOT, "{bytes}");
        }
        assert_eq!((all.first(true, false), all.next(999)), (Some(999), Some(2999)));
    }
}
