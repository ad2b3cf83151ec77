//! A node as it was at one version, and the search in it.
//!
//! # Thread safety
//! Nothing read through a view is true before [`View::is_valid`] says so; what would be dangerous to follow (the number of
//! a node, a long length) is confirmed here before it is used. The holder of the node's lock has a view that stays valid
//! until it changes the node.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::heap::Slot;
use super::node::{BODY, LINK, MASK_48, Node, Shape};
use super::pool::Pool;
use super::text::Text;
use crate::memory;

/// Where a text is in a node, or would be.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// Entries below it.
    pub(super) below: usize,
    /// Whether the entry after those is the text itself.
    pub(super) exact: bool,
}

/// A node at a version.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) pool: &'a Pool,
    pub(super) number: u32,
    pub(super) node: &'a Node,
    pub(super) version: u64,
    pub(super) shape: Shape,
}

impl<'a> View<'a> {
    /// Waits until nobody is changing the node.
    #[inline]
    pub(super) fn new(pool: &'a Pool, number: u32) -> Self {
        let node = pool.get(number);
        let version = node.version();
        Self { pool, number, node, version, shape: node.shape() }
    }
    /// Whether all that was read is true.
    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        self.node.is_still(self.version)
    }
    /// Entries whose head is below this one. No branch depends on the keys.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let (mut base, mut size) = (0, self.shape.count());
        if size == 0 {
            return 0;
        }
        while size > 1 {
            let half = size / 2;
            base = select_unpredictable(self.node.head(base + half - 1) < head, base + half, base);
            size -= half;
        }
        base + usize::from(self.node.head(base) < head)
    }
    /// Searches; `None` if disturbed.
    #[inline]
    pub(super) fn position(&self, text: Text<'_>) -> Option<Position> {
        let head = text.word(self.shape.prefix());
        let below = self.heads_below(head);
        if below >= self.shape.count() || self.node.head(below) != head {
            return Some(Position { below, exact: false });
        }
        if let Some(length) = self.shape.plain() {
            // Heads differ where all keys are equally long, so this is the only entry with this head.
            return Some(match (self.shape.prefix() + length).cmp(&text.len()) {
                Ordering::Less => Position { below: below + 1, exact: false },
                Ordering::Equal => Position { below, exact: true },
                Ordering::Greater => Position { below, exact: false },
            });
        }
        self.position_among_equals(text, below, head)
    }
    /// Goes on among entries with the same head.
    fn position_among_equals(&self, text: Text<'_>, from: usize, head: u64) -> Option<Position> {
        let (mut low, mut high) = (from, self.shape.count());
        while low < high {
            let middle = (low + high) / 2;
            let order = if middle == from || self.node.head(middle) == head {
                self.compare_rest(middle, text)?
            } else {
                Ordering::Greater
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(Position { below: middle, exact: true }),
                Ordering::Greater => high = middle,
            }
        }
        Some(Position { below: low, exact: false })
    }
    /// The number of the child that a descent takes; confirmed.
    #[inline]
    pub(super) fn child_for(&self, text: Text<'_>) -> Option<u32> {
        let Position { below, exact } = self.position(text)?;
        let child = self.child(below + usize::from(exact));
        if self.is_valid() { Some(child) } else { None }
    }
    /// Child `i`, of one more than there are entries.
    #[inline]
    pub(super) fn child(&self, i: usize) -> u32 {
        if i == 0 { self.node.load(LINK) as u32 } else { self.node.payload(self.shape, i - 1) as u32 }
    }
    /// The address of an entry of a leaf, 0 for an entry that is only a place.
    #[inline]
    pub(super) fn address(&self, i: usize) -> u64 {
        self.node.payload(self.shape, i) & MASK_48
    }
    /// The slot of an entry, where the node isn't plain.
    #[inline]
    pub(super) fn slot(&self, i: usize) -> Slot {
        Slot::of_payload(self.shape, self.node.payload(self.shape, i))
    }
    /// A view of this child; `None` if disturbed.
    #[inline]
    pub(super) fn step(&self, child: u32) -> Option<Self> {
        let view = Self::new(self.pool, child);
        // It was this node's child when its version was noted.
        if self.is_valid() { Some(view) } else { None }
    }
}

/// Starts loading the lines of a node that a search looks at.
#[inline]
pub(super) fn prefetch(node: &Node) {
    let start: *const Node = node;
    for line in 0..size_of::<Node>() / 64 {
        memory::prefetch(start.wrapping_byte_add(line * 64));
    }
    const { assert!(BODY < 8, "the header is in the first line") };
}
