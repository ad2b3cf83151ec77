//! The lock of a node and its version, in one word.
//!
//! # Thread safety
//! LOCK is taken with an acquiring compare-and-swap. Only its holder writes the word, and the node.
//! A reader notes the version, reads, and believes what it read if the version is the same afterwards. LOCK alone does not
//! disturb it: a holder that only looks, or lets its caller decide, keeps no reader waiting. CHANGING does.
//!
//! # Invariants
//! - CHANGING is set before the first store to a node that readers may reach, and given back with LOCK and a new count.
//! - A node's count never goes back, also not when the node is freed and used for something else.
//!
//! # Why the loads are ordered
//! The writer's release fence comes after CHANGING is stored and before its other stores; the reader's acquire fence comes
//! after its loads and before it reads the version again. So a reader that saw one of the stores sees CHANGING or what came
//! later, and a version that a reader believes was the node's from its first load to its last.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::node::{Node, VERSION};
use crate::sync::{Backoff, fence};

/// Bit: a writer is inside.
const LOCK: u64 = 1;
/// Bit: what is read now may be half written.
const CHANGING: u64 = 2;
/// One change.
const CHANGE: u64 = 4;

impl Node {
    /// The version, once nobody is changing the node.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        let version = self.at(VERSION).load(Acquire);
        if version & CHANGING == 0 { version & !LOCK } else { self.await_version() }
    }
    #[cold]
    fn await_version(&self) -> u64 {
        let backoff = Backoff::new();
        loop {
            let version = self.at(VERSION).load(Acquire);
            if version & CHANGING == 0 {
                return version & !LOCK;
            }
            backoff.wait();
        }
    }
    /// Whether nothing changed since this version was noted, so that all that was read since is true.
    #[inline]
    pub(super) fn is_still(&self, version: u64) -> bool {
        fence(Acquire);
        self.at(VERSION).load(Relaxed) & !LOCK == version
    }
    /// Orders the first stores to a node that no reader can reach any more, but a late one may still be reading.
    pub(super) fn begin_anew(&self) {
        fence(Release);
    }
}

/// A locked node; dropping it unlocks, also when a panic unwinds.
pub(super) struct Locked<'a> {
    node: &'a Node,
    version: u64,
    changing: bool,
}

impl<'a> Locked<'a> {
    /// Waits for the lock of a node; `None` if its version isn't this one any more.
    #[inline]
    pub(super) fn at(node: &'a Node, version: u64) -> Option<Self> {
        let backoff = Backoff::new();
        let word = node.at(VERSION);
        loop {
            let now = word.load(Relaxed);
            if now & !LOCK != version {
                return None;
            }
            if now & LOCK == 0 && word.compare_exchange_weak(now, now | LOCK, Acquire, Relaxed).is_ok() {
                return Some(Self { node, version, changing: false });
            }
            backoff.wait();
        }
    }
    /// Makes readers wait, and distrust what they have read, until the lock is given back. Comes before every store.
    #[inline]
    pub(super) fn change(&mut self) {
        if !self.changing {
            self.changing = true;
            self.node.at(VERSION).store(self.version | LOCK | CHANGING, Relaxed);
            fence(Release);
        }
    }
    /// The node.
    pub(super) fn node(&self) -> &'a Node {
        self.node
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let step = if self.changing { CHANGE } else { 0 };
        self.node.at(VERSION).store(self.version.wrapping_add(step), Release);
    }
}
