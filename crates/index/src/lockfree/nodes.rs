//! The nodes of the list, for ever nodes: given back, they wait in stacks for the next insert.
//!
//! # Thread safety
//! Lock-free: stacks with a tag in their head (Treiber), a stack for each of a few groups of threads. Who finds its own
//! empty looks at the others' before it takes a fresh node, so that removals by one thread serve inserts by another.
//!
//! # Invariants
//! - Numbers start at 1; 0 means none.
//! - The memory of a node stays a node, so any thread may read any node at any time; whether what it read meant anything, the
//!   link that led there tells (`walk`). The tag of its link goes on counting.
//! - In a free node, `position` is the number of the next free one.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crossbeam_utils::CachePadded;

use crate::count::stripe;
use crate::memory::Zeroed;
use crate::segments::Segments;
use crate::sync::AtomicU64;

/// log2 of the nodes in the first segment.
const BASE_BITS: u32 = 6;
/// Stacks of free nodes.
const STACKS: usize = 8;

/// An element of the list.
pub(super) struct Node {
    /// The link to what comes next.
    pub(super) link: AtomicU64,
    /// The key's hash with its bits reversed: the place in the list.
    pub(super) position: AtomicU64,
    /// The address, changed in place.
    pub(super) address: AtomicU64,
}

// SAFETY: it consists of atomic integers.
unsafe impl Zeroed for Node {
    #[cfg(shuttle)]
    fn zeroed() -> Self {
        Self { link: AtomicU64::new(0), position: AtomicU64::new(0), address: AtomicU64::new(0) }
    }
    #[cfg(shuttle)]
    fn reset(&self) {
        [&self.link, &self.position, &self.address].into_iter().for_each(|word| word.store(0, Release));
    }
}

/// All nodes of a table.
pub(super) struct Nodes {
    nodes: Segments<Node>,
    /// 63 .. 32 tag, 31 .. 0 the first free node.
    stacks: [CachePadded<AtomicU64>; STACKS],
    /// Numbers ever taken are 1 ..= this.
    taken: CachePadded<AtomicU64>,
}

impl Nodes {
    /// No nodes yet.
    pub(super) fn new() -> Self {
        Self {
            nodes: Segments::new(BASE_BITS),
            stacks: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
            taken: CachePadded::new(AtomicU64::new(0)),
        }
    }
    /// A node that was taken at least once.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Node {
        self.nodes.get(u64::from(number) - 1)
    }
    /// Starts loading a node.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        self.nodes.prefetch(u64::from(number) - 1);
    }
    /// Takes a node.
    ///
    /// # Panics
    /// If all 2^32 - 1 are in use or there is no memory.
    pub(super) fn take(&self) -> u32 {
        let mine = stripe();
        if let Some(number) = (0..STACKS).find_map(|i| self.pop(&self.stacks[(mine + i) % STACKS])) {
            return number;
        }
        let number = self.taken.fetch_add(1, Relaxed) + 1;
        assert!(number <= u64::from(u32::MAX), "all nodes are in use");
        assert!(self.nodes.ensure(number - 1), "out of memory for nodes");
        number as u32
    }
    fn pop(&self, stack: &AtomicU64) -> Option<u32> {
        let mut head = stack.load(Acquire);
        while head as u32 != 0 {
            // If the node is taken meanwhile this may be anything, and the exchange fails.
            let next = self.get(head as u32).position.load(Acquire) as u32;
            match stack.compare_exchange_weak(head, step(head, next), AcqRel, Acquire) {
                Ok(_) => return Some(head as u32),
                Err(now) => head = now,
            }
        }
        None
    }
    /// Gives back a node that is out of the list.
    pub(super) fn give_back(&self, number: u32) {
        let stack = &self.stacks[stripe() % STACKS];
        let mut head = stack.load(Acquire);
        loop {
            self.get(number).position.store(head & u64::from(u32::MAX), Release);
            match stack.compare_exchange_weak(head, step(head, number), AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
    /// Bytes of DRAM held.
    pub(super) fn bytes(&self) -> u64 {
        self.nodes.bytes(self.taken.load(Acquire))
    }
}

/// The head that comes after `head`, with this node.
fn step(head: u64, node: u32) -> u64 {
    ((head >> 32) + 1) << 32 | u64::from(node)
}
