//! What edits come to: entries that come and go in place, and nodes that are made anew.
//!
//! An entry that comes takes a place that does not count, and that nobody may still read. Where there is none the node is made anew, alone
//! or with its neighbours ([`shape`](super::shape)).

use std::ops::Range;

use terrace_engine::op::DATABASES;
use terrace_engine::record::{Head, Kind as RecordKind, RecordView};
use terrace_index::Key;
use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::{Seen, set_fp};
use super::find::{fp_of, with_record};
use super::layout::{DamagedKey, ENTRY_BYTES, Entry, INLINE_BYTES, entry_at};
use super::shape::Gathered;
use crate::apply::{Edit, Item, Newest, Plan, entry_bytes_of};
use crate::large;
use crate::space::{ScmSpace, TIER};

/// Entries are on their way so many keys ahead.
const AHEAD: usize = 16;
/// Hashes that differ in more bits are those of different keys, whatever flipped.
const FLIPPED_MAX: u32 = 16;

/// What a plan has of nodes.
#[derive(Default)]
pub struct NodeChanges {
    /// What comes and goes in nodes as they are.
    pub(super) in_place: Vec<InPlace>,
    /// Entries that come to nodes.
    pub(super) coming: Vec<Coming>,
    /// Nodes that others take the place of.
    pub(super) reshaped: Vec<Reshaped>,
    /// Entries of nodes that come: the fingerprint of each, and it.
    pub(super) entries: Vec<(u8, Entry)>,
    /// No node goes to this page.
    pub(super) but: Option<u32>,
    /// Nodes that have ended with the last root.
    pub(super) ended: Vec<u32>,
    /// What nodes have that are made anew.
    pub(super) gathered: Gathered,
    todos: Todos,
    /// Room to read an entry of the log.
    pub(super) bytes: Vec<u8>,
}

/// Changes of a node in its place.
pub(super) struct InPlace {
    pub slot: u32,
    pub before: Seen,
    /// What it says then.
    pub after: Seen,
    /// Which of the entries that come are its own.
    pub added: Range<usize>,
}

/// An entry that comes to a node.
pub(super) struct Coming {
    /// Which of the node's entries it is; not known if the node is made anew.
    pub at: u8,
    pub fp: u8,
    pub entry: Entry,
    /// Where its key is among those of what is to be done.
    pub key: Range<usize>,
}

/// Nodes made anew.
pub(super) struct Reshaped {
    pub db: u8,
    /// Those that go: the slot of each, and its fence.
    pub old: Vec<(u32, Vec<u8>)>,
    pub fresh: Vec<Fresh>,
}

/// A node that comes.
#[derive(Default)]
pub(super) struct Fresh {
    pub fence: Vec<u8>,
    /// Which of the entries of nodes that come are its own.
    pub entries: Range<usize>,
    pub is_lost: bool,
}

/// What is to be done, in the order of the keys.
#[derive(Default)]
struct Todos {
    /// All keys.
    keys: Vec<u8>,
    all: Vec<Todo>,
    order: Vec<Ordered>,
    /// The node where each belongs, if there is one.
    slots: Vec<Option<u32>>,
}

/// Something to be done with a key.
#[derive(Clone, Debug)]
struct Todo {
    db: u8,
    key: Range<usize>,
    hash: u64,
    version: u64,
    what: What,
}

/// Where something comes among all: its database and the first bytes of its key, and which it is.
#[derive(Clone, Copy)]
struct Ordered {
    db: u8,
    head: u64,
    i: u32,
}

impl Todos {
    /// Puts them in order.
    fn arrange<R: ByteRegion>(&mut self, nodes: &Nodes<R>) {
        let Self { keys, all, order, slots } = self;
        order.clear();
        order.extend((0..).zip(all.iter()).map(|(i, one)| Ordered {
            db: one.db,
            head: head_of(&keys[one.key.clone()]),
            i,
        }));
        let (key, version) = (|i: u32| &keys[all[i as usize].key.clone()], |i: u32| all[i as usize].version);
        order.sort_unstable_by(|a, b| {
            let by_head = (a.db, a.head).cmp(&(b.db, b.head));
            by_head.then_with(|| (key(a.i), version(a.i)).cmp(&(key(b.i), version(b.i))))
        });
        slots.clear();
        slots.resize(order.len(), None);
        let key = |at: usize| {
            let one = &all[order[at].i as usize];
            Key { hash: one.hash, db: one.db, bytes: &keys[one.key.clone()] }
        };
        nodes.floors(order.len(), key, |at, slot| slots[at] = slot);
    }
    /// The one that comes there, if there are so many.
    fn at(&self, at: usize) -> Option<&Todo> {
        self.order.get(at).map(|one| &self.all[one.i as usize])
    }
    fn key(&self, one: &Todo) -> &[u8] {
        &self.keys[one.key.clone()]
    }
}

/// What.
#[derive(Clone, Copy, Debug)]
enum What {
    /// It has this record now; `None`: it is gone. The head, and where the record is.
    Newest(Option<Entry>, Head, u64),
    /// Its record is elsewhere.
    Move { from: u64, to: u64 },
    /// Its record at this place goes.
    Forget { from: u64 },
}

/// A node that is worked on.
pub(super) struct Working {
    pub db: u8,
    pub slot: Option<u32>,
    pub seen: Seen,
    /// Entries that go.
    pub cleared: u64,
    /// Which of the entries that come are its own.
    pub added: Range<usize>,
    /// A record was put.
    pub has_new: bool,
}

impl Working {
    /// A node as it is.
    pub(super) fn unchanged(db: u8, slot: Option<u32>, seen: Seen) -> Self {
        Self { db, slot, seen, cleared: 0, added: 0..0, has_new: false }
    }
    /// Entries that it has then.
    pub fn count(&self) -> usize {
        (self.seen.bitmap() & !self.cleared).count_ones() as usize + self.added.len()
    }
}

/// The entry of a record, if its fields are what an entry holds itself.
pub(super) fn inline_of(view: &RecordView<'_>) -> Option<Entry> {
    let head = &view.head;
    let is_plain = head.meta.kind() == RecordKind::Value
        && head.flags == 0
        && head.expire_at == 0
        && head.token == 0
        && head.meta.state() == 0;
    (is_plain && view.key.len() <= INLINE_BYTES && view.value.len() <= INLINE_BYTES)
        .then(|| Entry::inline(view.key, view.value, head.version))
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// What edits come to.
    pub(super) fn plan_nodes(
        &self,
        items: &mut [Item],
        flushed: &[u64; DATABASES],
        plan: &mut Plan<NodeChanges>,
    ) {
        plan.clear();
        let changes = &mut plan.changes;
        changes.in_place.clear();
        changes.coming.clear();
        changes.reshaped.clear();
        changes.entries.clear();
        changes.but = None;
        let mut todos = std::mem::take(&mut changes.todos);
        self.read_items(items, &mut todos, plan);
        todos.arrange(&self.directory);
        let mut at = 0;
        let mut fetched = 0;
        while at < todos.order.len() {
            let ahead = (at + AHEAD).min(todos.order.len());
            (fetched..ahead).for_each(|at| self.load_entry_of(&todos, at));
            fetched = ahead;
            at = self.plan_next(&todos, at, flushed, plan);
        }
        for item in items.iter() {
            match item.edit {
                Edit::Rewrite { page } => {
                    plan.changes.but = Some(page);
                    self.remake(item.hash as u32, true, flushed, plan);
                }
                Edit::Purge => self.remake(item.hash as u32, false, flushed, plan),
                _ => {}
            }
        }
        plan.changes.todos = todos;
    }

    /// Reads the keys of what is to be done, and the records.
    fn read_items(&self, items: &[Item], todos: &mut Todos, plan: &mut Plan<NodeChanges>) {
        let Todos { keys, all, .. } = todos;
        keys.clear();
        all.clear();
        let mut bytes = std::mem::take(&mut plan.changes.bytes);
        for item in items {
            let place = match item.edit {
                Edit::Newest(Newest { place, .. }) => place,
                Edit::Move { from, .. } | Edit::Forget { from } => from,
                Edit::Rewrite { .. } | Edit::Purge | Edit::Mend => continue,
            };
            let Some(view) = self.medium.read_entry(place, &mut bytes) else {
                // It was whole a while ago. Whose it was nobody knows any more.
                plan.is_uncertain = true;
                continue;
            };
            let what = match item.edit {
                Edit::Newest(Newest { head, .. }) => {
                    let is_gone = head.meta.kind() == RecordKind::Tombstone;
                    let entry =
                        inline_of(&view).unwrap_or_else(|| Entry::reference(item.hash, place, item.version));
                    What::Newest((!is_gone).then_some(entry), view.head, place)
                }
                Edit::Move { from, to } => What::Move { from, to },
                _ => What::Forget { from: place },
            };
            let start = keys.len();
            keys.extend_from_slice(view.key);
            let (db, version) = (view.head.meta.db(), item.version);
            all.push(Todo { db, key: start..keys.len(), hash: item.hash, version, what });
        }
        plan.changes.bytes = bytes;
    }

    /// Starts loading what may be the entry of a key that something is to be done with.
    fn load_entry_of(&self, todos: &Todos, at: usize) {
        let nodes = &self.directory;
        let Some((one, slot)) = todos.at(at).zip(todos.slots[at]) else { return };
        let may_be = nodes.slots.descriptor(slot).read().with_fp(fp_of(one.hash));
        if may_be != 0 {
            let entry = entry_at(may_be.trailing_zeros() as usize);
            self.medium.fetch(nodes.place_of_slot(slot) + entry as u64, ENTRY_BYTES);
        }
    }

    /// Plans what is to be done next, in the node where that belongs; how far that is.
    fn plan_next(
        &self,
        todos: &Todos,
        at: usize,
        flushed: &[u64; DATABASES],
        plan: &mut Plan<NodeChanges>,
    ) -> usize {
        let Some(one) = todos.at(at) else { return at };
        let (working, mut next) = self.work(one.db, todos.slots[at], (todos, at), flushed, plan);
        let first = todos.key(one);
        if is_to_go(&working) {
            let fence = self.fence_of_key(&working, first);
            self.let_go(&working, fence, plan);
        } else if working.has_new && self.is_to_be_shared(&working, first) {
            let fence = self.fence_of_key(&working, first);
            let more = |slot, plan: &mut Plan<NodeChanges>| {
                let (beside, end) = self.work(one.db, Some(slot), (todos, next), flushed, plan);
                next = end;
                beside
            };
            self.share(working, fence, &todos.keys, more, plan);
        } else if !self.change_in_place(&working, plan) {
            let fence = self.fence_of_key(&working, first);
            self.make_anew(&working, fence, &todos.keys, plan);
        }
        next
    }
    /// The fence of a node where a key belongs.
    pub(super) fn fence_of_key(&self, working: &Working, key: &[u8]) -> Vec<u8> {
        let found = working.slot.and_then(|_| self.directory.floor_with(working.db, key));
        found.map_or_else(Vec::new, |(_, fence)| fence)
    }

    /// Does in a node what is to be done there from one on; the node, and how far that is.
    fn work(
        &self,
        db: u8,
        slot: Option<u32>,
        (todos, at): (&Todos, usize),
        flushed: &[u64; DATABASES],
        plan: &mut Plan<NodeChanges>,
    ) -> (Working, usize) {
        let seen = slot.map_or_else(Seen::default, |slot| self.directory.slots.descriptor(slot).read());
        let mut working = Working::unchanged(db, slot, seen);
        let mut bytes = std::mem::take(&mut plan.changes.bytes);
        let start = plan.changes.coming.len();
        let mut end = at;
        while let Some(one) = todos.at(end).filter(|one| one.db == db && todos.slots[end] == slot) {
            end += 1;
            match one.what {
                What::Newest(entry, head, place) => {
                    let is_older = todos.at(end).is_some_and(|next| {
                        next.db == db
                            && todos.key(next) == todos.key(one)
                            && matches!(next.what, What::Newest(..))
                    });
                    if !is_older {
                        working.has_new = true;
                        let key = todos.key(one);
                        self.put_newest(
                            (one, key),
                            (entry, head, place),
                            &mut working,
                            (plan, &mut bytes),
                            flushed,
                        );
                    }
                }
                What::Move { from, to } => self.put_elsewhere(one, (from, to), &mut working, plan),
                What::Forget { from } => {
                    if let Some(i) = self.leading_to(&working, one.hash, from) {
                        working.cleared |= 1 << i;
                        self.weigh_at(from, -1, plan);
                    }
                }
            }
        }
        working.added = start..plan.changes.coming.len();
        plan.changes.bytes = bytes;
        (working, end)
    }

    /// A key's record is this one.
    fn put_newest(
        &self,
        (one, key): (&Todo, &[u8]),
        (entry, head, place): (Option<Entry>, Head, u64),
        working: &mut Working,
        (plan, bytes): (&mut Plan<NodeChanges>, &mut Vec<u8>),
        flushed: &[u64; DATABASES],
    ) {
        let is_extent = head.meta.kind() == RecordKind::Extent;
        if is_extent && let Some(view) = self.medium.read_entry(place, bytes) {
            plan.owners.extend(large::parts(view.value).map(|(part, _)| (part, place)));
        }
        let mut left = working.slot.map_or(0, |_| working.seen.with_fp(fp_of(one.hash)) & !working.cleared);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            match self.is_of_key(working, i, key, one.hash, bytes) {
                Belongs::Elsewhere => {}
                // It may have been the key's all the same: keys are counted anew.
                Belongs::PerhapsElsewhere => plan.is_uncertain = true,
                Belongs::Here(old) if old.version >= one.version => return,
                Belongs::Here(old) => {
                    working.cleared |= 1 << i;
                    self.uncount(&old, working.db, plan, flushed);
                }
                // Damaged, and as far as can be told the key's: it is replaced.
                Belongs::PerhapsHere => {
                    working.cleared |= 1 << i;
                    plan.is_uncertain = true;
                }
            }
        }
        let Some(entry) = entry.filter(|_| one.version > flushed[usize::from(working.db)]) else { return };
        let coming = Coming { at: 0, fp: fp_of(one.hash), entry, key: one.key.clone() };
        plan.changes.coming.push(coming);
        plan.count(&head, flushed, 1);
        if entry.place().is_none() {
            return;
        }
        let of_extent = if is_extent { self.medium.read_entry(place, bytes) } else { None };
        match of_extent {
            Some(view) => plan.weigh(place, &view, 1),
            None => plan.live.push((place, entry_bytes_of(&head))),
        }
        plan.deadlines.extend((head.expire_at != 0).then_some((place, head.expire_at)));
    }

    /// A record is somewhere else.
    fn put_elsewhere(
        &self,
        one: &Todo,
        (from, to): (u64, u64),
        working: &mut Working,
        plan: &mut Plan<NodeChanges>,
    ) {
        let Some(i) = self.leading_to(working, one.hash, from) else { return };
        working.cleared |= 1 << i;
        let entry = Entry::reference(one.hash, to, one.version);
        let coming = Coming { at: 0, fp: fp_of(one.hash), entry, key: one.key.clone() };
        plan.changes.coming.push(coming);
        self.weigh_at(from, -1, plan);
        self.weigh_at(to, 1, plan);
        let mut bytes = Vec::new();
        if let Some(view) = self.medium.read_entry(to, &mut bytes) {
            plan.deadlines.extend((view.head.expire_at != 0).then_some((to, view.head.expire_at)));
            if view.head.meta.kind() == RecordKind::Extent {
                plan.owners.extend(large::parts(view.value).map(|(part, _)| (part, to)));
            }
        }
    }

    /// The entry that leads to a place.
    fn leading_to(&self, working: &Working, hash: u64, place: u64) -> Option<usize> {
        let slot = working.slot?;
        let mut left = working.seen.with_fp(fp_of(hash)) & !working.cleared;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.directory.entry(slot, i).and_then(|entry| entry.place()) == Some(place) {
                return Some(i);
            }
        }
        None
    }
    /// Live bytes of the record at a place come or go.
    fn weigh_at(&self, place: u64, sign: i64, plan: &mut Plan<NodeChanges>) {
        if let Some(view) = self.medium.read_entry(place, &mut Vec::new()) {
            plan.weigh(place, &view, sign);
        }
    }
    /// A record counts no more.
    pub(super) fn uncount(
        &self,
        old: &Entry,
        db: u8,
        plan: &mut Plan<NodeChanges>,
        flushed: &[u64; DATABASES],
    ) {
        match old.place() {
            None => with_record(old, db, TIER, |view| plan.count(&view.head, flushed, -1)),
            Some(place) => match self.directory.record_of(old, place, &mut Vec::new()) {
                Some(view) => {
                    plan.count(&view.head, flushed, -1);
                    plan.weigh(place, &view, -1);
                }
                None => plan.is_uncertain = true,
            },
        }
    }

    /// Whether an entry is of a key.
    fn is_of_key(&self, working: &Working, i: usize, key: &[u8], hash: u64, bytes: &mut Vec<u8>) -> Belongs {
        let nodes = &self.directory;
        let Some(slot) = working.slot else { return Belongs::Elsewhere };
        let place = nodes.place_of_slot(slot) + entry_at(i) as u64;
        let Some(entry) = nodes.read_at(place) else {
            let fp = working.seen.fp(i);
            let is_of = |bytes: &[u8]| nodes.hasher.key(working.db, bytes).hash;
            let damaged = nodes.bytes_at(place);
            // Of a key that its fingerprint speaks for, and that is another one.
            let is_anothers = match Entry::key_of_damaged(&damaged) {
                DamagedKey::Hash(of) => (of ^ hash).count_ones() > FLIPPED_MAX && fp_of(of) == fp,
                DamagedKey::Bytes(of, length) => of[..length] != *key && fp_of(is_of(&of[..length])) == fp,
            };
            return if is_anothers { Belongs::PerhapsElsewhere } else { Belongs::PerhapsHere };
        };
        match entry.place() {
            None if entry.is_of(key) => Belongs::Here(entry),
            Some(place) if entry.key == hash => match nodes.record_of(&entry, place, bytes) {
                Some(view) if view.head.meta.db() == working.db && view.key == key => Belongs::Here(entry),
                Some(_) => Belongs::Elsewhere,
                None => Belongs::PerhapsHere,
            },
            _ => Belongs::Elsewhere,
        }
    }

    /// Puts what comes into places that are free; `false` if there are too few, or the node must not be changed.
    fn change_in_place(&self, working: &Working, plan: &mut Plan<NodeChanges>) -> bool {
        let nodes = &self.directory;
        let Some(slot) = working.slot else { return false };
        let seen = working.seen;
        if working.cleared == 0 && working.added.is_empty() {
            return true;
        }
        if seen.is_stale() {
            return false;
        }
        let (_, safe) = nodes.slots.times();
        let taken = seen.bitmap() | nodes.slots.descriptor(slot).retired(safe);
        let mut free = !taken & ((1 << (nodes.entries - seen.text_places())) - 1);
        if (free.count_ones() as usize) < working.added.len() {
            return false;
        }
        let (mut bitmap, mut fps) = (seen.bitmap() & !working.cleared, seen.fps);
        let let_go = nodes.slots.let_go(slot);
        for coming in &mut plan.changes.coming[working.added.clone()] {
            let best = if free & !let_go != 0 { free & !let_go } else { free };
            let i = best.trailing_zeros() as usize;
            free &= !(1 << i);
            bitmap |= 1 << i;
            set_fp(&mut fps, i, coming.fp);
            coming.at = i as u8;
        }
        let after = seen.with(bitmap, fps);
        let added = working.added.clone();
        plan.changes.in_place.push(InPlace { slot, before: seen, after, added });
        true
    }
}

/// Whose an entry is.
enum Belongs {
    /// The key's.
    Here(Entry),
    /// The key's, as far as can be told: it is damaged.
    PerhapsHere,
    /// Another's.
    Elsewhere,
    /// Another's, as far as can be told: it is damaged.
    PerhapsElsewhere,
}

impl<R: ByteRegion> ScmSpace<R, Nodes<R>> {
    /// A node goes elsewhere, or stays, without what a flush has forgotten.
    fn remake(&self, slot: u32, is_moved: bool, flushed: &[u64; DATABASES], plan: &mut Plan<NodeChanges>) {
        let nodes = &self.directory;
        let Some((db, fence)) = nodes.node_of(slot) else { return };
        let seen = nodes.slots.descriptor(slot).read();
        let mut cleared = 0;
        for i in (0..nodes.entries).filter(|i| seen.bitmap() >> i & 1 == 1) {
            let Some(entry) = nodes.entry(slot, i) else { continue };
            if entry.version <= flushed[usize::from(db)] {
                cleared |= 1 << i;
                entry.place().into_iter().for_each(|place| self.weigh_at(place, -1, plan));
            }
        }
        let working = Working { cleared, ..Working::unchanged(db, Some(slot), seen) };
        if is_to_go(&working) {
            self.let_go(&working, fence, plan);
            return;
        }
        // What only loses entries needs no room.
        if !is_moved && self.change_in_place(&working, plan) {
            return;
        }
        self.make_anew(&working, fence, &[], plan);
    }

    /// A node goes that has nothing any more, if there is one: its keys belong to the one before it then, which has none of them.
    fn let_go(&self, working: &Working, fence: Vec<u8>, plan: &mut Plan<NodeChanges>) {
        if let Some(slot) = working.slot {
            let old = vec![(slot, fence)];
            plan.changes.reshaped.push(Reshaped { db: working.db, old, fresh: Vec::new() });
        }
    }
}

/// Whether a node has nothing any more, or there is none and nothing comes.
fn is_to_go(working: &Working) -> bool {
    working.count() == 0 && !working.seen.is_lost()
}

/// The first eight bytes of a key, which compare as it does where they differ.
pub(super) fn head_of(key: &[u8]) -> u64 {
    let mut word = [0; 8];
    let bytes = key.len().min(8);
    word[..bytes].copy_from_slice(&key[..bytes]);
    u64::from_be_bytes(word)
}

impl NodeChanges {
    /// Whether something is to be done already with the node before the one that is planned: the last thing that was.
    pub(super) fn is_planned(&self, slot: u32) -> bool {
        self.in_place.last().is_some_and(|change| change.slot == slot)
            || self.reshaped.last().is_some_and(|last| last.old.iter().any(|(old, _)| *old == slot))
    }
}
