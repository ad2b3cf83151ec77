//! What may happen very often, and is worth one line of the log a second.

/// Between two lines.
pub(crate) const EVERY_MS: u64 = 1000;

/// How often it happened since the last line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    count: u64,
    told_ms: Option<u64>,
}

impl Tally {
    /// It happened once more.
    pub fn note(&mut self) {
        self.count += 1;
    }

    /// How often it happened, if a line is due that says so.
    pub fn due(&mut self, now_ms: u64) -> Option<u64> {
        // A clock that was set back makes it due, too.
        let waits = self.told_ms.is_some_and(|told_ms| (told_ms..told_ms + EVERY_MS).contains(&now_ms));
        if waits || self.count == 0 {
            return None;
        }
        self.told_ms = Some(now_ms);
        Some(std::mem::take(&mut self.count))
    }

    /// When that will be, if something happened.
    pub fn due_ms(&self) -> Option<u64> {
        (self.count > 0).then(|| self.told_ms.map_or(0, |told_ms| told_ms + EVERY_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_many_by_their_number() {
        let mut tally = Tally::default();
        assert_eq!((tally.due(5000), tally.due_ms()), (None, None));
        tally.note();
        assert_eq!(tally.due(5000), Some(1));
        (0..300).for_each(|_| tally.note());
        assert_eq!((tally.due(5000), tally.due(5999), tally.due_ms()), (None, None, Some(6000)));
        assert_eq!((tally.due(6000), tally.due(9000)), (Some(300), None));
        tally.note();
        assert_eq!(tally.due(10), Some(1), "the clock was set back");
    }
}
