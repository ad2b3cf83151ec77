//! How long a connection has had more unsent bytes than it may have for long.

use crate::limits::SoftBound;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    since_ms: Option<u64>,
}

impl Overdue {
    /// All is sent.
    pub fn clear(&mut self) {
        self.since_ms = None;
    }

    /// So many bytes are unsent now. When they will have been too many for too long; `None`: they are not too many.
    pub fn note(&mut self, unsent: usize, bound: &SoftBound, now_ms: u64) -> Option<u64> {
        if bound.bytes.get().is_none_or(|max| unsent as u64 <= max) {
            self.since_ms = None;
            return None;
        }
        // A clock that was set back must not make it last.
        let since_ms = self.since_ms.map_or(now_ms, |since_ms| since_ms.min(now_ms));
        self.since_ms = Some(since_ms);
        Some(since_ms.saturating_add(bound.ms.get().unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::SoftLimit;

    #[test]
    fn time_counts_from_when_it_was_too_much() {
        let bound = SoftBound::default();
        let mut overdue = Overdue::default();
        assert_eq!(overdue.note(usize::MAX, &bound, 5), None, "there is no bound");
        bound.set(SoftLimit { bytes: 100, time: Duration::from_secs(2) });
        assert_eq!(overdue.note(100, &bound, 10), None);
        assert_eq!(overdue.note(101, &bound, 20), Some(2020));
        assert_eq!(overdue.note(500, &bound, 1000), Some(2020), "it began then");
        assert_eq!(overdue.note(100, &bound, 1500), None);
        assert_eq!(overdue.note(101, &bound, 1600), Some(3600), "it began anew");
        assert_eq!(overdue.note(101, &bound, 50), Some(2050), "the clock was set back");
        overdue.clear();
        assert_eq!(overdue.note(101, &bound, 4000), Some(6000));
        bound.set(SoftLimit { bytes: 100, time: Duration::ZERO });
        assert_eq!(overdue.note(101, &bound, 4100), Some(4000), "at once");
    }
}
