//! Which record leaves a tier next, and which may enter.
//!
//! ```text
//!   access      the word that a get leaves in a slot; Eq. 1; halving
//!   thresholds  sampled histogram --> THR_hot, THR_warm
//!   hand        round and round over slots in their order        links, list of slots, 8 bytes a slot
//!     clock  lazy_lru  lazy_lru_paper                              lru  sampled_lru  sieve  s3_fifo (ghost)
//!   alru        a few slots at random, the one touched longest ago
//!   gate        who goes up                                      sketch   counts of what is on the SSD, 4 bits; table: its words
//! ```
//!
//! A policy has one instance a tier and a [`Policy::Part`] for each of the tier's partitions. Parts are only changed by
//! whoever holds the partition; the path of a get is [`Policy::touched`], which is pure.

#![forbid(unsafe_code)]

mod access;
mod alru;
mod clock;
mod gate;
mod ghost;
mod hand;
mod lazy_lru;
mod lazy_lru_paper;
mod links;
mod lru;
mod s3_fifo;
mod sampled_lru;
mod sieve;
mod sketch;
mod table;
mod thresholds;

#[cfg(test)]
mod tests;

pub use access::{Access, Count, Now};
pub use alru::Alru;
pub use clock::Clock;
pub use gate::{Beats, Everyone, Gate, Hot};
pub use lazy_lru::LazyLru;
pub use lazy_lru_paper::LazyLruPaper;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sampled_lru::SampledLru;
pub use sieve::Sieve;
pub use sketch::Sketch;
pub use table::Table;
pub use thresholds::{Histogram, Thresholds};

/// A tier that keeps temperatures: the SSD's records have theirs in a [`Sketch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// The upper one.
    Dram,
    /// The middle one.
    Pmem,
}

/// A slot, numbered within its partition.
pub type SlotId = u32;

/// The slots of a partition, as a policy looks at them.
pub trait Slots {
    /// The access word; `None` if the slot is empty or its record must not leave now.
    fn access(&self, slot: SlotId) -> Option<Access>;
    /// Changes the access word. A touch that comes between may be lost.
    fn set_access(&self, slot: SlotId, access: Access);
}

/// How a tier chooses what leaves it.
pub trait Policy: Send + Sync + 'static {
    /// As users name it.
    const NAME: &'static str;
    /// DRAM for each slot, beside the access word.
    const LINK_BYTES: usize;
    /// [`Policy::accessed`] wants to hear of every n-th touch; 0: of none.
    const ACCESSED_EVERY: u32 = 0;
    /// What a partition keeps.
    type Part: Send;

    /// An empty partition, with room for this many slots. It grows as slots are inserted.
    fn part(&self, slots: usize) -> Self::Part;
    /// The access word after a get or set. On every operation's path: pure, without allocation or division by default.
    fn touched(&self, access: Access, now: Now) -> Access;
    /// The count that a word stands for, as of now. Comparable between tiers of one policy.
    fn count(&self, access: Access, now: Now) -> Count;
    /// The word of a record that enters with this count.
    fn entering(&self, count: Count, now: Now) -> Access;
    /// A record has entered this slot, which was not in the part. `hash` is of its key, the same in every tier.
    fn inserted(&self, part: &mut Self::Part, slot: SlotId, hash: u32);
    /// The record has left this slot: `evicted`, or promoted, replaced, deleted.
    fn removed(&self, part: &mut Self::Part, slot: SlotId, hash: u32, evicted: bool);
    /// The slot was touched; told later, in batches, and not for certain. See [`Policy::ACCESSED_EVERY`].
    fn accessed(&self, _part: &mut Self::Part, _slot: SlotId) {}
    /// The slot to empty next. Asking again without a touch in between, [`Policy::removed`] or [`Policy::passed`] gives the
    /// same. `None` only if no slot may be emptied among those that one call looks at.
    fn victim(&self, part: &mut Self::Part, slots: &dyn Slots, now: Now) -> Option<SlotId>;
    /// The victim was not worth its place's taker: look at another one next time.
    fn passed(&self, _part: &mut Self::Part) {}
    /// New thresholds, for policies that go by them.
    fn set_thresholds(&self, _thresholds: Thresholds) {}
}
