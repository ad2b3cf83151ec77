//! How an address names a place: a block's slot and an offset in it, in words.

use terrace_blocks::Place;
use terrace_index::Address;

/// Splits addresses for blocks of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    offset_bits: u32,
}

impl Addresses {
    /// For blocks of `block_bytes`, a power of two.
    pub fn new(block_bytes: usize) -> Self {
        debug_assert!(block_bytes.is_power_of_two(), "blocks are powers of two");
        Self { offset_bits: block_bytes.trailing_zeros() - 3 }
    }
    #[inline]
    pub fn address(self, place: Place) -> Address {
        // A record never starts at offset 0, where the block's header is, so the address is never 0.
        Address::new(u64::from(place.slot) << self.offset_bits | u64::from(place.offset >> 3))
    }
    #[inline]
    pub fn place(self, address: Address) -> Place {
        let raw = address.raw();
        Place {
            slot: (raw >> self.offset_bits) as u32,
            offset: ((raw & ((1 << self.offset_bits) - 1)) << 3) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_blocks::slots_max;

    use super::*;

    #[test]
    fn places_survive_the_round_trip() {
        for bits in [11, 18, 20, 22] {
            let addresses = Addresses::new(1 << bits);
            for place in [
                Place { slot: 0, offset: 64 },
                Place { slot: 7, offset: (1 << bits) - 8 },
                Place { slot: (slots_max(1 << bits) - 1) as u32, offset: 64 },
            ] {
                assert_eq!(addresses.place(addresses.address(place)), place);
            }
        }
    }
}
