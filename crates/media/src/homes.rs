//! Which NUMA node has which bytes of a store's memory, and on which node a thread is.
//!
//! ```text
//!   offset --> node                                   | node 0 .. | node 1 .. |     equal shares, one after the other
//!   thread --> node     settled, or where it runs: looked up now and then
//! ```
//!
//! # Thread safety
//! It does not change. Where a thread is, is its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Accesses after which a thread looks again where it runs.
const LOOKS_AFTER: u32 = 1 << 16;

/// The shares of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    bytes_each: u64,
    /// Of each node its number on this machine; empty where they are emulated, or the machine does not tell.
    numa: Vec<u32>,
    nodes: u32,
}

/// What a thread knows of where it is.
#[derive(Clone, Copy)]
struct Here {
    /// Said by [`settle`].
    settled: Option<u32>,
    /// Its node on this machine, when it last looked.
    numa: Option<u32>,
    /// Which thread it is of those that asked: threads of emulated nodes take turns.
    turn: u32,
    /// Accesses until it looks again.
    left: u32,
}

static TURNS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
    /// Whether what is accessed just now is another node's: an emulated device charges more then.
    static IS_FAR: Cell<bool> = const { Cell::new(false) };
}

/// Accesses are of another node's device until it is dropped.
pub(crate) struct Far(());

impl Far {
    pub(crate) fn begin() -> Self {
        IS_FAR.set(true);
        Self(())
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        IS_FAR.set(false);
    }
}

/// Whether an access is of another node's device.
#[inline]
pub(crate) fn is_far() -> bool {
    IS_FAR.get()
}

/// This thread counts as one on a node from now on, wherever it runs: for tests, and for comparisons on emulated nodes.
pub fn settle(node: u32) {
    HERE.set(Some(Here { settled: Some(node), numa: None, turn: 0, left: u32::MAX }));
}

impl Homes {
    /// Nodes that have so many bytes each. `numa`: their numbers on this machine, if those are known and differ.
    ///
    /// # Panics
    /// If there is no node, or it has no bytes.
    pub fn new(nodes: u32, bytes_each: u64, numa: Vec<u32>) -> Self {
        assert!(nodes > 0 && bytes_each > 0, "{nodes} nodes of {bytes_each} bytes");
        let differ = (1..numa.len()).all(|i| !numa[i..].contains(&numa[i - 1]));
        let are_known = differ && numa.len() == nodes as usize;
        Self { bytes_each, numa: if are_known { numa } else { Vec::new() }, nodes }
    }

    /// How many there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Whether threads are on them by where they run. Else they take turns.
    pub fn are_real(&self) -> bool {
        !self.numa.is_empty()
    }

    /// The node that has a byte.
    #[inline]
    pub fn of(&self, offset: u64) -> u32 {
        ((offset / self.bytes_each) as u32).min(self.nodes - 1)
    }

    /// The node that this thread is on.
    #[inline]
    pub fn here(&self) -> u32 {
        let here = match HERE.get() {
            Some(here) if here.left > 0 => Here { left: here.left - 1, ..here },
            known => look(known),
        };
        HERE.set(Some(here));
        if let Some(node) = here.settled {
            return node % self.nodes;
        }
        let found = here.numa.and_then(|numa| self.numa.iter().position(|node| *node == numa));
        found.map_or(here.turn % self.nodes, |node| node as u32)
    }
}

/// Looks where this thread runs.
fn look(known: Option<Here>) -> Here {
    // Relaxed: only that they differ is asked for.
    let turn = known.map_or_else(|| TURNS.fetch_add(1, Relaxed), |known| known.turn);
    let settled = known.and_then(|known| known.settled);
    Here { settled, numa: crate::numa::here(), turn, left: LOOKS_AFTER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_nodes_in_equal_shares() {
        let homes = Homes::new(3, 1000, Vec::new());
        assert_eq!([0, 999, 1000, 1999, 2000, 2999].map(|at| homes.of(at)), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn threads_are_where_they_were_settled() {
        let homes = Homes::new(2, 1000, Vec::new());
        settle(1);
        assert_eq!(homes.here(), 1);
        settle(4);
        assert_eq!(homes.here(), 0);
    }

    #[test]
    fn threads_of_emulated_nodes_take_turns() {
        let homes = Homes::new(2, 1000, vec![0, 0]);
        assert!(!homes.are_real(), "two nodes of one number are none of the machine's");
        let ask = || std::thread::scope(|scope| scope.spawn(|| [homes.here(), homes.here()]).join());
        let on: Vec<_> = (0..8).map(|_| ask().unwrap_or([9, 9])).collect();
        assert!(on.iter().all(|[first, again]| first == again), "a thread stays where it is: {on:?}");
        assert!([0, 1].iter().all(|node| on.iter().any(|[first, _]| first == node)), "{on:?}");
    }

    #[test]
    fn threads_are_on_the_node_that_they_run_on() {
        let Some(numa) = crate::numa::here() else { return };
        let homes = Homes::new(2, 1000, vec![numa + 1, numa]);
        let on = std::thread::scope(|scope| scope.spawn(|| homes.here()).join());
        assert_eq!(on.ok(), Some(1));
    }
}
