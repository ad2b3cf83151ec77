//! Plug-in DRAM indexes: they map a key's hash to the address of its record and never own a byte of it
//! (HeterMM section 3.2).
//!
//! ```text
//!   engine --- get(key, verify) / update(key, verify, decide) ---> Index ---> clht (ours)
//!      ^                         |                                            ... (adapters)
//!      +--- verify(address) -----+   the space reads the record and says match, differs or needs-a-read
//! ```
//!
//! [`Clht`] is the index called `clht`: [`Clht::with_min_buckets`] makes one, the [`Index`] trait does the rest.

mod clht;
#[cfg_attr(any(not(test), shuttle), expect(dead_code, reason = "the ordered indexes to come use it"))]
mod cursors;
mod sync;
mod traits;

pub use clht::Clht;
pub use traits::{Address, Change, Direction, Index, Key, Lookup, OrderedIndex, Verdict};
