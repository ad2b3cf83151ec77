//! HeterMM's hybrid log: new records are appended to pages in DRAM, updated in place there, and flushed page by page to
//! blocks on persistent memory or an SSD, where they keep their address.
//!
//! ```text
//!             mutable pages          read-only pages        sealed blocks
//!  appends -> (update in place)  ->  (being flushed)    ->  (maybe still in a DRAM frame)  -> reclaimed: live records
//!             in-place-update        overlap region         persisted region                  are appended again
//!             region
//!      address = slot of a block on the medium + offset; the frame is where the slot's bytes are in DRAM, if they are
//! ```
//!
//! `PAPER.md` maps the paper's sections to files and says where we differ and why.
//!
//! | file | what |
//! |---|---|
//! | `layout` | what a block looks like on the medium |
//! | `slots`, `frames`, `address` | the block table, DRAM, and how an address names a place |
//! | `lower`, `byte_tier`, `block_tier` | the two kinds of media under it |
//! | `read`, `write`, `extent` | the calls of a session |
//! | `flush`, `reclaim`, `tombstones`, `purge` | background steps |
//! | `recover` | opening what is on the medium |
//! | `sync`, `schedules` | the primitives, and tests that explore their schedules |
//! | `written` | which slots have been written, so that a block that vanished is missed |
//! | `inspect` | the format for whoever checks a store that nobody uses |

mod address;
mod block_tier;
mod byte_tier;
mod compose;
mod extent;
mod flush;
#[cfg(not(shuttle))]
mod frames;
#[cfg(shuttle)]
#[path = "schedules/frames.rs"]
mod frames;
pub mod inspect;
mod layout;
mod listed;
mod lower;
mod open;
mod page;
mod purge;
mod read;
mod reclaim;
mod recover;
#[cfg(all(test, shuttle))]
mod schedules;
mod slots;
mod space;
mod sync;
mod tombstones;
mod write;
mod written;

pub use block_tier::BlockTier;
pub use byte_tier::ByteTier;
pub use compose::{BlockStore, ByteStore, Opening, Sizes, open_block, open_byte};
pub use layout::{BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, FooterEntry, Header, Stored};
pub use lower::Lower;
pub use open::{HybridOptions, stored_manifest};
pub use space::HybridLog;
