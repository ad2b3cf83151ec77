//! A link of the list: what it points at, and how often it has changed.
//!
//! ```text
//!   63 .. 35 tag | 34 LINKED | 33 MARK | 32 ANCHOR | 31 .. 0 number of a node or an anchor; 0 without ANCHOR = end
//! ```
//!
//! # Invariants
//! - Every change of a link makes its tag one greater, also where the node that holds it was used for something else
//!   meanwhile. So a link that reads the same twice has not changed in between. (29 bits: unless it changed 2^29 times.)
//! - MARK, in a node's link: the node is deleted, and its link never changes again until it is out of the list.
//! - LINKED, in an anchor's link: the anchor is in the list. It stays there, and stays LINKED.

const ANCHOR: u64 = 1 << 32;
const MARK: u64 = 1 << 33;
const LINKED: u64 = 1 << 34;
const TAG_STEP: u64 = 1 << 35;
const TARGET: u64 = ANCHOR | (ANCHOR - 1);

/// The content of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

/// What a link points at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Nothing: the list ends.
    End,
    /// An anchor, by its bucket.
    Anchor(u64),
    /// A node.
    Node(u32),
}

impl Word {
    /// The link of bucket 0's anchor in an empty list.
    pub(super) const EMPTY_LIST: Self = Self(LINKED);

    #[inline]
    pub(super) fn target(self) -> Target {
        let number = self.0 as u32;
        match (self.0 & ANCHOR != 0, number) {
            (true, _) => Target::Anchor(u64::from(number)),
            (false, 0) => Target::End,
            (false, _) => Target::Node(number),
        }
    }
    #[inline]
    pub(super) fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }
    #[inline]
    pub(super) fn is_linked(self) -> bool {
        self.0 & LINKED != 0
    }
    /// This link, changed to point where `other` points.
    #[inline]
    pub(super) fn to_target_of(self, other: Self) -> Self {
        self.to(other.0 & TARGET)
    }
    /// This link, changed to point at a node.
    #[inline]
    pub(super) fn to_node(self, node: u32) -> Self {
        debug_assert_ne!(node, 0);
        self.to(u64::from(node))
    }
    /// This link, changed to point at a bucket's anchor.
    pub(super) fn to_anchor(self, bucket: u64) -> Self {
        debug_assert!(bucket < ANCHOR);
        self.to(ANCHOR | bucket)
    }
    fn to(self, target: u64) -> Self {
        Self((self.0 & !(TARGET | MARK)).wrapping_add(TAG_STEP) | target)
    }
    /// This link of a node, deleted.
    pub(super) fn marked(self) -> Self {
        Self(self.0.wrapping_add(TAG_STEP) | MARK)
    }
    /// This link of an anchor that is in the list.
    pub(super) fn linked(self) -> Self {
        Self(self.0.wrapping_add(TAG_STEP) | LINKED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_says_what_it_points_at_and_never_repeats() {
        let empty = Word::EMPTY_LIST;
        assert_eq!((empty.target(), empty.is_linked(), empty.is_marked()), (Target::End, true, false));
        let node = empty.to_node(u32::MAX);
        assert_eq!((node.target(), node.is_linked()), (Target::Node(u32::MAX), true));
        let anchor = node.marked().to_anchor(0);
        assert_eq!((anchor.target(), anchor.is_marked()), (Target::Anchor(0), false));
        let back = anchor.to_target_of(Word(0));
        assert_eq!(back.target(), Target::End);
        assert!(back != empty && !Word(0).is_linked() && Word(0).linked().is_linked());
        // The tag overflows without touching the rest.
        let last = Word(u64::MAX << 35);
        assert_eq!(last.to_node(3).0, 3);
    }
}
