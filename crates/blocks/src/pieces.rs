//! What describes a large value: the record's value where the kind is [`Kind::Extent`](terrace_engine::record::Kind).
//!
//! ```text
//! description (the record's value):  total bytes:u64 | crc:u32 count:u32 | pieces
//! piece:                             seq:u64 | slot:u32 offset:u32 | bytes:u32 zero:u32        24 bytes
//! ```

use crate::layout::{u32_at, u64_at};
use crate::place::Place;

const HEAD_BYTES: usize = 16;
const PIECE_BYTES: usize = 24;
/// The longest value however large blocks are: a batch's buffers are addressed with 32 bits.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A part of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The sequence number of its block.
    pub seq: u64,
    /// The slot of its block.
    pub slot: u32,
    /// Where it starts in its block, in bytes.
    pub offset: u32,
    /// Its length.
    pub bytes: u32,
}

impl Piece {
    /// Where it starts.
    pub fn place(self) -> Place {
        Place { slot: self.slot, offset: self.offset }
    }
    /// Whether the other one starts where it ends.
    pub fn is_followed_by(&self, other: &Self) -> bool {
        (other.seq, other.slot, other.offset) == (self.seq, self.slot, self.offset + self.bytes)
    }
    fn decode(bytes: &[u8]) -> Self {
        Self {
            seq: u64_at(bytes, 0),
            slot: u32_at(bytes, 8),
            offset: u32_at(bytes, 12),
            bytes: u32_at(bytes, 16),
        }
    }
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seq.to_le_bytes());
        for word in [self.slot, self.offset, self.bytes, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// Appends the description of a value that lies in `pieces`, in order.
pub fn encode_description(value: &[u8], pieces: impl ExactSizeIterator<Item = Piece>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(value).to_le_bytes());
    out.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
    for piece in pieces {
        piece.encode(out);
    }
}

/// The value's length that a description stands for.
pub fn total_bytes(description: &[u8]) -> u64 {
    u64_at(description, 0)
}

/// Length, checksum and pieces; `None` if it can't be a description.
pub fn pieces(description: &[u8]) -> Option<(u64, u32, Vec<Piece>)> {
    let count = u32_at(description, 12) as usize;
    let list = description.get(HEAD_BYTES..)?;
    if list.len() != count * PIECE_BYTES {
        return None;
    }
    Some((
        total_bytes(description),
        u32_at(description, 8),
        list.chunks_exact(PIECE_BYTES).map(Piece::decode).collect(),
    ))
}

/// The piece that was written last, for those who want to know which value it is: no two values have the same one, even if one is
/// the other changed in part. `None` if there is none. Allocates nothing.
pub fn newest_piece(description: &[u8]) -> Option<Piece> {
    let list = description.get(HEAD_BYTES..)?.chunks_exact(PIECE_BYTES).map(Piece::decode);
    list.max_by_key(|piece| (piece.seq, piece.offset))
}

/// Of the pieces of a description, those that another one has not: a value that replaces another in part begins and ends with pieces
/// of that.
pub fn unshared(description: &[u8], other: &[u8]) -> Vec<Piece> {
    let list = |description| pieces(description).map(|(_, _, list)| list).unwrap_or_default();
    let (mut mine, theirs) = (list(description), list(other));
    let front = mine.iter().zip(&theirs).take_while(|(mine, theirs)| mine == theirs).count();
    let rest = mine[front..].iter().rev().zip(theirs[front..].iter().rev());
    let back = rest.take_while(|(mine, theirs)| mine == theirs).count();
    mine.truncate(mine.len() - back);
    mine.split_off(front)
}

/// Pieces whose description fits in `inline` bytes.
pub fn pieces_max(inline: usize) -> usize {
    inline.saturating_sub(HEAD_BYTES) / PIECE_BYTES
}

/// The longest value whose description fits in `inline` bytes, with blocks of this size.
pub fn value_bytes_max(block_bytes: usize, inline: usize) -> u64 {
    let count = pieces_max(inline);
    // The first piece may be short: what was left in the open block.
    let fits = (count.saturating_sub(1) as u64) * (block_bytes - 4096.min(block_bytes / 2)) as u64;
    fits.min(VALUE_BYTES_MAX)
}
