//! Counting and finding bits of a value. Bit 0 is the highest one of the first byte.

use std::ops::Range;

/// How many bits of `bits` are set; the range lies within the value.
pub(super) fn count(value: &[u8], bits: Range<u64>) -> u64 {
    let Some(Edges { first, middle, last }) = edges(value, bits) else { return 0 };
    let whole: u64 = middle.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let edge = |edge: Edge| u64::from((edge.byte & edge.mask).count_ones());
    edge(first) + whole + last.map_or(0, edge)
}

/// Where the first bit in `bits` that is `set` lies; the range lies within the value.
pub(super) fn position(value: &[u8], bits: Range<u64>, set: bool) -> Option<u64> {
    let start = bits.start / 8;
    let Edges { first, middle, last } = edges(value, bits)?;
    // Looking for zeros is looking for ones in the complement.
    let turned = if set { 0 } else { u8::MAX };
    let edge = |edge: Edge, at: u64| {
        let found = (edge.byte ^ turned) & edge.mask;
        (found != 0).then(|| at * 8 + u64::from(found.leading_zeros()))
    };
    let in_middle = || {
        let at = middle.iter().position(|byte| *byte != turned)?;
        Some((start + 1 + at as u64) * 8 + u64::from((middle[at] ^ turned).leading_zeros()))
    };
    edge(first, start)
        .or_else(in_middle)
        .or_else(|| last.and_then(|last| edge(last, start + 1 + middle.len() as u64)))
}

/// A byte of which only some bits belong to the range.
#[derive(Clone, Copy)]
struct Edge {
    byte: u8,
    mask: u8,
}

/// The bytes that a range of bits touches.
struct Edges<'a> {
    first: Edge,
    middle: &'a [u8],
    last: Option<Edge>,
}

/// `None` if the range is empty.
fn edges(value: &[u8], bits: Range<u64>) -> Option<Edges<'_>> {
    if bits.is_empty() {
        return None;
    }
    let bytes = value.get((bits.start / 8) as usize..=((bits.end - 1) / 8) as usize)?;
    let from = u8::MAX >> (bits.start % 8);
    let to = u8::MAX << (7 - (bits.end - 1) % 8);
    Some(match bytes {
        [] => return None,
        [only] => Edges { first: Edge { byte: *only, mask: from & to }, middle: &[], last: None },
        [first, middle @ .., last] => Edges {
            first: Edge { byte: *first, mask: from },
            middle,
            last: Some(Edge { byte: *last, mask: to }),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_agrees_with_looking_at_each_bit() {
        let values: [&[u8]; 5] =
            [b"", &[0x00, 0x00, 0x00], &[0xff, 0xff, 0xff], &[0x5a, 0x01, 0x80, 0xfe], &[0x00, 0x10, 0x00]];
        for value in values {
            let bit = |at: u64| value[(at / 8) as usize] >> (7 - at % 8) & 1 == 1;
            let end = value.len() as u64 * 8;
            for (from, to) in (0..=end).flat_map(|from| (from..=end).map(move |to| (from, to))) {
                let expected = (from..to).filter(|at| bit(*at)).count() as u64;
                assert_eq!(count(value, from..to), expected, "{value:x?} {from}..{to}");
                for set in [false, true] {
                    let expected = (from..to).find(|at| bit(*at) == set);
                    assert_eq!(position(value, from..to, set), expected, "{value:x?} {from}..{to} {set}");
                }
            }
        }
    }
}
