//! The way from the root to a leaf.
//!
//! # Thread safety
//! No locks. A child's version is noted before its parent's is confirmed, so the child was that parent's child, and covered
//! the text, at the version noted; whoever believes the child's content confirms that version.

use super::text::Text;
use super::view::{View, prefetch};
use super::{BTree, ROOT};
use crate::sync::Backoff;

impl BTree {
    /// The root.
    #[inline]
    pub(super) fn root(&self) -> View<'_> {
        View::new(&self.pool, ROOT)
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
        let mut view = self.root();
        while !view.shape.is_leaf() {
            let child = view.child_for(text)?;
            let node = self.pool.look(child)?;
            if view.shape.level() == 1 {
                prefetch(node);
            }
            view = view.step_to(child, node)?;
        }
        Some(view)
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
                if let Some(leaf) = self.pool.look(child) {
                    prefetch(leaf);
                }
                return;
            }
            let Some(next) = view.step(child) else { return };
            view = next;
        }
    }
}
