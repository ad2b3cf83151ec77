//! What edits of the hash table come to, and how they are stored.
//!
//! ```text
//! edits, by bucket | chains | fence | root: v is coming | buckets | fence | root: v is there
//! ```

use std::sync::atomic::Ordering::*;

use terrace_engine::SEAL_BYTES;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, Kind as RecordKind, RecordView};
use terrace_media::ByteRegion;

use crate::keeper::{Keeper, LEFT_BY_ROUNDS};
use crate::large;
use crate::layout::{
    Bucket, ENTRY_HEAD_BYTES, Element, Kind, Leads, PART_HASH_AT, Root, chain_bytes, decode_entry,
};
use crate::space::ScmSpace;
use crate::table::Contents;

/// Buckets are loaded so many items ahead, and what they lead to half as many.
const AHEAD: usize = 16;
/// What changes in a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// The key's newest record.
    Newest(Newest),
    /// What is at one place is at another.
    Move { from: u64, to: u64 },
    /// What is there counts for nothing.
    Forget { from: u64 },
    /// The chain is to stand elsewhere.
    Rewrite,
    /// What is lost of the bucket is given up: all that there is comes with other edits.
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
pub struct Plan {
    /// Buckets, what each held, and what it is to hold.
    buckets: Vec<(u64, Contents, Contents)>,
    /// Live bytes that come and go, by place.
    live: Vec<(u64, i64)>,
    /// When records at places expire.
    deadlines: Vec<(u64, u64)>,
    /// Parts of large values, and the hash of the key that they are of.
    owners: Vec<(u64, u64)>,
    /// Words to be stored, and chains that come and go, by place.
    words: Vec<(u64, Bucket)>,
    chains: Vec<(u64, i64)>,
    keys: [i64; DATABASES],
    expiring: [i64; DATABASES],
    /// Something damaged was met that may have been counted.
    is_uncertain: bool,
    scratch: Scratch,
}

/// Room for entries that are read.
#[derive(Default)]
struct Scratch {
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Plan {
    fn clear(&mut self) {
        self.buckets.clear();
        self.live.clear();
        self.deadlines.clear();
        self.owners.clear();
        self.words.clear();
        self.chains.clear();
        (self.keys, self.expiring, self.is_uncertain) = ([0; DATABASES], [0; DATABASES], false);
    }
    fn count(&mut self, head: &Head, flushed: &[u64; DATABASES], sign: i64) {
        let db = usize::from(head.meta.db());
        if head.version > flushed[db] {
            self.keys[db] += sign;
            self.expiring[db] += if head.expire_at != 0 { sign } else { 0 };
        }
    }
    /// A record's bytes, and those of its large value, come or go.
    fn weigh(&mut self, place: u64, view: &RecordView<'_>, sign: i64) {
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

impl<R: ByteRegion> ScmSpace<R> {
    /// What an entry of the log means to the table; `None` of one that is no record.
    pub(crate) fn item_of(&self, version: u64, offset: u64, entry: &[u8]) -> Option<Item> {
        let record = entry.get(SEAL_BYTES..).filter(|_| entry.len() % 8 == SEAL_BYTES)?;
        let view = RecordView::decode(record)?;
        let edit = Edit::Newest(Newest { place: self.medium.place_of_log(offset), head: view.head });
        Some(Item { hash: self.table.hash_of(&view), version, edit })
    }

    /// Makes the table lead to these, and the root say so; `false` if there is no page for what that takes: then nothing has changed. They
    /// are all up to a version, but for those that another record of a round up to the second version replaces. `made_again` is the root
    /// of a slice that is made again: its counts are taken.
    pub(crate) fn apply(
        &self,
        keeper: &mut Keeper,
        items: &mut [Item],
        (upto, round): (u64, u64),
        flushed: &[u64; DATABASES],
        made_again: Option<&Root>,
    ) -> bool {
        let mut plan = std::mem::take(&mut keeper.work.plan);
        self.plan(items, flushed, &mut plan);
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
        // One that is there already is not stored again: torn, it would be missed.
        let is_stored = self.store_plan(keeper, &mut plan, Some(&root).filter(|_| made_again.is_none()));
        keeper.work.plan = plan;
        if !is_stored {
            return false;
        }
        (root.sequence, root.is_committed) = (root.sequence + 1, true);
        self.medium.save_root(&root);
        keeper.root = root;
        true
    }

    /// Makes edits that change no count, as cleaning does; `false` if there is no page for what they take.
    pub(crate) fn edit(&self, keeper: &mut Keeper, mut items: Vec<Item>) -> bool {
        let flushed = keeper.root.flushed;
        let mut plan = std::mem::take(&mut keeper.work.plan);
        self.plan(&mut items, &flushed, &mut plan);
        keeper.is_cleaning = true;
        let is_stored = self.store_plan(keeper, &mut plan, None);
        keeper.is_cleaning = false;
        keeper.work.plan = plan;
        is_stored
    }

    /// What edits come to.
    fn plan(&self, items: &mut [Item], flushed: &[u64; DATABASES], plan: &mut Plan) {
        items.sort_unstable_by_key(|item| (self.table.bucket_of(item.hash), item.hash, item.version));
        plan.clear();
        let mut scratch = std::mem::take(&mut plan.scratch);
        let mut at = 0;
        for of_bucket in items.chunk_by(|a, b| self.table.bucket_of(a.hash) == self.table.bucket_of(b.hash)) {
            at += of_bucket.len();
            // What comes next but some is on its way meanwhile.
            items.get(at + AHEAD).into_iter().for_each(|item| self.table.prefetch(item.hash));
            items.get(at + AHEAD / 2).into_iter().for_each(|item| self.table.prefetch_led(item.hash));
            let bucket = self.table.bucket_of(of_bucket[0].hash);
            let before = self.table.contents_by(bucket, &mut scratch.one);
            plan.is_uncertain |= before.is_damaged;
            let mut after = before.clone();
            (after.chain, after.is_damaged) = (None, false);
            for (i, item) in of_bucket.iter().enumerate() {
                self.plan_one(item, &of_bucket[i + 1..], &mut after, plan, (flushed, &mut scratch));
            }
            let is_rewritten = of_bucket.iter().any(|item| matches!(item.edit, Edit::Rewrite));
            let same = after.elements == before.elements && after.is_lost == before.is_lost;
            if !same || is_rewritten || self.is_redoing.load(Relaxed) {
                plan.buckets.push((bucket, before, after));
            }
        }
        plan.scratch = scratch;
    }

    fn plan_one(
        &self,
        item: &Item,
        later: &[Item],
        contents: &mut Contents,
        plan: &mut Plan,
        (flushed, scratch): (&[u64; DATABASES], &mut Scratch),
    ) {
        let bytes = &mut scratch.one;
        let elements = &mut contents.elements;
        match item.edit {
            Edit::Rewrite => {}
            Edit::Mend => {
                contents.is_lost = false;
                plan.is_uncertain = true;
            }
            Edit::Move { from, to } => {
                let Some(element) = elements.iter_mut().find(|element| element.at() == from) else { return };
                *element = Element::new(item.hash, to);
                if let Some(view) = self.table.read_entry(from, bytes) {
                    plan.weigh(from, &view, -1);
                }
                if let Some(view) = self.table.read_entry(to, bytes) {
                    plan.weigh(to, &view, 1);
                    plan.deadlines.extend((view.head.expire_at != 0).then_some((to, view.head.expire_at)));
                }
            }
            Edit::Forget { from } => {
                let before = elements.len();
                elements.retain(|element| element.at() != from);
                if elements.len() != before
                    && let Some(view) = self.table.read_entry(from, bytes)
                {
                    plan.weigh(from, &view, -1);
                }
            }
            Edit::Newest(new) => self.plan_newest(item, &new, later, contents, plan, (flushed, scratch)),
        }
    }

    fn plan_newest(
        &self,
        item: &Item,
        new: &Newest,
        later: &[Item],
        contents: &mut Contents,
        plan: &mut Plan,
        (flushed, scratch): (&[u64; DATABASES], &mut Scratch),
    ) {
        let Newest { place, head } = *new;
        // Read where others may be of the same key, and where a large value is.
        let Scratch { one: bytes, other } = scratch;
        let mut is_read = false;
        let is_same = |bytes: &mut Vec<u8>, is_read: &mut bool, other: &RecordView<'_>| {
            if !std::mem::replace(is_read, true) && self.table.read_entry(place, bytes).is_none() {
                bytes.clear();
            }
            decode_entry(bytes).is_some_and(|new| is_same_key(other, &new))
        };
        // Of what several sessions wrote in one round the newest alone is looked up.
        let is_older =
            later.iter().take_while(|later| later.hash == item.hash).any(|later| match later.edit {
                Edit::Newest(later) => self
                    .table
                    .read_entry(later.place, other)
                    .is_some_and(|view| is_same(bytes, &mut is_read, &view)),
                _ => false,
            });
        if is_older {
            return;
        }
        let mut is_there = false;
        contents.elements.retain(|element| {
            if element.at() == place {
                is_there = true;
                return true;
            }
            if !element.may_be(item.hash) {
                return true;
            }
            match self.table.read_entry(element.at(), other) {
                Some(old) if is_same(bytes, &mut is_read, &old) => {
                    if old.head.version >= item.version {
                        is_there = true;
                        return true;
                    }
                    plan.count(&old.head, flushed, -1);
                    plan.weigh(element.at(), &old, -1);
                    false
                }
                Some(_) => true,
                // Damaged, and as far as can be told the key's: it is replaced.
                None => {
                    plan.is_uncertain = true;
                    false
                }
            }
        });
        let is_extent = head.meta.kind() == RecordKind::Extent;
        if is_extent && let Some(view) = self.table.read_entry(place, other) {
            plan.owners.extend(large::parts(view.value).map(|(at, _)| (at, item.hash)));
        }
        let is_gone = head.meta.kind() == RecordKind::Tombstone;
        if is_there || is_gone || item.version <= flushed[usize::from(head.meta.db())] {
            return;
        }
        contents.elements.push(Element::new(item.hash, place));
        plan.count(&head, flushed, 1);
        if is_extent && let Some(view) = self.table.read_entry(place, other) {
            plan.weigh(place, &view, 1);
        } else {
            plan.live.push((place, entry_bytes_of(&head)));
        }
        plan.deadlines.extend((head.expire_at != 0).then_some((place, head.expire_at)));
    }

    /// Stores what a plan has, in the order that a crash may cut anywhere; `coming` is the root that says so.
    fn store_plan(&self, keeper: &mut Keeper, plan: &mut Plan, coming: Option<&Root>) -> bool {
        let region = &self.medium.region;
        let Plan { buckets, live, deadlines, owners, words, chains, .. } = plan;
        let left = if keeper.is_cleaning { 0 } else { LEFT_BY_ROUNDS };
        for (bucket, before, after) in buckets.iter() {
            let leads = match after.elements[..] {
                [] => Leads::Nowhere,
                [one] => Leads::Entry(one.at()),
                ref several => {
                    let bytes = chain_bytes(several.len());
                    if bytes > self.longest() {
                        self.fail(format!(
                            "{} records share a bucket of the hash table, more than a page describes: copy them to a store with more --expected-records",
                            several.len()
                        ));
                        return false;
                    }
                    let place =
                        self.take_place(&mut keeper.chains, (&mut keeper.spare, left), Kind::Chains, bytes);
                    // What was taken before is garbage, and counted as nothing.
                    let Some(place) = place else { return false };
                    self.table.write_chain(place, *bucket, several);
                    chains.push((place, bytes as i64));
                    Leads::Chain(place)
                }
            };
            chains.extend(before.chain.map(|(place, bytes)| (place, -(bytes as i64))));
            words.push((*bucket, Bucket { leads, is_lost: after.is_lost }));
        }
        region.fence();
        if let Some(root) = coming {
            self.medium.save_root(root);
        }
        // Before the words: a page that is thought empty is walked, one that is thought full is not.
        for (place, deadline) in deadlines.iter() {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).deadline.fetch_min(*deadline, AcqRel);
            }
        }
        for (bucket, word) in words.iter() {
            self.table.store(*bucket, *word);
        }
        for (place, hash) in owners.iter() {
            if self.medium.page_of(*place).is_some() {
                let at = self.medium.at(*place) + PART_HASH_AT;
                region.store_u64(at, *hash);
                region.flush(at, 8);
            }
        }
        region.fence();
        for (place, bytes) in live.iter().chain(chains.iter()) {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).live.fetch_add(*bytes, Relaxed);
            }
        }
        self.live_bytes.fetch_add(live.iter().chain(chains.iter()).map(|(_, bytes)| bytes).sum(), Relaxed);
        true
    }
}

pub(crate) fn is_same_key(a: &RecordView<'_>, b: &RecordView<'_>) -> bool {
    a.head.meta.db() == b.head.meta.db() && a.key == b.key
}
