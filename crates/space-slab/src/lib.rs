//! Engine `tac`: three-tier anti-caching. Each record lies in the tier that its temperature earns; so far DRAM slabs over
//! pages on one lower tier.
//!
//! ```text
//!   get, set --> index --+--> slot of a DRAM slab   in place, logged, dirty until it has a home   <-+ promoted: a copy,
//!                        |                                                                          |  home is kept
//!                        +--> record in a page      immutable, durable, checksummed               --+
//!
//!   evict: clean slots by one swing of the index to their home; dirty ones --> stage --> page --> swing
//!   round: dirty slots --> stage --> page, which is their home; then the log is cut
//!   defrag: live records of the emptiest page --> stage --> page --> swing
//! ```
//!
//! Three rules carry the rest (`docs/tac.md`): only what is settled leaves DRAM; a location is published after its bytes are
//! durable; a record in DRAM is in the log or has a home.
//!
//! | file | what |
//! |---|---|
//! | `location` | what an address names |
//! | `classes`, `slab`, `slot` | DRAM: sizes of slots, the arena, one slot |
//! | `write`, `read`, `retired` | the calls of a session; slots it let go |
//! | `stage`, `evict`, `round`, `defrag` | background steps: to a page, out of DRAM, out of the log, out of a page |
//! | `admit` | when writes are refused |
//! | `temperature`, `policy` | how often records are read, and what follows from it |
//! | `copies` | what sweeps must know beside blocks |
//! | `open`, `space` | options; the seam to the machine |
//!
//! Policies run under the trace simulator, too (`terrace bench trace`).

#![forbid(unsafe_code)]

mod admit;
mod classes;
mod copies;
mod defrag;
mod evict;
mod location;
mod open;
#[expect(dead_code, unused_imports, reason = "the space is connected to it next: docs/tac.md, section 8")]
mod pmem;
pub mod policy;
mod read;
mod retired;
mod round;
mod slab;
mod slot;
mod space;
mod stage;
mod sync;
mod temperature;
mod write;

use std::sync::Arc;

use terrace_blocks::{BlockTier, ByteTier};
use terrace_engine::StoreError;
use terrace_index::Index;
use terrace_media::{BlockDevice, ByteRegion};

pub use open::SlabOptions;
pub use space::SlabSpace;
pub use terrace_blocks::{Opening, Sizes};

/// See [`terrace_blocks::ByteStore`].
pub type ByteStore<I, R> = terrace_blocks::ByteStore<I, SlabSpace<ByteTier<R>>, R>;
/// See [`terrace_blocks::BlockStore`].
pub type BlockStore<I, D> = terrace_blocks::BlockStore<I, SlabSpace<BlockTier<D>>, D>;

/// [`terrace_blocks::open_byte`] with slabs over pages.
///
/// # Errors
/// See there.
pub fn open_byte<I: Index, R: ByteRegion>(
    region: &Arc<R>,
    base: u64,
    opening: Opening<'_, I>,
) -> Result<Arc<ByteStore<I, R>>, StoreError> {
    terrace_blocks::open_byte(region, base, opening)
}

/// [`terrace_blocks::open_block`] with slabs over pages.
///
/// # Errors
/// See there.
pub fn open_block<I: Index, D: BlockDevice>(
    log: &Arc<D>,
    data: &Arc<D>,
    opening: Opening<'_, I>,
) -> Result<Arc<BlockStore<I, D>>, StoreError> {
    terrace_blocks::open_block(log, data, opening)
}
