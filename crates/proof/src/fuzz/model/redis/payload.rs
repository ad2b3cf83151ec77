//! What `DUMP` writes: the type's byte, a string as in an RDB file, the file's version, a CRC-64.

/// The version of RDB files that Redis 7.0 writes.
const VERSION: [u8; 2] = [10, 0];
/// Redis compresses longer strings where that helps.
pub(super) const PLAIN_BYTES_MAX: usize = 20;

/// The payload of a string, uncompressed.
pub(crate) fn payload(value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    match small(value) {
        Some(number) => match (i8::try_from(number), i16::try_from(number)) {
            (Ok(number), _) => bytes.extend([0xc0, number as u8]),
            (_, Ok(number)) => {
                bytes.push(0xc1);
                bytes.extend(number.to_le_bytes());
            }
            _ => {
                bytes.push(0xc2);
                bytes.extend(number.to_le_bytes());
            }
        },
        None => {
            match value.len() {
                length @ ..64 => bytes.push(length as u8),
                length @ ..16_384 => bytes.extend([0x40 | (length >> 8) as u8, length as u8]),
                length => {
                    bytes.push(0x80);
                    bytes.extend((length as u32).to_be_bytes());
                }
            }
            bytes.extend_from_slice(value);
        }
    }
    bytes.extend(VERSION);
    bytes.extend(crc(&bytes).to_le_bytes());
    bytes
}

/// Whether these bytes end as a payload does.
pub(crate) fn is_payload(bytes: &[u8]) -> bool {
    let Some((body, sum)) = bytes.split_last_chunk::<8>() else { return false };
    bytes[0] == 0 && body.ends_with(&VERSION) && crc(body).to_le_bytes() == *sum
}

/// A number that takes four bytes at most, in the text that it would be written in.
fn small(value: &[u8]) -> Option<i32> {
    let number: i32 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == value).then_some(number)
}

/// CRC-64 as Redis has it: Jones's polynomial, reflected, nothing inverted.
fn crc(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |mut crc, byte| {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry != 0 {
                crc ^= 0x95ac_9329_ac4b_c9b5;
            }
        }
        crc
    })
}

/// The value in a payload that [`payload`] made.
pub(super) fn value(bytes: &[u8]) -> Option<Vec<u8>> {
    let body = bytes.get(1..bytes.len().checked_sub(10)?)?;
    let (first, rest) = body.split_first()?;
    Some(match first >> 6 {
        0 => rest.to_vec(),
        1 => rest.get(1..)?.to_vec(),
        2 => rest.get(4..)?.to_vec(),
        _ => match *rest {
            [a] => i64::from(a as i8),
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => return None,
        }
        .to_string()
        .into_bytes(),
    })
}
