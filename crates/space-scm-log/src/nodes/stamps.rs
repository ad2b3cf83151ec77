//! Which entries each NUMA node has copies of, and whether those count (BonsaiKV section 4.3.2).
//!
//! ```text
//!   slot, fingerprint --hash--> stamp, one table a NUMA node: entry, era     counts if the entry's node is still in that era
//!                               0: no copy here    busy: one is being written
//! ```
//!
//! A key that is written again goes to another place of its node, and its copy to the same place as before: by the stamp that a reader finds
//! there it knows a key that was read often.
//!
//! # Thread safety
//! Any thread may look, and begin a copy; one has the place until it ends it. A thread that begins one has read the entry's node within its
//! session's epoch, and ends the copy there: no place of that node is written over meanwhile.
//!
//! # Invariants
//! - Stamps are in DRAM alone: after a restart no copy counts.
//! - An era that comes round again finds no stamp of its node: those were [forgotten](Stamps::forget).

use std::sync::atomic::Ordering::*;

use terrace_media::Counters;
use terrace_policy::{Count, Sketch};

use super::dram::Counting;
use super::layout::ENTRIES_MAX;
use crate::sync::{AtomicU64, fence};

/// Reads of an entry of another node before it is copied.
const HOT: Count = Count::whole(2);
/// Counters of the sketch for each copy, and reads of other nodes for each until they are halved.
const COUNTERS_A_COPY: usize = 4;
const READS_A_COPY: u64 = 8;
/// Bits of an entry's number, and of an era.
const ENTRY_BITS: u32 = 38;
const ERA_BITS: u32 = 16;
const ENTRY: u64 = (1 << ENTRY_BITS) - 1;
/// Behind both the entry's fingerprint.
const FP_AT: u32 = ENTRY_BITS + ERA_BITS;
const BUSY: u64 = 1 << 63;
/// Stamps of a line.
const STAMPS_A_LINE: u64 = 8;

const _: () = assert!(FP_AT + 8 < u64::BITS && (ENTRIES_MAX as u64) << u32::BITS <= ENTRY);

/// How copies stop to count of what changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// By themselves: WoSI.
    #[default]
    SelfInvalidate,
    /// A writer tells all NUMA nodes that have one (write-invalidate): for comparisons.
    Invalidate,
    /// A writer writes them all anew (write-update): for comparisons.
    Update,
    /// There are none: for comparisons.
    None,
}

/// Cache lines that copies cost, those that readers read and those that writers do for them: by where they are.
#[derive(Default)]
pub struct Lines {
    /// DRAM of the NUMA node of whoever reads or writes it.
    pub near_dram: Counters,
    /// DRAM of another one.
    pub far_dram: Counters,
    /// Persistent memory of the same.
    pub near_pmem: Counters,
    /// And of another one.
    pub far_pmem: Counters,
}

/// An entry of a node in an era, with its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// That of an entry of a slot.
    #[inline]
    pub fn new(slot: u32, (i, fp): (usize, u8), era: u64) -> Self {
        let entry = u64::from(slot) * ENTRIES_MAX as u64 + i as u64 + 1;
        let era = era & ((1 << ERA_BITS) - 1);
        Self(entry | era << ENTRY_BITS | u64::from(fp) << FP_AT)
    }
    fn entry(self) -> u64 {
        self.0 & ENTRY
    }
    /// The slot; nothing of no stamp.
    fn slot(self) -> Option<u64> {
        Some(self.entry().checked_sub(1)? / ENTRIES_MAX as u64)
    }
    /// Whether it is of what still counts in its slot, which says `counting`.
    fn counts(self, counting: Counting, coherence: Coherence) -> bool {
        let i = self.entry().wrapping_sub(1) % ENTRIES_MAX as u64;
        let era = counting.era_of(i as usize);
        match coherence {
            Coherence::SelfInvalidate => era == Some(self.0 >> ENTRY_BITS & ((1 << ERA_BITS) - 1)),
            _ => era.is_some(),
        }
    }
    fn fp(self) -> u64 {
        self.0 >> FP_AT & 0xff
    }
    fn hash(self) -> u64 {
        let mixed = (self.slot().unwrap_or(0) << 8 | self.fp()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 32
    }
    fn busy(self) -> u64 {
        self.0 | BUSY
    }
}

/// What a NUMA node has.
struct OfNode {
    words: Box<[AtomicU64]>,
    /// How often entries of other nodes were read.
    sketch: Sketch,
    reads: AtomicU64,
}

/// See the module.
pub struct Stamps {
    nodes: Box<[OfNode]>,
    coherence: Coherence,
    pub lines: Lines,
}

impl Stamps {
    /// For so many NUMA nodes with room for so many copies each.
    ///
    /// # Panics
    /// If those are not a power of two.
    pub fn new(nodes: u32, copies: usize, coherence: Coherence) -> Self {
        assert!(copies.is_power_of_two(), "{copies} copies");
        let node = |_| OfNode {
            words: (0..copies).map(|_| AtomicU64::new(0)).collect(),
            sketch: Sketch::new(copies * COUNTERS_A_COPY),
            reads: AtomicU64::new(0),
        };
        Self { nodes: (0..nodes).map(node).collect(), coherence, lines: Lines::default() }
    }

    /// How copies stop to count.
    pub fn coherence(&self) -> Coherence {
        self.coherence
    }
    /// Where a copy of the entry would be.
    #[inline]
    pub fn place_of(&self, stamp: Stamp) -> usize {
        // All tables are of one length.
        (stamp.hash() >> 20) as usize & (self.nodes[0].words.len() - 1)
    }
    fn word(&self, node: u32, stamp: Stamp) -> &AtomicU64 {
        &self.nodes[node as usize].words[self.place_of(stamp)]
    }
    /// Whether a NUMA node has a copy that counts: to be asked before it is read, and again after.
    #[inline]
    pub fn has(&self, node: u32, stamp: Stamp) -> bool {
        fence(Acquire);
        self.word(node, stamp).load(Acquire) == stamp.0
    }
    /// An entry of another NUMA node was read: `true` if it is to be copied to this one, for it was read often. Then this thread has the
    /// place for the copy, until it [ends](Self::end) it. `counting`: what counts in its slot.
    pub fn begin(&self, node: u32, stamp: Stamp, counting: Counting) -> bool {
        if self.coherence == Coherence::None {
            return false;
        }
        let word = self.word(node, stamp);
        let there = word.load(Relaxed);
        let other = Stamp(there);
        let was_its = (other.slot(), other.fp()) == (stamp.slot(), stamp.fp());
        // Two keys of a node may have one fingerprint: the second one leaves the place to the first.
        let is_free = match was_its {
            true => !other.counts(counting, self.coherence),
            false => self.is_hot(node, stamp, other),
        };
        if there & BUSY != 0 || !is_free {
            return false;
        }
        let is_mine = word.compare_exchange(there, stamp.busy(), SeqCst, Relaxed).is_ok();
        // Before the entry's node is looked at again: whoever changes it, and then looks for copies, finds this one begun.
        fence(SeqCst);
        is_mine
    }
    /// Counts a read of an entry without a copy; whether there were enough to have the place of another one's.
    fn is_hot(&self, node: u32, stamp: Stamp, other: Stamp) -> bool {
        let here = &self.nodes[node as usize];
        // Two counters of the sketch.
        self.lines.near_dram.reads(2);
        self.lines.near_dram.writes(2);
        let count = here.sketch.touch(stamp.hash());
        let reads = here.reads.fetch_add(1, Relaxed) + 1;
        if reads.is_multiple_of(here.words.len() as u64 * READS_A_COPY) {
            here.sketch.halve(0, 1);
        }
        // What another entry has is left to it while it is read more.
        count >= HOT && (other.slot().is_none() || here.sketch.count(other.hash()) <= count)
    }
    /// A copy that was begun is there, or (`false`) is not.
    pub fn end(&self, node: u32, stamp: Stamp, is_there: bool) {
        let to = if is_there { stamp.0 } else { 0 };
        // It fails if a writer has said meanwhile that it does not count.
        let _ = self.word(node, stamp).compare_exchange(stamp.busy(), to, Release, Relaxed);
    }
    /// No NUMA node has a copy of these entries any more; the one that has them themselves is not asked.
    pub fn invalidate(&self, home: u32, entries: impl Iterator<Item = Stamp> + Clone) {
        self.look();
        for node in (0..self.nodes.len() as u32).filter(|node| *node != home) {
            for entry in entries.clone() {
                self.clear(node, entry);
            }
        }
    }
    /// A NUMA node has no copy of an entry any more, and had one if that is `true`.
    pub fn clear(&self, node: u32, stamp: Stamp) -> bool {
        let word = self.word(node, stamp);
        let there = word.load(Acquire);
        self.lines.far_dram.reads(1);
        let has = there != 0 && Stamp(there).entry() == stamp.entry();
        if has {
            // Who reads it meanwhile may have begun: what was begun ends as well.
            let _ = word
                .fetch_update(AcqRel, Acquire, |there| (Stamp(there).entry() == stamp.entry()).then_some(0));
            self.lines.far_dram.writes(1);
        }
        has
    }
    /// Whoever looks for copies finds those that were begun before its change counted.
    pub fn look(&self) {
        fence(SeqCst);
    }
    /// A writer has the place for a NUMA node's copy from now on, or (`false`) another one has it.
    pub fn take(&self, node: u32, stamp: Stamp) -> bool {
        let word = self.word(node, stamp);
        let there = word.load(Acquire);
        self.lines.far_dram.reads(1);
        there & BUSY == 0 && word.compare_exchange(there, stamp.busy(), AcqRel, Acquire).is_ok()
    }
    /// No NUMA node has a copy of any entry of a slot: its eras begin again.
    pub fn forget(&self, slot: u32) {
        let is_its = |word| Stamp(word).slot() == Some(slot.into());
        for node in &self.nodes {
            for word in &node.words {
                if is_its(word.load(Acquire)) {
                    let _ = word.fetch_update(AcqRel, Acquire, |there| is_its(there).then_some(0));
                }
            }
            self.lines.far_dram.reads(node.words.len() as u64 / STAMPS_A_LINE);
        }
    }
    /// Copies that there are.
    pub fn copies(&self) -> u64 {
        let has = |word: &&AtomicU64| word.load(Relaxed) & (BUSY | ENTRY) & !BUSY != 0;
        self.nodes.iter().map(|node| node.words.iter().filter(has).count() as u64).sum()
    }
    /// DRAM that it takes.
    pub fn dram_bytes(&self) -> u64 {
        let of = |node: &OfNode| node.words.len() * 8 + node.sketch.bytes();
        self.nodes.iter().map(|node| of(node) as u64).sum()
    }
}
