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
//! | `flush`, `reclaim` | background steps |
//! | `choose` | which block is reclaimed next |
//! | `cache`, `trade` | copies of records that are read below DRAM, and how their pages are had from writers |
//! | `snapshot` | what a clean stop saves |
//! | `copies` | what a sweep of tombstones must know of pages |
//! | `unflushed` | what compression of the operation log needs of pages |
//! | `sync`, `schedules` | the primitives, and tests that explore their schedules |
//!
//! Blocks, their table, the tiers that hold them and DRAM for pages are those of `terrace_blocks`.

mod address;
mod cache;
mod choose;
mod copies;
mod flush;
mod group;
mod open;
mod read;
mod reclaim;
#[cfg(all(test, shuttle))]
mod schedules;
mod snapshot;
mod space;
mod sync;
mod trade;
mod unflushed;
mod write;

use std::sync::Arc;

use terrace_blocks::{BlockTier, ByteTier};
use terrace_engine::{Store, StoreError, StoreHandle};
use terrace_index::MakeIndex;
use terrace_media::{AnyDevice, AnyRegion};

/// [`terrace_blocks::open_byte`] with a hybrid log.
///
/// # Errors
/// See there.
pub fn open_byte(
    region: &Arc<AnyRegion>,
    base: u64,
    opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    type Space = HybridLog<ByteTier<AnyRegion>>;
    Ok(match opening.index {
        MakeIndex::Clht(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_byte::<_, Space, _>(region, base, opening)?))
        }
        MakeIndex::Other(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_byte::<_, Space, _>(region, base, opening)?))
        }
    })
}

/// [`terrace_blocks::open_block`] with a hybrid log.
///
/// # Errors
/// See there.
pub fn open_block(
    log: &Arc<AnyDevice>,
    data: &Arc<AnyDevice>,
    opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    type Space = HybridLog<BlockTier<AnyDevice>>;
    Ok(match opening.index {
        MakeIndex::Clht(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_block::<_, Space, _>(log, data, opening)?))
        }
        MakeIndex::Other(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_block::<_, Space, _>(log, data, opening)?))
        }
    })
}
pub use open::HybridOptions;
pub use space::HybridLog;
pub use terrace_blocks::{Opening, Sizes};
