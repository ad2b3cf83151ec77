//! Versions: a hybrid clock and the slot of the session that wrote.

/// 64 bits, strictly increasing in each session's log and for each key: 53 bits of microseconds that never repeat in a
/// session (a hybrid clock: it runs ahead of the wall clock rather than repeat), 10 bits of session slot. The top bit is
/// always clear: spaces use it to mark a record that is being rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Bits of the session slot.
pub const SLOT_BITS: u32 = 10;
/// Sessions that can be open at once.
pub const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// Clock parts follow the store's time up to here, the year 2112: behind it they count what elapses, so that no clock uses them up.
pub const TICKS_FROM_TIME_MAX: u64 = 1 << 52;
/// A store with a newer one is not opened: there would be too few left for a year.
pub const TICKS_MAX: u64 = (1 << (63 - SLOT_BITS)) - (1 << 45);

impl Version {
    /// A version from its clock part and session slot.
    pub fn new(ticks: u64, slot: usize) -> Self {
        debug_assert!(slot < SLOTS_MAX && ticks >> (63 - SLOT_BITS) == 0, "version parts in range");
        Self(ticks << SLOT_BITS | slot as u64)
    }
    /// The session slot that wrote it.
    #[inline]
    pub fn slot(self) -> usize {
        (self.0 & (SLOTS_MAX as u64 - 1)) as usize
    }
    /// The clock part, in microseconds or a little ahead of them.
    #[inline]
    pub fn ticks(self) -> u64 {
        self.0 >> SLOT_BITS
    }
    /// The next version for `slot` that is after `self`, after `seen`, and not before `now_us`.
    #[inline]
    pub fn next(self, seen: Version, now_us: u64, slot: usize) -> Self {
        Self::new(now_us.max(self.ticks() + 1).max(seen.ticks() + 1), slot)
    }
}
