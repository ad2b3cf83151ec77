//! How a large value is cut into pieces, and which pieces of the value that it replaces it keeps.
//!
//! ```text
//! the value before   | a | b | c | d | e |
//! the new one        | a | b | x | y | e |     its middle differs: what begins and ends alike lies there already
//!                            '---v---'
//!                             written
//! ```
//!
//! A piece has 64 KiB at most, so that a value that is changed in part (`SETRANGE`, `SETBIT`, `APPEND`) is written in proportion to
//! the change; one of a value whose description would have too many such pieces is longer.
//!
//! # Invariants
//! * Something is written for each value, so that its newest piece names it ([`newest_piece`](crate::newest_piece)).
//! * Pieces that two values share belong to the one that the index refers to: whoever replaces a value, or gives up one that was
//!   never referred to, drops what the other one has not.

use std::ops::Range;

use terrace_engine::space::Former;

use crate::layout::inline_bytes;
use crate::pieces::{Piece, pieces, pieces_max};

/// The longest piece, where the value is not so long that there would be too many.
const PIECE_BYTES: usize = 64 << 10;
/// A block holds so many pieces at least, where it is small.
const PIECES_A_BLOCK: usize = 16;

/// The pieces of a value before it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    /// Of the value that it replaces: what comes before what is to be written, and what comes behind.
    pub(crate) front: Vec<Piece>,
    pub(crate) back: Vec<Piece>,
    /// The bytes to be written.
    pub(crate) middle: Range<usize>,
    /// The longest piece of these.
    pub(crate) piece_bytes: usize,
}

impl Parts {
    /// Bytes to be written.
    pub fn bytes(&self) -> usize {
        self.middle.len()
    }

    /// Of a value, for blocks of this size, written in units of this size; the value that it replaces may lend it pieces.
    pub(crate) fn of(value: &[u8], former: Option<Former<'_>>, block_bytes: usize, unit: usize) -> Self {
        let most = pieces_max(inline_bytes(block_bytes));
        let shortest = PIECE_BYTES.min((block_bytes / PIECES_A_BLOCK).max(unit));
        let piece_bytes = shortest.max(value.len().div_ceil((most / 2).saturating_sub(2).max(1)));
        let piece_bytes = piece_bytes.next_multiple_of(unit);
        let whole = Self { front: Vec::new(), back: Vec::new(), middle: 0..value.len(), piece_bytes };
        let Some(former) = former else { return whole };
        let parts = Self::beside(value, former, piece_bytes).unwrap_or(whole);
        // A block ends where it ends: pieces may be cut once more.
        let cuts = parts.bytes().div_ceil(piece_bytes) + parts.bytes().div_ceil(block_bytes / 2) + 2;
        match parts.front.len() + cuts + parts.back.len() <= most {
            true => parts,
            false => Self { front: Vec::new(), back: Vec::new(), middle: 0..value.len(), piece_bytes },
        }
    }

    /// The same beside a value that has pieces to lend; `None` if it is not what its description says.
    fn beside(value: &[u8], former: Former<'_>, piece_bytes: usize) -> Option<Self> {
        let (total, _, list) = pieces(former.description)?;
        let sum: u64 = list.iter().map(|piece| u64::from(piece.bytes)).sum();
        if total != former.value.len() as u64 || sum != total {
            return None;
        }
        let same_front = alike(former.value, value);
        let rest = (&former.value[same_front..], &value[same_front..]);
        let same_back = alike_from_behind(rest.0, rest.1);
        let (mut front, mut from) = (0, 0);
        while front < list.len() && from + list[front].bytes as usize <= same_front {
            from += list[front].bytes as usize;
            front += 1;
        }
        let (mut back, mut behind) = (0, 0);
        while front + back < list.len() {
            let bytes = list[list.len() - 1 - back].bytes as usize;
            if behind + bytes > same_back {
                break;
            }
            behind += bytes;
            back += 1;
        }
        // Short pieces beside the change go with it: many small changes would leave many of them.
        while front > 0 && (list[front - 1].bytes as usize) < piece_bytes / 2 {
            front -= 1;
            from -= list[front].bytes as usize;
        }
        while back > 0 && (list[list.len() - back].bytes as usize) < piece_bytes / 2 {
            behind -= list[list.len() - back].bytes as usize;
            back -= 1;
        }
        if from + behind == value.len() {
            if front > 0 {
                front -= 1;
                from -= list[front].bytes as usize;
            } else if back > 0 {
                behind -= list[list.len() - back].bytes as usize;
                back -= 1;
            }
        }
        Some(Self {
            front: list[..front].to_vec(),
            back: list[list.len() - back..].to_vec(),
            middle: from..value.len() - behind,
            piece_bytes,
        })
    }
}

/// Bytes that are compared at once.
const STRIDE: usize = 256;

/// How many bytes two values have alike at their beginning.
fn alike(one: &[u8], other: &[u8]) -> usize {
    let strides = one.chunks_exact(STRIDE).zip(other.chunks_exact(STRIDE));
    let from = strides.take_while(|(one, other)| one == other).count() * STRIDE;
    from + one[from..].iter().zip(&other[from..]).take_while(|(one, other)| one == other).count()
}

/// The same at their end.
fn alike_from_behind(one: &[u8], other: &[u8]) -> usize {
    let strides = one.rchunks_exact(STRIDE).zip(other.rchunks_exact(STRIDE));
    let behind = strides.take_while(|(one, other)| one == other).count() * STRIDE;
    let rest = (&one[..one.len() - behind], &other[..other.len() - behind]);
    behind + rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::{encode_description, newest_piece, unshared};

    const BLOCK: usize = 1 << 20;
    const UNIT: usize = 4096;

    /// A value on a tier, as far as its pieces go.
    struct Stored {
        value: Vec<u8>,
        description: Vec<u8>,
    }

    /// Stores a value behind all that came before; how many bytes that wrote.
    fn store(value: Vec<u8>, former: Option<&Stored>, at: &mut u32) -> (Stored, usize) {
        store_on((BLOCK, UNIT), value, former, at)
    }

    fn store_on(
        (block, unit): (usize, usize),
        value: Vec<u8>,
        former: Option<&Stored>,
        at: &mut u32,
    ) -> (Stored, usize) {
        let lends = former.map(|former| Former { description: &former.description, value: &former.value });
        let parts = Parts::of(&value, lends, block, unit);
        let mut list = parts.front.clone();
        let mut left = parts.bytes();
        while left > 0 {
            let bytes = left.min(parts.piece_bytes) as u32;
            list.push(Piece { seq: 7, slot: 1, offset: *at, bytes });
            *at += bytes.next_multiple_of(unit as u32);
            left -= bytes as usize;
        }
        list.extend(&parts.back);
        let total: usize = list.iter().map(|piece| piece.bytes as usize).sum();
        assert_eq!(total, value.len());
        let mut description = Vec::new();
        encode_description(&value, list.iter().copied(), &mut description);
        assert!(description.len() <= inline_bytes(block), "{} pieces", list.len());
        (Stored { value, description }, parts.bytes())
    }

    fn random(bytes: usize) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252u64;
        let step = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..bytes).map(step).collect()
    }

    #[test]
    fn a_change_writes_the_pieces_that_it_touches() {
        let mut at = 0;
        let (before, written) = store(random(4 << 20), None, &mut at);
        assert_eq!(written, 4 << 20);
        for (from, bytes, most) in
            [(0, 1, 1), (3 << 20, 1, 1), (65_535, 2, 2), (1 << 20, 200_000, 5), ((4 << 20) - 1, 1, 1)]
        {
            let mut value = before.value.clone();
            value[from..from + bytes].iter_mut().for_each(|byte| *byte ^= 1);
            let (after, written) = store(value, Some(&before), &mut at);
            assert!(written <= most * PIECE_BYTES, "{from}, {bytes}: {written} bytes");
            let (mine, theirs) = (
                unshared(&after.description, &before.description),
                unshared(&before.description, &after.description),
            );
            let sum = |list: &[Piece]| list.iter().map(|piece| piece.bytes as usize).sum::<usize>();
            assert_eq!((sum(&mine), sum(&theirs)), (written, written));
            assert_ne!(newest_piece(&after.description), newest_piece(&before.description));
        }
    }

    #[test]
    fn what_stays_alike_is_written_in_part_all_the_same() {
        let mut at = 0;
        let (before, _) = store(random(1 << 20), None, &mut at);
        let (after, written) = store(before.value.clone(), Some(&before), &mut at);
        assert!(written > 0 && written <= PIECE_BYTES);
        assert_ne!(newest_piece(&after.description), newest_piece(&before.description));
    }

    #[test]
    fn small_changes_at_either_end_leave_few_pieces() {
        let mut at = 0;
        for front in [false, true] {
            let (mut stored, _) = store(random(1 << 20), None, &mut at);
            let mut all = 0;
            for i in 0..2000 {
                let mut value = stored.value.clone();
                let place = if front { 0 } else { value.len() };
                value.splice(place..place, [i as u8; 100]);
                let (after, written) = store(value, Some(&stored), &mut at);
                stored = after;
                all += written;
                let (total, _, list) = pieces(&stored.description).unwrap();
                let most = total.div_ceil(PIECE_BYTES as u64 / 2) as usize + 1;
                assert!(list.len() <= most, "{} pieces", list.len());
            }
            assert!(all <= 2000 * PIECE_BYTES * 3 / 2, "{all} bytes");
        }
    }

    #[test]
    fn a_shorter_value_of_equal_bytes_takes_no_piece_twice() {
        let mut at = 0;
        let (before, _) = store(vec![7; 10 * PIECE_BYTES], None, &mut at);
        let (after, written) = store(vec![7; 5 * PIECE_BYTES + 1000], Some(&before), &mut at);
        assert!(written <= PIECE_BYTES, "{written} bytes");
        assert_eq!(pieces(&after.description).unwrap().2.len(), 6);
    }

    #[test]
    fn changes_everywhere_end_in_a_description_that_fits() {
        let (mut at, small) = (0, (16 << 10, 512));
        let (mut stored, mut all) = (store_on(small, random(200 << 10), None, &mut at).0, 0);
        for i in 0..400usize {
            let mut value = stored.value.clone();
            let place = i * 7_919_113 % value.len();
            value.splice(place..place, [i as u8; 900]);
            let (after, written) = store_on(small, value, Some(&stored), &mut at);
            stored = after;
            all += written;
        }
        assert!(all < 400 * (40 << 10), "{all} bytes");
    }
}
