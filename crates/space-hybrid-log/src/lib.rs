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
//! | `address` | how an address names a place in a block |
//! | `read`, `write` | the calls of a session |
//! | `flush`, `reclaim`, `purge` | background steps |
//! | `copies` | what a sweep of tombstones must know of pages |
//! | `sync`, `schedules` | the primitives, and tests that explore their schedules |
//!
//! Blocks, their table, the tiers that hold them and DRAM for pages are those of `terrace_blocks`.

mod address;
mod compose;
mod copies;
mod flush;
mod open;
mod purge;
mod read;
mod reclaim;
#[cfg(all(test, shuttle))]
mod schedules;
mod space;
mod sync;
mod write;

pub use compose::{BlockStore, ByteStore, Opening, Sizes, open_block, open_byte};
pub use open::HybridOptions;
pub use space::HybridLog;
