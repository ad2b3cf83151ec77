//! Sizes of slots: each a little more than the one before, and as long as a slab of so many holds.

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
/// Shares of a slot's length by which the next one is longer, as divisors, each for so many slabs or more. A class more costs
/// more than it saves where there are few slabs, for each keeps one that is partly empty.
const STEPS: [(usize, usize); 4] = [(16, 256), (8, 0), (4, 0), (2, 0)];
/// Each twice as long as the one before.
const COARSEST: usize = 1;
/// The step where slabs are so small that they hold few lengths; stores whose crashes are tried out have such.
const OF_SMALL_SLABS: usize = 8;
/// Slabs are small below this.
pub(crate) const SMALL_SLAB: usize = 64 << 10;

impl Classes {
    /// For `slabs` slabs of `slab_bytes` and records of up to `longest` bytes, which a slab must hold.
    ///
    /// Where records of all lengths come and go, slabs would otherwise go from class to class, each time emptied by writing down
    /// what is in it: so there are no more classes than slabs, if that can be.
    pub fn new(slabs: usize, slab_bytes: usize, longest: usize) -> Self {
        let longest = (longest + SLOT_HEAD).next_multiple_of(GRAIN);
        debug_assert!(longest <= slab_bytes, "a slab holds the longest record");
        if slab_bytes < SMALL_SLAB {
            return Self::of_sizes(sizes(OF_SMALL_SLABS, slab_bytes, longest));
        }
        let steps = STEPS.iter().filter(|(_, from)| slabs >= *from);
        let mut sizes = steps.map(|&(step, _)| sizes(step, slab_bytes, longest));
        let fitting = sizes.find(|sizes| sizes.len() <= slabs);
        Self::of_sizes(fitting.unwrap_or_else(|| self::sizes(COARSEST, slab_bytes, longest)))
    }
    fn of_sizes(bytes: Vec<u32>) -> Self {
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

/// Lengths of slots up to one for records of `longest` bytes.
fn sizes(step: usize, slab_bytes: usize, longest: usize) -> Vec<u32> {
    let mut bytes: Vec<u32> = Vec::new();
    let mut next = LEAST;
    while bytes.last().is_none_or(|&last| (last as usize) < longest) {
        // As many as that, and each as long as may be.
        let count = slab_bytes / next.min(slab_bytes);
        let size = slab_bytes / count / GRAIN * GRAIN;
        bytes.push(size as u32);
        next = size + (size / step).next_multiple_of(GRAIN);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_the_smallest_class_that_holds_it() {
        let stores = [(2048, 1600), (8192, 6000), (1 << 20, 100 << 10), (96 << 10, 82 << 10)];
        for ((slab, longest), slabs) in stores.into_iter().flat_map(|store| [8, 1024].map(|n| (store, n))) {
            let classes = Classes::new(slabs, slab, longest);
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

    #[test]
    fn there_are_no_more_classes_than_slabs() {
        let mut last = 0;
        for slabs in [12, 17, 24, 48, 96, 192, 400] {
            let count = Classes::new(slabs, 96 << 10, 82 << 10).count();
            assert!(count <= slabs && count >= last, "{count} classes for {slabs} slabs");
            last = count;
        }
        assert!(last > 60, "and steps are fine where they can be: {last}");
    }
}
