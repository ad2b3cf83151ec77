//! Ranges as `GETRANGE` and `BITCOUNT` take them: both ends included, negative ones counted from the end.

use std::ops::Range;

/// The part of `0..length` between `start` and `end`.
pub(in crate::resp) fn within(start: i64, end: i64, length: u64) -> Range<u64> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    clamped(start, end, length)
}

/// The same as `BITPOS` takes it, where ends that lie before the beginning and the wrong way round are its first item.
pub(in crate::resp) fn clamped(start: i64, end: i64, length: u64) -> Range<u64> {
    let absolute = |index: i64| match u64::try_from(index) {
        Ok(index) => index,
        Err(_) => length.saturating_sub(index.unsigned_abs()),
    };
    let (start, end) = (absolute(start), absolute(end).saturating_add(1).min(length));
    if start < end { start..end } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (start, end, length, expected) in [
            (0, -1, 5, 0..5),
            (0, 0, 5, 0..1),
            (-3, -1, 5, 2..5),
            (-1, -3, 5, 0..0),
            (3, 1, 5, 0..0),
            (4, 100, 5, 4..5),
            (5, 100, 5, 0..0),
            (-100, 1, 5, 0..2),
            (-100, -100, 5, 0..1),
            (0, -1, 0, 0..0),
            (0, i64::MAX, 5, 0..5),
            (i64::MIN, i64::MAX, 5, 0..5),
            (i64::MIN, i64::MIN, 5, 0..1),
        ] {
            assert_eq!(within(start, end, length), expected, "{start} {end} of {length}");
        }
        assert_eq!(clamped(-100, -101, 5), 0..1, "both before the beginning");
    }
}
