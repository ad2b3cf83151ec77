//! A node as it was at one version, and the search in it.
//!
//! # Thread safety
//! Nothing read through a view is true before [`View::is_valid`] says so; what would be dangerous to follow (the number of
//! a node, a long length) is confirmed here before it is used. The holder of the node's lock has a view that stays valid
//! until it changes the node.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::num::NonZeroU32;

use super::compact::compact_head;
use super::heap::{Slot, heap_words};
use super::node::{BLOCK, BODY, HINT, HINTS, LINK, MASK_48, Node, Shape, WORDS};
use super::pool::Pool;
use super::text::Text;

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
        Self::of(pool, number, pool.get(number))
    }
    /// As `new`, of the node with this number.
    #[inline]
    pub(super) fn of(pool: &'a Pool, number: u32, node: &'a Node) -> Self {
        let version = node.version();
        Self { pool, number, node, version, shape: node.shape() }
    }
    /// Whether all that was read is true.
    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        self.node.is_still(self.version)
    }
    /// Where the heads are that a search compares: all before them are below this one. `None` if the node has no room for
    /// a block.
    #[inline]
    fn block(&self, head: u64) -> Option<usize> {
        Some(self.block_before(head, self.shape.room().checked_sub(BLOCK)?))
    }
    /// As `block`; the last block begins at `last`.
    #[inline]
    fn block_before(&self, head: u64, last: usize) -> usize {
        let mut full = 0;
        for hint in 0..HINTS {
            full += usize::from(self.node.load(HINT + hint) < head);
        }
        // The last block begins earlier where there is no room for all of it.
        (full * BLOCK).min(last)
    }
    /// Entries whose head is below this one. No branch depends on the keys.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let Some(block) = self.block(head) else {
            // It can't be more; so the compiler knows that the head after those is in the node.
            return few_heads_below(self.node, self.shape, head).min(BLOCK);
        };
        self.heads_below_in(block, head)
    }
    /// As `heads_below`, in a plain leaf: it has room for a block, whatever its fences take.
    #[inline]
    pub(super) fn plain_heads_below(&self, head: u64) -> usize {
        self.heads_below_in(self.block_before(head, self.shape.room().wrapping_sub(BLOCK)), head)
    }
    #[inline]
    fn heads_below_in(&self, block: usize, head: u64) -> usize {
        let below = |i: usize| usize::from(self.node.head(i) < head);
        let (mut from, part) = (block, BLOCK.div_ceil(3));
        for i in 1..BLOCK / part {
            from += part * below(block + i * part - 1);
        }
        from + (from..from + part).map(below).sum::<usize>()
    }
    /// Starts loading what a search for this text reads beyond the first line.
    #[inline]
    pub(super) fn prefetch_search(&self, text: Text<'_>) {
        if self.shape.compact() {
            let line = self.node.compact_line(self.compact_head(text));
            return Node::compact_places(line).into_iter().for_each(|word| self.node.prefetch_word(word));
        }
        let Some(block) = self.block(text.word(self.shape.prefix())) else { return };
        let payloads = self.shape.payloads() + if self.shape.wide() { block } else { block * 3 / 4 };
        for word in [BODY + block, BODY + block + BLOCK - 1, payloads, payloads + 8] {
            self.node.prefetch_word(word);
        }
    }
    /// Entries whose head is below that of a text, and whether the next has the same head.
    #[inline]
    pub(super) fn near(&self, text: Text<'_>) -> (usize, bool) {
        let head = text.word(self.shape.prefix());
        let below = self.heads_below(head);
        // After the last entry comes no head, or one that is all ones: few texts get to the comparison with the count.
        (below, self.node.head(below) == head && below < self.shape.count())
    }
    /// Searches; `None` if disturbed.
    #[inline]
    pub(super) fn position(&self, text: Text<'_>) -> Option<Position> {
        if self.shape.compact() {
            return Some(self.compact_position(text));
        }
        let (below, same_head) = self.near(text);
        if same_head { self.position_at(text, below) } else { Some(Position { below, exact: false }) }
    }
    /// Compares the first entry with the text's head in full, and goes on from there.
    fn position_at(&self, text: Text<'_>, below: usize) -> Option<Position> {
        match self.compare_rest(below, text)? {
            Ordering::Equal => Some(Position { below, exact: true }),
            Ordering::Greater => Some(Position { below, exact: false }),
            // No other entry of a plain leaf has this head.
            Ordering::Less if self.shape.plain().is_some() => {
                Some(Position { below: below + 1, exact: false })
            }
            Ordering::Less => {
                let head = text.word(self.shape.prefix());
                self.position_among_equals(text, below + 1, head)
            }
        }
    }
    /// What a compact node compares.
    #[inline]
    fn compact_head(&self, text: Text<'_>) -> i32 {
        compact_head(text.word(self.shape.prefix()))
    }
    /// The child of a compact node that a descent takes, not confirmed. `first` are the text's first eight bytes.
    #[inline]
    pub(super) fn compact_child_for(&self, text: Text<'_>, first: u64) -> u32 {
        let prefix = self.shape.prefix();
        let head = if prefix <= 4 { first << (8 * prefix) } else { text.word(prefix) };
        self.node.compact_child(self.node.compact_up_to(self.shape.count(), compact_head(head)))
    }
    /// Separators of a compact node that are not above a text.
    #[inline]
    fn compact_up_to(&self, text: Text<'_>) -> usize {
        self.node.compact_up_to(self.shape.count(), self.compact_head(text))
    }
    fn compact_position(&self, text: Text<'_>) -> Position {
        let up_to = self.compact_up_to(text);
        let exact = up_to.checked_sub(1).is_some_and(|last| {
            let bytes = self.node.compact_bytes(last);
            let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            let head = text.word(self.shape.prefix()) >> 32;
            head == u64::from(u32::from_be_bytes(bytes)) && self.shape.prefix() + length == text.len()
        });
        Position { below: up_to - usize::from(exact), exact }
    }
    /// Goes on among entries with the same head, from this one on.
    #[cold]
    fn position_among_equals(&self, text: Text<'_>, from: usize, head: u64) -> Option<Position> {
        let (mut low, mut high) = (from, self.shape.count());
        while low < high {
            let middle = (low + high) / 2;
            let order = if self.node.head(middle) == head {
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
    /// Whether a leaf takes one more key, which it doesn't hold, without being laid out anew. Needs the lock.
    #[inline]
    pub(super) fn takes(&self, text: Text<'_>) -> bool {
        let shape = self.shape;
        let length = text.len() - shape.prefix();
        shape.count() < shape.room()
            && match shape.plain() {
                Some(plain) => plain == length && self.compare_rest(0, text) == Some(Ordering::Equal),
                None => heap_words(length) <= shape.free(),
            }
    }
    /// The number of the child that a descent takes, not confirmed; `None` if disturbed.
    #[inline]
    pub(super) fn child_for(&self, text: Text<'_>) -> Option<NonZeroU32> {
        if self.shape.compact() {
            return NonZeroU32::new(self.node.compact_child(self.compact_up_to(text)));
        }
        let (db, bytes) = text.parts();
        wide_child(self.pool, self.number, self.version, db, bytes)
    }
    #[inline]
    fn wide_child_for(&self, text: Text<'_>) -> Option<NonZeroU32> {
        let (below, same_head) = self.near(text);
        if same_head {
            let (db, bytes) = text.parts();
            return child_among_equals(self.pool, self.number, self.version, db, bytes);
        }
        NonZeroU32::new(self.child(below))
    }
    /// The node again, as it was at this version.
    pub(super) fn again(pool: &'a Pool, number: u32, version: u64) -> Self {
        let node = pool.get(number);
        Self { pool, number, node, version, shape: node.shape() }
    }
    /// Child `i`, of one more than there are entries.
    #[inline]
    pub(super) fn child(&self, i: usize) -> u32 {
        if self.shape.compact() {
            return self.node.compact_child(i);
        }
        // No branch: the first child is as likely as any other.
        let payload = (self.shape.payloads() + i).wrapping_sub(1);
        self.node.load(select_unpredictable(i == 0, LINK, payload)) as u32
    }
    /// The address of an entry of a leaf, 0 for an entry that is only a place.
    #[inline]
    pub(super) fn address(&self, i: usize) -> u64 {
        self.node.payload(self.shape, i) & MASK_48
    }
    /// The slot of an entry, where the node isn't plain.
    #[inline]
    pub(super) fn slot(&self, i: usize) -> Slot {
        Slot::of_payload(self.node.wide_payload(self.shape, i))
    }
    /// A view of this child, whose number need not be confirmed; `None` if disturbed.
    #[inline]
    pub(super) fn step(&self, child: u32) -> Option<Self> {
        let view = self.below(child, self.pool.look(child)?.get());
        // It was this node's child when its version was noted.
        if self.is_valid() { Some(view) } else { None }
    }
    /// A view of this child, true if this view is still valid now that the child's version is noted.
    #[inline]
    pub(super) fn below(&self, number: u32, node: &'a Node) -> Self {
        let version = node.version();
        Self { pool: self.pool, number, node, version, shape: node.shape() }
    }
}

/// The child for a text in a node that isn't compact. Few are, so look-ups need not keep all of it within themselves.
#[inline(never)]
fn wide_child(pool: &Pool, number: u32, version: u64, db: u8, bytes: &[u8]) -> Option<NonZeroU32> {
    View::again(pool, number, version).wide_child_for(Text::from_parts(db, bytes))
}

/// The child for a text that has a separator's head. Takes what is in registers, so that those who call it rarely keep it
/// there.
#[cold]
#[inline(never)]
fn child_among_equals(pool: &Pool, number: u32, version: u64, db: u8, bytes: &[u8]) -> Option<NonZeroU32> {
    let view = View::again(pool, number, version);
    let Position { below, exact } = view.position(Text::from_parts(db, bytes))?;
    NonZeroU32::new(view.child(below + usize::from(exact)))
}

/// Entries whose head is below this one, in a node without room for a block.
#[inline(never)]
fn few_heads_below(node: &Node, shape: Shape, head: u64) -> usize {
    (0..shape.count()).take_while(|&i| node.head(i) < head).count()
}

/// Starts loading all of a node.
#[inline]
pub(super) fn prefetch(node: &Node) {
    node.prefetch_word(0);
    prefetch_rest(node);
}

/// Starts loading all of a node but the first line, which is read next.
#[inline]
pub(super) fn prefetch_rest(node: &Node) {
    (8..WORDS).step_by(8).for_each(|word| node.prefetch_word(word));
}
