//! Sizes of slots: each an eighth more than the one before, and as long as a slab of so many holds.

use crate::slab::SLOT_HEAD;

/// The classes of a store, by number.
pub(crate) struct Classes {
    bytes: Box<[u32]>,
    /// The class of a slot of so many 16 bytes.
    of: Box<[u8]>,
}

/// Slots are multiples of this.
pub(crate) const GRAIN: usize = 16;
/// A record has three words, a slot two before it.
const LEAST: usize = 48;

impl Classes {
    /// For slabs of `slab_bytes` and records of up to `longest` bytes, which a slab must hold.
    pub fn new(slab_bytes: usize, longest: usize) -> Self {
        let longest = (longest + SLOT_HEAD).next_multiple_of(GRAIN);
        debug_assert!(longest <= slab_bytes, "a slab holds the longest record");
        let mut bytes: Vec<u32> = Vec::new();
        let mut next = LEAST;
        while bytes.last().is_none_or(|&last| (last as usize) < longest) {
            // As many as that, and each as long as may be.
            let count = slab_bytes / next.min(slab_bytes);
            let size = slab_bytes / count / GRAIN * GRAIN;
            bytes.push(size as u32);
            next = size + (size / 8).next_multiple_of(GRAIN);
        }
        let mut of = Vec::new();
        for grains in 0..=bytes.last().map_or(0, |&last| last as usize / GRAIN) {
            let class = bytes.partition_point(|&size| (size as usize) < grains * GRAIN);
            of.push(class as u8);
        }
        Self { bytes: bytes.into(), of: of.into() }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len()
    }
    /// A slot's length.
    #[inline]
    pub fn bytes(&self, class: usize) -> usize {
        self.bytes[class] as usize
    }
    /// The class for a record of so many words; `None` if it is too long for any.
    #[inline]
    pub fn of(&self, words: usize) -> Option<usize> {
        self.of.get((words * 8 + SLOT_HEAD).div_ceil(GRAIN)).map(|&class| usize::from(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_the_smallest_class_that_holds_it() {
        for (slab, longest) in [(2048, 1600), (8192, 6000), (1 << 20, 100 << 10), (256 << 10, 82 << 10)] {
            let classes = Classes::new(slab, longest);
            assert!(classes.count() < 200, "{}", classes.count());
            for words in 3..=longest / 8 {
                let class = classes.of(words).unwrap();
                assert!(classes.bytes(class) >= words * 8 + SLOT_HEAD);
                assert!(class == 0 || classes.bytes(class - 1) < words * 8 + SLOT_HEAD);
                assert!(classes.bytes(class) <= slab && classes.bytes(class).is_multiple_of(GRAIN));
            }
            assert!((1..classes.count()).all(|class| classes.bytes(class - 1) < classes.bytes(class)));
        }
    }
}
