//! Engine `tac`: three-tier anti-caching. Each record lies in the tier that its temperature earns: DRAM slabs over pages on one
//! lower tier, and, if there are both kinds of media, PMem slabs between them.
//!
//! ```text
//!   get, set --> index --+--> slot of a DRAM slab   in place, logged, dirty until it has a home   <-+ promoted: a copy,
//!                        |                                                                          |  home is kept
//!                        +--> record in a page      immutable, durable, checksummed               --+
//!
//!   evict: clean slots by one swing of the index to their home; dirty ones --> stage --> page --> swing
//!   round: dirty slots --> stage --> page, which is their home; then the log is cut
//!   defrag: live records of the emptiest page --> stage --> page --> swing
//!   with a middle tier: what is evicted, and what is read often in pages --> slot --> swing; its coldest --> stage --> page
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
//! | `debts` | sets that don't read what they replace, and what is found out later |
//! | `stage`, `evict`, `round`, `defrag` | background steps: to a page, out of DRAM, out of the log, out of a page |
//! | `top_up` | what comes along in a page that is not full |
//! | `middle` | the middle tier: what comes and goes; its slots on the medium are `terrace_pmem_slots` |
//! | `large` | copies of large values in DRAM |
//! | `placement` | which tier records lie in, and the alternatives |
//! | `swap` | whole bufs that come up |
//! | `admit` | when writes are refused |
//! | `resize` | tiers below DRAM grow and shrink |
//! | `temperature` | how often records are read; what follows from it is `terrace_policy` |
//! | `eviction`, `chosen`, `part`, `lists`, `sample` | the policy of DRAM by name, at work, what it hears of slots, and its thresholds |
//! | `copies` | what sweeps must know beside blocks |
//! | `snapshot`, `warm` | what a clean stop saves, and the opening after it; what was hot comes up again |
//! | `open`, `space`, `stats` | options; the seam to the machine; what it tells of itself |
//!
//! Policies run under the trace simulator, too (`terrace bench trace`).

#![forbid(unsafe_code)]

mod admit;
#[cfg(test)]
mod calm;
mod chosen;
mod classes;
mod copies;
mod debts;
mod defrag;
mod evict;
mod eviction;
mod flights;
mod large;
mod lists;
mod location;
mod middle;
mod open;
mod part;
mod partition;
mod placement;
mod read;
mod reserved;
mod resize;
mod retired;
mod round;
mod sample;
#[cfg(all(test, shuttle))]
mod schedules;
mod slab;
mod slot;
mod snapshot;
mod space;
mod stage;
mod stats;
mod swap;
mod sync;
mod temperature;
mod top_up;
mod warm;
mod write;

use std::sync::Arc;

use terrace_blocks::{FooterEntry, Lower};
use terrace_engine::{Store, StoreError, StoreHandle};
use terrace_index::MakeIndex;
use terrace_media::{AnyDevice, AnyRegion, ByteRegion};

pub use eviction::Eviction;
pub use open::{MiddleTier, SlabOptions};
pub use partition::partitions_for;
pub use placement::Placement;
pub use space::SlabSpace;
pub use swap::Swap;
pub use terrace_blocks::{Opening, Sizes};

/// Shows what the middle tier in a region from byte `base` on holds, as long as the tier below says that it is, for whoever checks a store that nobody uses: of each record
/// what is known of it, and itself, encoded, unless it is damaged. Nothing is changed.
///
/// # Errors
/// [`StoreError::Corrupt`] if something is damaged and nobody can tell whose it was; [`StoreError::Options`] if the region is shorter
/// than that.
pub fn read_middle<R: ByteRegion, L: Lower>(
    (region, base): (&Arc<R>, u64),
    lower: &L,
    options: &SlabOptions,
    show: &mut dyn FnMut(&FooterEntry, Option<&[u8]>),
) -> Result<(), StoreError> {
    MiddleTier::stored(region, base, (lower, options.store_id), "the middle tier")?.read(options, show)
}

/// What is no property of a store: each opening may choose otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Which tier of three records lie in.
    pub placement: Placement,
    /// Who leaves DRAM, and who enters it.
    pub eviction: Eviction,
    /// What a read of the SSD brings up.
    pub swap: Swap,
    /// Background steps that may make room in DRAM at once; 0 is 1. [`partitions_for`] says how many are of use.
    pub partitions: usize,
}

impl From<Placement> for Choices {
    fn from(placement: Placement) -> Self {
        Self { placement, ..Self::default() }
    }
}

impl From<Eviction> for Choices {
    fn from(eviction: Eviction) -> Self {
        Self { eviction, ..Self::default() }
    }
}

impl From<Swap> for Choices {
    fn from(swap: Swap) -> Self {
        Self { swap, ..Self::default() }
    }
}

fn options(sizes: &Sizes, Choices { placement, eviction, swap, partitions }: Choices) -> SlabOptions {
    SlabOptions { placement, eviction, swap, partitions: partitions.max(1), ..SlabOptions::from(sizes) }
}

/// [`terrace_blocks::open_byte`] with slabs over pages.
///
/// # Errors
/// See there.
pub fn open_byte(
    region: &Arc<AnyRegion>,
    base: u64,
    choices: Choices,
    opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let space = |lower, sizes: &Sizes, _| SlabSpace::new(lower, None, options(sizes, choices));
    Ok(match opening.index {
        MakeIndex::Clht(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_byte_with(region, base, opening, &space)?))
        }
        MakeIndex::Other(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_byte_with(region, base, opening, &space)?))
        }
    })
}

/// [`terrace_blocks::open_block`] with slabs over pages.
///
/// # Errors
/// See there.
pub fn open_block(
    log: &Arc<AnyDevice>,
    data: &Arc<AnyDevice>,
    choices: Choices,
    opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let space = |lower, sizes: &Sizes, _| SlabSpace::new(lower, None, options(sizes, choices));
    Ok(match opening.index {
        MakeIndex::Clht(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_block_with(log, data, opening, &space)?))
        }
        MakeIndex::Other(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_block_with(log, data, opening, &space)?))
        }
    })
}

/// [`terrace_blocks::open_tiered`] with slabs in DRAM, slabs in the region behind the log, to its end, and pages on the device.
/// `middle` is what the region is, for people.
///
/// # Errors
/// See there.
pub fn open_tiered(
    (region, base): (&Arc<AnyRegion>, u64),
    data: &Arc<AnyDevice>,
    middle: &str,
    choices: Choices,
    opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let space = |lower, sizes: &Sizes, fresh| {
        let start = base + sizes.log_bytes;
        let tier = if fresh {
            let part = (start, region.len().saturating_sub(start));
            MiddleTier::new(region.clone(), part, middle.into(), true)
        } else {
            MiddleTier::stored(region, start, (&lower, sizes.store_id), middle)?
        };
        SlabSpace::new(lower, Some(tier), options(sizes, choices))
    };
    Ok(match opening.index {
        MakeIndex::Clht(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_tiered((region, base), data, opening, &space)?))
        }
        MakeIndex::Other(index) => {
            let opening = opening.with_index(index);
            Box::new(StoreHandle(terrace_blocks::open_tiered((region, base), data, opening, &space)?))
        }
    })
}
