//! The tiers terrace stores bytes in, and the only crate that knows how bytes become durable.
//!
//! ```text
//!            ByteRegion (mapped; store, flush, fence)        BlockDevice (files; write, sync, queue of reads)
//!            /            |               \                    /                 \
//!      HeapRegion     MappedRegion   media-sim::SimRegion   BlockFile        media-sim::SimBlock
//!      anonymous,     DAX, devdax,                          io_uring or
//!      NUMA, CXL      tmpfs                                 threads
//!            \            /                                    |
//!             Region: bounds, counters, burst               AlignedBuf
//!              |            \
//!             arch         emulate (Profile)
//!
//!      StripedRegion: N ByteRegions as one, in strips of 256 bytes (Stripes); their bandwidths add up
//!      Homes: which NUMA node has which bytes of it
//!      detect: what a path and a machine give     DirLock: one process a store     Superblock: what a medium holds
//!      Buffer: bytes in memory or, where they are many and a budget is small, in a file (spill)
//! ```
//!
//! Everything above is generic over the two traits, so that the crash explorer runs the engines unmodified. The product runs them on
//! AnyRegion and AnyDevice, which forget the type of one, so that an engine is compiled once.
//! `docs/media-model.md` states what a crash may do to each kind.

pub mod agreed;
pub mod block;
pub mod block_file;
pub mod buffer;
pub mod byte;
pub mod caller;
pub mod counters;
pub mod detect;
pub mod dirlock;
pub mod heap;
pub mod homes;
pub mod mapped;
pub mod numa;
pub mod profile;
pub mod spill;
pub mod striped;
pub mod stripes;
pub mod superblock;

mod any_device;
mod any_region;
mod arch;
mod burst;
mod emulate;
mod mapping;
mod region;

pub use agreed::{READINGS_MAX, read_agreed};
pub use any_device::{AnyDevice, AnyQueue};
pub use any_region::AnyRegion;
pub use arch::{CACHE_LINE, lines_of};
pub use block::{AlignedBuf, BlockDevice, BlockQueue, Completion, IO_ALIGN};
pub use block_file::{BlockFile, BlockFileOptions, FileQueue};
pub use buffer::Buffer;
pub use byte::ByteRegion;
pub use counters::{Counters, CountersSnapshot};
pub use detect::{Machine, Place, PlaceKind, detect};
pub use dirlock::{DirLock, LOCK_FILE, LockError, is_full};
pub use heap::HeapRegion;
pub use homes::{Homes, settle};
pub use mapped::{MapError, MapOptions, MappedRegion};
pub use mapping::{HUGE_PAGE_BYTES, PAGE_BYTES};
pub use profile::{Profile, ProfileError};
pub use region::Survives;
pub use spill::spill_to;
pub use striped::{StripedError, StripedRegion};
pub use stripes::{DEVICES_MAX, INTERLEAVED_BYTES, STRIP_BYTES, Stripes};
pub use superblock::{SUPERBLOCK_BYTES, Superblock, SuperblockError};
