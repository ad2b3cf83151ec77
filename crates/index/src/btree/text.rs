//! A key as the tree orders it: the database's byte, then the key's bytes.
//!
//! Two texts compare as their words do (eight bytes each, big-endian, padded with zeros), and by their lengths where all
//! the words of the shorter one are equal.

use crate::Key;

/// A key: one string of a database byte and the key's bytes, which is nowhere put together.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    db: u8,
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    /// The text of a key.
    #[inline]
    pub(super) fn new(key: &Key<'a>) -> Self {
        Self { db: key.db, bytes: key.bytes }
    }
    /// The text of these parts.
    pub(super) fn from_parts(db: u8, bytes: &'a [u8]) -> Self {
        Self { db, bytes }
    }
    /// Its parts.
    #[inline]
    pub(super) fn parts(&self) -> (u8, &'a [u8]) {
        (self.db, self.bytes)
    }
    /// A text that was put together, and so isn't empty.
    pub(super) fn from_joined(joined: &'a [u8]) -> Self {
        match joined {
            [db, bytes @ ..] => Self { db: *db, bytes },
            [] => Self { db: 0, bytes: &[] },
        }
    }
    /// Bytes, the database's included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        1 + self.bytes.len()
    }
    /// Appends the text to `out`.
    pub(super) fn join(&self, out: &mut Vec<u8>) {
        out.push(self.db);
        out.extend_from_slice(self.bytes);
    }
    /// Eight bytes from byte `at` on, big-endian, zeros past the end.
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        if at == 0 {
            return u64::from(self.db) << 56 | word(self.bytes, 0) >> 8;
        }
        word(self.bytes, at - 1)
    }
}

/// Eight bytes of `bytes` from `at` on, big-endian, zeros past the end.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let Some(last) = bytes.len().checked_sub(8) else { return short_word(bytes, at) };
    // The last eight bytes serve for all places after them: no branch depends on where in a key a node begins.
    let from = at.min(last);
    let Some(chunk) = bytes[from..].first_chunk() else { return 0 };
    let word = u64::from_be_bytes(*chunk);
    if at - from < 8 { word << (8 * (at - from)) } else { 0 }
}

fn short_word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56)
}

/// How many bytes two strings share at their beginnings.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (x, y) in a.chunks(8).zip(b.chunks(8)) {
        if x != y {
            return shared + x.iter().zip(y).take_while(|(x, y)| x == y).count();
        }
        shared += x.len();
    }
    shared
}

/// How many bytes all strings from `low` on and below `high` share at their beginnings.
pub(super) fn shared(low: &[u8], high: &[u8]) -> usize {
    let common = common(low, high);
    match (low.get(common), &high[common..]) {
        // All that is below "b" and not below "a.." begins with "a".
        (Some(below), [above]) if below + 1 == *above => common + 1,
        _ => common,
    }
}

/// The shortest string that is above `left` and not above `right`.
///
/// # Panics
/// If `left` isn't below `right`.
pub(super) fn divider<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    assert!(left < right, "a divider needs two keys in order");
    &right[..common(left, right) + 1]
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_joined_string() {
        for length in 0..40 {
            let bytes: Vec<u8> = (1..=length).collect();
            let text = Text::from_parts(9, &bytes);
            let mut joined = Vec::new();
            text.join(&mut joined);
            assert_eq!(text.len(), joined.len());
            let padded: Vec<u8> = joined.iter().copied().chain([0; 64]).collect();
            for at in 0..50 {
                let expected = u64::from_be_bytes(*padded[at..].first_chunk().unwrap());
                assert_eq!(text.word(at), expected, "length {length}, at {at}");
            }
        }
    }

    #[test]
    fn what_is_between_two_fences_begins_alike() {
        assert_eq!(shared(b"", b"a"), 0);
        assert_eq!(shared(b"\x03xyz", b"\x04"), 1);
        assert_eq!(shared(b"\x03", b"\x04"), 1);
        assert_eq!(shared(b"\x03xyz", b"\x04\0"), 0);
        assert_eq!(shared(b"pax", b"pb"), 2);
        assert_eq!(shared(b"pax", b"pc"), 1);
        assert_eq!(shared(b"pa", b"pab"), 2);
        assert_eq!(shared(b"p\xff", b"q"), 1);
    }

    #[test]
    fn dividers_divide_and_are_short() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"a", b"abcdefgh", b"abcdefghi", b"abcdefgz"];
        for (i, left) in keys.iter().enumerate() {
            for right in &keys[i + 1..] {
                let divider = divider(left, right);
                assert!(*left < divider && divider <= *right);
                let shorter = &divider[..divider.len() - 1];
                assert!(shorter <= *left, "{shorter:?} would do as well");
            }
        }
    }
}
