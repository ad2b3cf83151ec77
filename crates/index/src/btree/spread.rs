//! Making room beside: a full leaf shares its entries with its neighbour, and where both are full they become three. So random
//! inserts leave leaves fuller than halving does, and no order of keys leaves them half empty.
//!
//! # Thread safety
//! The parent, the left leaf and the right one are locked, in this order and before anything changes.
//!
//! # Invariants
//! - Only where the parent is compact: there a separator is replaced in its place.
//! - A new leaf is complete before a node that readers know names it.
//! - What may fail for lack of memory comes before the first change.

use super::BTree;
use super::contents::{Contents, Fences, Part, link_of};
use super::cut::Cut;
use super::edit;
use super::layout::{Layout, Measure};
use super::lock::Locked;
use super::shrink::is_boundary;
use super::text::Text;
use super::view::View;

/// A cut may be so small a part of two leaves' entries away from where it would be best.
const SLACK: usize = 32;

impl BTree {
    /// Makes room in a full leaf and adds a place for a text, with its neighbour's help; whether that was possible. `None`:
    /// something has changed, begin again.
    pub(super) fn spread(&self, parent: &View<'_>, view: &View<'_>, text: Text<'_>) -> Option<bool> {
        let (full, count) = (view.shape.count() == view.shape.room(), parent.shape.count());
        if !full || !parent.shape.compact() || count == 0 {
            return Some(false);
        }
        let mut above = Locked::at(parent.node, parent.version)?;
        let position = parent.position(text)?;
        let i = position.below + usize::from(position.exact);
        debug_assert_eq!(parent.child(i), view.number);
        // With the right neighbour; the last child with the left one.
        let entry = i.min(count - 1);
        let [left, right] = [entry, entry + 1].map(|i| View::new(&self.pool, parent.child(i)));
        let own = if i == entry { &left } else { &right };
        if own.version != view.version {
            return None;
        }
        let mut locks = [Locked::at(left.node, left.version)?, Locked::at(right.node, right.version)?];

        let fences = (Fences::load(&left)?, Fences::load(&right)?);
        if is_boundary(&fences.1.low) {
            return Some(false);
        }
        let mut contents = Contents::default();
        contents.load(&left, true)?;
        contents.load(&right, true)?;
        let (at, exact) = contents.position(text);
        if exact {
            return Some(true);
        }
        if at == contents.len() && fences.1.high.as_deref().is_none_or(is_boundary) {
            // Keys come in ascending order: they fill a leaf of their own.
            return Some(false);
        }
        contents.insert(at, 0, |bytes| text.join(bytes));
        let whole = Part {
            level: 0,
            link: link_of(&right),
            low: &fences.0.low,
            high: fences.1.high.as_deref(),
            contents: &contents,
            range: 0..contents.len(),
        };
        let measure = whole.measure();
        let slack = contents.len() / SLACK;
        let middle = Cut::near(&whole, measure, (1, 2), slack);
        let (left_part, right_part) = middle.parts(&whole, right.number);
        let measures = [left_part.measure(), right_part.measure()];
        let old = || left.chains().into_iter().chain(right.chains()).collect::<Vec<_>>();
        let chains;
        if measures.iter().all(|measure| measure.is_roomy(0)) {
            if !parent.shape.suits(&middle.separator) {
                return Some(false);
            }
            let layouts =
                [left_part.prepare(&self.pool, measures[0]), right_part.prepare(&self.pool, measures[1])];
            chains = old();
            edit::set_separator(
                &mut above,
                parent,
                entry,
                Text::from_joined(&middle.separator),
                right.number,
            );
            write(&mut locks, layouts);
        } else {
            let cuts = [(1, 3), (2, 3)].map(|share| Cut::near(&whole, measure, share, slack));
            let [first, second] = &cuts;
            if !first.is_before(second) || !cuts.iter().all(|cut| parent.shape.suits(&cut.separator)) {
                return Some(false);
            }
            let (number, new) = self.take_node();
            let (left_part, rest) = first.parts(&whole, number);
            let (middle_part, right_part) = second.parts(&rest, right.number);
            let measures = [&left_part, &middle_part, &right_part].map(Part::measure);
            if !measures.iter().all(Measure::fits) {
                self.pool.give_back(number);
                return Some(false);
            }
            middle_part.prepare(&self.pool, measures[1]).write(new);
            let layouts =
                [left_part.prepare(&self.pool, measures[0]), right_part.prepare(&self.pool, measures[2])];
            chains = old();
            let separators = [first, second].map(|cut| Text::from_joined(&cut.separator));
            edit::set_separator(&mut above, parent, entry, separators[0], number);
            edit::insert(&mut above, parent, entry + 1, separators[1], u64::from(right.number));
            write(&mut locks, layouts);
        }
        drop((locks, above));
        chains.into_iter().for_each(|chain| chain.free(&self.pool));
        Some(true)
    }
}

fn write(locks: &mut [Locked<'_>; 2], layouts: [Layout<'_>; 2]) {
    locks.iter_mut().for_each(Locked::change);
    for (lock, layout) in locks.iter().zip(layouts) {
        layout.write(lock.node());
    }
}
