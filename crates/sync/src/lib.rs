//! The synchronisation primitives of terrace, swappable so that tests can explore schedules.
//!
//! ```text
//!   index   log   engine   blocks   space-hybrid-log      each has a `sync` module that names what it uses
//!     \      |      |      /      /
//!      terrace_sync::{AtomicU64, Mutex, ..}
//!        |                        |
//!   the standard library's,    --cfg shuttle: shuttle's, and `schedules` explores a test
//!   crossbeam's, parking_lot's
//! ```
//!
//! Built with `--cfg shuttle`, every atomic access, lock and wait is a scheduling point of shuttle's explorer. Otherwise these
//! are the primitives themselves. Shuttle's atomics are sequentially consistent: it finds wrong orders of steps, not
//! missing fences. The kernels whose memory ordering matters most are also built with loom's primitives, by tests that
//! put loom's in the place of the `sync` module (`tests/loom.rs` of `engine` and `blocks`).

#![forbid(unsafe_code)]

#[cfg(not(shuttle))]
mod real;
#[cfg(shuttle)]
pub mod schedules;
#[cfg(shuttle)]
mod simulated;

#[cfg(not(shuttle))]
use real as imp;
#[cfg(shuttle)]
use simulated as imp;

pub use imp::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Backoff, Mutex,
    MutexGuard, fence, spin_loop, yield_now,
};
