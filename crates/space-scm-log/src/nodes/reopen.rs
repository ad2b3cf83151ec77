//! A restart: tree and lines are made anew from what nodes have in front of their entries (BonsaiKV leaves recovery out).
//!
//! ```text
//! pages of nodes | commit words: nodes | sequence, end: those that count with the root that is there | fences | of two with one fence one
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::{Bound, ControlFlow};

use terrace_engine::StoreError;
use terrace_engine::op::DATABASES;
use terrace_index::{Direction, OrderedIndex};
use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::{Seen, set_fp};
use super::find::{fp_of, slot_of};
use super::layout::{
    COMMIT_AT, Commit, END_AT, FP_AT, FP_WORDS, Fence, META_BYTES, STATIC_AT, STATIC_BYTES, Static,
    decode_text, free_word, read_commit, read_end, whole_words,
};
use super::plan::NodeChanges;
use crate::keeper::Keeper;
use crate::layout::{Kind, ROOT_NODES_AT, Root, nodes_word};
use crate::medium::{COMMITTED, Medium, ROOTS};
use crate::space::ScmSpace;

/// What was found in a slot.
pub enum FoundSlot {
    /// No node.
    Free,
    /// A node: what does not change of it, and the rest; whether its fingerprints are as they were.
    Node(Static, Seen, bool),
    /// A node of a root that is not there.
    NotYet(u64),
    /// A node that others have taken the place of.
    Ended,
    /// A node whose commit word is damaged.
    Damaged(Static),
    /// A node whose fence nobody knows.
    Unknown,
    /// All that identifies a node reads as zeros: there was one, or never. How many nodes the root counts may tell.
    Blank,
}

impl<R: ByteRegion> Medium<R> {
    /// Makes both copies of the committed root the newest one that holds together: a crash may have cut one off, and the next one the other.
    /// Durable when it returns.
    pub(super) fn agree_on_root(&self) {
        let copies = COMMITTED.map(|copy| self.root(copy).filter(|root| root.is_committed));
        let Some(newest) = copies.into_iter().flatten().max_by_key(|root| (root.sequence, root.nodes)) else {
            return;
        };
        for (copy, root) in COMMITTED.into_iter().zip(copies) {
            if root != Some(newest) {
                self.region.write_nt(self.root_at(copy), &newest.encode(self.store_id));
                self.region.fence();
            }
        }
    }
    /// Has the roots that are there say that there are so many nodes; durable after a fence.
    pub(super) fn note_nodes(&self, nodes: u32) {
        for copy in 0..ROOTS {
            let at = self.root_at(copy);
            let word = nodes_word(self.store_id, self.region.load_u64(at + 8), nodes);
            self.region.write_nt(at + ROOT_NODES_AT as u64, &word.to_le_bytes());
        }
    }
}

impl<R: ByteRegion> Nodes<R> {
    /// Reads what a slot has in front of its entries; what came and what ended up to a sequence number counts.
    pub(super) fn read_slot(&self, slot: u32, counts: u64) -> FoundSlot {
        let mut meta = [0; META_BYTES];
        self.medium.region.read(self.medium.at(self.place_of_slot(slot)), &mut meta);
        let word = terrace_blocks::u64_at(&meta, COMMIT_AT);
        if word == free_word(self.of(slot)) {
            return FoundSlot::Free;
        }
        let Some(about) = self.about(slot, &meta) else {
            let is_blank =
                STATIC_AT.iter().all(|at| meta[*at..*at + STATIC_BYTES].iter().all(|byte| *byte == 0));
            return match (self.is_text(slot), is_blank) {
                (true, _) => FoundSlot::Free,
                (false, true) => FoundSlot::Blank,
                (false, false) => FoundSlot::Unknown,
            };
        };
        if about.sequence > counts {
            return FoundSlot::NotYet(about.sequence);
        }
        let ends = END_AT.map(|at| terrace_blocks::u64_at(&meta, at));
        match read_end(self.of(slot), about.sequence, ends) {
            None => return FoundSlot::Unknown,
            Some(Some(end)) if end <= counts => return FoundSlot::Ended,
            Some(_) => {}
        }
        let fps: [u64; FP_WORDS] = std::array::from_fn(|word| terrace_blocks::u64_at(&meta, FP_AT[word]));
        match read_commit(self.of(slot), about.sequence, word, &fps) {
            Commit::Node { bitmap, fps_hold } => {
                let seen = Seen::new(bitmap, fps, about.sequence, about.db, about.is_lost)
                    .and_text(about.fence.places(slot, self.entries));
                FoundSlot::Node(about, seen, fps_hold)
            }
            Commit::None | Commit::Damaged => FoundSlot::Damaged(about),
        }
    }
    /// Whether a slot has a part of a fence's text.
    fn is_text(&self, slot: u32) -> bool {
        let mut bytes = vec![0; self.slot_bytes];
        self.medium.region.read(self.medium.at(self.place_of_slot(slot)), &mut bytes);
        decode_text(self.of(slot), &bytes).is_some()
    }
    /// What of a slot's node does not change, as the copy says that holds together.
    pub(super) fn about(&self, slot: u32, meta: &[u8]) -> Option<Static> {
        STATIC_AT.iter().find_map(|at| Static::decode(&meta[*at..], self.of(slot)))
    }
    /// The database and the fence of a slot's node, if the tree leads to it.
    pub(super) fn node_of(&self, slot: u32) -> Option<(u8, Vec<u8>)> {
        if !self.slots.descriptor(slot).read().is_node() {
            return None;
        }
        let mut meta = [0; META_BYTES];
        self.medium.region.read(self.medium.at(self.place_of_slot(slot)), &mut meta);
        let about = self.about(slot, &meta)?;
        let (fence, _) = self.fence_of(slot, &about, self.slots.descriptor(slot).read().bitmap())?;
        Some((about.db, fence))
    }
    /// A fence, and the slots of its text; `None` if that is damaged. It is the start of a key that the node had: where the text is in the
    /// node, keys that it has tell it too.
    pub(super) fn fence_of(&self, slot: u32, about: &Static, bitmap: u64) -> Option<(Vec<u8>, Vec<u32>)> {
        let (bytes, text, crc) = match &about.fence {
            Fence::Short(fence) => return Some((fence.clone(), Vec::new())),
            Fence::Long { bytes, text, crc } => (*bytes, *text, *crc),
        };
        if let Some(mut fence) = self.text_in(slot, about) {
            if crc32c::crc32c(&fence) != crc {
                fence = self.fence_from_keys(slot, bitmap, (fence.len(), crc))?;
            }
            return Some((fence, Vec::new()));
        }
        let (mut fence, mut slots, mut next) = (Vec::new(), Vec::new(), Some(text));
        let mut slot_bytes = vec![0; self.slot_bytes];
        while let Some(slot) = next.filter(|_| fence.len() < bytes as usize) {
            let (page, _) = self.slots.page_of(slot);
            if page as usize >= self.medium.pages() {
                return None;
            }
            self.medium.region.read(self.medium.at(self.place_of_slot(slot)), &mut slot_bytes);
            let (after, part) = decode_text(self.of(slot), &slot_bytes)?;
            fence.extend_from_slice(part);
            slots.push(slot);
            next = after;
        }
        (fence.len() == bytes as usize && crc32c::crc32c(&fence) == crc).then_some((fence, slots))
    }
    /// The text of a fence that is in the node, whatever it is; `None` if it is elsewhere.
    pub(super) fn text_in(&self, slot: u32, about: &Static) -> Option<Vec<u8>> {
        let Fence::Long { bytes, .. } = about.fence else { return None };
        (about.fence.places(slot, self.entries) > 0).then(|| {
            let mut text = vec![0; bytes as usize];
            let at = self.place_of_slot(slot) + Fence::text_at(text.len(), self.slot_bytes) as u64;
            self.medium.region.read(self.medium.at(at), &mut text);
            text
        })
    }
    /// The fence of so many bytes and this checksum, if a key of the node begins as it does, but for the last byte: the key that it was
    /// taken from may be gone, and the others begin alike.
    pub(super) fn fence_from_keys(
        &self,
        slot: u32,
        bitmap: u64,
        (length, crc): (usize, u32),
    ) -> Option<Vec<u8>> {
        let mut found = None;
        self.each_entry(slot, bitmap, &mut Vec::new(), |_, entry| {
            let Some(start) = entry.and_then(|(key, _)| key.get(..length - 1)) else { return };
            let of_start = crc32c::crc32c(start);
            let last = (0..=u8::MAX).find(|last| crc32c::crc32c_append(of_start, &[*last]) == crc);
            found = found.take().or_else(|| last.map(|last| [start, &[last]].concat()));
        });
        found
    }
    /// Shows the slots of a database's nodes in order.
    pub(super) fn each_node(&self, db: u8, show: &mut dyn FnMut(u32)) {
        self.tree.range(db, Bound::Unbounded, Direction::Forward, &mut |_, address| {
            show(slot_of(address));
            ControlFlow::Continue(())
        });
    }
    /// Whether a node has something that a flush has forgotten.
    pub(super) fn has_forgotten(&self, slot: u32, flushed: &[u64; DATABASES]) -> bool {
        let seen = self.slots.descriptor(slot).read();
        let flushed = flushed[usize::from(seen.db())];
        let is_forgotten = |i| self.entry(slot, i).is_some_and(|entry| entry.version <= flushed);
        flushed > 0 && (0..self.entries).any(|i| seen.bitmap() >> i & 1 == 1 && is_forgotten(i))
    }
    /// As [`Directory::victims`](crate::directory::Directory::victims).
    pub(super) fn show_victims(&self, from: &mut (u8, Vec<u8>), show: &mut dyn FnMut(u8, &[u8]) -> bool) {
        let mut is_enough = false;
        // Round again once, so that a search that starts near the end finds something.
        for _ in 0..=DATABASES {
            let (db, start) = (from.0, std::mem::take(&mut from.1));
            let first =
                self.floor(db, &start).map(|_| Bound::Included(&start[..])).unwrap_or(Bound::Unbounded);
            self.tree.range(db, first, Direction::Forward, &mut |fence, address| {
                let slot = slot_of(address);
                if is_enough {
                    from.1 = fence.to_vec();
                    return ControlFlow::Break(());
                }
                let seen = self.slots.descriptor(slot).read();
                for i in (0..self.entries).filter(|i| seen.bitmap() >> i & 1 == 1) {
                    let Some(entry) = self.entry(slot, i).filter(|entry| entry.place().is_none()) else {
                        continue;
                    };
                    if !is_enough {
                        is_enough = !show(db, &entry.texts().0[..entry.lengths().0]);
                    }
                }
                ControlFlow::Continue(())
            });
            if from.1.is_empty() {
                from.0 = (db + 1) % DATABASES as u8;
            }
            if is_enough {
                return;
            }
        }
    }
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// See the module.
    pub(super) fn reopen_nodes(
        &self,
        keeper: &mut Keeper<NodeChanges>,
        root: &Root,
    ) -> Result<(), StoreError> {
        let nodes = &self.directory;
        let region = &self.medium.region;
        if !self.medium.has_committed_root() {
            return Err(StoreError::Corrupt(
                "neither copy of the committed root is valid: nobody can tell which nodes count; nothing was changed".into(),
            ));
        }
        self.medium.agree_on_root();
        let counts = root.sequence - u64::from(!root.is_committed);
        let mut found: BTreeMap<(u8, Vec<u8>), (u32, Seen)> = BTreeMap::new();
        let (mut free, mut blank, mut texts, mut older) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let of_nodes =
            (0..self.pages.table.len() as u32).filter(|page| self.pages.page(*page).kind() == Kind::Nodes);
        for page in of_nodes {
            nodes.slots.add_page(page);
            self.pages.page(page).is_scanned.store(true, std::sync::atomic::Ordering::Relaxed);
            for slot in nodes.slots.of_page(page) {
                // What a dead process stored may be in a cache only.
                region.flush(self.medium.at(nodes.place_of_slot(slot)), META_BYTES);
                let (about, seen) = match nodes.read_slot(slot, counts) {
                    FoundSlot::Free => {
                        free.push(slot);
                        continue;
                    }
                    FoundSlot::NotYet(sequence) => {
                        nodes.remove(slot, sequence);
                        free.push(slot);
                        continue;
                    }
                    FoundSlot::Ended => {
                        nodes.uncommit(slot);
                        free.push(slot);
                        continue;
                    }
                    FoundSlot::Blank => {
                        blank.push(slot);
                        continue;
                    }
                    FoundSlot::Unknown => return Err(lost_fence(slot)),
                    // Of what it had nothing can be told: it is made anew once something is put there.
                    FoundSlot::Damaged(about) => {
                        let none = Seen::new(0, [0; FP_WORDS], about.sequence, about.db, true)
                            .and_text(about.fence.places(slot, nodes.entries));
                        keeper.root.is_uncertain = true;
                        (about, none.and_stale())
                    }
                    FoundSlot::Node(about, seen, true) => (about, seen),
                    FoundSlot::Node(about, seen, false) => {
                        let mended = self.mend_fps(slot, seen);
                        keeper.root.is_uncertain |= mended.bitmap() != seen.bitmap();
                        (about, mended)
                    }
                };
                // What was to take its place does not: a later root with that sequence must not end it.
                nodes.unend(slot);
                let Some((fence, of_fence)) = nodes.fence_of(slot, &about, seen.bitmap()) else {
                    return Err(lost_fence(slot));
                };
                self.agree(slot, &about, &fence);
                texts.extend((!of_fence.is_empty()).then_some((slot, of_fence)));
                match found.entry((about.db, fence)) {
                    Slot::Vacant(none) => {
                        none.insert((slot, seen));
                    }
                    Slot::Occupied(mut other) => {
                        // A crash came before the older one was gone.
                        // One of which nothing can be told is not the one.
                        let rank = |seen: &Seen, slot: u32| (!seen.is_stale(), seen.sequence(), slot);
                        let is_newer = rank(&seen, slot) > rank(&other.get().1, other.get().0);
                        older.push(if is_newer { other.insert((slot, seen)) } else { (slot, seen) });
                    }
                }
            }
        }
        match blank.first() {
            Some(slot) if found.len() < root.nodes as usize => {
                return Err(lost_nodes(*slot, root.nodes as usize - found.len()));
            }
            // There never was a node in them.
            _ => blank.iter().for_each(|slot| nodes.uncommit(*slot)),
        }
        free.extend(blank);
        if root.nodes == 0 {
            // A store of before roots said it.
            self.medium.note_nodes(found.len() as u32);
        }
        // What a dead process stored of the newer ones is safe first.
        region.fence();
        older.iter().for_each(|(slot, seen)| nodes.remove(*slot, seen.sequence()));
        free.extend(older.iter().map(|(slot, _)| *slot));
        for ((db, fence), (slot, seen)) in &found {
            nodes.slots.begin(*slot, seen);
            nodes.lead(*db, fence, *slot);
        }
        let mut owned = nodes.texts.lock();
        for (node, texts) in texts {
            if nodes.slots.descriptor(node).read().is_node() {
                owned.add(node, texts);
            }
        }
        free.retain(|slot| owned.owner(*slot).is_none());
        drop(owned);
        region.fence();
        nodes.slots.give(free.into_iter());
        Ok(())
    }

    /// Fingerprints that are damaged are made anew from the keys. What can't be read is lost.
    fn mend_fps(&self, slot: u32, seen: Seen) -> Seen {
        let nodes = &self.directory;
        let (mut fps, mut bitmap, mut is_lost) = (seen.fps, seen.bitmap(), seen.is_lost());
        for i in (0..nodes.entries).filter(|i| seen.bitmap() >> i & 1 == 1) {
            let hash = nodes.entry(slot, i).map(|entry| nodes.hash_of_entry(&entry, seen.db()));
            match hash {
                Some(hash) => set_fp(&mut fps, i, fp_of(hash)),
                None => (bitmap, is_lost) = (bitmap & !(1 << i), true),
            }
        }
        let mended = Seen::new(bitmap, fps, seen.sequence(), seen.db(), is_lost).and_text(seen.text_places());
        if is_lost && !seen.is_lost() {
            // The medium goes on to say what was there.
            return mended.and_stale();
        }
        let place = nodes.place_of_slot(slot);
        for (word, at) in FP_AT.iter().enumerate() {
            let at = self.medium.at(place) + *at as u64;
            self.medium.region.store_u64(at, fps[word]);
            self.medium.region.flush(at, 8);
        }
        // It may be their check that is damaged.
        nodes.commit(slot, &mended);
        mended
    }

    /// Both copies of what does not change are what one of them is, and the text of the fence is the fence.
    fn agree(&self, slot: u32, about: &Static, fence: &[u8]) {
        let bytes = about.encode(self.directory.of(slot));
        let place = self.medium.at(self.directory.place_of_slot(slot));
        for at in STATIC_AT {
            let at = place + at as u64;
            let mut there = [0; STATIC_BYTES];
            self.medium.region.read(at, &mut there);
            if there != bytes {
                self.medium.region.write_nt(at, &bytes);
            }
        }
        if self.directory.text_in(slot, about).is_some_and(|text| text != fence) {
            let at = place + Fence::text_at(fence.len(), self.directory.slot_bytes) as u64;
            self.medium.region.write_nt(at, &whole_words(fence));
        }
    }
}

fn lost_fence(slot: u32) -> StoreError {
    StoreError::Corrupt(format!(
        "nobody can tell which keys node {slot} has: neither copy of its fence is valid; nothing was changed (terrace check \
         --repair gives the node up)"
    ))
}

fn lost_nodes(slot: u32, missing: usize) -> StoreError {
    StoreError::Corrupt(format!(
        "nodes are missing, {missing} of them, and what is in front of slot {slot} reads as zeros: nobody can tell which keys they had \
         (terrace check --repair gives them up)"
    ))
}
