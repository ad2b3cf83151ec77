//! The longest common subsequence of two strings, with the same choice among equally long ones as Redis makes.
//!
//! Redis keeps the table of lengths, 4 bytes for each pair of positions; here it is two of its rows and, where the way back
//! is needed, a bit for each pair: whether it goes through the first string.

use std::ops::Range;

/// Positions in both strings whose bytes are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub a: Range<usize>,
    pub b: Range<usize>,
}

/// What Redis's table of lengths would take, in bytes.
pub(super) fn table_bytes(a: &[u8], b: &[u8]) -> u64 {
    (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1).saturating_mul(4)
}

/// The length.
pub(super) fn length(a: &[u8], b: &[u8]) -> usize {
    fill(a, b, |_, _| {}) as usize
}

/// The subsequence.
pub(super) fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    walk(a, b, |i, _| bytes.push(a[i]));
    bytes.reverse();
    bytes
}

/// The length, and its parts that lie together in both strings, last to first.
pub(super) fn matches(a: &[u8], b: &[u8]) -> (usize, Vec<Match>) {
    let mut found: Vec<Match> = Vec::new();
    let length = walk(a, b, |i, j| match found.last_mut() {
        Some(last) if last.a.start == i + 1 && last.b.start == j + 1 => {
            last.a.start = i;
            last.b.start = j;
        }
        _ => found.push(Match { a: i..i + 1, b: j..j + 1 }),
    });
    (length, found)
}

/// Goes from the ends of both strings to a beginning and tells the positions of the subsequence; returns its length.
fn walk(a: &[u8], b: &[u8], mut step: impl FnMut(usize, usize)) -> usize {
    let mut through_a = vec![0u64; (a.len() * b.len()).div_ceil(64)];
    let length = fill(a, b, |i, j| {
        let at = i * b.len() + j;
        through_a[at / 64] |= 1 << (at % 64);
    });
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        let at = (i - 1) * b.len() + j - 1;
        if a[i - 1] == b[j - 1] {
            i -= 1;
            j -= 1;
            step(i, j);
        } else if through_a[at / 64] >> (at % 64) & 1 == 1 {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    length as usize
}

/// Works out the length, and calls `through_a` for the positions from which the way back goes through `a`: where the
/// subsequence without `a`'s byte is longer than that without `b`'s.
fn fill(a: &[u8], b: &[u8], mut through_a: impl FnMut(usize, usize)) -> u32 {
    // Lengths for the bytes of `a` so far and each beginning of `b`.
    let mut row = vec![0u32; b.len() + 1];
    for (i, &in_a) in a.iter().enumerate() {
        let (mut corner, mut left) = (0, 0);
        for (j, (&in_b, above)) in b.iter().zip(&mut row[1..]).enumerate() {
            let length = if in_a == in_b {
                corner + 1
            } else if *above > left {
                through_a(i, j);
                *above
            } else {
                left
            };
            corner = *above;
            *above = length;
            left = length;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are redis-server's.
    #[test]
    fn subsequences_and_where_they_lie() {
        let (a, b) = (&b"ohmytext"[..], &b"mynewtext"[..]);
        assert_eq!(length(a, b), 6);
        assert_eq!(subsequence(a, b), b"mytext");
        let expected = vec![Match { a: 4..8, b: 5..9 }, Match { a: 2..4, b: 0..2 }];
        assert_eq!(matches(a, b), (6, expected));
        assert_eq!(subsequence(b"", b"abc"), b"");
        assert_eq!(matches(b"abc", b""), (0, vec![]));
        assert_eq!(subsequence(b"ab", b"ba"), b"b");
        assert_eq!(subsequence(b"rnd1!x", b"1x!drn"), b"1x");
    }

    #[test]
    fn tables_are_as_large_as_redis_would_make_them() {
        assert_eq!(table_bytes(b"abc", b""), 16);
    }
}
