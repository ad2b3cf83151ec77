//! Reading all nodes of a store that nobody has open, for `terrace check`: what an opening goes by, and then each entry.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

use terrace_engine::op::DATABASES;
use terrace_engine::record::RecordView;
use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::Seen;
use super::find::{fp_of, with_record};
use super::layout::{
    END_AT, ENTRY_BYTES, Entry, FP_WORDS, META_BYTES, STATIC_AT, STATIC_BYTES, Static, read_end,
};
use super::reopen::FoundSlot;
use crate::inspect::{Examined, Fault};
use crate::layout::Kind;
use crate::space::TIER;

/// What of a node is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    /// Nobody can tell which keys it has, or whether it has ended: the store does not open.
    Fence,
    /// All that identifies a node reads as zeros, and nodes are missing: the store does not open.
    Zeroed,
    /// The word that says which entries count: keys that belong there answer an error.
    Commit,
    /// Something of it was lost before: keys that belong there and are not found answer an error.
    Lost,
    /// An entry: its key answers an error.
    Entry(usize),
    /// An entry's fingerprint is another key's: its own key is not found.
    Fingerprint(usize),
    /// An entry leads to the record of another key, or to another version.
    Another(usize),
    /// An entry's key belongs elsewhere: it is not found.
    Outside(usize),
    /// A second entry of the same key.
    Twice(usize),
}

/// What there is of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes.
    pub nodes: u64,
    /// Slots that an opening takes as free, those of nodes that don't count among them.
    pub free: u64,
    /// Slots with texts of fences.
    pub texts: u64,
    /// Entries that are records themselves.
    pub inline: u64,
    /// Entries that lead to one.
    pub references: u64,
    /// Nodes with a damaged copy of what does not change, or of when they end, or a damaged text of a fence that their keys tell; an opening
    /// mends it.
    pub copies: u64,
    /// Nodes with damaged fingerprints; an opening makes them anew.
    pub fingerprints: u64,
}

/// A node that counts.
struct Found {
    slot: u32,
    seen: Seen,
    /// Whether its fingerprints are as they were.
    fps_hold: bool,
    texts: Vec<u32>,
}

impl<R: ByteRegion> Nodes<R> {
    /// Adds what there is of nodes; those up to a sequence number count, as many as the root says at least, and records above the flush
    /// versions.
    pub(crate) fn examine(
        &self,
        found: &mut Examined,
        counts: (u64, u32),
        flushed: &[u64; DATABASES],
        progress: &dyn Fn(u64, u64),
    ) {
        let nodes = self.collect(found, counts, progress);
        found.nodes.nodes = nodes.len() as u64;
        found.nodes.texts = nodes.values().map(|node| node.texts.len() as u64).sum();
        found.nodes.free = found.nodes.free.saturating_sub(found.nodes.texts);
        let mut all = nodes.iter().peekable();
        while let Some(((db, fence), node)) = all.next() {
            let upper = all.peek().filter(|((next, _), _)| next == db).map(|((_, fence), _)| &fence[..]);
            self.examine_node(node, (fence, upper), flushed[usize::from(*db)], found);
        }
    }

    /// The nodes that count, as an opening decides it.
    fn collect(
        &self,
        found: &mut Examined,
        (counts, expected): (u64, u32),
        progress: &dyn Fn(u64, u64),
    ) -> BTreeMap<(u8, Vec<u8>), Found> {
        let mut nodes: BTreeMap<(u8, Vec<u8>), Found> = BTreeMap::new();
        let (mut blank, mut without_fence) = (Vec::new(), 0);
        let pages = self.medium.pages() as u32;
        for page in 0..pages {
            if page % 64 == 0 {
                progress(u64::from(page), u64::from(pages));
            }
            if self.medium.page_line(page).is_none_or(|line| line.kind != Kind::Nodes) {
                continue;
            }
            for slot in self.slots.of_page(page) {
                let fault = |what| Fault::Node { slot, what };
                let (about, seen, fps_hold) = match self.read_slot(slot, counts) {
                    FoundSlot::Free | FoundSlot::NotYet(_) | FoundSlot::Ended => {
                        found.nodes.free += 1;
                        continue;
                    }
                    FoundSlot::Blank => {
                        blank.push(slot);
                        continue;
                    }
                    FoundSlot::Unknown => {
                        without_fence += 1;
                        found.faults.push(fault(NodeFault::Fence));
                        continue;
                    }
                    FoundSlot::Damaged(about) => {
                        found.faults.push(fault(NodeFault::Commit));
                        let none = Seen::new(0, [0; FP_WORDS], about.sequence, about.db, true);
                        (about, none, true)
                    }
                    FoundSlot::Node(about, seen, fps_hold) => {
                        if about.is_lost {
                            found.faults.push(fault(NodeFault::Lost));
                        }
                        (about, seen, fps_hold)
                    }
                };
                found.nodes.fingerprints += u64::from(!fps_hold);
                let Some((fence, texts)) = self.fence_of(slot, &about, seen.bitmap()) else {
                    without_fence += 1;
                    found.faults.push(fault(NodeFault::Fence));
                    continue;
                };
                found.nodes.copies += u64::from(!self.copies_agree(slot, &about, &fence));
                let node = Found { slot, seen, fps_hold, texts };
                match nodes.entry((seen.db(), fence)) {
                    Place::Vacant(none) => {
                        none.insert(node);
                    }
                    Place::Occupied(mut other) => {
                        // The older one is free.
                        found.nodes.free += 1;
                        let of = |node: &Found| (node.seen.sequence(), node.slot);
                        if of(&node) > of(other.get()) {
                            other.insert(node);
                        }
                    }
                }
            }
        }
        if nodes.len() + without_fence < expected as usize {
            let zeroed = blank.iter().map(|slot| Fault::Node { slot: *slot, what: NodeFault::Zeroed });
            found.faults.extend(zeroed);
        } else {
            found.nodes.free += blank.len() as u64;
        }
        nodes
    }

    /// Whether both copies of what does not change are what one of them is, both words of when the node ends hold together, and the text of
    /// the fence is the fence.
    fn copies_agree(&self, slot: u32, about: &Static, fence: &[u8]) -> bool {
        let mut meta = [0; META_BYTES];
        self.medium.region.read(self.medium.at(self.place_of_slot(slot)), &mut meta);
        let of = self.of(slot);
        let bytes = about.encode(of);
        let is_end = |at: &usize| {
            let word = terrace_blocks::u64_at(&meta, *at);
            read_end(of, about.sequence, [word; 2]).is_some()
        };
        let has_text = self.text_in(slot, about).is_none_or(|text| text == fence);
        has_text
            && STATIC_AT.iter().all(|at| meta[*at..*at + STATIC_BYTES] == bytes)
            && END_AT.iter().all(is_end)
    }

    /// Each entry of a node, which has keys from a fence on and below another.
    fn examine_node(
        &self,
        node: &Found,
        (fence, upper): (&[u8], Option<&[u8]>),
        flushed: u64,
        found: &mut Examined,
    ) {
        let Found { slot, seen, .. } = node;
        let fault = |what| Fault::Node { slot: *slot, what };
        let (mut keys, mut bytes) = (Vec::new(), Vec::new());
        for i in (0..self.entries).filter(|i| seen.bitmap() >> i & 1 == 1) {
            let Some(entry) = self.entry(*slot, i) else {
                found.faults.push(fault(NodeFault::Entry(i)));
                continue;
            };
            if entry.version <= flushed {
                // It may lead to what is gone.
                continue;
            }
            let mut see = |found: &mut Examined, view: &RecordView<'_>| {
                let key = view.key;
                if node.fps_hold && seen.fp(i) != fp_of(self.hasher.key(seen.db(), key).hash) {
                    found.faults.push(fault(NodeFault::Fingerprint(i)));
                }
                if key < fence || upper.is_some_and(|upper| key >= upper) {
                    found.faults.push(fault(NodeFault::Outside(i)));
                }
                keys.push((key.to_vec(), i));
            };
            let Some(place) = entry.place() else {
                found.nodes.inline += 1;
                found.records[0] += 1;
                found.record_bytes += ENTRY_BYTES as u64;
                found.keys[usize::from(seen.db())] += 1;
                with_record(&entry, seen.db(), TIER, |view| see(found, view));
                continue;
            };
            found.nodes.references += 1;
            match self.medium.read_entry(place, &mut bytes) {
                None => found.faults.push(Fault::Record { place }),
                Some(view) if !self.is_of(&entry, seen.db(), &view) => {
                    found.faults.push(fault(NodeFault::Another(i)));
                }
                Some(view) => {
                    see(found, &view);
                    found.see_record(&self.medium, place, &view);
                }
            }
        }
        keys.sort_unstable();
        let twice = keys.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        found.faults.extend(twice.map(|pair| fault(NodeFault::Twice(pair[1].1))));
    }

    /// Whether an entry that leads to a record is that record's.
    pub(super) fn is_of(&self, entry: &Entry, db: u8, view: &RecordView<'_>) -> bool {
        let head = &view.head;
        let is_same = head.meta.db() == db && head.version == entry.version;
        is_same && self.hasher.key(db, view.key).hash == entry.key
    }
}
