//! The table of a tier's blocks or slabs: it grows while sessions read it, and what they hold of it never moves.
//!
//! ```text
//! entries   0 ........ n | n ........ 2n | 2n ................ 4n | ...     each part is made when the tier first grows into it
//! ```
//!
//! # Invariants
//! An entry that was there once stays where it is. Those behind [`len`](Table::len) are free, and nobody takes them; sessions that
//! still hold an address in one find another use of the slot there, which is none.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;

use crate::slots::Slot;
use crate::sync::AtomicUsize;

/// The entries of all blocks of a tier.
pub type Slots = Table<Slot>;

/// The tier may become so many times twice as large as it was when it was opened.
const DOUBLINGS: usize = 16;

/// The entries of a tier's blocks, or of whatever its parts are.
pub struct Table<T> {
    first: Box<[T]>,
    more: [OnceLock<Box<[T]>>; DOUBLINGS],
    len: AtomicUsize,
}

impl<T: Default> Table<T> {
    /// So many, all free.
    pub fn new(count: usize) -> Self {
        Self::with(count, &T::default)
    }
    /// Makes entries for so many blocks; the tier has as many as before.
    pub(crate) fn reserve(&self, count: usize) {
        self.reserve_with(count, &T::default);
    }
}

impl<T> Table<T> {
    /// So many, all free, made by `make`. There is always an entry, of a tier that has none a spare one.
    pub fn with(count: usize, make: &dyn Fn() -> T) -> Self {
        Self {
            first: (0..count.max(1)).map(|_| make()).collect(),
            more: [const { OnceLock::new() }; DOUBLINGS],
            len: AtomicUsize::new(count),
        }
    }
    /// Blocks that the tier has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Acquire)
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Blocks that it can have at most while it is open.
    pub fn most(&self) -> usize {
        self.first.len() << DOUBLINGS
    }
    /// An entry, also of a block that the tier no longer has.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        match self.first.get(number) {
            None => self.later(number),
            slot => slot,
        }
    }
    /// The entries of all blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let parts = self.more.iter().map_while(|part| part.get());
        self.first.iter().chain(parts.flatten()).take(self.len())
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        let more: usize = self.more.iter().filter_map(|part| part.get()).map(|part| part.len()).sum();
        (self.first.len() + more) * size_of::<T>()
    }
    /// The same, made by `make`.
    pub fn reserve_with(&self, count: usize, make: &dyn Fn() -> T) {
        let mut end = self.first.len();
        for part in &self.more {
            if count <= end {
                break;
            }
            part.get_or_init(|| (0..end).map(|_| make()).collect());
            end *= 2;
        }
    }
    /// From now on the tier has so many blocks; there are entries for them.
    pub fn set_len(&self, count: usize) {
        self.len.store(count, Release);
    }

    #[cold]
    fn later(&self, number: usize) -> Option<&T> {
        let part = (number / self.first.len().max(1)).checked_ilog2()? as usize;
        self.more.get(part)?.get()?.get(number - (self.first.len() << part))
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: usize) -> &T {
        match self.get(number) {
            Some(slot) => slot,
            None => panic!("block {number} of {}", self.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_while_the_table_grows_and_shrinks() {
        let table = Slots::new(3);
        let entry: *const Slot = &table[2];
        for count in [4, 6, 7, 50, 5] {
            table.reserve(count);
            table.set_len(count);
            assert_eq!((table.len(), table.iter().count()), (count, count));
            for (number, slot) in table.iter().enumerate() {
                assert!(std::ptr::eq(slot, &table[number]), "{number} of {count}");
            }
        }
        assert!(std::ptr::eq(entry, &table[2]));
        assert!(table.get(49).is_some() && table.get(3 << 16).is_none(), "what was there once, and no more");
        let none: Table<u32> = Table::with(0, &|| 7);
        assert!(none.is_empty() && none.iter().next().is_none());
        none.reserve_with(5, &|| 7);
        none.set_len(5);
        assert_eq!((none.len(), none.iter().sum::<u32>(), none[4]), (5, 35, 7));
    }
}
