//! A wish that a run ends early, and in order: what it made in temporary directories goes then.
//!
//! *Thread safety*: any thread may wish or ask, and a signal's handler may wish. Nothing else follows from the flag.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use anyhow::ensure;

/// Set once, for the whole process: a signal is for all of it.
static WISHED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What to set, for who catches signals.
pub fn flag() -> Arc<AtomicBool> {
    WISHED.clone()
}

/// Goes on, unless an end was wished for.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(!WISHED.load(Relaxed), "interrupted");
    Ok(())
}
