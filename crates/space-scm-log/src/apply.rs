//! Edits of the directory: what each is, and the root that says how far they go.

use std::sync::atomic::Ordering::*;

use terrace_engine::SEAL_BYTES;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, Kind as RecordKind, RecordView};
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::keeper::Keeper;
use crate::large;
use crate::layout::{ENTRY_HEAD_BYTES, PART_HASH_AT, Root};
use crate::space::ScmSpace;

/// What changes in a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// The key's newest record.
    Newest(Newest),
    /// What is at one place is at another.
    Move { from: u64, to: u64 },
    /// What is there counts for nothing.
    Forget { from: u64 },
    /// An object of the directory's own is to stand elsewhere, and in no slot of this page: its number is in the place of the hash.
    Rewrite { page: u32 },
    /// What a flush has forgotten of one goes.
    Purge,
    /// What is lost of a bucket is given up: all that there is comes with other edits.
    Mend,
}

/// A record that the log has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub place: u64,
    pub head: Head,
}

/// An edit, with where it belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub hash: u64,
    pub version: u64,
    pub edit: Edit,
}

/// What edits come to.
#[derive(Default)]
pub struct Plan<C> {
    /// What the directory makes of them.
    pub changes: C,
    /// Live bytes that come and go, by place.
    pub live: Vec<(u64, i64)>,
    /// When records at places expire.
    pub deadlines: Vec<(u64, u64)>,
    /// Parts of large values, and the word that their heads get.
    pub owners: Vec<(u64, u64)>,
    keys: [i64; DATABASES],
    expiring: [i64; DATABASES],
    /// Something damaged was met that may have been counted.
    pub is_uncertain: bool,
}

impl<C> Plan<C> {
    /// Nothing is to be done.
    pub(crate) fn clear(&mut self) {
        self.live.clear();
        self.deadlines.clear();
        self.owners.clear();
        (self.keys, self.expiring, self.is_uncertain) = ([0; DATABASES], [0; DATABASES], false);
    }
    /// A record counts from now on, or no more, if no flush has forgotten it.
    pub(crate) fn count(&mut self, head: &Head, flushed: &[u64; DATABASES], sign: i64) {
        let db = usize::from(head.meta.db());
        if head.version > flushed[db] {
            self.keys[db] += sign;
            self.expiring[db] += if head.expire_at != 0 { sign } else { 0 };
        }
    }
    /// A record's bytes, and those of its large value, come or go.
    pub(crate) fn weigh(&mut self, place: u64, view: &RecordView<'_>, sign: i64) {
        self.live.push((place, sign * entry_bytes_of(&view.head)));
        if view.head.meta.kind() == RecordKind::Extent {
            self.live.extend(
                large::parts(view.value).map(|(at, bytes)| (at, sign * large::part_bytes(bytes) as i64)),
            );
        }
    }
}

/// Bytes that a record's entry takes.
pub(crate) fn entry_bytes_of(head: &Head) -> i64 {
    (ENTRY_HEAD_BYTES + head.meta.used_words() * 8) as i64
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// What an entry of the log means to the table; `None` of one that is no record.
    pub(crate) fn item_of(&self, version: u64, offset: u64, entry: &[u8]) -> Option<Item> {
        let record = entry.get(SEAL_BYTES..).filter(|_| entry.len() % 8 == SEAL_BYTES)?;
        let view = RecordView::decode(record)?;
        let edit = Edit::Newest(Newest { place: self.medium.place_of_log(offset), head: view.head });
        Some(Item { hash: self.directory.hash_of(&view), version, edit })
    }

    /// Makes the table lead to these, and the root say so; `false` if there is no page for what that takes: then nothing has changed. They
    /// are all up to a version, but for those that another record of a round up to the second version replaces. `made_again` is the root
    /// of a slice that is made again: its counts are taken.
    pub(crate) fn apply(
        &self,
        keeper: &mut Keeper<T::Changes>,
        items: &mut [Item],
        (upto, round): (u64, u64),
        flushed: &[u64; DATABASES],
        made_again: Option<&Root>,
    ) -> bool {
        let mut plan = std::mem::take(&mut keeper.work.plan);
        T::plan(self, items, flushed, &mut plan);
        let mut root = keeper.root;
        for (db, flushed) in flushed.iter().enumerate() {
            if *flushed > root.flushed[db] {
                (root.keys[db], root.expiring[db]) = (0, 0);
            }
            root.keys[db] = root.keys[db].saturating_add_signed(plan.keys[db]);
            root.expiring[db] = root.expiring[db].saturating_add_signed(plan.expiring[db]);
        }
        root.flushed = *flushed;
        if let Some(again) = made_again {
            root.is_uncertain |= again.is_uncertain;
            (root.keys, root.expiring, root.flushed) = (again.keys, again.expiring, again.flushed);
        }
        root.is_uncertain |= plan.is_uncertain;
        (root.from, root.upto, root.is_committed) = (keeper.root.upto, upto, false);
        root.round = round;
        root.sequence = keeper.root.sequence + 1;
        root.nodes = self.directory.nodes();
        // One that is there already is not stored again: torn, it would be missed.
        let is_stored = T::store(self, keeper, &mut plan, Some(&root).filter(|_| made_again.is_none()));
        keeper.work.plan = plan;
        if !is_stored {
            return false;
        }
        (root.sequence, root.is_committed) = (root.sequence + 1, true);
        root.nodes = self.directory.nodes();
        self.medium.save_root(&root);
        keeper.root = root;
        T::root_is_there(self, keeper);
        true
    }

    /// Makes edits that change no count, as cleaning does; `false` if there is no page for what they take.
    pub(crate) fn edit(&self, keeper: &mut Keeper<T::Changes>, mut items: Vec<Item>) -> bool {
        let flushed = keeper.root.flushed;
        let mut plan = std::mem::take(&mut keeper.work.plan);
        T::plan(self, &mut items, &flushed, &mut plan);
        keeper.is_cleaning = true;
        let is_stored = T::store(self, keeper, &mut plan, None);
        keeper.is_cleaning = false;
        keeper.work.plan = plan;
        is_stored
    }

    /// Before what leads there is stored: a page that is thought empty is walked, one that is thought full is not.
    pub(crate) fn note_deadlines(&self, deadlines: &[(u64, u64)]) {
        for (place, deadline) in deadlines {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).deadline.fetch_min(*deadline, AcqRel);
            }
        }
    }
    /// Parts of large values say whose they are; durable after a fence.
    pub(crate) fn store_owners(&self, owners: &[(u64, u64)]) {
        let region = &self.medium.region;
        for (place, word) in owners {
            if self.medium.page_of(*place).is_some() {
                let at = self.medium.at(*place) + PART_HASH_AT;
                region.store_u64(at, *word);
                region.flush(at, 8);
            }
        }
    }
    /// Live bytes come and go.
    pub(crate) fn note_live(&self, live: &[(u64, i64)]) {
        for (place, bytes) in live {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).live.fetch_add(*bytes, Relaxed);
            }
        }
        self.live_bytes.fetch_add(live.iter().map(|(_, bytes)| bytes).sum(), Relaxed);
    }
}

pub(crate) fn is_same_key(a: &RecordView<'_>, b: &RecordView<'_>) -> bool {
    a.head.meta.db() == b.head.meta.db() && a.key == b.key
}
