//! Nodes made anew: one by itself, or several that share what they have (BonsaiKV section 4.1.2 splits at the middle key).
//!
//! A node that overflows shares with those behind it, or with the one before: four full ones become five. So nodes are some nine tenths
//! full, whatever order keys come in.

use std::ops::Range;

use terrace_media::ByteRegion;

use super::Nodes;
use super::layout::Entry;
use super::plan::{Fresh, NodeChanges, Reshaped, Working};
use crate::apply::Plan;
use crate::space::ScmSpace;

/// So many nodes share at most, and so many that have few entries.
const WINDOW: usize = 4;
const WINDOW_SPARSE: usize = 32;
/// Places that are left free in each of them: an entry that is written over needs one.
const LEFT_FREE: usize = 3;
/// A node with less than one entry in so many places shares with its neighbour.
const SPARSE_PART: usize = 4;

/// An entry, with its key and its fingerprint.
struct Full {
    key: Vec<u8>,
    fp: u8,
    entry: Entry,
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// Entries that a node gets when it is made.
    fn target(&self) -> usize {
        self.directory.entries - LEFT_FREE.min(self.directory.entries / 4)
    }
    /// Whether a node has too many entries, or too few.
    pub(super) fn is_to_be_shared(&self, working: &Working) -> bool {
        let (count, entries) = (working.count(), self.directory.entries);
        let was_less = working.seen.bitmap().count_ones() as usize <= count;
        let overflows =
            working.slot.is_none() || count > entries || count + 1 >= entries && !self.fits(working);
        let has_neighbour = working.upper.is_some() || !working.fence.is_empty();
        overflows || count < entries / SPARSE_PART && has_neighbour && !was_less
    }
    fn fits(&self, working: &Working) -> bool {
        let Some(slot) = working.slot else { return false };
        let (_, safe) = self.directory.slots.times();
        let taken = working.seen.bitmap() | self.directory.slots.descriptor(slot).retired(safe);
        (self.directory.entries - taken.count_ones() as usize) >= working.added.len()
    }

    /// A node's entries as they are to be, in order; whether something of it is lost. What is lost only now was counted.
    fn gather(
        &self,
        working: &Working,
        keys: &[u8],
        all: &mut Vec<Full>,
        plan: &mut Plan<NodeChanges>,
    ) -> bool {
        let nodes = &self.directory;
        let mut is_lost = working.seen.is_lost();
        plan.is_uncertain |= working.seen.is_stale();
        let start = all.len();
        if let Some(slot) = working.slot {
            for (i, found) in nodes.contents(slot, working.seen.bitmap() & !working.cleared) {
                match found {
                    Some((key, entry)) => all.push(Full { key, fp: working.seen.fp(i), entry }),
                    // Where it belongs can't be told: whoever asks for a key that is not there is told so.
                    None => (is_lost, plan.is_uncertain) = (true, true),
                }
            }
        }
        all.extend(working.added.iter().map(|(fp, entry, key): &(u8, Entry, Range<usize>)| Full {
            key: keys[key.clone()].to_vec(),
            fp: *fp,
            entry: *entry,
        }));
        all[start..].sort_unstable_by(|a, b| a.key.cmp(&b.key));
        is_lost
    }

    /// A node is made anew by itself.
    pub(super) fn make_anew(&self, working: Working, keys: &[u8], plan: &mut Plan<NodeChanges>) {
        let mut all = Vec::new();
        let is_lost = self.gather(&working, keys, &mut all, plan);
        let old = working.slot.map(|slot| (slot, working.fence.clone())).into_iter().collect();
        let entries = all.into_iter().map(|full| (full.fp, full.entry)).collect();
        let fresh = vec![Fresh { fence: working.fence, entries, is_lost }];
        plan.changes.reshaped.push(Reshaped { db: working.db, old, fresh });
    }

    /// A node shares with those behind it, and with the one before if there is none. `more` does in the next one what is to be done there.
    pub(super) fn share(
        &self,
        working: Working,
        keys: &[u8],
        mut more: impl FnMut(u32, Vec<u8>, &mut Plan<NodeChanges>) -> Working,
        plan: &mut Plan<NodeChanges>,
    ) {
        let (db, target) = (working.db, self.target());
        let (mut all, mut old) = (Vec::new(), Vec::new());
        let mut first = working.fence.clone();
        let mut is_lost = self.gather(&working, keys, &mut all, plan);
        let is_sparse = all.len() < target;
        let wants_more = |count: usize, nodes: usize| {
            if is_sparse {
                nodes < WINDOW_SPARSE && count < target / 2
            } else {
                nodes < WINDOW && count > nodes * target
            }
        };
        let mut upper = working.upper;
        old.extend(working.slot.map(|slot| (slot, working.fence)));
        while wants_more(all.len(), old.len()) && !old.is_empty() {
            let Some((slot, fence)) = upper.take() else { break };
            let beside = more(slot, fence, plan);
            is_lost |= self.gather(&beside, keys, &mut all, plan);
            upper = beside.upper;
            old.push((slot, beside.fence));
        }
        // What was planned for it already is not known here: it is left alone then.
        if wants_more(all.len(), old.len())
            && let Some((slot, fence)) = self.directory.before(db, &first).filter(|_| !old.is_empty())
            && !plan.changes.is_planned(slot)
        {
            let seen = self.directory.slots.descriptor(slot).read();
            let before = Working::unchanged(db, slot, fence, seen);
            let mut all_before = Vec::new();
            is_lost |= self.gather(&before, keys, &mut all_before, plan);
            all_before.append(&mut all);
            all = all_before;
            first.clone_from(&before.fence);
            old.insert(0, (slot, before.fence));
        }
        let fresh = divide(all, first, target, is_lost);
        plan.changes.reshaped.push(Reshaped { db, old, fresh });
    }
}

/// Divides entries among as few nodes as hold them with room to spare, evenly.
fn divide(all: Vec<Full>, first: Vec<u8>, target: usize, is_lost: bool) -> Vec<Fresh> {
    let count = all.len().div_ceil(target).max(1);
    let mut fresh: Vec<Fresh> = Vec::with_capacity(count);
    let mut last: Vec<u8> = Vec::new();
    let total = all.len();
    let mut left = all.into_iter();
    for node in 0..count {
        let size = total * (node + 1) / count - total * node / count;
        let mut entries = Vec::with_capacity(size);
        let mut fence = first.clone();
        for (i, full) in left.by_ref().take(size).enumerate() {
            if node > 0 && i == 0 {
                fence = separator(&last, &full.key);
            }
            entries.push((full.fp, full.entry));
            last = full.key;
        }
        fresh.push(Fresh { fence, entries, is_lost });
    }
    fresh
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
            let all = (0..total)
                .map(|i: u32| Full {
                    key: i.to_be_bytes().to_vec(),
                    fp: 0,
                    entry: Entry::inline(b"", b"", u64::from(i)),
                })
                .collect();
            let fresh = divide(all, b"".to_vec(), 37, false);
            let counts: Vec<_> = fresh.iter().map(|node| node.entries.len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), total as usize);
            assert!(counts.iter().all(|count| *count <= 37), "{counts:?}");
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{counts:?}");
            assert!(fresh.windows(2).all(|pair| pair[0].fence < pair[1].fence));
            assert!(fresh[0].fence.is_empty());
        }
    }
}
