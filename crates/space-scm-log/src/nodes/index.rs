//! Ranges over nodes and what is in front of them, in two phases (BonsaiKV section 4.1.3): what a node holds is loaded at once, then merged
//! with what the front has between its fence and the next one.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use terrace_engine::op::DATABASES;
use terrace_index::{Address, Direction, Index, Inline, OrderedIndex, RecordVisitor};
use terrace_media::ByteRegion;

use super::Nodes;
use super::find::slot_of;
use super::layout::{ENTRIES_MAX, Entry};
use super::plan::head_of;
use crate::index::ScmIndex;
use crate::space::TIER;

/// Records of the front that are merged at once.
const FRONT_AT_ONCE: usize = 256;
/// Addresses of a step of an iteration, about.
const A_STEP: usize = 32;

/// Where a range goes on: the node, if there is one, its fence if that matters, and the next one's.
struct At {
    slot: Option<u32>,
    fence: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// The slot of the next one in the direction of the range, if that is known.
    next: Option<u32>,
}

/// Bytes of a key that are compared as a number.
const HEAD_BYTES: usize = 8;

/// A key, and where its record is.
struct One {
    /// The key's first bytes, padded with zeros.
    head: [u8; HEAD_BYTES],
    bytes: u32,
    /// Where a longer key is among those of its list.
    start: u32,
    address: Address,
    /// The entry, if it is the record.
    inline: Option<Entry>,
}

/// Keys with their addresses, in the order of the range once they are sorted.
#[derive(Default)]
struct Keyed {
    /// Keys that are longer than a head.
    keys: Vec<u8>,
    all: Vec<One>,
    /// Which of them come one after the other, with their heads as numbers.
    order: Vec<(u64, u32)>,
}

impl Keyed {
    fn clear(&mut self) {
        self.keys.clear();
        self.all.clear();
        self.order.clear();
    }
    fn reserve(&mut self, count: usize) {
        self.all.reserve(count);
        self.order.reserve(count);
    }
    fn push(&mut self, key: &[u8], address: Address, inline: Option<Entry>) {
        let number = head_of(key);
        let start = self.keys.len() as u32;
        if key.len() > HEAD_BYTES {
            self.keys.extend_from_slice(key);
        }
        self.order.push((number, self.all.len() as u32));
        let head = number.to_be_bytes();
        self.all.push(One { head, bytes: key.len() as u32, start, address, inline });
    }
    fn len(&self) -> usize {
        self.all.len()
    }
    fn key<'a>(&'a self, one: &'a One) -> &'a [u8] {
        let bytes = one.bytes as usize;
        if bytes <= HEAD_BYTES { &one.head[..bytes] } else { &self.keys[one.start as usize..][..bytes] }
    }
    fn at(&self, i: usize) -> Option<&One> {
        self.order.get(i).map(|(_, one)| &self.all[*one as usize])
    }
    fn sort(&mut self, is_forward: bool) {
        let mut order = std::mem::take(&mut self.order);
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| {
                let (a, b) = (&self.all[a.1 as usize], &self.all[b.1 as usize]);
                self.key(a).cmp(self.key(b))
            })
        });
        if !is_forward {
            order.reverse();
        }
        self.order = order;
    }
    /// Leaves out, of what is in order, what comes before the first that is wanted, and what comes after the last.
    fn keep(&mut self, is_before: impl Fn(&[u8]) -> bool, is_wanted: impl Fn(&[u8]) -> bool) {
        let key = |one: &(u64, u32)| self.key(&self.all[one.1 as usize]);
        let start = self.order.partition_point(|one| is_before(key(one)));
        let wanted = self.order[start..].partition_point(|one| is_wanted(key(one)));
        self.order.truncate(start + wanted);
        self.order.drain(..start);
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
    /// Shows both in their order: of two with the same key the front's.
    fn show(&self, is_forward: bool, visit: RecordVisitor<'_>) -> ControlFlow<()> {
        let Self { fresh, held, .. } = self;
        let (mut of_front, mut of_node) = (0, 0);
        loop {
            let (newer, older) = (fresh.at(of_front), held.at(of_node));
            let order = match (newer, older) {
                (None, None) => return ControlFlow::Continue(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) if is_forward => fresh.key(a).cmp(held.key(b)),
                (Some(a), Some(b)) => held.key(b).cmp(fresh.key(a)),
            };
            of_node += usize::from(order != Ordering::Less);
            match (newer.filter(|_| order != Ordering::Greater), older) {
                (Some(one), _) => {
                    of_front += 1;
                    visit(fresh.key(one), one.address, None)?;
                }
                (None, Some(one)) => {
                    let texts = one.inline.map(|entry| (entry.version, entry.texts().1, entry.lengths().1));
                    let inline = texts.as_ref().map(|(version, value, bytes)| Inline {
                        version: *version,
                        tier: TIER,
                        value: &value[..*bytes],
                    });
                    visit(held.key(one), one.address, inline)?;
                }
                (None, None) => {}
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
            let (slot, next) = nodes.tree.floor_and_next(db, key, &mut upper);
            let (slot, next) = (slot.map(slot_of), next.map(slot_of));
            // All that it shows is above where the range is.
            return At { slot, fence: Vec::new(), upper: next.map(|_| upper), next };
        }
        let node = self.node_below(db, from);
        let (slot, fence) = node.map_or((None, Vec::new()), |(slot, fence)| (Some(slot), fence));
        // Where there is no node, all up to the first one.
        let upper = nodes.next_of(db, &fence).map(|(_, fence)| fence);
        At { slot, fence, upper, next: None }
    }
    /// Whether there is a node where there was none.
    fn has_node(&self, db: u8, from: &Bound<Vec<u8>>, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.directory.floor(db, key_of(from)).is_some(),
            Direction::Backward => self.node_below(db, from).is_some(),
        }
    }

    /// Puts into a piece what a range shows next; where it goes on. One that is longer than a piece is likely to be longer still: then the
    /// next node is loaded meanwhile.
    fn piece(
        &self,
        db: u8,
        from: &Bound<Vec<u8>>,
        (direction, is_first): (Direction, bool),
        piece: &mut Piece,
    ) -> Option<Bound<Vec<u8>>> {
        let nodes = &self.directory;
        let is_forward = direction == Direction::Forward;
        loop {
            let At { slot, fence, upper, next } = self.node_at(db, from, direction);
            let at_once = if is_first { None } else { next };
            slot.into_iter().chain(at_once).for_each(|slot| nodes.load(slot));
            let is_in_node = |key: &[u8]| {
                (is_forward || key >= &fence[..]) && upper.as_ref().is_none_or(|upper| key < &upper[..])
            };
            piece.fresh.clear();
            piece.held.clear();
            let Piece { fresh, held, bytes } = &mut *piece;
            // Before the node: what leaves the front meanwhile is in the node by then.
            let mut is_cut = false;
            if let Some(front) = self.front.ordered().filter(|_| !self.front.is_empty()) {
                front.range(db, as_slices(from), direction, &mut |key, address| {
                    if !is_in_node(key) {
                        return ControlFlow::Break(());
                    }
                    is_cut = fresh.len() == FRONT_AT_ONCE;
                    if is_cut {
                        return ControlFlow::Break(());
                    }
                    fresh.push(key, address, None);
                    ControlFlow::Continue(())
                });
            }
            let last = if is_cut { fresh.all.last().map(|last| fresh.key(last).to_vec()) } else { None };
            // Whether a key is not in the range yet, and whether it is not behind what is shown.
            let is_before = |key: &[u8]| match (from, is_forward) {
                (Bound::Unbounded, _) => false,
                (Bound::Included(from), true) => key < &from[..],
                (Bound::Excluded(from), true) => key <= &from[..],
                (Bound::Included(from), false) => key > &from[..],
                (Bound::Excluded(from), false) => key >= &from[..],
            };
            let is_shown = |key: &[u8]| {
                let is_last = last
                    .as_ref()
                    .is_none_or(|last| if is_forward { key <= &last[..] } else { key >= &last[..] });
                is_last
                    && if is_forward {
                        upper.as_ref().is_none_or(|upper| key < &upper[..])
                    } else {
                        key >= &fence[..]
                    }
            };
            if let Some(slot) = slot {
                let descriptor = nodes.slots.descriptor(slot);
                let seen = descriptor.read();
                nodes.each_entry(slot, seen.bitmap(), bytes, |i, found| {
                    if let Some((key, entry)) = found {
                        let inline = entry.place().is_none().then_some(entry);
                        held.push(key, nodes.address_of(slot, i), inline);
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
            held.keep(is_before, is_shown);
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
            let next = self.piece(db, &from, (Direction::Forward, true), &mut piece);
            let _ = piece.show(true, &mut |_, address, _| {
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
        self.range_with_records(db, from, direction, &mut |key, address, _| visit(key, address));
    }
    fn range_with_records(&self, db: u8, from: Bound<&[u8]>, direction: Direction, visit: RecordVisitor<'_>) {
        let mut from = from.map(<[u8]>::to_vec);
        let (mut piece, mut is_first) = (Piece::default(), true);
        piece.held.reserve(ENTRIES_MAX);
        loop {
            let next = self.piece(db, &from, (direction, is_first), &mut piece);
            is_first = false;
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
