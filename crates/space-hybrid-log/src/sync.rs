//! The synchronisation primitives of this crate, which `--cfg shuttle` swaps (see `terrace_sync`).

pub(crate) use terrace_sync::{AtomicU64, Mutex, yield_now};
