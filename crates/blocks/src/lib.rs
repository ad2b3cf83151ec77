//! What spaces over a lower tier share: sealed blocks of records and of large values on persistent memory or an SSD, their
//! format, and the table of their slots.
//!
//! ```text
//!   slot  0            1            2                            each slot of the tier holds one block at a time
//!   +----+------------+------------+------------+--------
//!   | M  | records,   | pieces of  | (free)     | ...           M: two copies of the manifest, with the number of slots and
//!   |    | footer     | large      |            |                  how many were ever written
//!   +----+------------+------------+------------+--------
//!        byte-addressable part of a region, or a block device: `Lower`
//! ```
//!
//! What a record's address is, which pages become blocks and which blocks are given up is the space's business.
//!
//! | file | what |
//! |---|---|
//! | `blocks`, `free` | what all parts share; free slots and what waits for them |
//! | `layout`, `footer`, `pieces` | what a block looks like on the medium, its footer read, what describes a large value |
//! | `parts` | how a large value is cut into pieces, and which it shares with the one before |
//! | `manifest_copies`, `written` | in front of the blocks: the manifest, and which slots have been written, so that a block that vanished is missed |
//! | `lower`, `byte_tier`, `block_tier` | the two kinds of media under it |
//! | `slots`, `slot_table`, `place` | the block table in DRAM, and a place in a block |
//! | `backing` | how much of the tier has its place on the medium, which takes room as it fills |
//! | `size` | a tier that grows and shrinks while it is used |
//! | `image` | a block drawn from a page, or read whole |
//! | `extent`, `held`, `gather` | large values, which of them live where, and what lives in sparse blocks put together |
//! | `reads`, `in_flight`, `direct` | a session's reads that complete later, sharing what is under way; records read straight from byte-addressable media |
//! | `freeing` | blocks that nothing refers to |
//! | `tombstones`, `candidates` | tombstones that hide nothing, and the list of those that a sweep looks at |
//! | `purge` | what is dead by time or a whole-database flush |
//! | `oldest` | what to evict: the keys of the oldest block |
//! | `emptiest`, `links` | which block there is most to gain in; lists of slots |
//! | `deadlines` | when records of blocks expire |
//! | `scan`, `settle` | opening what is on the medium, and clearing what nobody adopted |
//! | `clean_stop`, `snapshot`, `survey` | what a clean stop saves, so that the next opening need not scan: what it tells, its blocks, and the pages looked at |
//! | `frames`, `words`, `fetch` | DRAM for pages that become blocks, and records in it |
//! | `dram_target` | how much of that DRAM may be in use |
//! | `listed` | a record that a block lists, and the index |
//! | `compose` | a space, its log and the machine put together on a medium |
//! | `inspect` | the format for whoever checks a store that nobody uses |
//! | `sync`, `schedules` | the primitives, and what stands in for `frames`, the tier and the machine where schedules are explored |

mod around;
mod backing;
mod block_tier;
mod blocks;
mod byte_tier;
mod candidates;
mod clean_stop;
mod compose;
mod deadlines;
mod direct;
mod dram_target;
mod emptiest;
mod extent;
mod fetch;
mod footer;
#[cfg(not(shuttle))]
mod frames;
#[cfg(shuttle)]
#[path = "schedules/frames.rs"]
mod frames;
mod free;
mod freeing;
mod gather;
mod held;
mod image;
mod in_flight;
pub mod inspect;
mod layout;
mod links;
mod listed;
mod lower;
mod manifest_copies;
mod oldest;
mod parts;
mod pieces;
mod place;
mod purge;
mod reads;
mod scan;
#[cfg(shuttle)]
pub mod schedules;
mod settle;
mod size;
mod slot_table;
mod slots;
mod snapshot;
mod survey;
mod sync;
mod tombstones;
mod words;
mod written;

pub use around::{Around, BUF_BYTES};
pub use block_tier::BlockTier;
pub use blocks::{Blocks, Counts, FirstFailure, RECLAIM_SLOTS};
pub use byte_tier::ByteTier;
pub use clean_stop::{Homes, Restored};
pub use compose::{
    BlockStore, ByteStore, MakesSpace, OnBlocks, Opening, Sizes, TieredStore, log_blocks_for, open_block,
    open_block_with, open_byte, open_byte_with, open_tiered, sessions_max,
};
pub use dram_target::DramTarget;
pub use emptiest::Emptiest;
pub use fetch::{fetch_words, prefetch, prefetch_line};
pub use frames::Frames;
pub use free::Free;
pub use freeing::Freeing;
pub use gather::{Gains, Gathering};
pub use image::{Block, Image};
pub use layout::{
    BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, DEADLINE_BYTES, ENTRY_BYTES, FooterEntry, Header, Stored,
    TRAILER_BYTES, checked, entries, footer_bytes, inline_bytes, record_crc, u32_at, u64_at,
};
pub use listed::Listed;
pub use lower::{Finished, Lower};
pub use manifest_copies::{manifest_area, manifest_at, secure_found, slots_between, stored_manifest};
pub use oldest::KEYS_A_LOAD;
pub use parts::Parts;
pub use pieces::{Piece, newest_piece, pieces, total_bytes, value_bytes_max};
pub use place::{Place, slots_max};
pub use reads::Reads;
pub use scan::FoundRecord;
pub use size::{stored_bytes, stored_middle_bytes};
pub use slot_table::{Slots, Table};
pub use slots::{Slot, State};
pub use tombstones::{Copies, Sweep};
pub use words::Words;
pub use written::Written;
