//! Storing what a plan has.
//!
//! ```text
//! round      entries, fingerprints, nodes that come, ends of those that go | fence | root: v is coming | commit words | fence
//!            | root: v is there | nodes that have ended are none | fence
//! cleaning   a node that comes | fence | its commit word | fence | the one that it takes the place of is none | fence
//! ```
//!
//! Entries that a commit word leaves out do not count, and what is in front of it is whole where there is one. Nodes that come have the sequence number of the root that is coming, and others end with
//! it: all of that counts at once, when that root is there. Cleaning needs no root: both nodes are the same.

use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::Seen;
use super::find::address_of_slot;
use super::layout::{
    COMMIT_AT, END_AT, ENTRIES_MAX, ENTRY_BYTES, Entry, FP_AT, FP_WORDS, Fence, META_BYTES, Of, STATIC_AT,
    STATIC_BYTES, Static, commit_word, encode_text, end_word, entry_at, free_word, text_bytes, whole_words,
};
use super::plan::{Coming, Fresh, InPlace, NodeChanges, Reshaped};
use crate::apply::Plan;
use crate::keeper::{Keeper, LEFT_BY_ROUNDS};
use crate::layout::{EDGE_BYTES, Kind, LINE_BYTES, Root};
use crate::space::ScmSpace;
use terrace_index::{Change, Index, Key, Verdict};

/// A root that every other one comes after.
const FIRST: u64 = 1;
/// Lines are on their way so many nodes ahead.
const AHEAD: usize = 8;

/// A node that comes, where it goes.
struct Placed {
    slot: u32,
    seen: Seen,
    texts: Vec<u32>,
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// See the module. `false` if there is no page for it: then nothing has changed.
    pub(super) fn store_nodes(
        &self,
        keeper: &mut Keeper<NodeChanges>,
        plan: &mut Plan<NodeChanges>,
        coming: Option<&Root>,
    ) -> bool {
        let region = &self.medium.region;
        let nodes = &self.directory;
        let Plan { changes, live, deadlines, owners, .. } = plan;
        if !self.make_slots(keeper, changes) {
            return false;
        }
        let is_cleaning = keeper.is_cleaning;
        let sequence = keeper.root.sequence + u64::from(!is_cleaning);
        let mut placed: Vec<Placed> = Vec::with_capacity(changes.reshaped.len());
        for reshaped in &changes.reshaped {
            placed.extend(reshaped.fresh.iter().map(|fresh| {
                let entries = &changes.entries[fresh.entries.clone()];
                self.write_node(fresh, entries, (reshaped.db, sequence), changes.but)
            }));
            if !is_cleaning {
                reshaped.old.iter().for_each(|(slot, _)| nodes.end_with(*slot, sequence));
            }
        }
        for (i, change) in changes.in_place.iter().enumerate() {
            changes
                .in_place
                .get(i + AHEAD)
                .into_iter()
                .for_each(|next| self.fetch_lines(next, &changes.coming));
            self.write_entries(change.slot, &changes.coming[change.added.clone()]);
            self.write_fps(change.slot, &change.before, &change.after);
        }
        if is_cleaning {
            self.expect_fewer(&changes.reshaped);
        }
        region.fence();
        if let Some(root) = coming {
            self.medium.save_root(root);
        }
        self.note_deadlines(deadlines);
        for (i, change) in changes.in_place.iter().enumerate() {
            let next = changes.in_place.get(i + AHEAD);
            next.into_iter().for_each(|next| self.medium.fetch(nodes.place_of_slot(next.slot), LINE_BYTES));
            nodes.commit(change.slot, &change.after);
        }
        for node in &placed {
            nodes.commit(node.slot, &node.seen);
        }
        region.fence();
        if !owners.is_empty() {
            // A part that is found by a record's old place is found until that is written over.
            self.store_owners(owners);
            region.fence();
        }
        changes.ended.clear();
        changes
            .ended
            .extend(changes.reshaped.iter().flat_map(|reshaped| &reshaped.old).map(|(slot, _)| *slot));
        if is_cleaning {
            changes.ended.iter().for_each(|slot| nodes.end_with(*slot, FIRST));
            self.remove_ended(changes);
        }
        self.note_live(live);
        let (now, safe) = nodes.slots.times();
        for change in &changes.in_place {
            let gone = change.before.bitmap() & !change.after.bitmap();
            nodes.slots.descriptor(change.slot).retire(gone, now, safe);
            nodes.slots.change(change.slot, &change.after);
            if let Some(replicas) = &nodes.replicas {
                let coming = &changes.coming[change.added.clone()];
                replicas.update(nodes, change.slot, &change.before, gone, coming);
            }
        }
        live.clear();
        let mut placed = placed.into_iter();
        for reshaped in &changes.reshaped {
            self.swing(reshaped, placed.by_ref().take(reshaped.fresh.len()), live);
        }
        self.note_live(live);
        true
    }

    /// Cleaning stores no root: the one that is there says before that fewer nodes are to come, for none of them is missed then. Durable
    /// after a fence.
    fn expect_fewer(&self, reshaped: &[Reshaped]) {
        let nodes = &self.directory;
        let gone = |one: &Reshaped| one.old.len().saturating_sub(one.fresh.len());
        let gone: usize = reshaped.iter().map(gone).sum();
        if gone > 0 {
            self.medium.note_nodes((nodes.tree.len() as u32).saturating_sub(gone as u32));
        }
    }

    /// Nodes that have ended are none any more; durable when it returns.
    pub(super) fn remove_ended(&self, changes: &mut NodeChanges) {
        if !changes.ended.is_empty() {
            changes.ended.drain(..).for_each(|slot| self.directory.uncommit(slot));
            self.medium.region.fence();
        }
    }

    /// Makes as many slots free as nodes and texts of fences come.
    fn make_slots(&self, keeper: &mut Keeper<NodeChanges>, changes: &NodeChanges) -> bool {
        let nodes = &self.directory;
        let fresh = changes.reshaped.iter().flat_map(|reshaped| &reshaped.fresh);
        let wanted: usize = fresh.map(|fresh| 1 + nodes.texts_of(fresh)).sum();
        if wanted == 0 {
            return true;
        }
        let left = if keeper.is_cleaning { 0 } else { LEFT_BY_ROUNDS };
        while nodes.slots.free(changes.but) < wanted {
            let take_spare = || if keeper.spare.len() > left { keeper.spare.pop() } else { None };
            let page = match &nodes.replicas {
                None => self.log.take_block(),
                Some(replicas) => {
                    let home = replicas.next_home(nodes.slots.pages());
                    self.log.take_block_first_of(|page| replicas.home_of(page) == home)
                }
            };
            let Some(page) = page.or_else(take_spare) else { return false };
            for slot in nodes.slots.of_page(page) {
                let mut blank = [0; META_BYTES];
                blank[COMMIT_AT..COMMIT_AT + 8].copy_from_slice(&free_word(nodes.of(slot)).to_le_bytes());
                self.medium.region.write_nt(self.medium.at(nodes.place_of_slot(slot)), &blank);
            }
            self.medium.region.fence();
            self.pages.begin(&self.medium, page, Kind::Nodes);
            nodes.slots.add_page(page);
            nodes.slots.give(nodes.slots.of_page(page));
        }
        true
    }
    fn take_slot(&self, but: Option<u32>) -> u32 {
        let Some(slot) = self.directory.slots.take(but) else { panic!("slots were made before") };
        slot
    }

    /// Writes a node that is none yet; durable after a fence.
    fn write_node(
        &self,
        fresh: &Fresh,
        entries: &[(u8, Entry)],
        (db, sequence): (u8, u64),
        but: Option<u32>,
    ) -> Placed {
        let nodes = &self.directory;
        let region = &self.medium.region;
        let slot = self.take_slot(but);
        let of = nodes.of(slot);
        let mut texts = Vec::new();
        let place = nodes.place_of_slot(slot);
        let (fence_bytes, text_places) = (fresh.fence.len() as u32, nodes.text_places(fresh));
        let fence = if Fence::is_short(fresh.fence.len()) {
            Fence::Short(fresh.fence.clone())
        } else if text_places > 0 {
            let at = place + Fence::text_at(fresh.fence.len(), nodes.slot_bytes) as u64;
            region.write_nt(self.medium.at(at), &whole_words(&fresh.fence));
            Fence::Long { bytes: fence_bytes, text: slot, crc: crc32c::crc32c(&fresh.fence) }
        } else {
            let parts: Vec<_> = fresh.fence.chunks(text_bytes(nodes.slot_bytes)).collect();
            texts.extend(parts.iter().map(|_| self.take_slot(but)));
            for (i, part) in parts.into_iter().enumerate() {
                let bytes = encode_text(nodes.of(texts[i]), texts.get(i + 1).copied(), part);
                region.write_nt(self.medium.at(nodes.place_of_slot(texts[i])), &bytes);
            }
            let crc = crc32c::crc32c(&fresh.fence);
            Fence::Long { bytes: fence_bytes, text: texts[0], crc }
        };
        let mut fps = [0; FP_WORDS];
        let mut slot_bytes = [0; (META_BYTES + ENTRIES_MAX * ENTRY_BYTES).next_multiple_of(8)];
        let bytes = &mut slot_bytes[..(META_BYTES + entries.len() * ENTRY_BYTES).next_multiple_of(8)];
        for (i, (fp, entry)) in entries.iter().enumerate() {
            super::dram::set_fp(&mut fps, i, *fp);
            let at = entry_at(i);
            let entry = entry.encode(self.medium.store_id, place + at as u64);
            bytes[at..at + ENTRY_BYTES].copy_from_slice(&entry);
        }
        let about = Static { db, is_lost: fresh.is_lost, sequence, fence }.encode(of);
        for at in STATIC_AT {
            bytes[at..at + STATIC_BYTES].copy_from_slice(&about);
        }
        bytes[COMMIT_AT..COMMIT_AT + 8].copy_from_slice(&free_word(of).to_le_bytes());
        for (at, word) in FP_AT.iter().zip(fps) {
            bytes[*at..*at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let bitmap = (1 << entries.len()) - 1;
        let seen = Seen::new(bitmap, fps, sequence, db, fresh.is_lost).and_text(text_places);
        region.write_nt(self.medium.at(place), bytes);
        Placed { slot, seen, texts }
    }
    /// Starts loading the lines of a node that a change writes: a store waits for its line.
    fn fetch_lines(&self, change: &InPlace, coming: &[Coming]) {
        let place = self.directory.place_of_slot(change.slot);
        self.medium.fetch(place, META_BYTES);
        for Coming { at, .. } in &coming[change.added.clone()] {
            self.medium.fetch(place + entry_at(usize::from(*at)) as u64, ENTRY_BYTES);
        }
    }
    /// Writes entries that do not count yet; durable after a fence.
    fn write_entries(&self, slot: u32, coming: &[Coming]) {
        let region = &self.medium.region;
        for Coming { at, entry, .. } in coming {
            let place = self.directory.place_of_slot(slot) + entry_at(usize::from(*at)) as u64;
            let at = self.medium.at(place);
            region.write(at, &entry.encode(self.medium.store_id, place));
            region.flush(at, ENTRY_BYTES);
        }
    }
    /// Writes fingerprints of entries that do not count yet; durable after a fence.
    fn write_fps(&self, slot: u32, before: &Seen, after: &Seen) {
        let place = self.directory.place_of_slot(slot);
        for word in (0..FP_WORDS).filter(|word| before.fps[*word] != after.fps[*word]) {
            let at = self.medium.at(place) + FP_AT[word] as u64;
            self.medium.region.store_u64(at, after.fps[word]);
            self.medium.region.flush(at, 8);
        }
    }

    /// Nodes that have come are found, and those that they take the place of no more.
    fn swing(&self, reshaped: &Reshaped, placed: impl Iterator<Item = Placed>, live: &mut Vec<(u64, i64)>) {
        let nodes = &self.directory;
        let bytes = nodes.slot_bytes as i64;
        let mut texts = nodes.texts.lock();
        let mut slots = Vec::with_capacity(reshaped.fresh.len());
        for node in placed {
            nodes.slots.begin(node.slot, &node.seen);
            slots.push(node.slot);
            live.push((nodes.place_of_slot(node.slot), bytes));
            live.extend(node.texts.iter().map(|text| (nodes.place_of_slot(*text), bytes)));
            texts.add(node.slot, node.texts);
        }
        // From above: a key that an old node has is found there until the one is found that has it now.
        for (slot, fresh) in slots.iter().zip(&reshaped.fresh).rev() {
            nodes.lead(reshaped.db, &fresh.fence, *slot);
        }
        // An old node leaves once nothing leads to it: who comes from there looks anew, and finds another one.
        for (slot, fence) in &reshaped.old {
            if reshaped.fresh.iter().all(|fresh| fresh.fence != *fence) {
                let key = nodes.hasher.key(reshaped.db, fence);
                nodes.tree.remove(&key, address_of_slot(*slot));
            }
            for slot in std::iter::once(*slot).chain(texts.remove(*slot)) {
                live.push((nodes.place_of_slot(slot), -bytes));
                nodes.slots.leave(slot);
            }
        }
    }
}

impl<R: ByteRegion> Nodes<R> {
    /// What identifies a use of a slot.
    pub(super) fn of(&self, slot: u32) -> Of {
        Of { store_id: self.medium.store_id, slot }
    }
    /// Places that the text of its fence takes of a node that comes.
    fn text_places(&self, fresh: &Fresh) -> usize {
        let places = Fence::places_of(fresh.fence.len(), self.entries);
        if fresh.entries.len() + places > self.entries { 0 } else { places }
    }
    /// Slots for that text.
    fn texts_of(&self, fresh: &Fresh) -> usize {
        let bytes = fresh.fence.len();
        let is_in_node = Fence::is_short(bytes) || self.text_places(fresh) > 0;
        if is_in_node { 0 } else { bytes.div_ceil(text_bytes(self.slot_bytes)) }
    }
    /// Makes a node's entries count; durable after a fence.
    #[track_caller]
    pub(super) fn commit(&self, slot: u32, seen: &Seen) {
        self.store_commit(slot, commit_word(self.of(slot), seen.sequence(), seen.bitmap(), &seen.fps));
    }
    /// A node ends with the root of this sequence; durable after a fence.
    #[track_caller]
    fn end_with(&self, slot: u32, end: u64) {
        let sequence = self.slots.descriptor(slot).read().sequence();
        self.store_end(slot, end_word(self.of(slot), sequence, end));
    }
    /// It does not end; durable after a fence.
    #[track_caller]
    pub(super) fn unend(&self, slot: u32) {
        let at = |at| self.medium.at(self.place_of_slot(slot)) + at as u64;
        if END_AT.iter().any(|word| self.medium.region.load_u64(at(*word)) != 0) {
            self.store_end(slot, 0);
        }
    }
    #[track_caller]
    fn store_end(&self, slot: u32, word: u64) {
        for at in END_AT {
            let at = self.medium.at(self.place_of_slot(slot)) + at as u64;
            self.medium.region.store_u64(at, word);
            self.medium.region.flush(at, 8);
        }
    }
    /// There is no node any more; durable after a fence.
    #[track_caller]
    pub(super) fn uncommit(&self, slot: u32) {
        self.store_commit(slot, free_word(self.of(slot)));
    }
    /// The same of one that nothing has ended, of this sequence: should the word be damaged one day, it has ended.
    pub(super) fn remove(&self, slot: u32, sequence: u64) {
        self.store_end(slot, end_word(self.of(slot), sequence, FIRST));
        self.uncommit(slot);
    }
    #[track_caller]
    fn store_commit(&self, slot: u32, word: u64) {
        let at = self.medium.at(self.place_of_slot(slot)) + COMMIT_AT as u64;
        self.medium.region.store_u64(at, word);
        self.medium.region.flush(at, 8);
    }
    /// The tree leads from a fence to a slot.
    pub(super) fn lead(&self, db: u8, fence: &[u8], slot: u32) {
        let key: Key<'_> = self.hasher.key(db, fence);
        let to = address_of_slot(slot);
        self.tree.update(&key, |_| Verdict::Match, |_| (Change::Set(to), ()));
    }
}

const _: () = assert!(
    EDGE_BYTES.is_multiple_of(8) && COMMIT_AT < LINE_BYTES,
    "a slot's first line has its commit word"
);
