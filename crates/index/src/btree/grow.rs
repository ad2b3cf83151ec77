//! Making room: a node is laid out anew, or split.
//!
//! # Thread safety
//! A node is split under its parent's lock and its own, taken in this order and before anything changes. An inner node that
//! would not take another separator is split on the way down, so a split never has to go up.
//!
//! # Invariants
//! - The root stays the root: its content moves to two new nodes below it.
//! - A new node is complete before a node that readers know names it.
//! - What may fail for lack of memory comes before the first change.

use super::contents::{Contents, Fences, Part, link_of};
use super::edit;
use super::layout::Measure;
use super::lock::Locked;
use super::node::Node;
use super::shrink::is_boundary;
use super::text::{Text, divider};
use super::view::View;
use super::{BTree, ROOT};
use crate::sync::Backoff;

impl BTree {
    /// Makes sure that a text has an entry: if there was none, one that is only a place, which everyone takes for absent
    /// and whose address may be set later without a change of the tree's form.
    ///
    /// # Panics
    /// If there is no memory.
    pub(super) fn place(&self, text: Text<'_>) {
        let backoff = Backoff::new();
        while self.try_place(text).is_none() {
            backoff.wait();
        }
    }
    /// `None`: begin again.
    fn try_place(&self, text: Text<'_>) -> Option<()> {
        let (mut parent, mut view) = (None, self.root());
        while !view.shape.is_leaf() {
            if !view.shape.takes_separator() {
                self.make_room(parent.as_ref(), &view, None)?;
                return None;
            }
            let child = view.child_for(text)?.get();
            let next = view.step(child)?;
            (parent, view) = (Some(view), next);
        }
        {
            let mut lock = Locked::at(view.node, view.version)?;
            let position = view.position(text)?;
            if position.exact {
                return Some(());
            }
            if view.takes(text) {
                edit::insert(&mut lock, &view, position.below, text, 0);
                return Some(());
            }
        }
        self.make_room(parent.as_ref(), &view, Some(text))
    }
    /// Lays a node out anew or splits it, and adds a text. `None`: it has changed, begin again.
    fn make_room(&self, parent: Option<&View<'_>>, view: &View<'_>, text: Option<Text<'_>>) -> Option<()> {
        debug_assert_eq!(parent.is_none(), view.number == ROOT);
        let above = match parent {
            Some(parent) => Some((parent, Locked::at(parent.node, parent.version)?)),
            None => None,
        };
        let mut lock = Locked::at(view.node, view.version)?;
        let mut contents = Contents::default();
        // Places stay: an update of several keys prepares them one by one.
        contents.load(view, true)?;
        let fences = Fences::load(view)?;
        let mut appended = false;
        if let Some(text) = text {
            let (at, exact) = contents.position(text);
            if exact {
                return Some(());
            }
            appended = at == contents.len() && fences.high.as_deref().is_none_or(is_boundary);
            contents.insert(at, 0, |bytes| text.join(bytes));
        }
        let whole = Part {
            level: view.shape.level(),
            link: link_of(view),
            low: &fences.low,
            high: fences.high.as_deref(),
            contents: &contents,
            range: 0..contents.len(),
        };
        let measure = whole.measure();
        let chains = view.chains();
        if measure.is_roomy(whole.level) {
            let layout = whole.prepare(&self.pool, measure);
            lock.change();
            layout.write(view.node);
        } else if let Some((parent, above)) = above {
            self.split(parent, above, &mut lock, &whole, measure, appended);
        } else {
            self.split_root(&mut lock, &whole, measure, appended);
        }
        drop(lock);
        chains.into_iter().for_each(|chain| chain.free(&self.pool));
        Some(())
    }
    fn split(
        &self,
        parent: &View<'_>,
        mut above: Locked<'_>,
        lock: &mut Locked<'_>,
        whole: &Part<'_>,
        measure: Measure,
        appended: bool,
    ) {
        let (number, right) = self.take_node();
        let cut = Cut::of(whole, measure, appended);
        let (left_part, right_part) = cut.parts(whole, number);
        let left_layout = left_part.prepare(&self.pool, left_part.measure());
        right_part.prepare(&self.pool, right_part.measure()).write(right);
        let separator = Text::from_joined(&cut.separator);
        // Nobody else has changed the parent since it was confirmed: this is where its child is.
        let Some(position) = parent.position(separator) else { unreachable!("the parent is locked") };
        debug_assert!(!position.exact);
        edit::insert(&mut above, parent, position.below, separator, u64::from(number));
        lock.change();
        left_layout.write(lock.node());
    }
    fn split_root(&self, lock: &mut Locked<'_>, whole: &Part<'_>, measure: Measure, appended: bool) {
        let (left_number, left) = self.take_node();
        let (right_number, right) = self.take_node();
        let cut = Cut::of(whole, measure, appended);
        let (left_part, right_part) = cut.parts(whole, right_number);
        left_part.prepare(&self.pool, left_part.measure()).write(left);
        right_part.prepare(&self.pool, right_part.measure()).write(right);
        let mut contents = Contents::default();
        contents.push(&cut.separator, u64::from(right_number));
        let root =
            Part { level: whole.level + 1, link: left_number, contents: &contents, range: 0..1, ..*whole };
        let layout = root.prepare(&self.pool, root.measure());
        lock.change();
        layout.write(lock.node());
    }
    fn take_node(&self) -> (u32, &Node) {
        let number = self.pool.take();
        let node = self.pool.get(number);
        node.begin_anew();
        (number, node)
    }
}

/// Where a node is split.
struct Cut {
    /// The first entry that goes right; in an inner node the one that goes up.
    at: usize,
    separator: Vec<u8>,
}

impl Cut {
    /// In the middle of the words; after all other entries where keys come in ascending order.
    fn of(whole: &Part<'_>, measure: Measure, appended: bool) -> Self {
        let count = whole.range.len();
        assert!(count >= 2, "a node of {count} entries is never full");
        if appended {
            let cut = Self::at(whole, count - 1);
            if cut.parts(whole, 0).0.measure().fits() {
                return cut;
            }
        }
        let total: usize = (0..count).map(|i| whole.entry_words(i, measure)).sum();
        let mut words = 0;
        let at = (0..count).find(|&i| {
            words += whole.entry_words(i, measure);
            2 * words >= total
        });
        Self::at(whole, at.unwrap_or(count / 2).clamp(1, count - 1))
    }
    fn at(whole: &Part<'_>, at: usize) -> Self {
        let separator = if whole.level == 0 {
            divider(whole.contents.key(at - 1), whole.contents.key(at)).to_vec()
        } else {
            whole.contents.key(at).to_vec()
        };
        Self { at, separator }
    }
    /// The two halves; `right` is the number of the second.
    fn parts<'a>(&'a self, whole: &Part<'a>, right: u32) -> (Part<'a>, Part<'a>) {
        let leaf = whole.level == 0;
        let (left_link, right_link) =
            if leaf { (right, whole.link) } else { (whole.link, whole.contents.payload(self.at) as u32) };
        let first = if leaf { self.at } else { self.at + 1 };
        let separator = &self.separator[..];
        let left = Part { link: left_link, high: Some(separator), range: 0..self.at, ..whole.clone() };
        let right = Part { link: right_link, low: separator, range: first..whole.range.end, ..whole.clone() };
        (left, right)
    }
}
