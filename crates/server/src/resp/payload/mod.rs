//! What `DUMP` answers and `RESTORE` takes: a value as in Redis's snapshot files.
//!
//! ```text
//!   type (0: string)  the string  version, 2 bytes  CRC-64 of all before it, 8 bytes; both little-endian
//! ```

mod crc64;
mod lzf;
pub(crate) mod string;

use crc64::crc64;
pub(crate) use crc64::crc64_of;
use string::Text;

const STRING: u8 = 0;
/// The version written, Redis 7.0's.
const VERSION: u16 = 10;
/// The newest version read: Redis 7.4's, in which strings are as they were in the first.
const VERSION_MAX: u16 = 12;
const FOOTER: usize = 10;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is not whole, or too new.
    Checksum,
    /// It is whole, but what it holds is no value.
    Format,
    /// It holds a value of another type.
    Type(u8),
}

/// What stands around a value in its payload.
pub(super) struct Around {
    pub before: Vec<u8>,
    /// Whether the value itself follows: a number stands in `before`.
    pub holds_value: bool,
    pub after: Vec<u8>,
}

/// What stands around a value in its payload, which a long one is not copied into.
pub(super) fn around(value: &[u8]) -> Around {
    let mut before = vec![STRING];
    let holds_value = string::write_head(value, &mut before);
    let mut after = VERSION.to_le_bytes().to_vec();
    let held = if holds_value { value } else { &[] };
    let checksum = [&before, held, &after].into_iter().fold(0, crc64_of);
    after.extend(checksum.to_le_bytes());
    Around { before, holds_value, after }
}

/// The value of a payload, at most `bytes_max` long.
pub(super) fn restore(payload: &[u8], bytes_max: usize) -> Result<Text<'_>, Wrong> {
    let footer = payload.len().checked_sub(FOOTER).ok_or(Wrong::Checksum)?;
    let (body, footer) = payload.split_at(footer);
    let Some((version, checksum)) = footer.split_first_chunk() else { return Err(Wrong::Checksum) };
    let sum = crc64(&payload[..body.len() + version.len()]);
    if u16::from_le_bytes(*version) > VERSION_MAX || checksum != sum.to_le_bytes() {
        return Err(Wrong::Checksum);
    }
    match body.split_first() {
        Some((&STRING, string)) => string::read(string, bytes_max).ok_or(Wrong::Format),
        Some((&other, _)) if is_type(other) => Err(Wrong::Type(other)),
        _ => Err(Wrong::Format),
    }
}

/// Types of values that some Redis up to [`VERSION_MAX`] writes.
fn is_type(byte: u8) -> bool {
    matches!(byte, 1..=7 | 9..=25)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(value: &[u8]) -> Vec<u8> {
        let Around { before, holds_value, after } = around(value);
        [&before[..], if holds_value { value } else { &[] }, &after].concat()
    }
    fn restore(payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, Wrong> {
        super::restore(payload, bytes_max).map(|value| value.to_vec())
    }

    #[test]
    fn payloads_of_redis_are_restored() {
        // DUMP of these on redis-server 7.0.
        let cases: [(&[u8], &[u8]); 4] = [
            (b"\x00\x03abc\n\x00\xd9\xac0=Ar\xa2\xe2", b"abc"),
            (b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb", b"10"),
            (b"\x00\xc2@\xe2\x01\x00\n\x00C&G\xf4C\x19r\x83", b"123456"),
            (b"\x00\xc3\t@d\x01aa\xe0W\x00\x01aa\n\x00\xe8\xa3\xb5\x07\xb0m\xf2q", &[b'a'; 100]),
        ];
        for (payload, value) in cases {
            assert_eq!(restore(payload, 100).unwrap(), value);
            // Ours are not compressed.
            assert!(value.len() > 20 || dump(value) == payload, "{payload:x?}");
        }
    }

    #[test]
    fn every_value_comes_back() {
        for value in
            [&b""[..], b"0", b"-1", b"127", b"128", b"-32768", b"2147483647", b"2147483648", b"007", b"x"]
        {
            assert_eq!(restore(&dump(value), 100).unwrap(), value);
        }
        for length in [63, 64, 16383, 16384, 100_000] {
            let value = vec![b'v'; length];
            assert_eq!(restore(&dump(&value), length), Ok(value.clone()));
            assert_eq!(restore(&dump(&value), length - 1), Err(Wrong::Format));
        }
    }

    #[test]
    fn damage_and_other_types_are_told_apart() {
        let sealed = |body: &[u8], version: u16| {
            let bytes = [body, &version.to_le_bytes()[..]].concat();
            [&bytes[..], &crc64(&bytes).to_le_bytes()[..]].concat()
        };
        assert_eq!(restore(&sealed(b"\x00\x01x", 12), 9).unwrap(), b"x");
        assert_eq!(restore(&sealed(b"\x00\x01x", 13), 9), Err(Wrong::Checksum));
        assert_eq!(restore(&sealed(b"\x01\x00", 10), 9), Err(Wrong::Type(1)));
        assert_eq!(restore(&sealed(b"\xff\x00", 10), 9), Err(Wrong::Format));
        assert_eq!(restore(&sealed(b"\x00\x02x", 10), 9), Err(Wrong::Format));
        assert_eq!(restore(&sealed(b"", 10), 9), Err(Wrong::Format));
        assert_eq!(restore(b"short", 9), Err(Wrong::Checksum));
        let whole = dump(b"value");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(restore(&damaged, 9), Err(Wrong::Checksum), "byte {at}");
        }
    }
}
