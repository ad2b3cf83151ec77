//! Numbers that the checker compares, and the bytes that stand for them.
//!
//! ```text
//!   counter    42                                   its decimal text
//!   blob       v1f3.<bytes that follow from 1f3>    as long as 1f3 says; every byte is compared
//!   list       <part, 8 bytes> <part, 8 bytes> ..   folded by `appended`
//! ```

use terrace_testkit::linearize::{State, appended};
use terrace_testkit::random::filler;

/// How a key's values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Counter,
    /// A list of parts of 8 bytes.
    List,
    /// Bytes that follow from a number.
    Blob,
    /// Two keys that are only written together, each with the same blob.
    Pair,
}

/// Bytes of a list's part.
pub const PART_BYTES: usize = 8;

/// Bytes of a blob: most are small, a few so large that they are stored as extents.
fn blob_bytes(number: i64) -> usize {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    match mixed % 100 {
        0 => 17_000 + (mixed / 100 % 30_000) as usize,
        1..5 => 2000 + (mixed / 100 % 14_000) as usize,
        _ => 40 + (mixed / 100 % 2000) as usize,
    }
}

/// The bytes to write for a number; for a list, its only part.
pub fn encode(kind: Kind, number: i64) -> Vec<u8> {
    match kind {
        Kind::Counter => number.to_string().into_bytes(),
        Kind::List => number.to_le_bytes().to_vec(),
        Kind::Blob | Kind::Pair => filler(blob_bytes(number), number as u64),
    }
}

/// The number that was read.
///
/// # Errors
/// If nobody can have written these bytes, in words.
pub fn decode(kind: Kind, bytes: &[u8]) -> Result<i64, String> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let decoded = match kind {
        Kind::Counter => text(bytes).and_then(|text| text.parse().ok()),
        Kind::List => list(bytes),
        Kind::Blob | Kind::Pair => bytes
            .strip_prefix(b"v")
            .and_then(|rest| rest.split(|byte| *byte == b'.').next())
            .and_then(|digits| i64::from_str_radix(text(digits)?, 16).ok())
            .filter(|number| encode(kind, *number) == bytes),
    };
    decoded.ok_or_else(|| {
        format!(
            "a value that nobody wrote ({kind:?}, {} bytes): {}",
            bytes.len(),
            terrace_testkit::case::show(bytes)
        )
    })
}

fn list(bytes: &[u8]) -> Option<i64> {
    let mut list: State = None;
    for part in bytes.chunks(PART_BYTES) {
        list = Some(appended(list, i64::from_le_bytes(part.try_into().ok()?)));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_nothing_else_does() {
        for number in [1, 77, 1 << 40] {
            for kind in [Kind::Counter, Kind::Blob, Kind::Pair] {
                assert_eq!(decode(kind, &encode(kind, number)), Ok(number));
            }
            assert_eq!(decode(Kind::List, &encode(Kind::List, number)), Ok(appended(None, number)));
        }
        let mut bytes = encode(Kind::Blob, 7);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(decode(Kind::Blob, &bytes).is_err(), "one byte differs");
        assert!(decode(Kind::Blob, &encode(Kind::Blob, 7)[1..]).is_err(), "it is cut");
        assert!(decode(Kind::List, &[0; 12]).is_err(), "half a part");
    }
}
