//! Cleaning (SCMKV section 3.5): what is live in a page moves, and the page is free.
//!
//! ```text
//! copies, chains | fence | buckets | fence | the page's line: free | every session has passed | a block of the log
//! ```
//!
//! Pages are chosen as a log-structured file system chooses segments: by the room that is gained for what is read and written, and by age.

use std::sync::atomic::Ordering::*;

use terrace_engine::Progress;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Kind as RecordKind, NewRecord, RecordView};
use terrace_engine::space::Context;
use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};
use terrace_media::ByteRegion;

use crate::apply::{Edit, Item, entry_bytes_of};
use crate::directory::Directory;
use crate::keeper::Keeper;
use crate::large;
use crate::layout::{Kind, encode_entry};
use crate::space::ScmSpace;

/// With fewer free pages than this, or than one in so many, pages are cleaned.
const FREE_PAGES: usize = 8;
const FREE_PART: usize = 16;
/// Pages that may be on their way to be free.
const LEAVING: usize = 2;
/// With more than this of it live a page gains nothing. The last that a store takes is dear: a page in 25 is free after so many were moved.
const LIVE_PERCENT: u64 = 96;
/// With less room than this, either: what is moved does not fill pages to the last byte.
const ROOM_LEAST: u64 = 240;
/// With no more than this of it live a page is cleaned though that may be in vain.
const CHEAP_PERCENT: u64 = 75;
/// Of the pages that would be free if all others were as full as that, so many in so many are cleaned for.
const REACHABLE_PART: (usize, usize) = (3, 4);

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Whether pages are to be cleaned.
    fn is_short(&self) -> bool {
        self.lacks_page.load(Relaxed) || self.log.free_blocks() < self.free_enough()
    }
    /// So many free pages are enough while nobody lacks one. More than there can be would be cleaned for without an end.
    fn free_enough(&self) -> usize {
        let pages = self.pages.table.len();
        let live = self.live_bytes.load(Relaxed).max(0) as u64;
        let (reachable, of) = REACHABLE_PART;
        let most = pages.saturating_sub(live.div_ceil(self.live_most()) as usize) * reachable / of;
        (FREE_PAGES + pages / FREE_PART).min(pages / 3).min(most)
    }
    /// With more than this of it live a page gains nothing.
    fn live_most(&self) -> u64 {
        let longest = self.longest() as u64;
        (longest / 100 * LIVE_PERCENT).min(longest.saturating_sub(ROOM_LEAST)).max(1)
    }
    /// Whether moving what lives is in vain, as long as no round waits for a page: whoever else does is refused.
    fn is_in_vain(&self) -> bool {
        let is_waited_for = self.last_given.load(Relaxed) > self.completed.load(Relaxed);
        let is_full = self.is_over(self.longest() as u64) && !self.pages.has_unknown();
        // Deletions may take the reserve.
        let has_reserve = self.log.free_blocks() >= self.reserve_pages() / 2;
        (is_full || self.gains_nothing()) && has_reserve && !is_waited_for
    }

    /// Makes words safe that a dead process may have stored: before that no page becomes free, for after a power cut an older word may lead
    /// there.
    pub(crate) fn secure_step(&self, keeper: &mut Keeper<T::Changes>) -> Progress {
        let Some(from) = keeper.unsecured else { return Progress::Idle };
        keeper.unsecured = self.directory.secure(from);
        Progress::Worked
    }

    /// A part of the cleaning.
    pub(crate) fn clean_step(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context) -> Progress {
        if self.secure_step(keeper) == Progress::Worked {
            return Progress::Worked;
        }
        if !self.is_short() {
            return Progress::Idle;
        }
        // What was cleaned is on its way.
        if keeper.leaving_pages.len() >= LEAVING {
            return Progress::Blocked;
        }
        if self.log.free_blocks() >= self.reserve_pages() + self.wanted_pages.load(Relaxed) {
            self.wanted_pages.store(0, Relaxed);
            self.fruitless.store(0, Relaxed);
            keeper.live_in_vain = None;
            if self.lacks_page.swap(false, Relaxed) {
                // Who waits for them comes first: what moves next takes one.
                return Progress::Worked;
            }
        }
        if self.gains_nothing() {
            let learned = self.gain_again(keeper);
            if learned != Progress::Idle {
                return learned;
            }
        }
        // Moving the same things round and round would wear the medium out.
        let is_in_vain = self.is_in_vain();
        let most = if is_in_vain { self.longest() as u64 / 100 * CHEAP_PERCENT } else { self.live_most() };
        let Some(victim) = self.victim(keeper, most) else {
            if !is_in_vain {
                self.fruitless.store(u64::MAX / 2, Relaxed);
            }
            return Progress::Idle;
        };
        // After a crash one may seem empty that is not, and what moving it takes would be for nothing.
        if !self.pages.page(victim).is_exact.load(Relaxed) {
            return self.learn(keeper, victim);
        }
        self.fruitless.fetch_add(1, Relaxed);
        if !self.empty(keeper, victim) {
            return Progress::Blocked;
        }
        self.leave(keeper, victim, context);
        Progress::Worked
    }

    /// Pages were cleaned in vain for long: counts what is not known, for who waits for room is not refused before; and once less lives it
    /// begins anew.
    fn gain_again(&self, keeper: &mut Keeper<T::Changes>) -> Progress {
        let learned = self.learn_step(keeper);
        let live = self.live_bytes.load(Relaxed).max(0) as u64;
        let in_vain = *keeper.live_in_vain.get_or_insert(live);
        if learned != Progress::Idle || live + self.longest() as u64 <= in_vain {
            keeper.live_in_vain = None;
            self.fruitless.store(0, Relaxed);
        }
        learned
    }

    /// Cleans a page while there are no sessions; `false` if that gains nothing.
    pub(crate) fn clean_alone(&self, keeper: &mut Keeper<T::Changes>) -> bool {
        while self.secure_step(keeper) == Progress::Worked {}
        // No page may be left for what moves: those with least of it come first, whatever their age, once that is counted.
        while self.learn_step(keeper) == Progress::Worked {}
        let mut victims = self.victims(keeper, self.live_most());
        victims.sort_by_key(|victim| self.pages.page(*victim).live_bytes());
        victims.into_iter().any(|victim| {
            let is_empty = self.empty(keeper, victim);
            if is_empty {
                self.directory.page_leaves(victim);
                self.pages.leave(&self.medium, victim);
                self.pages.page(victim).is_leaving.store(false, Relaxed);
                self.give_page(keeper, victim);
                self.cleaned.fetch_add(1, Relaxed);
            }
            is_empty
        })
    }

    /// Nothing leads to a page any more.
    fn leave(&self, keeper: &mut Keeper<T::Changes>, page: u32, context: &dyn Context) {
        let live = self.pages.page(page).live_bytes();
        self.live_bytes.fetch_sub(live as i64, Relaxed);
        self.directory.page_leaves(page);
        self.pages.leave(&self.medium, page);
        keeper.leaving_pages.push_back((context.advance_epoch(), page));
        self.cleaned.fetch_add(1, Relaxed);
    }

    /// The page whose cleaning gains most, of which no more lives than that.
    fn victim(&self, keeper: &Keeper<T::Changes>, most: u64) -> Option<u32> {
        let longest = self.longest() as u64;
        let newest = self.pages.table.iter().map(|page| page.order.load(Relaxed)).max().unwrap_or(0);
        // (1 - u) * age / (1 + u), in whole numbers.
        self.victims(keeper, most).into_iter().max_by_key(|number| {
            let page = self.pages.page(*number);
            let live = page.live_bytes().min(longest);
            let age = newest.saturating_sub(page.order.load(Relaxed)) + 1;
            ((u128::from(longest - live) * u128::from(age)) << 20) / u128::from(longest + live)
        })
    }

    /// The pages of which no more lives than that.
    fn victims(&self, keeper: &Keeper<T::Changes>, most: u64) -> Vec<u32> {
        // As long as this is held no session begins a page: one that has begun is open, or pinned.
        let filled = self.parts.lock();
        let completed = self.completed.load(SeqCst);
        let is_one = |number: &u32| {
            let page = self.pages.page(*number);
            let is_open = keeper.fills(*number) || filled.is_some_and(|bump| bump.is_of(*number));
            let may_be = match page.kind() {
                Kind::Free | Kind::Lines => false,
                Kind::Archived | Kind::Moved | Kind::Chains | Kind::Nodes => true,
                // What the log has beyond the table may describe them.
                Kind::Parts if self.is_redoing.load(Relaxed) => false,
                Kind::Parts => page.pins.load(SeqCst) == 0 && page.round.load(SeqCst) <= completed,
            };
            let gains = page.live_bytes() <= most || !page.is_exact.load(Relaxed);
            let has_room = page.kind() != Kind::Nodes || self.directory.can_move(*number, page.live_bytes());
            may_be && gains && has_room && !is_open && !page.is_stuck.load(Relaxed)
        };
        (0..self.pages.table.len() as u32).filter(is_one).collect()
    }

    /// Moves what is live in a page; `false` if that can't be now.
    fn empty(&self, keeper: &mut Keeper<T::Changes>, number: u32) -> bool {
        let page = self.pages.page(number);
        let was_exact = page.is_exact.load(Relaxed);
        let expected = page.live_bytes();
        let flushed = keeper.root.flushed;
        let (mut items, mut copies, mut live) = (Vec::new(), Vec::new(), 0);
        match page.kind() {
            Kind::Free | Kind::Lines => return false,
            Kind::Chains | Kind::Nodes => T::own_of_page(self, number, &flushed, |bytes, item, _| {
                live += bytes as u64;
                items.extend(item);
            }),
            Kind::Parts => return self.empty_of_parts(keeper, number),
            Kind::Archived | Kind::Moved => self.records_of(number, |place, view| {
                let key = self.directory.key_of(view);
                if !self.directory.leads_to(&key, place) {
                    return;
                }
                live += entry_bytes_of(&view.head) as u64;
                let is_forgotten = view.head.version <= flushed[usize::from(view.head.meta.db())];
                let edit = if is_forgotten {
                    Edit::Forget { from: place }
                } else {
                    let mut record = Vec::new();
                    view.to_new().encode(&mut record);
                    copies.push((items.len(), record));
                    Edit::Move { from: place, to: 0 }
                };
                items.push(Item { hash: key.hash, version: view.head.version, edit });
            }),
        }
        if was_exact && live < expected {
            // Something the table leads to was not met: it can't be read, and must not be written over.
            page.is_stuck.store(true, Relaxed);
            tracing::warn!(
                "page {number} holds {expected} live bytes, and {live} of them can be read: it stays as it is"
            );
            return false;
        }
        let mut entry = Vec::new();
        for (i, record) in copies {
            encode_entry(&record, &mut entry);
            let Some(to) =
                self.take_place(&mut keeper.moved, (&mut keeper.spare, 0), Kind::Moved, entry.len())
            else {
                return false;
            };
            self.medium.region.write_nt(self.medium.at(to), &entry);
            self.moved_bytes.fetch_add(entry.len() as u64, Relaxed);
            if let Edit::Move { to: place, .. } = &mut items[i].edit {
                *place = to;
            }
        }
        self.now_known(number, live);
        self.edit(keeper, items)
    }

    /// Moves the parts of a page that are live, each with the record that describes it; `false` if one has to stay for now.
    fn empty_of_parts(&self, keeper: &mut Keeper<T::Changes>, number: u32) -> bool {
        let flushed = keeper.root.flushed;
        let (mut owners, mut live) = (Vec::new(), 0);
        self.parts_of(number, |place, word, bytes| {
            if let Some(owner) = self.owner_of(word, place, &flushed) {
                live += large::part_bytes(bytes) as u64;
                owners.push(owner);
            }
        });
        let page = self.pages.page(number);
        if page.is_exact.load(Relaxed) && live < page.live_bytes() {
            page.is_stuck.store(true, Relaxed);
            tracing::warn!(
                "page {number} holds parts of large values whose heads can't be read: it stays as it is"
            );
            return false;
        }
        self.now_known(number, live);
        owners.sort_unstable();
        owners.dedup();
        owners.into_iter().all(|owner| self.move_value(keeper, number, owner))
    }

    /// Moves the parts of a value that lie in a page, and the record that describes it.
    fn move_value(&self, keeper: &mut Keeper<T::Changes>, number: u32, owner: u64) -> bool {
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let Some(view) = self.medium.read_entry(owner, &mut bytes) else { return false };
        let key = self.directory.key_of(&view);
        // A record that the table does not lead to yet may describe the same parts.
        if self.is_in_front(&view) {
            return false;
        }
        let mut description = view.value.to_vec();
        for (place, length) in large::parts(view.value) {
            if self.medium.page_of(place) != Some(number) {
                continue;
            }
            let whole = large::part_bytes(length);
            value.resize(whole, 0);
            self.medium.region.read(self.medium.at(place), &mut value);
            let to = self.take_place(&mut self.parts.lock(), (&mut keeper.spare, 0), Kind::Parts, whole);
            let Some(to) = to else { return false };
            self.medium.region.write_nt(self.medium.at(to), &value);
            large::set_place(&mut description, place, to);
            self.moved_bytes.fetch_add(whole as u64, Relaxed);
        }
        let (mut record, mut entry) = (Vec::new(), Vec::new());
        NewRecord { value: &description, ..view.to_new() }.encode(&mut record);
        encode_entry(&record, &mut entry);
        let Some(to) = self.take_place(&mut keeper.moved, (&mut keeper.spare, 0), Kind::Moved, entry.len())
        else {
            return false;
        };
        self.medium.region.write_nt(self.medium.at(to), &entry);
        self.medium.region.fence();
        let item = Item { hash: key.hash, version: view.head.version, edit: Edit::Move { from: owner, to } };
        // So that nobody writes the key meanwhile, who would describe what is about to be free.
        self.front.update(
            &key,
            |address| self.is_of(address, &key),
            |looked| (Change::Keep, looked == Lookup::Absent && self.edit(keeper, vec![item])),
        )
    }

    /// Whether a record of the front is of this key.
    fn is_of(&self, address: Address, key: &Key<'_>) -> Verdict {
        let mut bytes = Vec::new();
        let db = self.dram.key_of(address, &mut bytes);
        if (db, &bytes[..]) == (key.db, key.bytes) { Verdict::Match } else { Verdict::Differs }
    }

    /// Whether the front has something of a record's key.
    pub(crate) fn is_in_front(&self, view: &RecordView<'_>) -> bool {
        self.has_in_front(&self.directory.key_of(view))
    }
    /// Whether the front has something of a key.
    pub(crate) fn has_in_front(&self, key: &Key<'_>) -> bool {
        self.front.get(key, |address| self.is_of(address, key)) != Lookup::Absent
    }

    /// What is live in a page was counted.
    fn now_known(&self, number: u32, live: u64) {
        let page = self.pages.page(number);
        let before = page.live.swap(live as i64, Relaxed);
        self.live_bytes.fetch_add(live as i64 - before, Relaxed);
        page.is_exact.store(true, Relaxed);
        page.is_scanned.store(true, Relaxed);
    }

    /// Where the record is that the table leads to and that describes this part.
    fn owner_of(&self, word: u64, place: u64, flushed: &[u64; DATABASES]) -> Option<u64> {
        let (mut owner, mut bytes) = (None, Vec::new());
        self.directory.owners_of_parts(word, |at| {
            if let Some(view) = self.medium.read_entry(at, &mut bytes)
                && view.head.meta.kind() == RecordKind::Extent
                && view.head.version > flushed[usize::from(view.head.meta.db())]
                && large::parts(view.value).any(|(part, _)| part == place)
            {
                owner = Some(at);
            }
        });
        owner
    }

    /// Counts what is live in a page of which that is an estimate, and lets go what a flush has forgotten: one page a step.
    pub(crate) fn learn_step(&self, keeper: &mut Keeper<T::Changes>) -> Progress {
        let newest = keeper.root.flushed.iter().copied().max().unwrap_or(0);
        let count = self.pages.table.len() as u32;
        for _ in 0..count {
            let number = keeper.next_unknown % count;
            keeper.next_unknown = number + 1;
            let page = self.pages.page(number);
            let is_known = page.is_exact.load(Relaxed) && page.purged.load(Relaxed) >= newest;
            if !page.kind().holds_nothing() && !is_known && !page.is_leaving.load(Relaxed) {
                return self.learn(keeper, number);
            }
        }
        self.purged.fetch_max(newest, Relaxed);
        Progress::Idle
    }

    /// The same of a certain page.
    fn learn(&self, keeper: &mut Keeper<T::Changes>, number: u32) -> Progress {
        let flushed = keeper.root.flushed;
        let page = self.pages.page(number);
        let (mut live, mut dead) = (0, Vec::new());
        match page.kind() {
            Kind::Free | Kind::Lines => {}
            Kind::Archived | Kind::Moved => self.records_of(number, |place, view| {
                let key = self.directory.key_of(view);
                if self.directory.leads_to(&key, place) {
                    live += entry_bytes_of(&view.head) as u64;
                    if view.head.version <= flushed[usize::from(view.head.meta.db())] {
                        let edit = Edit::Forget { from: place };
                        dead.push(Item { hash: key.hash, version: view.head.version, edit });
                    }
                }
            }),
            Kind::Chains | Kind::Nodes => {
                T::own_of_page(self, number, &flushed, |bytes, item, is_forgotten| {
                    live += bytes as u64;
                    let purged = item.filter(|_| is_forgotten);
                    dead.extend(purged.map(|item| Item { edit: Edit::Purge, ..item }));
                })
            }
            Kind::Parts => self.parts_of(number, |place, word, bytes| {
                if self.owner_of(word, place, &[0; DATABASES]).is_some() {
                    live += large::part_bytes(bytes) as u64;
                }
            }),
        }
        self.now_known(number, live);
        if !dead.is_empty() && !self.edit(keeper, dead) {
            self.lacks_page.store(true, Relaxed);
            return Progress::Blocked;
        }
        page.purged.store(flushed.iter().copied().max().unwrap_or(0), Relaxed);
        Progress::Worked
    }
}
