//! Schedules of the engine's kernels, explored: `cargo xtask schedules`.
//!
//! Each file states an invariant, explores it on the product's own code, and explores it once more with a bug planted, which
//! must be found. What is planted is a broken copy of the kernel, or a caller that breaks the kernel's rule.

mod commit;
mod pause;
mod settle;
mod unsynced;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{ManualClock, Mark};
use crate::durability::Durability;
use crate::hash::KeyHasher;
use crate::shared::Shared;

/// What sessions share, on block media, at time `1` and version 0.
fn shared(durability: Durability, sessions: usize) -> (Arc<Shared>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1));
    let hasher = KeyHasher::new(1);
    let mark = Mark { us: 0, ahead_us: 0 };
    (Arc::new(Shared::new(hasher, durability, clock.clone(), sessions, 0, mark, false)), clock)
}

/// The window of `batch` in these tests.
const WINDOW: Duration = Duration::from_micros(100);
