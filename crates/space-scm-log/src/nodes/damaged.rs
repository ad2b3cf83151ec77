//! What is damaged in nodes, for a repair: which slots have nodes that count and can be read, and which of their entries can't be.

use std::collections::{BTreeMap, BTreeSet};

use terrace_blocks::u64_at;
use terrace_media::ByteRegion;

use super::dram::{Seen, set_fp};
use super::find::fp_of;
use super::layout::{
    COMMIT_AT, Commit, FP_AT, FP_WORDS, Fence, META_BYTES, Static, decode_text, entry_at, read_commit,
    text_bytes,
};
use super::mend::Wanted;
use super::reopen::FoundSlot;
use super::repair::{Mend, Repair, Work};
use crate::layout::Kind;

/// A node that can be read.
pub(super) struct Whole {
    slot: u32,
    about: Static,
    seen: Seen,
    /// Its commit word is to be stored, whatever its entries are.
    is_changed: bool,
}

impl<R: ByteRegion> Repair<R> {
    /// The slots of all pages of nodes, those whose lines are lost among them.
    pub(super) fn node_slots(&mut self) -> Vec<u32> {
        let all = self.lost.pages.keys().copied().filter(|page| !self.lost.is_chained(*page));
        for page in all.collect::<Vec<u32>>() {
            let is_node = |slot| {
                let found = self.nodes.read_slot(slot, self.counts);
                // What others leave in a page has ended.
                matches!(found, FoundSlot::Node(..) | FoundSlot::Damaged(_) | FoundSlot::NotYet(_))
            };
            if self.nodes.slots.of_page(page).any(is_node) {
                self.lost.pages.insert(page, Kind::Nodes);
            }
        }
        // Texts of fences have pages to themselves at times.
        let nodes = self.slots_of_pages();
        let texts: Vec<u32> = nodes.iter().flat_map(|slot| self.texts_of_slot(*slot)).collect();
        for slot in texts {
            let (page, _) = self.nodes.slots.page_of(slot);
            if let Some(kind) = self.lost.pages.get_mut(&page) {
                *kind = Kind::Nodes;
            }
        }
        self.slots_of_pages()
    }
    fn slots_of_pages(&self) -> Vec<u32> {
        let is_of_nodes = |page: &u32| match self.medium.page_line(*page) {
            Some(line) => line.kind == Kind::Nodes,
            None => self.lost.pages.get(page) == Some(&Kind::Nodes),
        };
        let pages = (0..self.medium.pages() as u32).filter(is_of_nodes);
        pages.flat_map(|page| self.nodes.slots.of_page(page)).collect()
    }
    /// The slots of the text of the fence of a slot's node, as far as they can be told.
    fn texts_of_slot(&self, slot: u32) -> Vec<u32> {
        match self.nodes.read_slot(slot, self.counts) {
            FoundSlot::Node(about, ..) | FoundSlot::Damaged(about) => self.texts_of(slot, &about),
            _ => Vec::new(),
        }
    }
    fn texts_of(&self, slot: u32, about: &Static) -> Vec<u32> {
        let mut found = Vec::new();
        let Fence::Long { bytes, text, .. } = about.fence else { return found };
        let mut next = Some(text).filter(|text| *text != slot);
        let mut slot_bytes = vec![0; self.nodes.slot_bytes];
        let most = (bytes as usize).div_ceil(text_bytes(self.nodes.slot_bytes));
        while let Some(slot) = next.filter(|_| found.len() < most) {
            let (page, _) = self.nodes.slots.page_of(slot);
            if page as usize >= self.medium.pages() {
                break;
            }
            found.push(slot);
            self.medium.region.read(self.medium.at(self.nodes.place_of_slot(slot)), &mut slot_bytes);
            next = decode_text(self.nodes.of(slot), &slot_bytes).and_then(|(next, _)| next);
        }
        found
    }

    /// The nodes that count and can be read, in order.
    pub(super) fn whole_nodes(&self, slots: &[u32], work: &mut Work) -> BTreeMap<(u8, Vec<u8>), Whole> {
        let mut all: BTreeMap<(u8, Vec<u8>), Whole> = BTreeMap::new();
        let (mut texts, mut blank) = (BTreeSet::new(), Vec::new());
        for &slot in slots {
            let (about, seen, is_changed) = match self.nodes.read_slot(slot, self.counts) {
                FoundSlot::Free | FoundSlot::NotYet(_) | FoundSlot::Ended => continue,
                FoundSlot::Blank => {
                    blank.push(slot);
                    continue;
                }
                FoundSlot::Node(about, seen, fps_hold) => (about, seen, !fps_hold),
                FoundSlot::Damaged(about) => match self.commit_of(slot, &about) {
                    Some(seen) => {
                        work.commits += 1;
                        (about, seen, true)
                    }
                    None => {
                        texts.extend(self.texts_of(slot, &about));
                        work.blanks.push(slot);
                        continue;
                    }
                },
                FoundSlot::Unknown => match self.node_without_end(slot) {
                    Some((about, seen, fps_hold)) => {
                        work.ends.push(slot);
                        (about, seen, !fps_hold)
                    }
                    None => {
                        work.blanks.push(slot);
                        continue;
                    }
                },
            };
            let of_fence = self.texts_of(slot, &about);
            let fence = match self.nodes.fence_of(slot, &about, seen.bitmap()) {
                Some((fence, _)) => Some(fence),
                None => self.fence_anew(slot, &about, seen.bitmap(), work),
            };
            // They are no nodes, whatever they look like.
            texts.extend(of_fence);
            let Some(fence) = fence else {
                work.blanks.push(slot);
                work.ends.retain(|end| *end != slot);
                continue;
            };
            let rank = |one: &Whole| (one.seen.sequence(), one.slot);
            let node = Whole { slot, about, seen, is_changed };
            let before = all.get(&(node.about.db, fence.clone()));
            // Of two with one fence an opening takes the newer one.
            if before.is_none_or(|before| rank(before) < rank(&node)) {
                all.insert((node.about.db, fence), node);
            }
        }
        work.given_up = work.blanks.iter().filter(|slot| !texts.contains(*slot)).count() as u64;
        work.nodes = all.len() as u32;
        if work.nodes < self.root.nodes {
            // Some of them were nodes.
            blank.retain(|slot| !texts.contains(slot));
            let missing = u64::from(self.root.nodes - work.nodes).saturating_sub(work.given_up);
            work.given_up += missing.min(blank.len() as u64);
            work.blanks.extend(blank);
        }
        let mended: BTreeSet<u32> = work.texts.iter().map(|(slot, _)| *slot).collect();
        work.blanks.retain(|slot| !mended.contains(slot));
        all
    }

    fn meta_of(&self, slot: u32) -> ([u8; META_BYTES], [u64; FP_WORDS]) {
        let mut meta = [0; META_BYTES];
        self.medium.region.read(self.medium.at(self.nodes.place_of_slot(slot)), &mut meta);
        let fps = std::array::from_fn(|word| u64_at(&meta, FP_AT[word]));
        (meta, fps)
    }
    pub(super) fn seen(&self, slot: u32, about: &Static, bitmap: u64, fps: [u64; FP_WORDS]) -> Seen {
        let places = about.fence.places(slot, self.nodes.entries);
        Seen::new(bitmap, fps, about.sequence, about.db, about.is_lost).and_text(places)
    }
    /// What a node has whose commit word is damaged in a single bit: both of its checks say so, and each entry of its own accord.
    fn commit_of(&self, slot: u32, about: &Static) -> Option<Seen> {
        let (meta, fps) = self.meta_of(slot);
        let word = u64_at(&meta, COMMIT_AT);
        let mut found = (0..u64::BITS).filter_map(|bit| {
            let read = read_commit(self.nodes.of(slot), about.sequence, word ^ 1 << bit, &fps);
            let Commit::Node { bitmap, fps_hold: true } = read else { return None };
            let seen = self.seen(slot, about, bitmap, fps);
            let is_entry = |i| {
                let entry = self.nodes.entry(slot, i);
                entry.is_some_and(|entry| seen.fp(i) == fp_of(self.nodes.hash_of_entry(&entry, about.db)))
            };
            (0..self.nodes.entries).all(|i| bitmap >> i & 1 == 0 || is_entry(i)).then_some(seen)
        });
        found.next().filter(|_| found.next().is_none())
    }
    /// A node of which both words of when it ends are damaged: in a store that was closed those that have ended are none.
    fn node_without_end(&self, slot: u32) -> Option<(Static, Seen, bool)> {
        let (meta, fps) = self.meta_of(slot);
        let about =
            self.nodes.about(slot, &meta).filter(|about| self.is_closed && about.sequence <= self.counts)?;
        let word = u64_at(&meta, COMMIT_AT);
        let read = read_commit(self.nodes.of(slot), about.sequence, word, &fps);
        let Commit::Node { bitmap, fps_hold } = read else { return None };
        let seen = self.seen(slot, &about, bitmap, fps);
        Some((about, seen, fps_hold))
    }
    /// A fence whose text is damaged, from keys, if a slot has all of the text.
    fn fence_anew(&self, slot: u32, about: &Static, bitmap: u64, work: &mut Work) -> Option<Vec<u8>> {
        let Fence::Long { bytes, text, crc } = about.fence else { return None };
        if text == slot || bytes as usize > text_bytes(self.nodes.slot_bytes) {
            return None;
        }
        let (page, _) = self.nodes.slots.page_of(text);
        let fence = self.nodes.fence_from_keys(slot, bitmap, (bytes as usize, crc))?;
        ((page as usize) < self.medium.pages()).then(|| {
            work.texts.push((text, fence.clone()));
            fence
        })
    }

    /// A record is led to: its page is one of records, and those of its parts are known.
    pub(super) fn leads(&mut self, place: u64) {
        self.lost.is(&self.medium, place, Kind::Moved);
        if let Some(view) = self.medium.read_entry(place, &mut Vec::new()) {
            self.lost.see_parts(&self.medium, &view);
        }
    }

    /// Finds what is damaged in nodes.
    pub(super) fn look_into(&mut self, whole: BTreeMap<(u8, Vec<u8>), Whole>, work: &mut Work) {
        let mut all = whole.into_iter().peekable();
        while let Some(((db, fence), node)) = all.next() {
            let upper = all.peek().filter(|((next, _), _)| *next == db).map(|((_, fence), _)| fence.clone());
            self.look_into_node(node, (fence, upper), work);
        }
    }
    fn look_into_node(&mut self, node: Whole, (fence, upper): (Vec<u8>, Option<Vec<u8>>), work: &mut Work) {
        let Whole { slot, about, seen, mut is_changed } = node;
        let (db, flushed) = (about.db, self.flushed[usize::from(about.db & 15)]);
        let (mut bitmap, mut fps, mut bytes) = (seen.bitmap(), seen.fps, Vec::new());
        // The newest entry of each key.
        let mut keys: BTreeMap<Vec<u8>, (u64, usize)> = BTreeMap::new();
        let of_others = work.wanted.len();
        for i in (0..self.nodes.entries).filter(|i| seen.bitmap() >> i & 1 == 1) {
            let fp = Some(seen.fp(i)).filter(|_| !is_changed);
            let at = self.nodes.place_of_slot(slot) + entry_at(i) as u64;
            let raw = (at, self.nodes.bytes_at(at));
            let wanted = || Wanted::new((work.mends.len(), i), raw, (db, fp), (fence.clone(), upper.clone()));
            let Some(entry) = self.nodes.entry(slot, i) else {
                work.wanted.push(wanted());
                continue;
            };
            set_fp(&mut fps, i, fp_of(self.nodes.hash_of_entry(&entry, db)));
            if entry.version <= flushed {
                continue;
            }
            let key = match entry.place() {
                None => entry.texts().0[..entry.lengths().0].to_vec(),
                Some(place) => match self.medium.read_entry(place, &mut bytes) {
                    // The record itself is damaged: its key answers an error until it is written.
                    None => continue,
                    Some(view) if !self.nodes.is_of(&entry, db, &view) => {
                        work.wanted.push(wanted());
                        continue;
                    }
                    Some(view) => {
                        self.lost.is(&self.medium, place, Kind::Moved);
                        self.lost.see_parts(&self.medium, &view);
                        view.key.to_vec()
                    }
                },
            };
            if key < fence || upper.as_ref().is_some_and(|upper| key >= *upper) {
                work.astray += 1;
                bitmap &= !(1 << i);
                continue;
            }
            if let Some((version, other)) = keys.get(&key).copied() {
                work.astray += 1;
                bitmap &= !(1 << if version > entry.version { i } else { other });
                if version > entry.version {
                    continue;
                }
            }
            keys.insert(key, (entry.version, i));
        }
        work.fingerprints += u64::from(fps != seen.fps);
        is_changed |= fps != seen.fps || bitmap != seen.bitmap() || about.is_lost;
        if is_changed || work.wanted.len() > of_others {
            work.mends.push(Mend { slot, about, before: seen, bitmap, fps, entries: Vec::new() });
        }
    }
}
