//! The way from the root to a leaf.
//!
//! # Thread safety
//! No locks. A child's version is noted before its parent's is confirmed, so the child was that parent's child, and covered
//! the text, at the version noted; whoever believes the child's content confirms that version.

use super::text::Text;
use super::view::{View, prefetch, prefetch_rest};
use super::{BTree, ROOT};
use crate::segments::Place;
use crate::sync::Backoff;

/// The children of nodes of these levels are loaded as a whole: leaves, and the inner nodes above them, of which a large
/// tree has more than a cache holds. One by one, the hints, the heads and the child of such a node are a miss each.
const COLD: u8 = 2;

impl BTree {
    /// The root.
    #[inline]
    pub(super) fn root(&self) -> View<'_> {
        let node = self.pool.look(ROOT).map_or_else(|| self.pool.get(ROOT), Place::get);
        View::of(&self.pool, ROOT, node)
    }
    /// The leaf that a text belongs to.
    #[inline]
    pub(super) fn leaf(&self, text: Text<'_>) -> View<'_> {
        let backoff = Backoff::new();
        loop {
            if let Some(view) = self.try_leaf(text) {
                return view;
            }
            backoff.wait();
        }
    }
    #[inline]
    fn try_leaf(&self, text: Text<'_>) -> Option<View<'_>> {
        let (mut view, first) = (self.root(), text.word(0));
        loop {
            let child = if view.shape.compact() {
                view.compact_child_for(text, first)
            } else if view.shape.is_leaf() {
                return Some(view);
            } else {
                view.child_for(text)?.get()
            };
            let node = self.pool.look(child)?.get();
            if view.shape.level() <= COLD {
                prefetch_rest(node);
            }
            let next = view.below(child, node);
            if !view.is_valid() {
                return None;
            }
            view = next;
        }
    }
    /// The leaf that may have the greatest text below this one, and whether all of the leaf is below it.
    pub(super) fn leaf_below(&self, text: Text<'_>) -> (View<'_>, bool) {
        let backoff = Backoff::new();
        loop {
            if let Some(found) = self.try_leaf_below(text) {
                return found;
            }
            backoff.wait();
        }
    }
    fn try_leaf_below(&self, text: Text<'_>) -> Option<(View<'_>, bool)> {
        // Left of a separator that is the text itself, the text need not even share the prefix: everything is below it.
        let (mut view, mut all) = (self.root(), false);
        while !view.shape.is_leaf() {
            let child = if all {
                view.shape.count()
            } else {
                let position = view.position(text)?;
                all = position.exact;
                position.below
            };
            view = view.step(view.child(child))?;
        }
        Some((view, all))
    }
    /// Starts loading a text's leaf.
    pub(super) fn prefetch_leaf(&self, text: Text<'_>) {
        let mut view = self.root();
        while !view.shape.is_leaf() {
            let Some(child) = view.child_for(text) else { return };
            if view.shape.level() == 1 {
                if let Some(leaf) = self.pool.look(child.get()) {
                    prefetch(leaf.get());
                }
                return;
            }
            let Some(next) = view.step(child.get()) else { return };
            view = next;
        }
    }
}
