//! The synchronisation primitives of this crate, which `--cfg shuttle` swaps (see `terrace_sync`).

pub(crate) use terrace_sync::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Backoff, fence};
