//! Free slots, and what waits for them.
//!
//! # Thread safety
//! The list has a lock, inside which only that of `oldest.rs` is taken. Nobody holds `beyond` over a read or write.
//!
//! # Invariants
//! * A slot in the list is in state `Free`, below `end`, and nobody holds an address in it. It has its place on the medium (`backing.rs`).
//! * Slots that were never used are taken in ascending order (`written.rs` rests on it).

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex};

/// Free slots, and what waits for them.
pub struct Free {
    /// The free slots; the last one is the next to be taken.
    pub slots: Mutex<Vec<u32>>,
    /// Slots from here on are not taken any more: the tier is to end here. Changes under the lock of `slots`.
    pub end: AtomicU32,
    /// Held by whoever takes a slot from `end` on for what has none before it, until the slot is in use: two could take the same.
    pub beyond: Mutex<()>,
    /// A write found no frame or no slot.
    pub hungry: AtomicBool,
    /// Slots beyond the reserve that a large value waits for.
    pub wanted: AtomicUsize,
    /// Writes will soon be, if nothing goes: for stores that evict.
    pub soon_full: AtomicBool,
    /// Writes are refused for want of space.
    pub full: AtomicBool,
    /// Large values are, for want of whole blocks; others may find room all the same.
    pub full_for_large: AtomicBool,
    /// Not even deletes find room.
    pub stuck: AtomicBool,
}

impl Free {
    /// Whether something is refused for want of space, be it large values alone.
    pub fn refuses(&self) -> bool {
        self.full.load(SeqCst) || self.full_for_large.load(SeqCst)
    }
    pub(crate) fn all(slots: u32) -> Self {
        Self {
            slots: Mutex::new((0..slots).rev().collect()),
            end: AtomicU32::new(slots),
            beyond: Mutex::new(()),
            hungry: AtomicBool::new(false),
            wanted: AtomicUsize::new(0),
            soon_full: AtomicBool::new(false),
            full: AtomicBool::new(false),
            full_for_large: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        }
    }
}
