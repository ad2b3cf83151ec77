//! What an address of this engine names.
//!
//! ```text
//!  47 46 | 45                                    0
//!   1    | offset in the DRAM arena / 16           46 bits
//!   2    | offset in the PMem slabs / 256          46 bits
//!   3    | kind:2 | units:2 | offset / 8:42        a record in a page: up to 32 TiB of blocks
//! ```
//!
//! The units say how much of the device to read for the record: 1, 2 or up to 5 of them, or more.

use terrace_blocks::Place;
use terrace_engine::record::Kind;
use terrace_index::Address;

const TIER_SHIFT: u32 = 46;
const DRAM: u64 = 1;
const PMEM: u64 = 2;
const PAGE: u64 = 3;
const OFFSET_BITS: u32 = 42;
const KIND_SHIFT: u32 = 44;

/// Bytes of blocks that addresses can name.
pub(crate) const PAGE_BYTES_MAX: u64 = 1 << (OFFSET_BITS + 3);

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a slot of the arena: where that starts, in bytes.
    Dram(u64),
    /// In a slot of the middle tier: where that starts, in bytes.
    Pmem(u64),
    /// In a page: where, and how many bytes to read at first (`None`: more than can be told).
    Page(Place, Option<usize>),
}

/// Makes and reads addresses for blocks of one size on media with one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locations {
    block_shift: u32,
    unit: usize,
}

impl Locations {
    /// For blocks of `block_bytes`, a power of two, read in multiples of `unit`.
    pub fn new(block_bytes: usize, unit: usize) -> Self {
        debug_assert!(block_bytes.is_power_of_two(), "blocks are powers of two");
        Self { block_shift: block_bytes.trailing_zeros(), unit: unit.max(64) }
    }
    /// A slot of the arena.
    #[inline]
    pub fn dram(self, offset: u64) -> Address {
        Address::new(DRAM << TIER_SHIFT | offset >> 4)
    }
    /// A slot of the middle tier.
    #[inline]
    pub fn pmem(self, at: u64) -> Address {
        Address::new(PMEM << TIER_SHIFT | at >> 8)
    }
    /// A record of `words` words in a page.
    #[inline]
    pub fn page(self, place: Place, kind: Kind, words: usize) -> Address {
        let units = (place.offset as usize % self.unit + words * 8).div_ceil(self.unit);
        let code = match units {
            0 | 1 => 0,
            2 => 1,
            3..=5 => 2,
            _ => 3u64,
        };
        let offset = u64::from(place.slot) << self.block_shift | u64::from(place.offset);
        Address::new(PAGE << TIER_SHIFT | (kind as u64) << KIND_SHIFT | code << OFFSET_BITS | offset >> 3)
    }
    /// Whether the address names a slot of the arena.
    #[inline]
    pub fn is_dram(address: Address) -> bool {
        address.raw() >> TIER_SHIFT == DRAM
    }
    /// What a record in a page is, by its address.
    #[inline]
    pub fn kind(address: Address) -> Option<Kind> {
        let raw = address.raw();
        if raw >> TIER_SHIFT != PAGE {
            return None;
        }
        Some(match raw >> KIND_SHIFT & 3 {
            0 => Kind::Value,
            1 => Kind::Extent,
            2 => Kind::Tombstone,
            _ => Kind::Poison,
        })
    }
    /// About what a read of the record at an address brings in the end. How long a large value is its record alone says.
    pub fn read_bytes(address: Address) -> usize {
        if Self::kind(address) == Some(Kind::Extent) { 1 << 20 } else { 32 << 10 }
    }
    /// What an address names.
    #[inline]
    pub fn location(self, address: Address) -> Location {
        let raw = address.raw();
        if raw >> TIER_SHIFT == DRAM {
            return Location::Dram((raw & ((1 << TIER_SHIFT) - 1)) << 4);
        }
        if raw >> TIER_SHIFT == PMEM {
            return Location::Pmem((raw & ((1 << TIER_SHIFT) - 1)) << 8);
        }
        let place = self.place(address);
        let first = |units: usize| units * self.unit - place.offset as usize % self.unit;
        let bytes = match raw >> OFFSET_BITS & 3 {
            0 => Some(first(1)),
            1 => Some(first(2)),
            2 => Some(first(5)),
            _ => None,
        };
        Location::Page(place, bytes)
    }
    /// The place in a page that an address names.
    #[inline]
    pub fn place(self, address: Address) -> Place {
        let offset = (address.raw() & ((1 << OFFSET_BITS) - 1)) << 3;
        Place {
            slot: (offset >> self.block_shift) as u32,
            offset: (offset & ((1 << self.block_shift) - 1)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_survive_the_round_trip() {
        for (bits, unit) in [(13, 4096), (20, 4096), (11, 64)] {
            let locations = Locations::new(1 << bits, unit);
            for offset in [0u64, 16, 1 << 40] {
                let address = locations.dram(offset);
                assert!(Locations::is_dram(address));
                assert_eq!(locations.location(address), Location::Dram(offset));
            }
            for at in [256u64, 512, 1 << 40] {
                let address = locations.pmem(at);
                assert!(!Locations::is_dram(address));
                assert_eq!(locations.location(address), Location::Pmem(at));
                assert!(
                    address < locations.page(Place { slot: 0, offset: 64 }, Kind::Value, 4),
                    "a tie of versions"
                );
            }
            let last = ((PAGE_BYTES_MAX >> bits) - 1).min(u64::from(u32::MAX)) as u32;
            for slot in [0, 7, last] {
                for offset in [64u32, (1 << bits) - 8] {
                    for words in [4usize, 130, 2000] {
                        let place = Place { slot, offset };
                        let address = locations.page(place, Kind::Tombstone, words);
                        assert!(!Locations::is_dram(address));
                        for kind in [Kind::Value, Kind::Tombstone, Kind::Extent, Kind::Poison] {
                            assert_eq!(Locations::kind(locations.page(place, kind, words)), Some(kind));
                        }
                        let Location::Page(found, bytes) = locations.location(address) else {
                            panic!("a page")
                        };
                        assert_eq!(found, place);
                        assert!(bytes.is_none_or(|bytes| bytes >= words * 8), "{bytes:?} for {words} words");
                        assert!(
                            words * 8 > 5 * unit
                                || bytes.is_some()
                                || !(offset as usize).is_multiple_of(unit)
                        );
                    }
                }
            }
        }
    }
}
