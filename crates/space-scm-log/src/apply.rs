//! Rounds: the hash table is made to lead to what the sessions' logs hold, all up to one version at a time.
//!
//! ```text
//! every session has passed | V: the newest version, all to come are newer | every session has passed | all settled | entries up to V, by bucket | chains | fence | root: V is coming | buckets | fence
//!           | root: V is there | what is in DRAM up to V leaves the front
//! ```
//!
//! # Invariants
//! * The versions of a key ascend: so all that are older than one of a round are in it, or in an earlier one, and a tombstone that the
//!   table has followed needs no place in it.
//! * Counts are of the root's version. Who finds a root that is coming makes its round again, and takes its counts.
//! * A block leaves its session's chain once the round of all of its entries is over.

use std::sync::atomic::Ordering::*;

use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, Kind as RecordKind, RecordView};
use terrace_engine::space::Context;
use terrace_engine::{Progress, SEAL_BYTES};
use terrace_index::{Index, Key};
use terrace_media::ByteRegion;

use crate::keeper::{Keeper, Round};
use crate::large;
use crate::layout::{
    Bucket, ENTRY_HEAD_BYTES, Element, Kind, Leads, PART_HASH_AT, Root, chain_bytes, decode_entry,
};
use crate::space::ScmSpace;
use crate::table::Contents;

/// A round begins when so much waits for it, or so long after the last one.
const ROUND_BYTES: u64 = 256 << 10;
const ROUND_MS: u64 = 5;
/// Buckets are loaded so many items ahead, and what they lead to half as many.
const AHEAD: usize = 16;
/// Or after so many steps with nothing to do, whatever the clock says.
const IDLE_STEPS: u32 = 8;

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
pub(crate) struct Plan {
    /// Buckets, what each held, and what it is to hold.
    buckets: Vec<(u64, Contents, Contents)>,
    /// Live bytes that come and go, by place.
    live: Vec<(u64, i64)>,
    /// When records at places expire.
    deadlines: Vec<(u64, u64)>,
    /// Parts of large values, and the hash of the key that they are of.
    owners: Vec<(u64, u64)>,
    keys: [i64; DATABASES],
    expiring: [i64; DATABASES],
    /// Something damaged was met that may have been counted.
    is_uncertain: bool,
}

impl Plan {
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
    /// A part of a round.
    pub(crate) fn round_step(&self, keeper: &mut Keeper, context: &dyn Context) -> Progress {
        match std::mem::take(&mut keeper.round) {
            Round::Idle => {
                let begun = self.begun.load(Relaxed);
                if self.last_given.load(Acquire) <= begun {
                    return Progress::Idle;
                }
                keeper.idle += 1;
                let is_due = context.now_ms().saturating_sub(keeper.ended_ms) >= ROUND_MS
                    || self.waiting_bytes.load(Relaxed) >= ROUND_BYTES
                    || self.dram.is_wanted.load(Relaxed)
                    || context.flush_wanted() > begun
                    || keeper.idle >= IDLE_STEPS;
                if !is_due {
                    return Progress::Blocked;
                }
                keeper.idle = 0;
                self.waiting_bytes.store(0, Relaxed);
                let seq = begun + 1;
                self.begun.store(seq, SeqCst);
                keeper.round = Round::Issuing { seq, epoch: context.advance_epoch() };
                Progress::Worked
            }
            Round::Issuing { seq, epoch } => {
                if !context.epoch_passed(epoch) {
                    keeper.round = Round::Issuing { seq, epoch };
                    return Progress::Blocked;
                }
                let upto = context.barrier().positions().iter().copied().max().unwrap_or(0);
                context.raise_version_floor(upto);
                keeper.round = Round::Passing { seq, upto, epoch: context.advance_epoch() };
                Progress::Worked
            }
            Round::Passing { seq, upto, epoch } => {
                if !context.epoch_passed(epoch) {
                    keeper.round = Round::Passing { seq, upto, epoch };
                    return Progress::Blocked;
                }
                keeper.round = Round::Settling { seq, upto, barrier: context.barrier() };
                Progress::Worked
            }
            Round::Settling { seq, upto, barrier } => {
                if !context.barrier_passed(&barrier) {
                    keeper.round = Round::Settling { seq, upto, barrier };
                    return Progress::Blocked;
                }
                let mut flushed = [0; DATABASES];
                context.hold_flushes(&mut || {
                    // One that is newer is not settled yet: the next round knows it.
                    flushed = std::array::from_fn(|db| match context.flush_version(db as u8) {
                        settled if settled <= upto => settled,
                        _ => keeper.root.flushed[db],
                    });
                });
                let done = upto <= keeper.root.upto
                    || match self.read_tails(keeper, upto, barrier.positions()) {
                        Ok((items, tails)) => {
                            let done = self.apply(keeper, items, upto, &flushed, None);
                            if done {
                                keeper.tails = tails;
                            }
                            done
                        }
                        Err(why) => {
                            self.fail(why);
                            false
                        }
                    };
                if !done {
                    // No page for chains: cleaning makes one.
                    self.lacks_page.store(true, Relaxed);
                    keeper.round = Round::Settling { seq, upto, barrier };
                    return Progress::Blocked;
                }
                keeper.ended_ms = context.now_ms();
                self.free_frames(keeper, context);
                self.completed.store(seq, SeqCst);
                Progress::Worked
            }
        }
    }

    /// What the sessions' logs hold above the root's version, up to another one; and how far they are read then.
    fn read_tails(
        &self,
        keeper: &Keeper,
        upto: u64,
        positions: &[u64],
    ) -> Result<(Vec<Item>, Vec<terrace_log::TailCursor>), String> {
        let (mut items, mut tails) = (Vec::new(), keeper.tails.clone());
        tails.resize(positions.len().max(tails.len()), Default::default());
        for (slot, tail) in tails.iter_mut().enumerate() {
            let (mut newest, from) = (tail.last, keeper.root.upto);
            self.log
                .visit_tail(slot as u16, tail, upto, |entry| {
                    newest = newest.max(entry.version);
                    if entry.version > from {
                        items.extend(self.item_of(entry.version, entry.place, entry.bytes));
                    }
                })
                .map_err(|error| format!("reading the log: {error}"))?;
            let issued = positions.get(slot).copied().unwrap_or(0);
            if issued > keeper.start && issued <= upto && newest.max(tail.last) < issued {
                return Err(format!(
                    "the log of session {slot} ends at version {}, and {issued} was written to it",
                    newest.max(tail.last)
                ));
            }
        }
        Ok((items, tails))
    }

    /// What an entry of the log means to the table; `None` of one that is no record.
    pub(crate) fn item_of(&self, version: u64, offset: u64, entry: &[u8]) -> Option<Item> {
        let record = entry.get(SEAL_BYTES..).filter(|_| entry.len() % 8 == SEAL_BYTES)?;
        let view = RecordView::decode(record)?;
        let edit = Edit::Newest(Newest { place: self.medium.place_of_log(offset), head: view.head });
        Some(Item { hash: self.table.hash_of(&view), version, edit })
    }

    /// Makes the table lead to these, and the root say so; `false` if there is no page for what that takes: then nothing has changed.
    /// `counts` are those of a round that is made again.
    pub(crate) fn apply(
        &self,
        keeper: &mut Keeper,
        mut items: Vec<Item>,
        upto: u64,
        flushed: &[u64; DATABASES],
        made_again: Option<&Root>,
    ) -> bool {
        let plan = self.plan(&mut items, flushed);
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
        root.sequence = keeper.root.sequence + 1;
        // One that is there already is not stored again: torn, it would be missed.
        if !self.store_plan(keeper, &plan, Some(&root).filter(|_| made_again.is_none())) {
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
        let plan = self.plan(&mut items, &flushed);
        self.store_plan(keeper, &plan, None)
    }

    /// What edits come to.
    pub(crate) fn plan(&self, items: &mut [Item], flushed: &[u64; DATABASES]) -> Plan {
        items.sort_unstable_by_key(|item| (self.table.bucket_of(item.hash), item.hash, item.version));
        let mut plan = Plan::default();
        let mut at = 0;
        for of_bucket in items.chunk_by(|a, b| self.table.bucket_of(a.hash) == self.table.bucket_of(b.hash)) {
            at += of_bucket.len();
            // What comes next but some is on its way meanwhile.
            items.get(at + AHEAD).into_iter().for_each(|item| self.table.prefetch(item.hash));
            items.get(at + AHEAD / 2).into_iter().for_each(|item| self.table.prefetch_led(item.hash));
            let bucket = self.table.bucket_of(of_bucket[0].hash);
            let before = self.table.contents(bucket);
            plan.is_uncertain |= before.is_damaged;
            let mut after = before.clone();
            (after.chain, after.is_damaged) = (None, false);
            for (i, item) in of_bucket.iter().enumerate() {
                self.plan_one(item, &of_bucket[i + 1..], &mut after, &mut plan, flushed);
            }
            let is_rewritten = of_bucket.iter().any(|item| matches!(item.edit, Edit::Rewrite));
            let same = after.elements == before.elements && after.is_lost == before.is_lost;
            if !same || is_rewritten || self.is_redoing.load(Relaxed) {
                plan.buckets.push((bucket, before, after));
            }
        }
        plan
    }

    fn plan_one(
        &self,
        item: &Item,
        later: &[Item],
        contents: &mut Contents,
        plan: &mut Plan,
        flushed: &[u64; DATABASES],
    ) {
        let mut bytes = Vec::new();
        let elements = &mut contents.elements;
        match item.edit {
            Edit::Rewrite => {}
            Edit::Move { from, to } => {
                let Some(element) = elements.iter_mut().find(|element| element.at() == from) else { return };
                *element = Element::new(item.hash, to);
                if let Some(view) = self.table.read_entry(from, &mut bytes) {
                    plan.weigh(from, &view, -1);
                }
                if let Some(view) = self.table.read_entry(to, &mut bytes) {
                    plan.weigh(to, &view, 1);
                    plan.deadlines.extend((view.head.expire_at != 0).then_some((to, view.head.expire_at)));
                }
            }
            Edit::Forget { from } => {
                let before = elements.len();
                elements.retain(|element| element.at() != from);
                if elements.len() != before
                    && let Some(view) = self.table.read_entry(from, &mut bytes)
                {
                    plan.weigh(from, &view, -1);
                }
            }
            Edit::Newest(new) => self.plan_newest(item, &new, later, contents, plan, flushed),
        }
    }

    fn plan_newest(
        &self,
        item: &Item,
        new: &Newest,
        later: &[Item],
        contents: &mut Contents,
        plan: &mut Plan,
        flushed: &[u64; DATABASES],
    ) {
        let Newest { place, head } = *new;
        // Read where others may be of the same key, and where a large value is.
        let mut bytes = Vec::new();
        let mut is_read = false;
        let is_same = |bytes: &mut Vec<u8>, is_read: &mut bool, other: &RecordView<'_>| {
            if !std::mem::replace(is_read, true) && self.table.read_entry(place, bytes).is_none() {
                bytes.clear();
            }
            decode_entry(bytes).is_some_and(|new| is_same_key(other, &new))
        };
        let mut other = Vec::new();
        // Of what several sessions wrote in one round the newest alone is looked up.
        let is_older =
            later.iter().take_while(|later| later.hash == item.hash).any(|later| match later.edit {
                Edit::Newest(later) => self
                    .table
                    .read_entry(later.place, &mut other)
                    .is_some_and(|view| is_same(&mut bytes, &mut is_read, &view)),
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
            match self.table.read_entry(element.at(), &mut other) {
                Some(old) if is_same(&mut bytes, &mut is_read, &old) => {
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
        if is_extent && let Some(view) = self.table.read_entry(place, &mut other) {
            plan.owners.extend(large::parts(view.value).map(|(at, _)| (at, item.hash)));
        }
        let is_gone = head.meta.kind() == RecordKind::Tombstone;
        if is_there || is_gone || item.version <= flushed[usize::from(head.meta.db())] {
            return;
        }
        contents.elements.push(Element::new(item.hash, place));
        plan.count(&head, flushed, 1);
        if is_extent && let Some(view) = self.table.read_entry(place, &mut other) {
            plan.weigh(place, &view, 1);
        } else {
            plan.live.push((place, entry_bytes_of(&head)));
        }
        plan.deadlines.extend((head.expire_at != 0).then_some((place, head.expire_at)));
    }

    /// Stores what a plan has, in the order that a crash may cut anywhere; `coming` is the root that says so.
    fn store_plan(&self, keeper: &mut Keeper, plan: &Plan, coming: Option<&Root>) -> bool {
        let region = &self.medium.region;
        let mut words = Vec::with_capacity(plan.buckets.len());
        let mut chains = Vec::new();
        for (bucket, before, after) in &plan.buckets {
            let leads = match after.elements[..] {
                [] => Leads::Nowhere,
                [one] => Leads::Entry(one.at()),
                ref several => {
                    let bytes = chain_bytes(several.len());
                    let place = if bytes <= self.longest() {
                        self.take_place(&mut keeper.chains, &mut keeper.spare, Kind::Chains, bytes)
                    } else {
                        None
                    };
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
        for (place, deadline) in &plan.deadlines {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).deadline.fetch_min(*deadline, AcqRel);
            }
        }
        for (bucket, word) in words {
            self.table.store(bucket, word);
        }
        for (place, hash) in &plan.owners {
            if self.medium.page_of(*place).is_some() {
                let at = self.medium.at(*place) + PART_HASH_AT;
                region.store_u64(at, *hash);
                region.flush(at, 8);
            }
        }
        region.fence();
        for (place, bytes) in plan.live.iter().chain(&chains) {
            if let Some(page) = self.medium.page_of(*place) {
                self.pages.page(page).live.fetch_add(*bytes, Relaxed);
            }
        }
        self.live_bytes.fetch_add(plan.live.iter().chain(&chains).map(|(_, bytes)| bytes).sum(), Relaxed);
        true
    }

    /// Frames of which the table has everything leave the front.
    fn free_frames(&self, keeper: &mut Keeper, context: &dyn Context) {
        let (mut frames, mut key) = (Vec::new(), Vec::new());
        self.dram.leave_up_to(keeper.root.upto, &mut frames, |address, version, meta| {
            let db = self.dram.key_of(address, &mut key);
            let key = Key { hash: self.table.hasher.key(db, &key).hash, db, bytes: &[] };
            let is_tombstone = meta.kind() == RecordKind::Tombstone;
            if is_tombstone {
                // Before it is gone: what is written then is newer.
                context.raise_version_floor(version);
            }
            if self.front.remove(&key, address) && is_tombstone {
                context.forgotten(RecordKind::Tombstone);
            }
        });
        if !frames.is_empty() {
            keeper.leaving_frames.push_back((context.advance_epoch(), frames));
        }
    }

    /// What every session has left is free.
    pub(crate) fn reclaim(&self, keeper: &mut Keeper, context: &dyn Context) -> Progress {
        let mut progress = Progress::Idle;
        while keeper.leaving_frames.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, frames)) = keeper.leaving_frames.pop_front() {
                self.dram.give(&frames);
                self.dram.is_wanted.store(false, Relaxed);
                progress = Progress::Worked;
            }
        }
        while keeper.leaving_pages.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, page)) = keeper.leaving_pages.pop_front() {
                self.pages.page(page).is_leaving.store(false, Relaxed);
                self.give_page(keeper, page);
                progress = Progress::Worked;
            }
        }
        let waits = !keeper.leaving_frames.is_empty() || !keeper.leaving_pages.is_empty();
        if progress == Progress::Idle && waits { Progress::Blocked } else { progress }
    }
}

fn is_same_key(a: &RecordView<'_>, b: &RecordView<'_>) -> bool {
    a.head.meta.db() == b.head.meta.db() && a.key == b.key
}
