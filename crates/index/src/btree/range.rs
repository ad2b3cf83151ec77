//! Ranges: entries are copied out of a leaf, confirmed, and shown with no lock held.
//!
//! # Thread safety
//! What is shown was in one leaf at one version. A range goes on from where it is in the keys, not in the tree: if a leaf
//! has changed meanwhile it descends again. So a key that was there throughout is shown exactly once, and in order.
//! From leaf to leaf: the next one's version is noted before this one's is confirmed, so it began where this one ends.

use std::ops::{Bound, ControlFlow, Range};

use super::BTree;
use super::contents::link_of;
use super::scratch::{Copied, Scratch};
use super::text::Text;
use super::view::{View, prefetch};
use crate::sync::Backoff;
use crate::{Address, Direction};

/// Entries copied at first, so that a search for one key copies few; whole leaves then. Few where schedules are explored, so
/// that a leaf is copied in pieces there too.
const FIRST: usize = if cfg!(shuttle) { 2 } else { 8 };

/// A place among the keys.
struct Place {
    /// Database and key.
    joined: Vec<u8>,
    /// Whether that key itself was shown, or isn't wanted.
    after: bool,
}

/// How far a leaf was copied.
struct Piece {
    /// Where to go on: in this leaf before or after so many of its entries, or in the leaf of this number.
    next: usize,
    /// Whether that is all of the leaf. Then it is known where the leaf ends.
    done: bool,
}

impl BTree {
    /// As [`OrderedIndex::range`](crate::OrderedIndex::range).
    pub(super) fn run(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let mut scratch = Scratch::take();
        let mut place = Place::new(std::mem::take(&mut scratch.place), db, from, direction);
        self.run_with(&mut scratch, &mut place, (db, direction), visit);
        scratch.place = place.joined;
        scratch.give_back();
    }
    fn run_with(
        &self,
        scratch: &mut Scratch,
        place: &mut Place,
        (db, direction): (u8, Direction),
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let Scratch { copied, fence, .. } = scratch;
        let mut budget = FIRST;
        let mut known: Option<(View<'_>, usize)> = None;
        let backoff = Backoff::new();
        loop {
            let (view, start) = match known.take() {
                Some((view, start)) => (view, Some(start)),
                None => self.leaf_of(place, direction),
            };
            let Some(piece) = view.copy(place, (start, budget), direction, copied, fence) else {
                backoff.wait();
                continue;
            };
            if copied.show(db, visit).is_break() {
                return;
            }
            budget = usize::MAX;
            if !piece.done {
                copied.last_key(&mut place.joined);
                place.after = true;
                known = Some((view, piece.next)).filter(|_| view.is_valid());
                continue;
            }
            std::mem::swap(&mut place.joined, fence);
            match direction {
                Direction::Forward if place.joined.is_empty() => return,
                Direction::Forward => {
                    place.after = false;
                    let next = View::new(&self.pool, piece.next as u32);
                    known = Some((next, 0)).filter(|_| view.is_valid());
                }
                Direction::Backward if place.joined[..] <= [db][..] => return,
                Direction::Backward => place.after = true,
            }
        }
    }
    /// The leaf where a range goes on, and where in it, if that is known.
    fn leaf_of(&self, place: &Place, direction: Direction) -> (View<'_>, Option<usize>) {
        let text = Text::from_joined(&place.joined);
        if direction == Direction::Backward && place.after {
            let (view, all) = self.leaf_below(text);
            return (view, all.then(|| view.shape.count()));
        }
        (self.leaf(text), None)
    }

    /// Appends the addresses of the leaf where `from` belongs, of keys from there on, and of further leaves while there is
    /// nothing; returns where the last leaf ends, empty at the end of all keys.
    pub(super) fn walk(&self, from: &[u8], out: &mut Vec<Address>) -> Vec<u8> {
        let mut place = Place { joined: if from.is_empty() { vec![0] } else { from.to_vec() }, after: false };
        let (mut copied, mut fence) = (Copied::default(), Vec::new());
        let backoff = Backoff::new();
        loop {
            let view = self.leaf(Text::from_joined(&place.joined));
            let all = (None, usize::MAX);
            if view.copy(&place, all, Direction::Forward, &mut copied, &mut fence).is_none() {
                backoff.wait();
                continue;
            }
            let found = out.len();
            copied.addresses(out);
            if fence.is_empty() || out.len() > found {
                return fence;
            }
            std::mem::swap(&mut place.joined, &mut fence);
        }
    }
}

impl Place {
    /// Where a range begins. `joined` is memory to use.
    fn new(mut joined: Vec<u8>, db: u8, from: Bound<&[u8]>, direction: Direction) -> Self {
        joined.clear();
        let (bytes, after) = match from {
            Bound::Included(bytes) => (bytes, false),
            Bound::Excluded(bytes) => (bytes, true),
            Bound::Unbounded if direction == Direction::Forward => (&[][..], false),
            // Every key of the database is below the next database's empty one.
            Bound::Unbounded => {
                joined.push(db.saturating_add(1));
                return Self { joined, after: true };
            }
        };
        Text::from_parts(db, bytes).join(&mut joined);
        Self { joined, after }
    }
}

impl View<'_> {
    /// Copies up to `budget` entries in this direction, from `start` or else from the place on, and where the leaf ends there
    /// if that is all. `None` if disturbed.
    fn copy(
        &self,
        place: &Place,
        (start, budget): (Option<usize>, usize),
        direction: Direction,
        copied: &mut Copied,
        fence: &mut Vec<u8>,
    ) -> Option<Piece> {
        let forward = direction == Direction::Forward;
        let count = self.shape.count();
        let start = match start {
            Some(start) => start,
            None => {
                let position = self.position(Text::from_joined(&place.joined))?;
                position.below + usize::from(position.exact && place.after == forward)
            }
        };
        let range: Range<usize> = if forward {
            start..start.saturating_add(budget).min(count)
        } else {
            start.saturating_sub(budget)..start
        };
        let done = if forward { range.end == count } else { range.start == 0 };
        let link = link_of(self);
        if done
            && forward
            && let Some(next) = self.pool.look(link)
        {
            prefetch(next.get());
        }
        fence.clear();
        copied.load(self, range.clone(), forward)?;
        if done {
            if forward {
                self.append_high(fence)?;
            } else {
                self.append_low(fence)?;
            }
        }
        let next = match (done, forward) {
            (true, _) => link as usize,
            (false, true) => range.end,
            (false, false) => range.start,
        };
        self.is_valid().then_some(Piece { next, done })
    }
}
