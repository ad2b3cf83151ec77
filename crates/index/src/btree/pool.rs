//! Where nodes come from: numbered, never moved and never given back to the system while the tree lives, so a reader that
//! comes late finds a node and not another kind of memory.
//!
//! # Thread safety
//! Numbers are taken and given back under a mutex.
//!
//! # Invariants
//! Number 0 is no node. Node `n` is in a segment from the moment `n` is first given out.

use super::node::Node;
use crate::segments::{Place, Segments};
use crate::sync::Mutex;

/// log2 of the nodes in the first segment: a small index stays small.
const BASE_BITS: u32 = 4;

/// All nodes of a tree.
pub(super) struct Pool {
    nodes: Segments<Node>,
    state: Mutex<State>,
}

struct State {
    /// Numbers given back.
    free: Vec<u32>,
    /// Numbers ever given out are below this.
    next: u32,
}

impl Pool {
    /// A pool that has given out nothing.
    pub(super) fn new() -> Self {
        Self { nodes: Segments::new(BASE_BITS), state: Mutex::new(State { free: Vec::new(), next: 1 }) }
    }
    /// A node.
    ///
    /// # Panics
    /// If this number was never given out.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Node {
        self.nodes.get(u64::from(number))
    }
    /// The node of a number that may be none; `None` if no memory was ever there for it.
    #[inline]
    pub(super) fn look(&self, number: u32) -> Option<Place<'_, Node>> {
        // SAFETY: `new` made the directory with these bits.
        unsafe { self.nodes.find::<BASE_BITS>(number) }
    }
    /// Takes a node, whose words other than the version mean nothing.
    ///
    /// # Panics
    /// If there is no memory or no number left. Nothing has changed then.
    pub(super) fn take(&self) -> u32 {
        let mut state = self.state.lock();
        if let Some(number) = state.free.pop() {
            return number;
        }
        let number = state.next;
        assert!(number < u32::MAX, "all nodes are in use");
        assert!(self.nodes.ensure(u64::from(number)), "out of memory for nodes");
        state.next += 1;
        number
    }
    /// Gives a node back that no reader can reach any more, and whose version has changed since one could.
    pub(super) fn give_back(&self, number: u32) {
        debug_assert_ne!(number, 0);
        self.state.lock().free.push(number);
    }
    /// Nodes given out and not given back.
    pub(super) fn in_use(&self) -> u64 {
        let state = self.state.lock();
        u64::from(state.next) - 1 - state.free.len() as u64
    }
    /// Bytes of DRAM held.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        self.nodes.bytes(u64::from(state.next)) + (state.free.capacity() * size_of::<u32>()) as u64
    }
}
