//! Who is storing: a fence makes durable what *its own thread* flushed, so every event carries its actor.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Actors from here on are OS threads that never called [`set_actor`].
const FIRST_THREAD: u32 = 1 << 31;

thread_local!(static ACTOR: Cell<u32> = const { Cell::new(u32::MAX) });

/// Says which simulated thread this OS thread plays from now on. A driver that interleaves several sessions in one
/// OS thread calls it before each step; without it an OS thread is one actor.
///
/// # Panics
/// If `actor` is 2^31 or more.
pub fn set_actor(actor: u32) {
    assert!(actor < FIRST_THREAD, "actor {actor} is out of range");
    ACTOR.with(|mine| mine.set(actor));
}

/// The actor that this OS thread plays.
pub fn actor() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_THREAD);
    ACTOR.with(|mine| {
        if mine.get() == u32::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed));
        }
        mine.get()
    })
}
