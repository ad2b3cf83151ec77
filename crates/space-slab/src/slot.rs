//! A slot of a DRAM slab: two words, then a record.
//!
//! ```text
//! word 0  home:48 (0: none) | LIVE | STAGED | UNSETTLED | ASSUMED_LIVE
//! word 1  stamp:32 (round of the last write; 0: clean) | access:32
//! words   record
//! ```
//!
//! # Thread safety
//! Of a slot that the index knows, word 0 and the stamp are changed inside the key's critical section; but background steps
//! set STAGED at any time, and a get the access half of word 1. Of a slot that the index doesn't know, by who took it. A background
//! step is in no epoch: a slot that it looks at may be let go and taken again meanwhile, and is another record's then.
//!
//! # Invariants
//! * LIVE is set after the record is whole, its version last, and cleared before the slot can be taken again, which needs an epoch.
//!   So what was copied is one record if the slot is live afterwards and has the copy's version.
//! * What is UNSETTLED (see `debts.rs`) does not leave DRAM, and its flags go with every later write of its key.
//! * A live slot is *dirty* (stamp not 0: the log has its record) or has a home (rule R3 of `docs/tac.md`).

use std::sync::atomic::Ordering::*;

use terrace_blocks::Words;
use terrace_index::Address;

use crate::sync::AtomicU64;
use terrace_policy::Access;

const HOME: u64 = (1 << 48) - 1;
const LIVE: u64 = 1 << 48;
const STAGED: u64 = 1 << 49;

const UNSETTLED: u64 = 1 << 50;
const ASSUMED_LIVE: u64 = 1 << 51;

/// What is still to be found out about a slot's record, which was put beside unread ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt(u64);

impl Debt {
    /// Nobody knows whether one of them is an older version of it; the key was taken for a live one.
    pub const UNREAD: Self = Self(UNSETTLED | ASSUMED_LIVE);
    /// Whether there is any.
    #[inline]
    pub fn is_owed(self) -> bool {
        self.0 != 0
    }
    /// Whether the key was taken for a live one, and no flush has set the counts to nothing since.
    pub fn assumed_live(self) -> bool {
        self.0 & ASSUMED_LIVE != 0
    }
    /// The same once a flush has forgotten the record: it took both counts.
    pub fn forgotten(self) -> Self {
        Self(self.0 & !ASSUMED_LIVE)
    }
}

/// A slot, from its first word to its last.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a>(pub &'a [AtomicU64]);

impl<'a> Slot<'a> {
    /// Its record.
    #[inline]
    pub fn record(self) -> Words<'a> {
        Words(&self.0[2..])
    }
    /// The version of its record; of one that is being rewritten none that there is.
    #[inline]
    pub fn version(self) -> u64 {
        self.0[2].load(Acquire)
    }
    /// Whether it holds a record (that the index may know).
    #[inline]
    pub fn is_live(self) -> bool {
        self.0[0].load(Acquire) & LIVE != 0
    }
    /// Whether it is live and its record waits in a staged page.
    pub fn is_staged(self) -> bool {
        self.0[0].load(Acquire) & (LIVE | STAGED) == LIVE | STAGED
    }
    /// The durable copy of its record.
    #[inline]
    pub fn home(self) -> Option<Address> {
        let word = self.0[0].load(Acquire);
        if word & LIVE != 0 { home_in(word) } else { None }
    }
    /// The round of the last write, 0 if it is clean.
    #[inline]
    pub fn stamp(self) -> u32 {
        (self.0[1].load(Acquire) >> 32) as u32
    }
    /// The access word.
    #[inline]
    pub fn access(self) -> Access {
        Access::from_bits(self.0[1].load(Relaxed) as u32)
    }
    /// Stores another access word, unless somebody else does meanwhile.
    #[inline]
    pub fn set_access(self, access: Access) {
        let old = self.0[1].load(Relaxed);
        let new = old & !u64::from(u32::MAX) | u64::from(access.to_bits());
        let _ = self.0[1].compare_exchange(old, new, Relaxed, Relaxed);
    }
    /// Makes a slot live whose record was just written.
    #[inline]
    pub fn publish(self, home: Option<Address>, stamp: u32, access: Access) {
        self.publish_owing(home, stamp, access, Debt::default());
    }
    /// The same, for a record of which something is still to be found out.
    #[inline]
    pub fn publish_owing(self, home: Option<Address>, stamp: u32, access: Access, debt: Debt) {
        self.0[1].store(u64::from(stamp) << 32 | u64::from(access.to_bits()), Release);
        self.0[0].store(LIVE | debt.0 | home.map_or(0, Address::raw), Release);
    }
    /// What is still to be found out about its record.
    #[inline]
    pub fn debt(self) -> Debt {
        let word = self.0[0].load(Acquire);
        if word & LIVE != 0 { Debt(word & Debt::UNREAD.0) } else { Debt::default() }
    }
    /// Takes that away, or (a flush has forgotten the record) what it says of the count. What it was.
    pub fn take_debt(self, forgotten: bool) -> Debt {
        let taken = if forgotten { ASSUMED_LIVE } else { Debt::UNREAD.0 };
        Debt(self.0[0].fetch_and(!taken, AcqRel) & Debt::UNREAD.0)
    }
    /// Its record is about to be rewritten: it is dirty from now on. Its home, and its stamp before. Most are written again in one round:
    /// then nothing changes, and each exchange would wait for all that was stored before it.
    #[inline]
    pub fn dirty(self, stamp: u32) -> (Option<Address>, u32) {
        let kept = LIVE | Debt::UNREAD.0;
        let home = match self.0[0].load(Acquire) & !kept {
            0 => None,
            _ => home_in(self.0[0].fetch_and(kept, AcqRel)),
        };
        let before = self.stamp();
        (home, if before == stamp { before } else { self.set_stamp(stamp) })
    }
    /// Its record is durable there: it is clean. Whether it was dirty before, and its old home.
    pub fn settle(self, home: Address) -> (Option<Address>, bool) {
        let mut old = self.0[0].load(Acquire);
        loop {
            let new = LIVE | home.raw() | old & Debt::UNREAD.0;
            match self.0[0].compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        let was_dirty = self.set_stamp(0) != 0;
        (home_in(old), was_dirty)
    }
    /// It holds nothing any more. Its home, whether it was dirty, and what was still to be found out about it.
    pub fn clear(self) -> (Option<Address>, bool, Debt) {
        let old = self.0[0].swap(0, AcqRel);
        (home_in(old), self.stamp() != 0, Debt(old & Debt::UNREAD.0))
    }
    /// Its record waits in a staged page from now on. `false` if there is none.
    pub fn stage(self) -> bool {
        self.change(|word| (word & LIVE != 0).then_some(word | STAGED))
    }
    /// It does no longer.
    pub fn unstage(self) {
        self.change(|word| (word & LIVE != 0).then_some(word & !STAGED));
    }
    /// Changes word 0 where `new` says so. A free slot's is a link.
    fn change(self, new: impl Fn(u64) -> Option<u64>) -> bool {
        self.0[0].fetch_update(AcqRel, Acquire, new).is_ok()
    }
    fn set_stamp(self, stamp: u32) -> u32 {
        let mut old = self.0[1].load(Relaxed);
        loop {
            let new = u64::from(stamp) << 32 | old & u64::from(u32::MAX);
            match self.0[1].compare_exchange_weak(old, new, AcqRel, Relaxed) {
                Ok(_) => return (old >> 32) as u32,
                Err(now) => old = now,
            }
        }
    }
    /// Of a free slot: the next free one of its slab.
    pub fn next_free(self) -> u64 {
        self.0[0].load(Relaxed)
    }
    /// Of a free slot: the next free one of its slab. It is not live.
    pub fn set_next_free(self, next: u64) {
        debug_assert!(next & !HOME == 0, "a slot's number is no flag");
        self.0[0].store(next, Release);
    }
}

#[inline]
fn home_in(word: u64) -> Option<Address> {
    (word & HOME != 0).then(|| Address::new(word & HOME))
}
