//! What the program's allocator keeps of freed memory. It looks at that when it is called, so of a process that has become idle it
//! keeps all: somebody must ask.

// The library is linked because of this crate; the function below is one of its own.
use mimalloc as _;

// SAFETY: as mimalloc's header declares it.
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives freed memory back to the system at once: all that whole pages of the allocator hold, whoever freed it. Blocks that
/// another thread's heap keeps for its next allocation stay.
pub fn give_back() {
    // SAFETY: any thread may call it at any time; it touches free memory alone.
    unsafe { mi_collect(true) };
}
