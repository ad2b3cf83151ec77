//! The synchronisation primitives of this crate, which `--cfg shuttle` swaps (see `terrace_sync`).

pub(crate) use terrace_sync::{AtomicBool, AtomicU64, Mutex, yield_now};
