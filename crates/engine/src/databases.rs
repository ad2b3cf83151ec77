//! Which number clients know each database by: `SWAPDB` exchanges numbers, and no record is touched.
//!
//! Records, counts and flushes know a database by where it *lies*, which never changes. Operations name it by its number, and a
//! session translates as it begins a batch, inside its epoch: swaps, like flushes, happen while nobody is in one. An exchange is of
//! the databases that had its numbers when its batch began, so that what its batch names by them is what it means, whatever others
//! exchange in between: the order is that in which the batches began.

use crate::op::DATABASES;

/// Where the database of each number lies: four bits each, number 0 in the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Databases(u64);

impl Default for Databases {
    /// Each lies where its number says.
    fn default() -> Self {
        Self(0xFEDC_BA98_7654_3210)
    }
}

impl Databases {
    /// The word that is stored.
    pub fn word(self) -> u64 {
        self.0
    }
    /// From a stored word; `None` if two numbers mean the same database.
    pub fn from_word(word: u64) -> Option<Self> {
        let seen = (0..DATABASES as u8).fold(0u16, |seen, number| seen | 1 << Self(word).place(number));
        (seen == u16::MAX).then_some(Self(word))
    }
    /// From a word that came from [`word`](Self::word).
    #[inline]
    pub(crate) fn from_stored(word: u64) -> Self {
        debug_assert!(Self::from_word(word).is_some(), "{word:#x}");
        Self(word)
    }
    /// Where the database of this number lies.
    #[inline]
    pub fn place(self, number: u8) -> u8 {
        (self.0 >> (u32::from(number & 15) * 4)) as u8 & 15
    }
    /// The number of the database that lies there.
    pub fn number(self, place: u8) -> u8 {
        (0..DATABASES as u8).find(|number| self.place(*number) == place & 15).unwrap_or(place)
    }
    /// With two numbers exchanged.
    pub fn swapped(self, a: u8, b: u8) -> Self {
        let differs = u64::from(self.place(a) ^ self.place(b));
        let at = |number: u8| differs << (u32::from(number & 15) * 4);
        // Of the same number twice nothing differs.
        Self(self.0 ^ at(a) ^ at(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exchanged_and_back() {
        let first = Databases::default();
        assert!((0..16).all(|db| first.place(db) == db && first.number(db) == db));
        let swapped = first.swapped(0, 15).swapped(15, 3);
        assert_eq!((swapped.place(0), swapped.place(15), swapped.place(3)), (15, 3, 0));
        assert!((0..16).all(|db| swapped.number(swapped.place(db)) == db));
        assert_eq!(swapped.swapped(7, 7), swapped);
        assert_eq!(swapped.swapped(3, 15).swapped(0, 15), first);
        assert_eq!(Databases::from_word(swapped.word()), Some(swapped));
        assert_eq!(Databases::from_word(first.word() ^ 1), None, "nobody has the first one");
    }
}
