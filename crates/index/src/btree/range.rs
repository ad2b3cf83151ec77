//! Ranges: entries are copied out of a leaf, confirmed, and shown with no lock held.
//!
//! # Thread safety
//! What is shown was in one leaf at one version. A range goes on from where it is in the keys, not in the tree: if a leaf
//! has changed meanwhile it descends again. So a key that was there throughout is shown exactly once, and in order.
//! From leaf to leaf: the next one's version is noted before this one's is confirmed, so it began where this one ends.

use std::ops::{Bound, ControlFlow};

use super::BTree;
use super::contents::link_of;
use super::text::Text;
use super::view::{View, prefetch};
use crate::sync::Backoff;
use crate::{Address, Direction};

/// Entries copied at first; twice as many each time, so that a search for one key copies few.
const FIRST: usize = 8;
/// Entries copied at most at a time: whole leaves.
const MOST: usize = 256;

/// A place among the keys.
struct Place {
    /// Database and key.
    joined: Vec<u8>,
    /// Whether that key itself was shown, or isn't wanted.
    after: bool,
}

/// Entries copied out of a leaf.
#[derive(Default)]
struct Copied {
    bytes: Vec<u8>,
    /// Where each key ends, and its address.
    entries: Vec<(usize, u64)>,
}

impl Copied {
    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
    #[inline]
    fn push(&mut self, view: &View<'_>, prefix: &[u8], i: usize) -> Option<()> {
        self.bytes.extend_from_slice(prefix);
        view.append_suffix(i, &mut self.bytes)?;
        self.entries.push((self.bytes.len(), view.address(i)));
        Some(())
    }
    /// Shows the entries of a database. Breaks if `visit` does, or if an entry belongs to another database.
    fn show(&self, db: u8, visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut start = 0;
        for &(end, raw) in &self.entries {
            let [of, key @ ..] = &self.bytes[start..end] else { return ControlFlow::Break(()) };
            if *of != db {
                return ControlFlow::Break(());
            }
            if raw != 0 {
                visit(key, Address::new(raw))?;
            }
            start = end;
        }
        ControlFlow::Continue(())
    }
    /// The last key copied.
    fn last(&self) -> &[u8] {
        let start = self.entries.len().checked_sub(2).map_or(0, |i| self.entries[i].0);
        &self.bytes[start..]
    }
}

/// Where a range goes on within a leaf, and what comes after it.
struct Piece {
    /// Entries of the leaf that were copied or passed over; all of them: the leaf is done.
    next: usize,
    done: bool,
    /// Where the leaf ends; empty at the end of all keys. Known when it is done.
    fence: Vec<u8>,
}

impl BTree {
    pub(super) fn forward(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let mut place = Place::new(db, from, &[]);
        let (mut copied, mut prefix, mut budget) = (Copied::default(), Vec::new(), FIRST);
        let mut known: Option<(View<'_>, usize)> = None;
        let backoff = Backoff::new();
        loop {
            let (view, start) = match known.take() {
                Some((view, start)) => (view, Some(start)),
                None => (self.leaf(Text::from_joined(&place.joined)), None),
            };
            let Some(piece) = view.copy_up(&place, start, budget, &mut copied, &mut prefix) else {
                backoff.wait();
                continue;
            };
            if copied.show(db, visit).is_break() {
                return;
            }
            budget = MOST.min(2 * budget);
            if !piece.done {
                place.joined.clear();
                place.joined.extend_from_slice(copied.last());
                place.after = true;
                known = Some((view, piece.next)).filter(|_| view.is_valid());
            } else if piece.fence.is_empty() {
                return;
            } else {
                place = Place { joined: piece.fence, after: false };
                let next = View::new(&self.pool, piece.next as u32);
                known = Some((next, 0)).filter(|_| view.is_valid());
            }
        }
    }

    pub(super) fn backward(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        // Every key of the database is below the next database's empty one.
        let mut place = Place::new(db, from, &[db.saturating_add(1)]);
        let (mut copied, mut prefix, mut budget) = (Copied::default(), Vec::new(), FIRST);
        let mut known: Option<(View<'_>, usize)> = None;
        let backoff = Backoff::new();
        loop {
            let (view, start) = match known.take() {
                Some((view, start)) => (view, Some(start)),
                None => {
                    let text = Text::from_joined(&place.joined);
                    let (view, all) =
                        if place.after { self.leaf_below(text) } else { (self.leaf(text), false) };
                    (view, all.then(|| view.shape.count()))
                }
            };
            let Some(piece) = view.copy_down(&place, start, budget, &mut copied, &mut prefix) else {
                backoff.wait();
                continue;
            };
            if copied.show(db, visit).is_break() {
                return;
            }
            budget = MOST.min(2 * budget);
            if !piece.done {
                place.joined.clear();
                place.joined.extend_from_slice(copied.last());
                place.after = true;
                known = Some((view, piece.next)).filter(|_| view.is_valid());
            } else if piece.fence[..] <= [db][..] {
                return;
            } else {
                place = Place { joined: piece.fence, after: true };
            }
        }
    }

    /// Appends the addresses of the leaf where `from` belongs, of keys from there on, and of further leaves while there is
    /// nothing; returns where the last leaf ends, empty at the end of all keys.
    pub(super) fn walk(&self, from: &[u8], out: &mut Vec<Address>) -> Vec<u8> {
        let mut place = Place { joined: if from.is_empty() { vec![0] } else { from.to_vec() }, after: false };
        let (mut copied, mut prefix) = (Copied::default(), Vec::new());
        let backoff = Backoff::new();
        loop {
            let view = self.leaf(Text::from_joined(&place.joined));
            let Some(piece) = view.copy_up(&place, None, usize::MAX, &mut copied, &mut prefix) else {
                backoff.wait();
                continue;
            };
            let found = out.len();
            out.extend(copied.entries.iter().filter_map(|&(_, raw)| super::get::address(raw)));
            if piece.fence.is_empty() || out.len() > found {
                return piece.fence;
            }
            place.joined = piece.fence;
        }
    }
}

impl Place {
    /// Where a range begins; without a bound at `open`, or if that is empty with the database's empty key.
    fn new(db: u8, from: Bound<&[u8]>, open: &[u8]) -> Self {
        let (bytes, after) = match from {
            Bound::Included(bytes) => (bytes, false),
            Bound::Excluded(bytes) => (bytes, true),
            Bound::Unbounded if open.is_empty() => (&[][..], false),
            Bound::Unbounded => return Self { joined: open.to_vec(), after: true },
        };
        let mut joined = Vec::with_capacity(bytes.len() + 16);
        Text::from_parts(db, bytes).join(&mut joined);
        Self { joined, after }
    }
}

impl View<'_> {
    /// Copies up to `budget` entries, from `start` or else from the place on. `None` if disturbed.
    fn copy_up(
        &self,
        place: &Place,
        start: Option<usize>,
        budget: usize,
        copied: &mut Copied,
        prefix: &mut Vec<u8>,
    ) -> Option<Piece> {
        copied.clear();
        prefix.clear();
        let start = match start {
            Some(start) => start,
            None => {
                let position = self.position(Text::from_joined(&place.joined))?;
                position.below + usize::from(position.exact && place.after)
            }
        };
        let count = self.shape.count();
        let end = start.saturating_add(budget).min(count);
        self.append_prefix(prefix)?;
        for i in start..end {
            copied.push(self, prefix, i)?;
        }
        if end < count {
            return self.is_valid().then_some(Piece { next: end, done: false, fence: Vec::new() });
        }
        let mut fence = Vec::new();
        let bounded = self.append_high(&mut fence)?;
        let next = link_of(self);
        if !self.is_valid() {
            return None;
        }
        if bounded {
            prefetch(self.pool.get(next));
        } else {
            fence.clear();
        }
        Some(Piece { next: next as usize, done: true, fence })
    }
    /// Copies up to `budget` entries, the greatest first, below `start` or else from the place down. `None` if disturbed.
    fn copy_down(
        &self,
        place: &Place,
        start: Option<usize>,
        budget: usize,
        copied: &mut Copied,
        prefix: &mut Vec<u8>,
    ) -> Option<Piece> {
        copied.clear();
        prefix.clear();
        let end = match start {
            Some(end) => end,
            None => {
                let position = self.position(Text::from_joined(&place.joined))?;
                position.below + usize::from(position.exact && !place.after)
            }
        };
        let start = end.saturating_sub(budget);
        self.append_prefix(prefix)?;
        for i in (start..end).rev() {
            copied.push(self, prefix, i)?;
        }
        let mut fence = Vec::new();
        if start == 0 {
            self.append_low(&mut fence)?;
        }
        self.is_valid().then_some(Piece { next: start, done: start == 0, fence })
    }
}

/// As [`OrderedIndex::range`](crate::OrderedIndex::range).
pub(super) fn range(
    tree: &BTree,
    db: u8,
    from: Bound<&[u8]>,
    direction: Direction,
    visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
) {
    match direction {
        Direction::Forward => tree.forward(db, from, visit),
        Direction::Backward => tree.backward(db, from, visit),
    }
}
