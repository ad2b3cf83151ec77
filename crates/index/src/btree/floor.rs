//! The greatest key that is not above another one, by its address alone: nothing is copied (BonsaiKV section 3).
//!
//! # Thread safety
//! As a look-up: what a leaf says is confirmed by its version. Whatever that leaf can't tell a range finds.

use std::ops::{Bound, ControlFlow};

use super::BTree;
use super::batch::{Descent, WIDTH};
use super::get::address;
use super::text::Text;
use super::view::View;
use crate::sync::Backoff;
use crate::{Address, Direction, Key, OrderedIndex};

impl View<'_> {
    /// The confirmed address of the greatest text of this leaf that is not above this one and of its database; `Some(None)` if the leaf has
    /// none: one before it may. `None` if disturbed.
    #[inline]
    pub(super) fn floor(&self, text: Text<'_>) -> Option<Option<Address>> {
        let found = self.last_before(self.up_to(text)?, text);
        self.is_valid().then_some(found)
    }
    /// The same, and the address of the text that comes next in this leaf, if there is one. `next` gets it, with its database.
    fn floor_and_next(
        &self,
        text: Text<'_>,
        next: &mut Vec<u8>,
    ) -> Option<(Option<Address>, Option<Address>)> {
        let up_to = self.up_to(text)?;
        let floor = self.last_before(up_to, text);
        next.clear();
        let mut all = (up_to..self.shape.count()).map(|i| (i, address(self.address(i))));
        let mut after = None;
        if let Some((i, found)) = all.find(|(_, address)| address.is_some()) {
            self.append_prefix(next)?;
            self.append_suffix(i, next)?;
            after = found.filter(|_| next.first() == Some(&text.parts().0));
        }
        self.is_valid().then_some((floor, after))
    }
    /// Entries that are not above a text.
    #[inline]
    fn up_to(&self, text: Text<'_>) -> Option<usize> {
        let position = self.position(text)?;
        Some((position.below + usize::from(position.exact)).min(self.shape.count()))
    }
    /// The last address among so many entries, of a text's database. Entries that are only places have none.
    #[inline]
    fn last_before(&self, up_to: usize, text: Text<'_>) -> Option<Address> {
        let is_of_database =
            |i: &usize| self.shape.prefix() > 0 || (self.node.head(*i) >> 56) as u8 == text.parts().0;
        let mut all = (0..up_to).rev().take_while(is_of_database).filter_map(|i| address(self.address(i)));
        all.next()
    }
}

impl BTree {
    /// The address of the greatest key of a database that is not above this one, as [`floor`](OrderedIndex::floor) finds it.
    #[inline]
    pub fn floor_address(&self, db: u8, key: &[u8]) -> Option<Address> {
        let text = Text::from_parts(db, key);
        let backoff = Backoff::new();
        loop {
            match self.leaf(text).floor(text) {
                Some(Some(address)) => return Some(address),
                Some(None) => return self.floor_before(db, key),
                None => backoff.wait(),
            }
        }
    }
    /// The same, and the address of the smallest key that is above this one, if there is any; `next` gets that key.
    pub fn floor_and_next(
        &self,
        db: u8,
        key: &[u8],
        next: &mut Vec<u8>,
    ) -> (Option<Address>, Option<Address>) {
        let text = Text::from_parts(db, key);
        let backoff = Backoff::new();
        let (floor, after) = loop {
            match self.leaf(text).floor_and_next(text, next) {
                Some(found) => break found,
                None => backoff.wait(),
            }
        };
        let floor = floor.or_else(|| self.floor_before(db, key));
        if after.is_some() {
            next.remove(0);
            return (floor, after);
        }
        next.clear();
        let mut after = None;
        self.range(db, Bound::Excluded(key), Direction::Forward, &mut |key, address| {
            next.extend_from_slice(key);
            after = Some(address);
            ControlFlow::Break(())
        });
        (floor, after)
    }
    /// [`floor_address`](Self::floor_address) of several keys, whose descents take turns.
    pub fn floor_batch<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> Key<'k>,
        mut show: impl FnMut(usize, Option<Address>),
    ) {
        for first in (0..count).step_by(WIDTH) {
            let here = (count - first).min(WIDTH);
            let text_of = |i: usize| Text::new(&key(first + i));
            let descents = self.descend(here, text_of, |view, text| view.floor(text), |_| {});
            for (i, descent) in descents.iter().enumerate().take(here) {
                let found = match descent {
                    Descent::Found(Some(address)) => Some(*address),
                    _ => self.floor_address(key(first + i).db, key(first + i).bytes),
                };
                show(first + i, found);
            }
        }
    }
    #[cold]
    fn floor_before(&self, db: u8, key: &[u8]) -> Option<Address> {
        self.floor(db, key, &mut Vec::new())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Change, Index, Verdict};

    #[test]
    fn an_address_is_that_of_the_floor_whatever_keys_there_are() {
        let tree = BTree::new();
        let mut seed = 7u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        };
        let mut key_of = move || {
            let length = [0, 1, 3, 8, 9, 60][random() as usize % 6];
            let bytes: Vec<u8> = (0..length).map(|_| random() as u8 & 7).collect();
            (random() as u8 % 3, bytes)
        };
        for i in 1..20_000u64 {
            let (db, bytes) = key_of();
            let key = Key { hash: 0, db, bytes: &bytes };
            // Leaves lose what they begin with, and all that they have.
            let change = |found| match found {
                crate::Lookup::Absent => (Change::Set(Address::new(i)), ()),
                _ => (Change::Remove, ()),
            };
            tree.update(&key, |_| Verdict::Match, change);
            let (db, bytes) = key_of();
            let expected = tree.floor(db, &bytes, &mut Vec::new());
            assert_eq!(tree.floor_address(db, &bytes), expected, "{db} {bytes:?}");
            let (mut next, mut after) = (Vec::new(), None);
            tree.range(db, Bound::Excluded(&bytes), Direction::Forward, &mut |key, address| {
                after = Some((key.to_vec(), address));
                ControlFlow::Break(())
            });
            assert_eq!(
                tree.floor_and_next(db, &bytes, &mut next),
                (expected, after.as_ref().map(|after| after.1))
            );
            assert_eq!(Some(next).filter(|_| after.is_some()), after.map(|after| after.0));
        }
        let keys: Vec<_> = (0..1000).map(|_| key_of()).collect();
        let mut seen = 0;
        let key = |i: usize| Key { hash: 0, db: keys[i].0, bytes: &keys[i].1 };
        tree.floor_batch(keys.len(), key, |i, found| {
            seen += 1;
            assert_eq!(found, tree.floor(keys[i].0, &keys[i].1, &mut Vec::new()));
        });
        assert_eq!(seen, keys.len());
    }
}
