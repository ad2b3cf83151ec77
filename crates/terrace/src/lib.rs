//! The library a user imports: opens any engine by name.
//!
//! ```text
//!   Options --> open() --> OpenStore (a Store of some engine, its background threads, its directory lock)
//!                             '--> session() --> execute(&mut Batch)
//! ```

pub mod options;
pub mod size;

pub use options::{Options, Tier, WhenFull};
pub use size::{Place, Size, TierSpec, human_bytes};
pub use terrace_engine as engine;

use std::sync::Arc;
use terrace_engine::{Store, StoreError};

/// An open store: share it freely, close it once.
#[derive(Clone)]
pub struct OpenStore {
    store: Arc<dyn Store>,
    /// What was found and chosen, a line each, for people.
    pub description: Vec<String>,
}

/// Opens a store, creating it if there is none.
///
/// # Errors
/// [`StoreError::Options`] if the options contradict each other or what is on the medium; [`StoreError::Corrupt`] if the
/// medium's content can't be trusted; [`StoreError::Io`] if it can't be reached.
pub fn open(options: Options) -> Result<OpenStore, StoreError> {
    Err(StoreError::Options(format!("engine {:?} is not there yet", options.engine)))
}

impl OpenStore {
    /// Stops the background threads and saves everything. Sessions must be dropped before.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(self) -> Result<(), StoreError> {
        self.store.close()
    }
    /// Ends as if the process had been killed: nothing more is written. For benchmarks and tests of recovery.
    pub fn kill(self) {}
}

impl std::ops::Deref for OpenStore {
    type Target = dyn Store;
    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}
