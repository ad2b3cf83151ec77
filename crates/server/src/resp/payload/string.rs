//! Strings as in Redis's snapshot files: their length and bytes, or a number, or compressed.
//!
//! ```text
//!   00llllll                   length l            10000000 4 bytes, 10000001 8 bytes: length, big-endian
//!   01llllll llllllll          length l            110000xx 1, 2 or 4 bytes: a number, little-endian
//!   11000011 length length     compressed length, length, LZF
//! ```

use std::ops::Deref;

use terrace_engine::Buffer;
use terrace_protocol::resp::parse_integer;

use super::lzf;

const NUMBER_8: u8 = 0xc0;
const NUMBER_16: u8 = 0xc1;
const NUMBER_32: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// Writes a string; a number as one, as Redis does, anything else as it is.
pub(crate) fn write(value: &[u8], out: &mut Vec<u8>) {
    if write_head(value, out) {
        out.extend_from_slice(value);
    }
}

/// Writes what comes before its bytes; whether these follow.
pub(crate) fn write_head(value: &[u8], out: &mut Vec<u8>) -> bool {
    match parse_integer(value).and_then(|number| i32::try_from(number).ok()) {
        Some(number) => {
            if let Ok(number) = i8::try_from(number) {
                out.push(NUMBER_8);
                out.extend(number.to_le_bytes());
            } else if let Ok(number) = i16::try_from(number) {
                out.push(NUMBER_16);
                out.extend(number.to_le_bytes());
            } else {
                out.push(NUMBER_32);
                out.extend(number.to_le_bytes());
            }
            false
        }
        None => {
            match value.len() {
                length @ ..0x40 => out.push(length as u8),
                length @ ..0x4000 => out.extend([0x40 | (length >> 8) as u8, length as u8]),
                length => match u32::try_from(length) {
                    Ok(length) => {
                        out.push(LENGTH_32);
                        out.extend(length.to_be_bytes());
                    }
                    Err(_) => {
                        out.push(LENGTH_64);
                        out.extend((length as u64).to_be_bytes());
                    }
                },
            }
            true
        }
    }
}

/// A string that was read.
pub(crate) enum Text<'a> {
    /// It stands there as it is.
    Held(&'a [u8]),
    Made(Buffer),
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Held(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

/// Reads a string of at most `bytes_max`; `None` if it is none.
pub(super) fn read(mut input: &[u8], bytes_max: usize) -> Option<Text<'_>> {
    let number = |number: i32| Text::Made(Buffer::from(number.to_string().as_bytes()));
    let kind = *input.first()?;
    let value = match kind {
        NUMBER_8 => number(i8::from_le_bytes(*input[1..].first_chunk()?).into()),
        NUMBER_16 => number(i16::from_le_bytes(*input[1..].first_chunk()?).into()),
        NUMBER_32 => number(i32::from_le_bytes(*input[1..].first_chunk()?)),
        COMPRESSED => {
            input = &input[1..];
            let compressed = length(&mut input)?;
            let whole = length(&mut input).filter(|whole| *whole <= bytes_max)?;
            Text::Made(lzf::decompress(input.get(..compressed)?, whole)?)
        }
        _ => {
            let length = length(&mut input)?;
            Text::Held(input.get(..length).filter(|value| value.len() <= bytes_max)?)
        }
    };
    Some(value)
}

/// Takes a length from the front.
fn length(input: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = input.split_first()?;
    let (length, rest) = match first {
        ..0x40 => (u64::from(first), rest),
        0x40..0x80 => {
            let (low, rest) = rest.split_first()?;
            (u64::from(first & 0x3f) << 8 | u64::from(*low), rest)
        }
        LENGTH_32 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u64::from(u32::from_be_bytes(*length)), rest)
        }
        LENGTH_64 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u64::from_be_bytes(*length), rest)
        }
        _ => return None,
    };
    *input = rest;
    usize::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_bytes() {
        for (value, bytes) in [
            ("10", &b"\xc0\x0a"[..]),
            ("-1", b"\xc0\xff"),
            ("300", b"\xc1\x2c\x01"),
            ("123456", b"\xc2\x40\xe2\x01\x00"),
            ("2147483648", b"\x0a2147483648"),
            ("01", b"\x0201"),
        ] {
            let mut written = Vec::new();
            write(value.as_bytes(), &mut written);
            assert_eq!(written, bytes, "{value}");
            assert_eq!(*read(bytes, 100).unwrap(), *value.as_bytes());
        }
    }

    #[test]
    fn claims_are_checked() {
        let wrong: [&[u8]; 9] = [
            b"",
            b"\x05abcd",
            b"\x80\x00\x00",
            b"\x80\xff\xff\xff\xffabc",
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xffabc",
            b"\xc2\x01\x02\x03",
            b"\xc3\x04\x80\x7f\xff\xff\xff\x02abc",
            b"\xc3\x09\x03\x02abc",
            b"\xc4\x01",
        ];
        for bytes in wrong {
            assert!(read(bytes, 1000).is_none(), "{bytes:x?}");
        }
        assert_eq!(*read(b"\xc3\x04\x03\x02abc", 3).unwrap(), *b"abc");
        assert!(read(b"\xc3\x04\x03\x02abc", 2).is_none());
    }
}
