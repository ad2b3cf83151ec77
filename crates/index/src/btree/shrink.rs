//! Giving memory back: a node that holds little is merged with a neighbour.
//!
//! # Thread safety
//! Two neighbours are merged under the locks of their common parent, the left one and the right one, taken in this order
//! and before anything changes. The right one is given back once its version has changed and nothing names it.
//!
//! # Invariants
//! A merge leaves a node with room to spare. Where that can't be (the common prefix of two nodes may be shorter than that of
//! either, and so their keys longer) nodes stay as they are, even empty ones; they serve whatever key comes next.

use super::contents::{Contents, Fences, Part, link_of};
use super::edit;
use super::lock::Locked;
use super::node::{BODY, Shape, WORDS};
use super::text::Text;
use super::view::View;
use super::{BTree, DATABASES, ROOT};
use crate::sync::Backoff;

/// Of 4 parts of a node, those that may be full after a merge.
const MERGED_PARTS: usize = 3;

/// Whether a separator divides two databases: leaves stay apart there, so that the keys of each share its byte.
pub(super) fn is_boundary(separator: &[u8]) -> bool {
    separator.len() == 1 && separator[0] < DATABASES
}

impl Shape {
    /// Whether so little is left that a merge is worth a try: below a quarter, and then only now and again.
    pub(super) fn is_poor(self) -> bool {
        let body = WORDS - BODY;
        let used = self.kind().array_words(self.count()) + self.heap_used();
        4 * used < body && (self.count() < 2 || self.count().is_multiple_of(4))
    }
}

impl BTree {
    /// Merges the leaf of a text with a neighbour, and what is above it in turn, as far as that pays.
    pub(super) fn shrink(&self, text: Text<'_>) {
        let backoff = Backoff::new();
        let mut level = 0;
        loop {
            match self.try_merge(text, level) {
                Some(true) => level += 1,
                Some(false) => return,
                None => backoff.wait(),
            }
        }
    }
    /// Merges the node of this level on the way to a text. `None`: begin again. `true`: its parent may be worth a try.
    fn try_merge(&self, text: Text<'_>, level: u8) -> Option<bool> {
        let (mut parent, mut view) = (None, self.root());
        while view.shape.level() > level {
            let child = view.child_for(text)?.get();
            let next = view.step(child)?;
            (parent, view) = (Some((view, child)), next);
        }
        if !view.is_valid() {
            return None;
        }
        match parent {
            Some((parent, child)) if view.shape.is_poor() => self.merge(&parent, child),
            None if view.shape.level() == level && level > 0 && view.shape.count() == 0 => {
                self.lower_root(&view)
            }
            _ => Some(false),
        }
    }
    /// Merges a child with its neighbour.
    fn merge(&self, parent: &View<'_>, child: u32) -> Option<bool> {
        let count = parent.shape.count();
        if count == 0 {
            return Some(false);
        }
        let i = (0..=count).find(|&i| parent.child(i) == child)?;
        let entry = i.min(count - 1);
        let (left_number, right_number) = (parent.child(entry), parent.child(entry + 1));
        if !parent.is_valid() {
            return None;
        }
        let (left, right) = (parent.step(left_number)?, parent.step(right_number)?);
        let above = Locked::at(parent.node, parent.version)?;
        let mut left_lock = Locked::at(left.node, left.version)?;
        let mut right_lock = Locked::at(right.node, right.version)?;

        let mut contents = Contents::default();
        contents.load(&left, false)?;
        let fences = (Fences::load(&left)?, Fences::load(&right)?);
        let leaf = left.shape.is_leaf();
        if leaf && is_boundary(&fences.1.low) {
            return Some(false);
        }
        if !leaf {
            // The separator comes down; it is where the right one begins.
            contents.push(&fences.1.low, u64::from(link_of(&right)));
        }
        contents.load(&right, false)?;
        let merged = Part {
            level: left.shape.level(),
            link: link_of(if leaf { &right } else { &left }),
            low: &fences.0.low,
            high: fences.1.high.as_deref(),
            contents: &contents,
            range: 0..contents.len(),
        };
        let measure = merged.measure();
        if !measure.is_at_most(MERGED_PARTS) || !measure.is_roomy(merged.level) {
            return Some(false);
        }
        let layout = merged.prepare(&self.pool, measure);
        let mut chains = left.chains();
        chains.extend(right.chains());
        right_lock.change();
        left_lock.change();
        layout.write(left.node);
        let parent_shape = edit::remove(above, parent, entry);
        drop(left_lock);
        drop(right_lock);
        chains.into_iter().for_each(|chain| chain.free(&self.pool));
        self.pool.give_back(right_number);
        Some(parent_shape.is_poor() || parent_shape.count() == 0)
    }
    /// Moves the root's only child into the root.
    fn lower_root(&self, root: &View<'_>) -> Option<bool> {
        debug_assert_eq!(root.number, ROOT);
        let number = root.child(0);
        if !root.is_valid() {
            return None;
        }
        let child = root.step(number)?;
        let mut lock = Locked::at(root.node, root.version)?;
        let mut child_lock = Locked::at(child.node, child.version)?;
        let mut contents = Contents::default();
        contents.load(&child, false)?;
        let whole = Part {
            level: child.shape.level(),
            link: link_of(&child),
            low: &[],
            high: None,
            contents: &contents,
            range: 0..contents.len(),
        };
        let layout = whole.prepare(&self.pool, whole.measure());
        let mut chains = root.chains();
        chains.extend(child.chains());
        child_lock.change();
        lock.change();
        layout.write(root.node);
        drop(lock);
        drop(child_lock);
        chains.into_iter().for_each(|chain| chain.free(&self.pool));
        self.pool.give_back(number);
        // The new root may have an only child in turn.
        Some(false)
    }
}
