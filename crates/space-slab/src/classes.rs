//! Sizes of slots: each an eighth more than the one before (a sixteenth, where there are slabs for so many classes), and as
//! long as a slab of so many holds.

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
/// From so many slabs on the steps are finer. With fewer slabs than that a class more costs more than it saves: each keeps a
/// slab that is partly empty.
const FINE_FROM: usize = 256;

impl Classes {
    /// For `slabs` slabs of `slab_bytes` and records of up to `longest` bytes, which a slab must hold.
    pub fn new(slabs: usize, slab_bytes: usize, longest: usize) -> Self {
        let step = if slabs < FINE_FROM { 8 } else { 16 };
        let longest = (longest + SLOT_HEAD).next_multiple_of(GRAIN);
        debug_assert!(longest <= slab_bytes, "a slab holds the longest record");
        let mut bytes: Vec<u32> = Vec::new();
        let mut next = LEAST;
        while bytes.last().is_none_or(|&last| (last as usize) < longest) {
            // As many as that, and each as long as may be.
            let count = slab_bytes / next.min(slab_bytes);
            let size = slab_bytes / count / GRAIN * GRAIN;
            bytes.push(size as u32);
            next = size + (size / step).next_multiple_of(GRAIN);
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
    /// Whether a record of this class may stay in a slot of another one; beyond, it moves to a smaller one.
    #[inline]
    pub fn is_near(&self, smallest: usize, class: usize) -> bool {
        smallest <= class && self.bytes(class) <= 2 * self.bytes(smallest)
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
            let (coarse, classes) = (Classes::new(8, slab, longest), Classes::new(1024, slab, longest));
            assert!(coarse.count() <= classes.count() && classes.count() < 200, "{}", classes.count());
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
