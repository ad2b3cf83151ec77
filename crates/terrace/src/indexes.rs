//! From an index's name to its type.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
pub use terrace_index::catalogue::{ALL as INDEXES, About as AboutIndex};
use terrace_index::catalogue::{Visitor, with_index};
use terrace_index::{Clht, Erased, Index, MakeIndex};

/// Entries that a new index is made for: few, it grows as it fills.
const ENTRIES: u64 = 4096;

/// The index that engines are compiled for; they reach the others through a pointer.
const DEFAULT: &str = "clht";

/// What opens a store with the indexes that it is given.
pub(crate) type OpenWith<'a> = &'a mut dyn FnMut(MakeIndex<'_>) -> Result<Box<dyn Store>, StoreError>;

struct Opener<'a>(OpenWith<'a>);

impl Visitor for Opener<'_> {
    type Out = Result<Box<dyn Store>, StoreError>;
    fn visit<I: Index>(self, new: fn(u64) -> I) -> Self::Out {
        (self.0)(MakeIndex::Other(&|| Erased::new(new(ENTRIES))))
    }
}

/// Opens a store with the index of this name.
pub(crate) fn open_with(name: &str, opener: OpenWith<'_>) -> Result<Arc<dyn Store>, StoreError> {
    let opened = if name == DEFAULT {
        opener(MakeIndex::Clht(&|| Clht::with_min_buckets(ENTRIES / 4)))
    } else {
        with_index(name, Opener(opener)).map_err(|error| StoreError::Options(error.to_string()))?
    };
    opened.map(Arc::from)
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
