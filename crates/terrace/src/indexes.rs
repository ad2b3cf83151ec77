//! From an index's name to its type.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
pub use terrace_index::catalogue::{ALL as INDEXES, About as AboutIndex};
use terrace_index::catalogue::{Visitor, with_index};
use terrace_index::{Clht, Erased, Index};

/// Entries that a new index is made for: few, it grows as it fills.
const ENTRIES: u64 = 4096;

/// Something that opens a store with whatever index it is given.
pub(crate) trait OpenWith {
    fn open<I: Index>(self, index: &dyn Fn() -> I) -> Result<Arc<dyn Store>, StoreError>;
}

/// The index that engines are compiled for; they reach the others through a pointer.
const DEFAULT: &str = "clht";

struct Opener<O>(O);

impl<O: OpenWith> Visitor for Opener<O> {
    type Out = Result<Arc<dyn Store>, StoreError>;
    fn visit<I: Index>(self, new: fn(u64) -> I) -> Self::Out {
        self.0.open(&|| Erased::new(new(ENTRIES)))
    }
}

/// Opens a store with the index of this name.
pub(crate) fn open_with(name: &str, opener: impl OpenWith) -> Result<Arc<dyn Store>, StoreError> {
    if name == DEFAULT {
        return opener.open(&|| Clht::with_min_buckets(ENTRIES / 4));
    }
    with_index(name, Opener(opener)).map_err(|error| StoreError::Options(error.to_string()))?
}

/// Refuses a name that no index has, before anything is made.
pub(crate) fn check(name: &str) -> Result<(), StoreError> {
    struct Nothing;
    impl Visitor for Nothing {
        type Out = ();
        fn visit<I: Index>(self, _new: fn(u64) -> I) {}
    }
    with_index(name, Nothing).map_err(|error| StoreError::Options(error.to_string()))
}
