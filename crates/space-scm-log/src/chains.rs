//! What edits of the hash table come to, and how they are stored.
//!
//! ```text
//! edits, by bucket | chains | fence | root: v is coming | buckets | fence | root: v is there
//! ```

use std::sync::atomic::Ordering::*;

use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, Kind as RecordKind, RecordView};
use terrace_index::{Address, Clht, Key, Lookup, Verdict};
use terrace_media::ByteRegion;

use crate::apply::{Edit, Item, Newest, Plan, entry_bytes_of, is_same_key};
use crate::directory::{Directory, IsForgotten};
use crate::index::ScmIndex;
use crate::keeper::{Keeper, LEFT_BY_ROUNDS};
use crate::large;
use crate::layout::{Bucket, Element, Kind, Leads, Root, chain_bytes, decode_entry};
use crate::space::ScmSpace;
use crate::table::{Contents, PmTable};

/// Buckets are loaded so many items ahead, and what they lead to half as many.
const AHEAD: usize = 16;
/// Words of the table that are made safe at once.
const SECURED_AT_ONCE: u64 = 64 << 10;
/// With so many records for a bucket chains have more than a line.
const CROWDED: u64 = 4;

/// What a plan has of buckets.
#[derive(Default)]
pub struct Buckets {
    /// Buckets, what each held, and what it is to hold.
    buckets: Vec<(u64, Contents, Contents)>,
    /// Words to be stored, and chains that come and go, by place.
    words: Vec<(u64, Bucket)>,
    chains: Vec<(u64, i64)>,
    scratch: Scratch,
}

/// Room for entries that are read.
#[derive(Default)]
struct Scratch {
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Buckets {
    fn clear(&mut self) {
        self.buckets.clear();
        self.words.clear();
        self.chains.clear();
    }
}

impl<R: ByteRegion> Directory<R> for PmTable<R> {
    const NAME: &'static str = "scm";
    const FEW_BYTES: usize = 8 << 20;
    const FULL_PERCENT: u64 = 93;
    type Front = Clht;
    type Changes = Buckets;

    fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }
    fn make(space: &ScmSpace<R, Self>) -> Result<(), StoreError> {
        space.directory.format();
        Ok(())
    }
    /// The words say it all.
    fn reopen(_: &ScmSpace<R, Self>, _: &mut Keeper<Buckets>, _: &Root) -> Result<(), StoreError> {
        Ok(())
    }
    fn secure(&self, from: u64) -> Option<u64> {
        Some(self.secure_words(from, SECURED_AT_ONCE)).filter(|end| *end < self.buckets())
    }
    #[inline]
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.get_hash(key.hash, verify)
    }
    #[inline]
    fn prefetch(&self, key: &Key<'_>) {
        self.prefetch_bucket(key.hash);
    }
    fn candidates(&self, key: &Key<'_>, show: impl FnMut(Address)) {
        self.candidates_of(key.hash, show);
    }
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, touch: impl FnMut(Address)) {
        self.touch_hashes(count, |i| key(i).hash, touch);
    }
    fn is_beside(&self, key: u64, record: u64) -> bool {
        self.bucket_of(key) == self.bucket_of(record)
    }
    fn leads_to(&self, key: &Key<'_>, place: u64) -> bool {
        self.has(key.hash, place)
    }
    fn owners_of_parts(&self, word: u64, mut show: impl FnMut(u64)) {
        self.candidates_of(word, |address| show(address.raw()));
    }
    fn scan(index: &ScmIndex<R, Self>, cursor: u64, out: &mut Vec<Address>) -> u64 {
        index.scan_buckets(cursor, out)
    }
    fn plan(
        space: &ScmSpace<R, Self>,
        items: &mut [Item],
        flushed: &[u64; DATABASES],
        plan: &mut Plan<Buckets>,
    ) {
        space.plan_all(items, flushed, plan);
    }
    fn store(
        space: &ScmSpace<R, Self>,
        keeper: &mut Keeper<Buckets>,
        plan: &mut Plan<Buckets>,
        coming: Option<&Root>,
    ) -> bool {
        space.store_plan(keeper, plan, coming)
    }
    fn own_of_page(
        space: &ScmSpace<R, Self>,
        page: u32,
        _: &[u64; DATABASES],
        mut show: impl FnMut(usize, Option<Item>, IsForgotten),
    ) {
        space.chains_of(page, |place, bucket, bytes| {
            if space.directory.chain_of(bucket) == Some(place) {
                show(bytes, Some(Item { hash: bucket, version: 0, edit: Edit::Rewrite { page } }), false);
            }
        });
    }
    fn for_each(&self, see_place: &mut dyn FnMut(u64), show: &mut dyn FnMut(&Head)) {
        let mut bytes = Vec::new();
        for bucket in 0..self.buckets() {
            let contents = self.contents(bucket);
            contents.chain.iter().for_each(|(place, _)| see_place(*place));
            for element in contents.elements {
                see_place(element.at());
                if let Some(view) = self.medium.read_entry(element.at(), &mut bytes) {
                    show(&view.head);
                }
            }
        }
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        vec![("scm_buckets", self.buckets()), ("scm_records_a_bucket", self.records_a_bucket.load(Relaxed))]
    }
    fn tell_crowding(&self, keys: u64) {
        let a_bucket = keys / self.buckets();
        if a_bucket >= CROWDED && self.records_a_bucket.swap(a_bucket, Relaxed) < CROWDED {
            tracing::warn!(
                "the hash table has {} buckets for {keys} records, and each look-up reads a longer chain: a store made with --expected-records {keys} is faster",
                self.buckets()
            );
        }
        self.records_a_bucket.store(a_bucket, Relaxed);
    }
}

impl<R: ByteRegion> ScmSpace<R, PmTable<R>> {
    /// What edits come to.
    fn plan_all(&self, items: &mut [Item], flushed: &[u64; DATABASES], plan: &mut Plan<Buckets>) {
        items.sort_unstable_by_key(|item| (self.directory.bucket_of(item.hash), item.hash, item.version));
        plan.clear();
        plan.changes.clear();
        let mut scratch = std::mem::take(&mut plan.changes.scratch);
        let mut at = 0;
        for of_bucket in
            items.chunk_by(|a, b| self.directory.bucket_of(a.hash) == self.directory.bucket_of(b.hash))
        {
            at += of_bucket.len();
            // What comes next but some is on its way meanwhile.
            items.get(at + AHEAD).into_iter().for_each(|item| self.directory.prefetch_bucket(item.hash));
            items.get(at + AHEAD / 2).into_iter().for_each(|item| self.directory.prefetch_led(item.hash));
            let bucket = self.directory.bucket_of(of_bucket[0].hash);
            let before = self.directory.contents_by(bucket, &mut scratch.one);
            plan.is_uncertain |= before.is_damaged;
            let mut after = before.clone();
            (after.chain, after.is_damaged) = (None, false);
            for (i, item) in of_bucket.iter().enumerate() {
                self.plan_one(item, &of_bucket[i + 1..], &mut after, plan, (flushed, &mut scratch));
            }
            let is_rewritten = of_bucket.iter().any(|item| matches!(item.edit, Edit::Rewrite { .. }));
            let same = after.elements == before.elements && after.is_lost == before.is_lost;
            if !same || is_rewritten || self.is_redoing.load(Relaxed) {
                plan.changes.buckets.push((bucket, before, after));
            }
        }
        plan.changes.scratch = scratch;
    }

    fn plan_one(
        &self,
        item: &Item,
        later: &[Item],
        contents: &mut Contents,
        plan: &mut Plan<Buckets>,
        (flushed, scratch): (&[u64; DATABASES], &mut Scratch),
    ) {
        let bytes = &mut scratch.one;
        let elements = &mut contents.elements;
        match item.edit {
            Edit::Rewrite { .. } | Edit::Purge => {}
            Edit::Mend => {
                contents.is_lost = false;
                plan.is_uncertain = true;
            }
            Edit::Move { from, to } => {
                let Some(element) = elements.iter_mut().find(|element| element.at() == from) else { return };
                *element = Element::new(item.hash, to);
                if let Some(view) = self.medium.read_entry(from, bytes) {
                    plan.weigh(from, &view, -1);
                }
                if let Some(view) = self.medium.read_entry(to, bytes) {
                    plan.weigh(to, &view, 1);
                    plan.deadlines.extend((view.head.expire_at != 0).then_some((to, view.head.expire_at)));
                }
            }
            Edit::Forget { from } => {
                let before = elements.len();
                elements.retain(|element| element.at() != from);
                if elements.len() != before
                    && let Some(view) = self.medium.read_entry(from, bytes)
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
        plan: &mut Plan<Buckets>,
        (flushed, scratch): (&[u64; DATABASES], &mut Scratch),
    ) {
        let Newest { place, head } = *new;
        // Read where others may be of the same key, and where a large value is.
        let Scratch { one: bytes, other } = scratch;
        let mut is_read = false;
        let is_same = |bytes: &mut Vec<u8>, is_read: &mut bool, other: &RecordView<'_>| {
            if !std::mem::replace(is_read, true) && self.medium.read_entry(place, bytes).is_none() {
                bytes.clear();
            }
            decode_entry(bytes).is_some_and(|new| is_same_key(other, &new))
        };
        // Of what several sessions wrote in one round the newest alone is looked up.
        let is_older =
            later.iter().take_while(|later| later.hash == item.hash).any(|later| match later.edit {
                Edit::Newest(later) => self
                    .medium
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
            match self.medium.read_entry(element.at(), other) {
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
        if is_extent && let Some(view) = self.medium.read_entry(place, other) {
            plan.owners.extend(large::parts(view.value).map(|(at, _)| (at, item.hash)));
        }
        let is_gone = head.meta.kind() == RecordKind::Tombstone;
        if is_there || is_gone || item.version <= flushed[usize::from(head.meta.db())] {
            return;
        }
        contents.elements.push(Element::new(item.hash, place));
        plan.count(&head, flushed, 1);
        if is_extent && let Some(view) = self.medium.read_entry(place, other) {
            plan.weigh(place, &view, 1);
        } else {
            plan.live.push((place, entry_bytes_of(&head)));
        }
        plan.deadlines.extend((head.expire_at != 0).then_some((place, head.expire_at)));
    }

    /// Stores what a plan has, in the order that a crash may cut anywhere; `coming` is the root that says so.
    fn store_plan(
        &self,
        keeper: &mut Keeper<Buckets>,
        plan: &mut Plan<Buckets>,
        coming: Option<&Root>,
    ) -> bool {
        let region = &self.medium.region;
        let Plan { changes: Buckets { buckets, words, chains, .. }, live, deadlines, owners, .. } = plan;
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
                        self.take_place(&mut keeper.own, (&mut keeper.spare, left), Kind::Chains, bytes);
                    // What was taken before is garbage, and counted as nothing.
                    let Some(place) = place else { return false };
                    self.directory.write_chain(place, *bucket, several);
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
        self.note_deadlines(deadlines);
        for (bucket, word) in words.iter() {
            self.directory.store(*bucket, *word);
        }
        self.store_owners(owners);
        region.fence();
        self.note_live(live);
        self.note_live(chains);
        true
    }
}
