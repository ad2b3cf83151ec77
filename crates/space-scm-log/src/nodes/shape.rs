//! Nodes made anew: one by itself, or several that share what they have (BonsaiKV section 4.1.2 splits at the middle key).
//!
//! A node that overflows shares with the one behind it, or the one before: two full ones become three. So nodes are some four fifths
//! full, whatever order keys come in.

use std::ops::Range;

use terrace_media::ByteRegion;

use super::Nodes;
use super::layout::{Entry, Fence};
use super::plan::{Fresh, NodeChanges, Reshaped, Working, head_of};
use crate::apply::Plan;
use crate::space::ScmSpace;

/// So many nodes share at most, and so many that have few entries.
const WINDOW: usize = 2;
const WINDOW_SPARSE: usize = 32;
/// Places that are left free in each of them: fewer, or more nodes that share, fill nodes better, and cost more entries that are written
/// again for each that comes (3.3 with these, 7.7 with 4 nodes and 3 places, 1.5 without sharing).
const LEFT_FREE: usize = 5;
/// A node with less than one entry in so many places shares with its neighbour.
const SPARSE_PART: usize = 4;

/// An entry of nodes that are made anew.
struct Full {
    /// The first bytes of its key.
    head: u64,
    /// Where its key is among all.
    key: Range<usize>,
    fp: u8,
    entry: Entry,
}

/// What nodes have that are made anew, in order.
#[derive(Default)]
pub(super) struct Gathered {
    keys: Vec<u8>,
    all: Vec<Full>,
}

impl Gathered {
    fn clear(&mut self) {
        self.keys.clear();
        self.all.clear();
    }
    fn push(&mut self, key: &[u8], fp: u8, entry: Entry) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.all.push(Full { head: head_of(key), key: start..self.keys.len(), fp, entry });
    }
    /// Puts those from one on in order.
    fn sort_from(&mut self, start: usize) {
        let Self { keys, all } = self;
        let key = |full: &Full| &keys[full.key.clone()];
        all[start..].sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
    }
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// Places that are taken of a node when it is made.
    fn target(&self) -> usize {
        self.directory.entries - LEFT_FREE.min(self.directory.entries / 4)
    }
    /// Whether a node, where this key belongs, has too many entries, or too few.
    pub(super) fn is_to_be_shared(&self, working: &Working, key: &[u8]) -> bool {
        let (count, entries) = (working.count(), self.room(working));
        let was_less = working.seen.bitmap().count_ones() as usize <= count;
        if working.slot.is_none() || count > entries || count + 1 >= entries && !self.fits(working) {
            return true;
        }
        count < entries / SPARSE_PART && !was_less && {
            let fence = self.fence_of_key(working, key);
            !fence.is_empty() || self.directory.next_of(working.db, &fence).is_some()
        }
    }
    /// Entries that a node may have.
    fn room(&self, working: &Working) -> usize {
        self.directory.entries - working.seen.text_places()
    }
    fn fits(&self, working: &Working) -> bool {
        let Some(slot) = working.slot else { return false };
        let (_, safe) = self.directory.slots.times();
        let taken = working.seen.bitmap() | self.directory.slots.descriptor(slot).retired(safe);
        self.room(working).saturating_sub(taken.count_ones() as usize) >= working.added.len()
    }

    /// A node's entries as they are to be, in order; whether something of it is lost. What is lost only now was counted.
    fn gather(
        &self,
        working: &Working,
        keys: &[u8],
        gathered: &mut Gathered,
        plan: &mut Plan<NodeChanges>,
    ) -> bool {
        let nodes = &self.directory;
        let mut is_lost = working.seen.is_lost();
        plan.is_uncertain |= working.seen.is_stale();
        let start = gathered.all.len();
        if let Some(slot) = working.slot {
            let mut is_lost_now = false;
            let bitmap = working.seen.bitmap() & !working.cleared;
            nodes.each_entry(slot, bitmap, &mut plan.changes.bytes, |i, found| match found {
                Some((key, entry)) => gathered.push(key, working.seen.fp(i), entry),
                // Where it belongs can't be told: whoever asks for a key that is not there is told so.
                None => is_lost_now = true,
            });
            is_lost |= is_lost_now;
            plan.is_uncertain |= is_lost_now;
        }
        for coming in &plan.changes.coming[working.added.clone()] {
            gathered.push(&keys[coming.key.clone()], coming.fp, coming.entry);
        }
        gathered.sort_from(start);
        is_lost
    }

    /// A node is made anew by itself.
    pub(super) fn make_anew(
        &self,
        working: &Working,
        fence: Vec<u8>,
        keys: &[u8],
        plan: &mut Plan<NodeChanges>,
    ) {
        let mut gathered = std::mem::take(&mut plan.changes.gathered);
        gathered.clear();
        let is_lost = self.gather(working, keys, &mut gathered, plan);
        let old = working.slot.map(|slot| (slot, fence.clone())).into_iter().collect();
        let entries = &mut plan.changes.entries;
        let start = entries.len();
        entries.extend(gathered.all.iter().map(|full| (full.fp, full.entry)));
        let fresh = vec![Fresh { fence, entries: start..entries.len(), is_lost }];
        plan.changes.reshaped.push(Reshaped { db: working.db, old, fresh });
        plan.changes.gathered = gathered;
    }

    /// A node shares with those behind it, and with the one before if there is none. `more` does in the next one what is to be done there.
    pub(super) fn share(
        &self,
        working: Working,
        fence: Vec<u8>,
        keys: &[u8],
        mut more: impl FnMut(u32, &mut Plan<NodeChanges>) -> Working,
        plan: &mut Plan<NodeChanges>,
    ) {
        let db = working.db;
        // Its neighbours' fences are about as long.
        let target = self.target() - Fence::places_of(fence.len(), self.directory.entries);
        let mut gathered = std::mem::take(&mut plan.changes.gathered);
        gathered.clear();
        let mut is_lost = self.gather(&working, keys, &mut gathered, plan);
        let is_sparse = gathered.all.len() < target;
        let wants_more = |count: usize, nodes: usize| {
            if is_sparse {
                nodes < WINDOW_SPARSE && count < target / 2
            } else {
                nodes < WINDOW && count > nodes * target
            }
        };
        let mut first = fence;
        let mut old: Vec<(u32, Vec<u8>)> =
            working.slot.map(|slot| (slot, first.clone())).into_iter().collect();
        while wants_more(gathered.all.len(), old.len()) {
            let Some((_, fence)) = old.last() else { break };
            let Some((slot, fence)) = self.directory.next_of(db, fence) else { break };
            let beside = more(slot, plan);
            is_lost |= self.gather(&beside, keys, &mut gathered, plan);
            old.push((slot, fence));
        }
        // What was planned for it already is not known here: it is left alone then.
        if wants_more(gathered.all.len(), old.len())
            && let Some((slot, fence)) = self.directory.before(db, &first).filter(|_| !old.is_empty())
            && !plan.changes.is_planned(slot)
        {
            let seen = self.directory.slots.descriptor(slot).read();
            let count = gathered.all.len();
            is_lost |= self.gather(&Working::unchanged(db, Some(slot), seen), keys, &mut gathered, plan);
            gathered.all.rotate_left(count);
            first.clone_from(&fence);
            old.insert(0, (slot, fence));
        }
        let fresh = divide(
            &gathered,
            first,
            (self.target(), self.directory.entries),
            is_lost,
            &mut plan.changes.entries,
        );
        plan.changes.reshaped.push(Reshaped { db, old, fresh });
        plan.changes.gathered = gathered;
    }
}

/// Divides entries among as few nodes as hold them with room to spare, evenly; the places that a fence takes are not for entries.
fn divide(
    gathered: &Gathered,
    first: Vec<u8>,
    (target, all_places): (usize, usize),
    is_lost: bool,
    entries: &mut Vec<(u8, Entry)>,
) -> Vec<Fresh> {
    let Gathered { keys, all } = gathered;
    let key = |i: usize| &keys[all[i].key.clone()];
    let start = entries.len();
    entries.extend(all.iter().map(|full| (full.fp, full.entry)));
    let total = all.len();
    let mut count = total.div_ceil(target).max(1);
    loop {
        let mut fresh = Vec::with_capacity(count);
        for node in 0..count {
            let (from, to) = (total * node / count, total * (node + 1) / count);
            let fence = if node == 0 { first.clone() } else { separator(key(from - 1), key(from)) };
            fresh.push(Fresh { fence, entries: start + from..start + to, is_lost });
        }
        let taken = |node: &Fresh| node.entries.len() + Fence::places_of(node.fence.len(), all_places);
        if count >= total || fresh.iter().all(|node| taken(node) <= target) {
            return fresh;
        }
        count += 1;
    }
}

/// The shortest key that is above one and not above the other.
fn separator(below: &[u8], above: &[u8]) -> Vec<u8> {
    let same = below.iter().zip(above).take_while(|(a, b)| a == b).count();
    above[..(same + 1).min(above.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_divides() {
        for (below, above) in
            [(&b""[..], &b"a"[..]), (b"a", b"b"), (b"abc", b"abd"), (b"ab", b"ab\0"), (b"abz", b"b")]
        {
            let between = separator(below, above);
            assert!(below < &between[..] && &between[..] <= above, "{below:?} {between:?} {above:?}");
        }
        assert_eq!(separator(b"prefix-aaaa", b"prefix-bbbb"), b"prefix-b");
    }

    #[test]
    fn entries_are_divided_evenly_and_in_order() {
        for total in [0, 1, 5, 37, 38, 161, 4000] {
            let mut gathered = Gathered::default();
            (0..total).for_each(|i: u32| {
                gathered.push(&i.to_be_bytes(), 0, Entry::inline(b"", b"", u64::from(i)));
            });
            let mut entries = Vec::new();
            let fresh = divide(&gathered, b"".to_vec(), (37, 40), false, &mut entries);
            let versions = entries.iter().map(|(_, entry)| entry.version);
            assert!(versions.eq((0..total).map(u64::from)));
            let counts: Vec<_> = fresh.iter().map(|node| node.entries.len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), total as usize);
            assert!(counts.iter().all(|count| *count <= 37), "{counts:?}");
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{counts:?}");
            assert!(fresh.windows(2).all(|pair| pair[0].fence < pair[1].fence));
            assert!(fresh[0].fence.is_empty());
        }
    }

    #[test]
    fn long_fences_take_places_of_entries() {
        for total in [1, 30, 31, 32, 200] {
            let mut gathered = Gathered::default();
            let key = |i| format!("{}{i:08}", "a common prefix of keys ".repeat(4));
            (0..total).for_each(|i| gathered.push(key(i).as_bytes(), 0, Entry::inline(b"", b"", 1)));
            let places = |fence: &[u8]| Fence::places_of(fence.len(), 40);
            let fence = key(0).into_bytes();
            assert_eq!(places(&fence), 4);
            let fresh = divide(&gathered, fence, (35, 40), false, &mut Vec::new());
            assert!(fresh.iter().all(|node| node.entries.len() <= 31 && places(&node.fence) == 4));
            assert_eq!(fresh.len(), usize::div_ceil(total, 31), "{total} entries");
        }
    }
}
