//! Plug-in DRAM indexes: they map a key's hash to the address of its record and never own a byte of it
//! (HeterMM section 3.2).
//!
//! ```text
//!   engine --- get(key, verify) / update(key, verify, decide) ---> Index ---> clht, lockfree, btree (ours)
//!      ^                         |                                          adapters (papaya, scc, congee, ..)
//!      +--- verify(address) -----+   the space reads the record and says match, differs or needs-a-read
//! ```
//!
//! An index that keeps keys goes into a store as [`WithStrays`], which adds the damaged records whose keys nobody knows.
//!
//! [`Clht`] is the index called `clht`: [`Clht::with_min_buckets`] makes one, the [`Index`] trait does the rest; [`LockFree`]
//! is `lockfree`; [`BTree`] is `btree`, which keeps its keys and their order. `memory` and `segments` are where all three keep
//! their buckets and nodes, `count` counts their entries.
//! [`catalogue`] knows every index by name; [`adapters`] has those made of other crates' maps, behind cargo features.

pub mod adapters;
#[cfg(feature = "mimalloc")]
pub mod allocator;
mod btree;
pub mod catalogue;
mod clht;
mod count;
mod cursors;
pub mod dram;
mod erased;
pub mod linear;
mod lockfree;
mod memory;
mod prefetch;
mod segments;
mod snapshot;
mod strays;
mod sync;
mod traits;

pub use btree::BTree;
pub use clht::Clht;
pub use cursors::Cursors;
pub use erased::{AnyIndex, Erased, MakeIndex};
pub use lockfree::LockFree;
pub use prefetch::prefetch;
pub use snapshot::Snapshot;
pub use strays::WithStrays;
pub use traits::{
    Address, Change, Direction, Index, Inline, Key, KeyVisitor, Lookup, OrderedIndex, RecordVisitor, Verdict,
};
