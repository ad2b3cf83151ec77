//! Ranges over nodes and what is in front of them, in two phases (BonsaiKV section 4.1.3): what a node holds is loaded at once, then merged
//! with what the front has between its fence and the next one.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use terrace_engine::op::DATABASES;
use terrace_index::{Address, Direction, Index, OrderedIndex};
use terrace_media::ByteRegion;

use super::Nodes;
use super::find::slot_of;
use super::plan::head_of;
use crate::index::ScmIndex;

/// Records of the front that are merged at once.
const FRONT_AT_ONCE: usize = 256;
/// Addresses of a step of an iteration, about.
const A_STEP: usize = 32;

/// Where a range goes on: the node, if there is one, its fence if that matters, and the next one's.
struct At {
    slot: Option<u32>,
    fence: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// Addresses with their keys.
#[derive(Default)]
struct Keyed {
    keys: Vec<u8>,
    all: Vec<(u64, Range<usize>, Address)>,
}

impl Keyed {
    fn push(&mut self, key: &[u8], address: Address) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.all.push((head_of(key), start..self.keys.len(), address));
    }
    fn key(&self, one: &(u64, Range<usize>, Address)) -> &[u8] {
        &self.keys[one.1.clone()]
    }
    fn sort(&mut self, is_forward: bool) {
        let Self { keys, all } = self;
        let key = |one: &(u64, Range<usize>, Address)| &keys[one.1.clone()];
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a).cmp(key(b))));
        if !is_forward {
            all.reverse();
        }
    }
}

/// What is shown at once, in the order of the range: records of the front, and of a node.
#[derive(Default)]
struct Piece {
    fresh: Keyed,
    held: Keyed,
    bytes: Vec<u8>,
}

impl Piece {
    fn clear(&mut self) {
        for keyed in [&mut self.fresh, &mut self.held] {
            keyed.keys.clear();
            keyed.all.clear();
        }
    }
    /// Shows both in their order: of two with the same key the front's.
    fn show(
        &self,
        is_forward: bool,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Self { fresh, held, .. } = self;
        let (mut of_front, mut of_node) = (fresh.all.iter().peekable(), held.all.iter().peekable());
        loop {
            let order = match (of_front.peek(), of_node.peek()) {
                (None, None) => return ControlFlow::Continue(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) if is_forward => fresh.key(a).cmp(held.key(b)),
                (Some(a), Some(b)) => held.key(b).cmp(fresh.key(a)),
            };
            let older = if order == Ordering::Less { None } else { of_node.next() };
            match if order == Ordering::Greater { None } else { of_front.next() } {
                Some(one) => visit(fresh.key(one), one.2)?,
                None => older.map_or(ControlFlow::Continue(()), |one| visit(held.key(one), one.2))?,
            }
        }
    }
}

/// The key that a bound is at; none is below the first.
fn key_of(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}

fn as_slices(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<R: ByteRegion> ScmIndex<R, Nodes<R>> {
    /// The node where a range goes on that goes backward, if there is one, and its fence.
    fn node_below(&self, db: u8, from: &Bound<Vec<u8>>) -> Option<(u32, Vec<u8>)> {
        let nodes = &self.directory;
        match from {
            Bound::Included(key) => nodes.floor_with(db, key),
            // What is below a fence is in the node before.
            Bound::Excluded(key) => nodes.before(db, key),
            Bound::Unbounded => {
                let mut last = None;
                nodes.tree.range(db, Bound::Unbounded, Direction::Backward, &mut |fence, address| {
                    last = Some((slot_of(address), fence.to_vec()));
                    ControlFlow::Break(())
                });
                last
            }
        }
    }
    /// The node where a range goes on, if there is one, where that begins and where the next one does.
    fn node_at(&self, db: u8, from: &Bound<Vec<u8>>, direction: Direction) -> At {
        let nodes = &self.directory;
        let mut upper = Vec::new();
        if direction == Direction::Forward {
            let key = key_of(from);
            let (slot, has_upper) = nodes.tree.floor_and_next(db, key, &mut upper);
            // All that it shows is above where the range is.
            return At { slot: slot.map(slot_of), fence: Vec::new(), upper: has_upper.then_some(upper) };
        }
        let node = self.node_below(db, from);
        let (slot, fence) = node.map_or((None, Vec::new()), |(slot, fence)| (Some(slot), fence));
        // Where there is no node, all up to the first one.
        let upper = nodes.next_of(db, &fence).map(|(_, fence)| fence);
        At { slot, fence, upper }
    }
    /// Whether there is a node where there was none.
    fn has_node(&self, db: u8, from: &Bound<Vec<u8>>, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.directory.floor(db, key_of(from)).is_some(),
            Direction::Backward => self.node_below(db, from).is_some(),
        }
    }

    /// Puts into a piece what a range shows next; where it goes on.
    fn piece(
        &self,
        db: u8,
        from: &Bound<Vec<u8>>,
        direction: Direction,
        piece: &mut Piece,
    ) -> Option<Bound<Vec<u8>>> {
        let nodes = &self.directory;
        let is_forward = direction == Direction::Forward;
        loop {
            let At { slot, fence, upper } = self.node_at(db, from, direction);
            let is_in_node = |key: &[u8]| {
                (is_forward || key >= &fence[..]) && upper.as_ref().is_none_or(|upper| key < &upper[..])
            };
            piece.clear();
            let Piece { fresh, held, bytes } = &mut *piece;
            // Before the node: what leaves the front meanwhile is in the node by then.
            let mut is_cut = false;
            if let Some(front) = self.front.ordered().filter(|_| !self.front.is_empty()) {
                front.range(db, as_slices(from), direction, &mut |key, address| {
                    if !is_in_node(key) {
                        return ControlFlow::Break(());
                    }
                    is_cut = fresh.all.len() == FRONT_AT_ONCE;
                    if is_cut {
                        return ControlFlow::Break(());
                    }
                    fresh.push(key, address);
                    ControlFlow::Continue(())
                });
            }
            let last = if is_cut { fresh.all.last().map(|last| fresh.key(last).to_vec()) } else { None };
            let is_wanted = |key: &[u8]| {
                let is_behind = match (from, is_forward) {
                    (Bound::Unbounded, _) => true,
                    (Bound::Included(from), true) => key >= &from[..],
                    (Bound::Excluded(from), true) => key > &from[..],
                    (Bound::Included(from), false) => key <= &from[..],
                    (Bound::Excluded(from), false) => key < &from[..],
                };
                let is_before = last
                    .as_ref()
                    .is_none_or(|last| if is_forward { key <= &last[..] } else { key >= &last[..] });
                is_behind && is_before && is_in_node(key)
            };
            if let Some(slot) = slot {
                let descriptor = nodes.slots.descriptor(slot);
                let seen = descriptor.read();
                nodes.each_entry(slot, seen.bitmap(), bytes, |i, found| {
                    if let Some((key, _)) = found.filter(|(key, _)| is_wanted(key)) {
                        held.push(key, nodes.address_of(slot, i));
                    }
                });
                // A node whose keys others have has left.
                if !seen.is_node() || !descriptor.is_still(&seen) {
                    continue;
                }
            } else if self.has_node(db, from, direction) {
                continue;
            }
            held.sort(is_forward);
            return match (last, is_forward) {
                (Some(last), _) => Some(Bound::Excluded(last)),
                (None, true) => upper.map(Bound::Included),
                (None, false) => (!fence.is_empty()).then_some(Bound::Excluded(fence)),
            };
        }
    }

    /// As [`Index::scan`].
    pub(super) fn scan_keys(&self, cursor: u64, out: &mut Vec<Address>) -> u64 {
        let place = self.directory.cursors.find(cursor).unwrap_or_default();
        let (mut db, key) = place.split_first().map_or((0, &[][..]), |(db, key)| (*db, key));
        let mut from = Bound::Included(key.to_vec());
        let (mut shown, mut piece) = (0, Piece::default());
        loop {
            let next = self.piece(db, &from, Direction::Forward, &mut piece);
            let _ = piece.show(true, &mut |_, address| {
                shown += 1;
                out.push(address);
                ControlFlow::Continue(())
            });
            from = match next {
                Some(next) => next,
                None => {
                    db += 1;
                    Bound::Included(Vec::new())
                }
            };
            if usize::from(db) == DATABASES {
                return 0;
            }
            if shown >= A_STEP {
                break;
            }
        }
        let mut place = vec![db];
        match from {
            Bound::Included(key) => place.extend(key),
            // The smallest key that is above it.
            Bound::Excluded(key) => {
                place.extend(key);
                place.push(0);
            }
            Bound::Unbounded => {}
        }
        self.directory.cursors.save(&place)
    }
}

impl<R: ByteRegion> OrderedIndex for ScmIndex<R, Nodes<R>> {
    fn range(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let mut from = from.map(<[u8]>::to_vec);
        let mut piece = Piece::default();
        loop {
            let next = self.piece(db, &from, direction, &mut piece);
            if piece.show(direction == Direction::Forward, visit).is_break() {
                return;
            }
            match next {
                Some(next) => from = next,
                None => return,
            }
        }
    }
}
