//! Keys in base64, as memcached's meta commands read and write them.
//!
//! memcached's decoder forgives much, and clients may have come to rely on it: bytes outside the alphabet are skipped, and
//! what follows the first group with padding is ignored. A text is refused if what counts is none, is no whole groups of four,
//! or is padded by more than two.

use super::KEY_BYTES_MAX;

/// The longest key that base64 of [`KEY_BYTES_MAX`] bytes decodes to, and one group of room.
const BINARY_KEY_ROOM: usize = KEY_BYTES_MAX / 4 * 3 + 3;

/// The most bytes that a key has in base64.
const ENCODED_ROOM: usize = KEY_BYTES_MAX.div_ceil(3) * 4;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A byte outside the alphabet.
const SKIPPED: u8 = 0xff;

/// The value of each byte; the padding counts as 0.
const VALUES: [u8; 256] = {
    let mut values = [SKIPPED; 256];
    let mut i = 0;
    while i < 64 {
        values[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// Room for a decoded key.
#[derive(Clone, Copy, Debug)]
pub struct KeyBuffer([u8; BINARY_KEY_ROOM]);

impl Default for KeyBuffer {
    fn default() -> Self {
        Self([0; BINARY_KEY_ROOM])
    }
}

/// The bytes that a key's text stands for; `None` if memcached would not decode it, or the text is longer than a key.
pub(super) fn decode<'b>(text: &[u8], buffer: &'b mut KeyBuffer) -> Option<&'b [u8]> {
    let counted = || text.iter().filter(|&&byte| VALUES[byte as usize] != SKIPPED);
    let count = counted().count();
    if text.len() > KEY_BYTES_MAX || count == 0 || count % 4 != 0 {
        return None;
    }
    let (mut group, mut in_group, mut padding, mut len) = (0u32, 0, 0, 0);
    for &byte in counted() {
        padding += usize::from(byte == b'=');
        group = group << 6 | u32::from(VALUES[byte as usize]);
        in_group += 1;
        if in_group == 4 {
            buffer.0[len..len + 3].copy_from_slice(&group.to_be_bytes()[1..]);
            len += 3;
            (group, in_group) = (0, 0);
            if padding > 0 {
                len = len.checked_sub(padding).filter(|_| padding <= 2)?;
                break;
            }
        }
    }
    (len > 0).then_some(&buffer.0[..len])
}

/// Appends a key in base64.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(ENCODED_ROOM);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= group.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        decode(text, &mut KeyBuffer::default()).map(<[u8]>::to_vec)
    }

    fn encoded(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        encode(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn there_and_back() {
        for len in 1..=186usize {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            assert_eq!(decoded(encoded(&bytes).as_bytes()), Some(bytes));
        }
        assert_eq!(encoded(b"f"), "Zg==");
        assert_eq!(encoded(b"fo"), "Zm8=");
        assert_eq!(encoded(b"foo"), "Zm9v");
        assert_eq!(encoded(b"\xff\xfe\xfd"), "//79");
    }

    #[test]
    fn what_memcached_forgives() {
        for (text, expect) in [
            (&b"Zm9="[..], &b"fo"[..]),
            (b"Zh==", b"f"),
            (b"Zm9vZg==Zm9v", b"foof"),
            (b"Zm-9v", b"foo"),
            (b"Zm\t9v", b"foo"),
            (b"=Zm9", &[0x01, 0x99]),
            (b"==Zm", &[0x00]),
            (b"A=B=", &[0x00]),
            (b"AB=C", &[0x00, 0x10]),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(expect), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn what_it_does_not() {
        for wrong in [
            &b""[..],
            b"Zm9",
            b"Zg=",
            b"Z",
            b"!!!!",
            b"====",
            b"Z===",
            b"Zm9vZ===",
            b"Zm9v====",
            b"Zg==x",
            b"\xc3\xa9",
        ] {
            assert_eq!(decoded(wrong), None, "{}", wrong.escape_ascii());
        }
        assert_eq!(decoded(&[b'A'; 252]), None, "longer than a key");
    }
}
