//! A place in a block, and how small and how many blocks may be.

use terrace_index::Address;

use crate::lower::Lower;

/// A place: a slot and the byte offset of a record in its block. Not the offset of anything on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot.
    pub slot: u32,
    /// In bytes from the block's start.
    pub offset: u32,
}

/// Slots that the 48 bits of an address can name with any word of their blocks; slots are recycled, so addresses never run
/// out. `block_bytes` is a power of two.
pub fn slots_max(block_bytes: usize) -> u64 {
    let offset_bits = block_bytes.trailing_zeros() - 3;
    (1 << (Address::BITS - offset_bits)).min(u64::from(u32::MAX))
}

/// The smallest block on a tier, in bytes.
pub fn least_block_bytes<L: Lower>() -> usize {
    L::UNIT.max(1024)
}
