//! What spaces over a lower tier share: sealed blocks of records and of large values on persistent memory or an SSD, their
//! format, and the table of their slots.
//!
//! ```text
//!   slot  0            1            2                            each slot of the tier holds one block at a time
//!   +----+------------+------------+------------+--------
//!   | M  | records,   | pieces of  | (free)     | ...           M: two copies of the manifest, with the count of slots
//!   |    | footer     | large      |            |                  that were ever written
//!   +----+------------+------------+------------+--------
//!        byte-addressable part of a region, or a block device: `Lower`
//! ```
//!
//! What a record's address is, which pages become blocks and which blocks are given up is the space's business.
//!
//! | file | what |
//! |---|---|
//! | `layout`, `footer`, `pieces` | what a block looks like on the medium, its footer read, what describes a large value |
//! | `manifest_copies`, `written` | in front of the blocks: the manifest, and which slots have been written, so that a block that vanished is missed |
//! | `lower`, `byte_tier`, `block_tier` | the two kinds of media under it |
//! | `slots`, `place` | the block table in DRAM, and a place in a block |
//! | `frames`, `words` | DRAM for pages that become blocks, and records in it |
//! | `listed` | a record that a block lists, and the index |
//! | `inspect` | the format for whoever checks a store that nobody uses |
//! | `sync`, `schedules` | the primitives, and what stands in for `frames` where schedules are explored |

mod block_tier;
mod byte_tier;
mod footer;
#[cfg(not(shuttle))]
mod frames;
#[cfg(shuttle)]
#[path = "schedules/frames.rs"]
mod frames;
pub mod inspect;
mod layout;
mod listed;
mod lower;
mod manifest_copies;
mod pieces;
mod place;
mod slots;
mod sync;
mod words;
mod written;

pub use block_tier::BlockTier;
pub use byte_tier::ByteTier;
pub use footer::{footer, read_footer};
pub use frames::Frames;
pub use layout::{
    BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, ENTRY_BYTES, FooterEntry, Header, Stored, TRAILER_BYTES,
    checked, entries, record_crc, u32_at, u64_at,
};
pub use listed::Listed;
pub use lower::{Finished, Lower};
pub use manifest_copies::{manifest_area, manifest_unit, older_copy, secure_found, stored_manifest};
pub use pieces::{Piece, encode_description, pieces, total_bytes, value_bytes_max};
pub use place::{Place, least_block_bytes, slots_max};
pub use slots::{Slot, State};
pub use words::Words;
pub use written::{Written, stored_count};
