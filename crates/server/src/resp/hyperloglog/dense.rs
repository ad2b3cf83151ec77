//! The dense representation: six bits for each register, the first in the lowest bits of the first byte.

use super::estimate::Histogram;
use super::hash::REGISTERS;

/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * 6 / 8;

/// The values of all registers. `bytes` has [`BYTES`] bytes.
pub(super) fn values(bytes: &[u8]) -> impl Iterator<Item = u8> {
    // Four registers take three bytes.
    bytes.as_chunks().0.iter().flat_map(|&[a, b, c]| {
        let word = u32::from_le_bytes([a, b, c, 0]);
        [0, 6, 12, 18].map(|shift| (word >> shift) as u8 & 63)
    })
}

/// How many registers have each value.
pub(super) fn histogram(bytes: &[u8]) -> Histogram {
    let mut histogram = [0; 64];
    values(bytes).for_each(|value| histogram[usize::from(value)] += 1);
    histogram
}

/// Raises a register to `value`, unless it is there already.
pub(super) fn raise(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let (group, shift) = (index / 4 * 3, index % 4 * 6);
    let Some([a, b, c]) = bytes.get_mut(group..).and_then(|bytes| bytes.first_chunk_mut()) else {
        return false;
    };
    let word = u32::from_le_bytes([*a, *b, *c, 0]);
    if (word >> shift) as u8 & 63 >= value {
        return false;
    }
    let word = word & !(63 << shift) | u32::from(value & 63) << shift;
    [*a, *b, *c, _] = word.to_le_bytes();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_do_not_touch_each_other() {
        let mut bytes = vec![0; BYTES];
        let value = |index: usize| (index * 7 % 51 + 1) as u8;
        for index in 0..REGISTERS {
            assert!(raise(&mut bytes, index, value(index)));
            assert!(!raise(&mut bytes, index, value(index)));
        }
        assert!(values(&bytes).eq((0..REGISTERS).map(value)));
        assert_eq!(histogram(&bytes).iter().sum::<u32>(), REGISTERS as u32);
        assert!(!raise(&mut bytes, REGISTERS, 1));
    }

    #[test]
    fn the_lowest_bits_come_first() {
        let mut bytes = vec![0; BYTES];
        raise(&mut bytes, 0, 1);
        raise(&mut bytes, 1, 0b10_0001);
        assert_eq!(bytes[..2], [0b0100_0001, 0b0000_1000]);
    }
}
