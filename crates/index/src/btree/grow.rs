//! Making room: a node is laid out anew, or split.
//!
//! # Thread safety
//! A node is split under its parent's lock and its own, taken in this order and before anything changes. An inner node that
//! would not take another separator is split on the way down, so a split never has to go up.
//!
//! # Invariants
//! - The root stays the root: its content moves to two new nodes below it.
//! - A new node is complete before a node that readers know names it.
//! - A node that would have to take a separator which it can't hold, being compact, is laid out anew before, on a way down of
//!   its own. It stays wide until it is split: with its entries it had room to spare.
//! - What may fail for lack of memory comes before the first change.

use super::contents::{Contents, Fences, Part, link_of};
use super::cut::Cut;
use super::edit;
use super::lock::Locked;
use super::node::Node;
use super::shrink::is_boundary;
use super::text::Text;
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
        let mut widened = None;
        loop {
            match self.try_place(text, widened) {
                Some(Outcome::Done) => return,
                Some(Outcome::Unsuitable(level)) => widened = Some(level),
                None => backoff.wait(),
            }
        }
    }
    /// Nodes on the way that are of level `widened` are made wide. `None`: begin again.
    fn try_place(&self, text: Text<'_>, widened: Option<u8>) -> Option<Outcome> {
        let (mut parent, mut view) = (None, self.root());
        while !view.shape.is_leaf() {
            if !view.shape.takes_separator() {
                return self.make_room(parent.as_ref(), &view, Need::Room)?.begin_again();
            }
            if view.shape.compact() && widened == Some(view.shape.level()) {
                return self.make_room(parent.as_ref(), &view, Need::Wide)?.begin_again();
            }
            let child = view.child_for(text)?.get();
            let next = view.step(child)?;
            (parent, view) = (Some(view), next);
        }
        {
            let mut lock = Locked::at(view.node, view.version)?;
            let position = view.position(text)?;
            if position.exact {
                return Some(Outcome::Done);
            }
            if view.takes(text) {
                edit::insert(&mut lock, &view, position.below, text, 0);
                return Some(Outcome::Done);
            }
        }
        if let Some(parent) = &parent
            && self.spread(parent, &view, text)?
        {
            return Some(Outcome::Done);
        }
        self.make_room(parent.as_ref(), &view, Need::RoomFor(text))
    }
    /// Lays a node out anew or splits it, and adds a text. `None`: it has changed, begin again.
    fn make_room(&self, parent: Option<&View<'_>>, view: &View<'_>, need: Need<'_>) -> Option<Outcome> {
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
        if let Need::RoomFor(text) = need {
            let (at, exact) = contents.position(text);
            if exact {
                return Some(Outcome::Done);
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
        let measure = if let Need::Wide = need { whole.measure_wide() } else { whole.measure() };
        let chains = view.chains();
        if !matches!(need, Need::Halves) && measure.is_roomy(whole.level) {
            let layout = whole.prepare(&self.pool, measure);
            lock.change();
            layout.write(view.node);
        } else {
            let cut = Cut::of(&whole, measure, appended);
            if !cut.fits(&whole) {
                drop((lock, above));
                return self.make_room(parent, view, Need::Halves)?.begin_again();
            }
            match above {
                Some((parent, _)) if !parent.shape.suits(&cut.separator) => {
                    return Some(Outcome::Unsuitable(parent.shape.level()));
                }
                Some((parent, above)) => self.split(parent, above, &mut lock, &whole, &cut),
                None => self.split_root(&mut lock, &whole, &cut),
            }
        }
        drop(lock);
        chains.into_iter().for_each(|chain| chain.free(&self.pool));
        Some(Outcome::Done)
    }
    fn split(
        &self,
        parent: &View<'_>,
        mut above: Locked<'_>,
        lock: &mut Locked<'_>,
        whole: &Part<'_>,
        cut: &Cut,
    ) {
        let (number, right) = self.take_node();
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
    fn split_root(&self, lock: &mut Locked<'_>, whole: &Part<'_>, cut: &Cut) {
        let (left_number, left) = self.take_node();
        let (right_number, right) = self.take_node();
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
    pub(super) fn take_node(&self) -> (u32, &Node) {
        let number = self.pool.take();
        let node = self.pool.get(number);
        node.begin_anew();
        (number, node)
    }
}

/// What a node is laid out anew for.
#[derive(Clone, Copy)]
enum Need<'a> {
    /// One more separator, whatever it will be.
    Room,
    /// One more separator, which a compact node can't hold.
    Wide,
    /// This text, which comes now.
    RoomFor(Text<'a>),
    /// Not to be so full. A text that makes a plain leaf another one may need several times the words of all entries there, so
    /// that even its half would be too large: then the leaf is halved without the text, as often as needed.
    Halves,
}

/// What came of it.
enum Outcome {
    Done,
    /// Nothing: a separator would have gone up to a compact node of this level that can't hold it.
    Unsuitable(u8),
}

impl Outcome {
    /// What is next where this was not done for its own sake.
    fn begin_again(self) -> Option<Self> {
        if let Self::Unsuitable(_) = self { Some(self) } else { None }
    }
}
