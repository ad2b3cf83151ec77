//! Ranges over nodes and what is in front of them, in two phases (BonsaiKV section 4.1.3): what a node holds is loaded at once, then merged
//! with what the front has between its fence and the next one.

use std::ops::{Bound, ControlFlow};

use terrace_engine::op::DATABASES;
use terrace_index::{Address, Direction, Index, OrderedIndex};
use terrace_media::ByteRegion;

use super::Nodes;
use super::find::slot_of;
use crate::index::ScmIndex;

/// Records of the front that are merged at once.
const FRONT_AT_ONCE: usize = 256;
/// Addresses of a step of an iteration, about.
const A_STEP: usize = 32;

/// What is shown at once: records in the order of the range, and where that goes on.
struct Piece {
    entries: Vec<(Vec<u8>, Address)>,
    /// Nothing, if that is all.
    next: Option<Bound<Vec<u8>>>,
}

fn as_slices(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<R: ByteRegion> ScmIndex<R, Nodes<R>> {
    /// The node where a range goes on, if there is one, and its fence.
    fn node_at(&self, db: u8, from: &Bound<Vec<u8>>, direction: Direction) -> Option<(u32, Vec<u8>)> {
        let nodes = &self.directory;
        match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), Direction::Forward) | (Bound::Included(key), _) => {
                nodes.floor_with(db, key)
            }
            (Bound::Unbounded, Direction::Forward) => nodes.floor_with(db, b""),
            // What is below a fence is in the node before.
            (Bound::Excluded(key), Direction::Backward) => nodes.before(db, key),
            (Bound::Unbounded, Direction::Backward) => {
                let mut last = None;
                nodes.tree.range(db, Bound::Unbounded, Direction::Backward, &mut |fence, address| {
                    last = Some((slot_of(address), fence.to_vec()));
                    ControlFlow::Break(())
                });
                last
            }
        }
    }

    /// What a range shows next.
    fn piece(&self, db: u8, from: &Bound<Vec<u8>>, direction: Direction) -> Piece {
        let nodes = &self.directory;
        let is_forward = direction == Direction::Forward;
        loop {
            let node = self.node_at(db, from, direction);
            // Where there is no node, all up to the first one.
            let fence = node.as_ref().map_or(&[][..], |(_, fence)| fence);
            let upper = nodes.next_of(db, fence).map(|(_, fence)| fence);
            let is_in_node = |key: &[u8]| key >= fence && upper.as_ref().is_none_or(|upper| key < &upper[..]);
            // Before the node: what leaves the front meanwhile is in the node by then.
            let (mut fresh, mut is_cut) = (Vec::new(), false);
            if let Some(front) = self.front.ordered() {
                front.range(db, as_slices(from), direction, &mut |key, address| {
                    if !is_in_node(key) {
                        return ControlFlow::Break(());
                    }
                    is_cut = fresh.len() == FRONT_AT_ONCE;
                    if is_cut {
                        return ControlFlow::Break(());
                    }
                    fresh.push((key.to_vec(), address));
                    ControlFlow::Continue(())
                });
            }
            let mut held = Vec::new();
            if let Some((slot, _)) = &node {
                let descriptor = nodes.slots.descriptor(*slot);
                let seen = descriptor.read();
                held = nodes.in_order(*slot, &seen);
                let is_still = descriptor.is_still(&seen)
                    && nodes.floor_with(db, fence).is_some_and(|found| found.0 == *slot)
                    && nodes.next_of(db, fence).map(|(_, fence)| fence) == upper;
                if !is_still {
                    continue;
                }
            } else if self.node_at(db, from, direction).is_some()
                || nodes.next_of(db, fence).map(|(_, fence)| fence) != upper
            {
                continue;
            }
            let last = fresh.last().filter(|_| is_cut).map(|(key, _)| key.clone());
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
                is_behind && is_before
            };
            held.retain(|(key, _)| is_wanted(key));
            if !is_forward {
                held.reverse();
            }
            let next = match (last, is_forward) {
                (Some(last), _) => Some(Bound::Excluded(last)),
                (None, true) => upper.map(Bound::Included),
                (None, false) => (!fence.is_empty()).then(|| Bound::Excluded(fence.to_vec())),
            };
            return Piece { entries: merge(fresh, held, is_forward), next };
        }
    }

    /// As [`Index::scan`].
    pub(super) fn scan_keys(&self, cursor: u64, out: &mut Vec<Address>) -> u64 {
        let place = self.directory.cursors.find(cursor).unwrap_or_default();
        let (mut db, key) = place.split_first().map_or((0, &[][..]), |(db, key)| (*db, key));
        let mut from = Bound::Included(key.to_vec());
        let mut shown = 0;
        loop {
            let Piece { entries, next } = self.piece(db, &from, Direction::Forward);
            shown += entries.len();
            out.extend(entries.into_iter().map(|(_, address)| address));
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

/// Puts together what is in order: of two with the same key the first list's.
fn merge(
    fresh: Vec<(Vec<u8>, Address)>,
    held: Vec<(Vec<u8>, Address)>,
    is_forward: bool,
) -> Vec<(Vec<u8>, Address)> {
    use std::cmp::Ordering;
    let mut all = Vec::with_capacity(fresh.len() + held.len());
    let (mut fresh, mut held) = (fresh.into_iter().peekable(), held.into_iter().peekable());
    loop {
        let order = match (fresh.peek(), held.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => {
                if is_forward {
                    a.cmp(b)
                } else {
                    b.cmp(a)
                }
            }
        };
        if order != Ordering::Greater {
            all.extend(fresh.next());
        }
        if order != Ordering::Less {
            let other = held.next();
            all.extend(other.filter(|_| order == Ordering::Greater));
        }
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
        loop {
            let Piece { entries, next } = self.piece(db, &from, direction);
            for (key, address) in entries {
                if visit(&key, address).is_break() {
                    return;
                }
            }
            match next {
                Some(next) => from = next,
                None => return,
            }
        }
    }
}
