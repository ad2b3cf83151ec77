//! The synchronisation primitives of this crate, which `--cfg shuttle` swaps (see `terrace_sync`).

pub(crate) use terrace_sync::{
    AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, fence, spin_loop,
};
