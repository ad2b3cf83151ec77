//! The block table: one entry a slot of the medium, in DRAM.
//!
//! # Invariants
//! * `state` moves Free -> Mutable -> ReadOnly -> Sealed -> Freeing -> Free, or Free -> Extents -> Freeing -> Free.
//!   Only the background step (one at a time) makes ReadOnly, Sealed, Freeing and Free; `prepare` makes Mutable and
//!   `write_extent` makes Extents.
//! * `seq` is unique for each use of a slot and doubles as its generation; checksums on the medium include it.
//! * `frame` is 0 or one more than the frame that holds the slot's bytes. A session that read it inside an epoch may use
//!   the frame until it leaves.
//! * `live_bytes` counts what the index refers to: it grows when a record is put and shrinks when it is released.

use std::sync::atomic::Ordering::*;

use crate::deadlines::STEP_MS;
use crate::layout::footer_bytes;
use crate::sync::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64};

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing is in it.
    Free = 0,
    /// A page in DRAM: appended to by its owner, updated in place by anyone inside the key's critical section.
    Mutable = 1,
    /// On its way to the medium.
    ReadOnly = 2,
    /// On the medium.
    Sealed = 3,
    /// Pieces of large values, written straight to the medium.
    Extents = 4,
    /// Nothing refers to it; it waits until nobody can and nothing depends on it.
    Freeing = 5,
}

/// An entry of the block table.
#[repr(align(64))]
#[derive(Default)]
pub struct Slot {
    state: AtomicU32,
    /// The frame that holds the slot's bytes, plus 1; 0: none does.
    pub frame: AtomicU32,
    /// The use of the slot.
    pub seq: AtomicU64,
    /// Bytes that the index refers to.
    pub live_bytes: AtomicI64,
    /// Bytes appended, header included. Stored by the page's owner after the record's bytes.
    pub used_bytes: AtomicU32,
    /// Records appended.
    pub count: AtomicU32,
    /// No record of the page expires before this time, but for those that are listed (`deadlines.rs`); `u64::MAX` if none expires.
    pub min_expire: AtomicU64,
    /// Whole-database flushes up to this version were applied to the page.
    pub purged: AtomicU64,
    /// No record of the page has an older version; 0: it is not known. Of a block of large values: see [`pieces`](Self::pieces).
    pub min_version: AtomicU64,
    /// Records appended that expire. Of a block of large values: see [`largest`](Self::largest).
    pub expiring: AtomicU32,
    /// How much earlier than `min_expire` says the first of those records expires, in steps: see [`first_expire`](Self::first_expire).
    early: AtomicU16,
    /// Whether any use of the slot left a header that is durable: see [`Written`](crate::written::Written).
    pub written: AtomicBool,
}

#[cfg(not(shuttle))]
const _: () = assert!(std::mem::size_of::<Slot>() == 64, "a slot is a cache line");

impl Slot {
    /// What it is used for.
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Acquire) {
            1 => State::Mutable,
            2 => State::ReadOnly,
            3 => State::Sealed,
            4 => State::Extents,
            5 => State::Freeing,
            _ => State::Free,
        }
    }
    /// Says what it is used for from now on.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u32, Release);
    }
    /// The frame that holds the slot's bytes.
    #[inline]
    pub fn frame(&self) -> Option<u32> {
        self.frame.load(Acquire).checked_sub(1)
    }
    /// When the first record of the page expires, but for those that are listed; where nobody hurries it may go as late as
    /// [`min_expire`](Self::min_expire) says.
    #[inline]
    pub(crate) fn first_expire(&self) -> u64 {
        let early = u64::from(self.early.load(Acquire)) * STEP_MS;
        match self.min_expire.load(Acquire) {
            u64::MAX => u64::MAX,
            at => at.saturating_sub(early),
        }
    }
    /// Says so. Whoever stores `min_expire` without this leaves it as much earlier as it was: too early does no harm.
    pub(crate) fn expires_first(&self, at: u64) {
        let early = self.min_expire.load(Acquire).saturating_sub(at) / STEP_MS;
        self.early.store(u16::try_from(early).unwrap_or(u16::MAX), Release);
    }
    /// Bytes of its footer.
    #[inline]
    pub fn footer_bytes(&self) -> usize {
        footer_bytes(self.count.load(Relaxed) as usize, self.expiring.load(Relaxed) as usize)
    }
    /// Of a block of large values: no piece that ever lived in it is longer. It has no records, so it takes the place of their count.
    pub(crate) fn largest(&self) -> &AtomicU32 {
        &self.expiring
    }
    /// Of a block of large values: how many pieces live in it. They have no versions, so it takes the place of those.
    pub(crate) fn pieces(&self) -> &AtomicU64 {
        &self.min_version
    }
    /// Begins a use of the slot.
    pub fn begin(&self, state: State, seq: u64, frame: Option<u32>, used_bytes: u32) {
        self.begin_with(state, seq, frame, used_bytes, 0);
    }
    /// Begins its use as an open block of extents: it counts one byte as live before anyone can find it empty.
    pub fn begin_open(&self, seq: u64) {
        self.begin_with(State::Extents, seq, None, 0, 1);
    }
    fn begin_with(&self, state: State, seq: u64, frame: Option<u32>, used_bytes: u32, live_bytes: i64) {
        self.live_bytes.store(live_bytes, Relaxed);
        self.used_bytes.store(used_bytes, Relaxed);
        self.count.store(0, Relaxed);
        self.expiring.store(0, Relaxed);
        self.min_expire.store(u64::MAX, Relaxed);
        self.early.store(0, Relaxed);
        self.purged.store(0, Relaxed);
        self.min_version.store(0, Relaxed);
        self.seq.store(seq, Relaxed);
        self.frame.store(frame.map_or(0, |f| f + 1), Release);
        self.set_state(state);
    }
}
