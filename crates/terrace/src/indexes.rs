//! From an index's name to its type.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_index::{Clht, Index};

/// The indexes there are, the default first.
pub const INDEXES: &[&str] = &["clht"];

/// Those of them that keep their keys in order, which ranges need.
pub const ORDERED_INDEXES: &[&str] = &[];

/// Buckets of an index that is new: few, it grows as it fills.
const BUCKETS: u64 = 1024;

/// Something that opens a store with whatever index it is given.
pub(crate) trait OpenWith {
    fn open<I: Index>(self, index: &dyn Fn() -> I) -> Result<Arc<dyn Store>, StoreError>;
}

/// Opens a store with the index of this name.
pub(crate) fn open_with(name: &str, opener: impl OpenWith) -> Result<Arc<dyn Store>, StoreError> {
    match name {
        "clht" => opener.open(&|| Clht::with_min_buckets(BUCKETS)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> StoreError {
    StoreError::Options(format!("there is no index {name:?}: use {}", INDEXES.join(", ")))
}

/// Refuses a name that no index has, before anything is made.
pub(crate) fn check(name: &str) -> Result<(), StoreError> {
    if INDEXES.contains(&name) { Ok(()) } else { Err(unknown(name)) }
}
