//! The synchronisation primitives of this crate, which `--cfg shuttle` swaps (see `terrace_sync`).

pub(crate) use terrace_sync::{AtomicPtr, AtomicU32, AtomicU64, Backoff, Mutex, MutexGuard, fence};
