//! Slots that a session has taken for its next puts.

/// By class.
#[derive(Default)]
pub(crate) struct Reserved {
    slots: Vec<Vec<u64>>,
    count: usize,
    /// Classes outside of these have none.
    low: usize,
    high: usize,
}

impl Reserved {
    /// A slot more.
    pub fn add(&mut self, class: usize, offset: u64) {
        if self.slots.len() <= class {
            self.slots.resize_with(class + 1, Vec::new);
        }
        self.slots[class].push(offset);
        let (low, high) = if self.count == 0 { (class, class) } else { (self.low, self.high) };
        (self.low, self.high) = (low.min(class), high.max(class));
        self.count += 1;
    }
    /// Whether some slot holds a record of this class.
    #[inline]
    pub fn has(&self, class: usize) -> bool {
        self.best(class).is_some()
    }
    /// The class of the smallest such slot.
    #[inline]
    fn best(&self, class: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        (class.max(self.low)..self.high + 1).find(|&class| !self.slots[class].is_empty())
    }
    /// Takes the smallest slot that holds a record of this class: it leaves the best for others, whatever their order. Its class
    /// and offset.
    #[inline]
    pub fn take(&mut self, class: usize) -> Option<(usize, u64)> {
        let best = self.best(class)?;
        self.count -= 1;
        Some((best, self.slots[best].pop()?))
    }
    /// Gives all up.
    #[inline]
    pub fn drain(&mut self, mut give: impl FnMut(u64)) {
        if self.count > 0 {
            self.slots[self.low..=self.high].iter_mut().flat_map(|slots| slots.drain(..)).for_each(&mut give);
            self.count = 0;
        }
    }
    /// What is missing for so many records of each class, told from the longest on as a class and how many; `false` once that
    /// does.
    pub fn missing(&self, wanted: &[usize], mut tell: impl FnMut(usize, usize) -> bool) -> bool {
        let mut left = 0;
        for class in (0..wanted.len().max(self.slots.len())).rev() {
            left += self.slots.get(class).map_or(0, Vec::len);
            let here = wanted.get(class).copied().unwrap_or(0);
            if here > left && !tell(class, here - left) {
                return false;
            }
            left = left.saturating_sub(here);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_slot_that_holds_a_record_goes_first() {
        let mut reserved = Reserved::default();
        assert!(!reserved.has(0));
        [(3, 30), (1, 10), (5, 50)].into_iter().for_each(|(class, offset)| reserved.add(class, offset));
        assert_eq!(
            [reserved.take(2), reserved.take(2), reserved.take(2)],
            [Some((3, 30)), Some((5, 50)), None]
        );
        assert!(reserved.has(1) && !reserved.has(2));
        let mut given = Vec::new();
        reserved.drain(|offset| given.push(offset));
        assert_eq!(given, [10]);
        assert!(!reserved.has(0));
    }

    #[test]
    fn what_is_missing_counts_longer_slots_for_shorter_records() {
        let mut reserved = Reserved::default();
        [(2, 1), (2, 2), (0, 3)].into_iter().for_each(|(class, offset)| reserved.add(class, offset));
        let missing = |wanted: &[usize]| {
            let mut told = Vec::new();
            assert!(reserved.missing(wanted, |class, count| {
                told.push((class, count));
                true
            }));
            told
        };
        assert_eq!(missing(&[1, 1, 1]), []);
        assert_eq!(missing(&[2, 1, 1]), [(0, 1)]);
        assert_eq!(missing(&[0, 3, 0]), [(1, 1)]);
        assert_eq!(missing(&[0, 0, 0, 2]), [(3, 2)]);
        assert!(!reserved.missing(&[0, 3], |_, _| false));
    }
}
