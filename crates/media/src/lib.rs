//! The tiers terrace stores bytes in, and the only crate that knows how bytes become durable.
//!
//! ```text
//!            ByteRegion (mapped; store, flush, fence)        BlockDevice (files; write, sync, queue of reads)
//!            /            |               \                    /                 \
//!      HeapRegion     MappedRegion   media-sim::SimRegion   BlockFile        media-sim::SimBlock
//!      (tests)        DAX / tmpfs /                         io_uring or
//!                     emulated                              plain calls
//! ```
//!
//! Everything above is generic over the two traits, so that the crash explorer runs the engines unmodified.
//! `docs/media-model.md` states what a crash may do to each kind.

pub mod block;
pub mod byte;
pub mod counters;

pub use block::{AlignedBuf, BlockDevice, BlockQueue, Completion, IO_ALIGN};
pub use byte::ByteRegion;
pub use counters::{Counters, CountersSnapshot};
