//! Work that no session waits for: chunks become free, what has expired is found, and victims, and pages are emptied for other classes.

use std::sync::atomic::Ordering::*;

use terrace_engine::record::NewRecord;
use terrace_engine::space::{Background, Context, Fetch, FoundKeys, ReadAtOnce, Sizing, Want};
use terrace_engine::{MoreRoom, Progress, StoreError, TierStats};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};
use terrace_media::{Buffer, ByteRegion};

use crate::layout::{CHUNK_HEAD_BYTES, FRONT_BYTES, Place, Sort};
use crate::pages::{Alloc, NONE};
use crate::space::{CHUNK_BYTES_MIN, HeapSpace};

/// Pages looked at in one step of the search.
const PAGES_A_STEP: usize = 8;
/// Keys found in one step, about.
const FOUND: usize = 256;
/// One search for victims in so many empties a page of another class.
const TURNS: u32 = 16;
/// Victims that one step is content with.
const VICTIMS: usize = 32;
/// A page is looked at again no sooner than this, unless somebody waits for room.
const AGAIN_MS: u64 = 500;

/// Chunks that wait for an epoch.
pub(crate) struct Waiting {
    epoch: u64,
    /// It is the second one.
    is_last: bool,
    chunks: Vec<u64>,
}

/// Where searches go on.
#[derive(Default)]
pub(crate) struct Hand {
    /// For what has expired.
    expired: usize,
    /// For victims.
    victims: usize,
    /// Times that somebody asked for those.
    turn: u32,
    /// A round of the first found nothing to wait for, up to this time.
    quiet_until_ms: u64,
    /// The newest whole-database flush whose records the last round looked for.
    flushed: u64,
}

impl<R: ByteRegion> HeapSpace<R> {
    /// What was retired is free once every session has passed twice: it was retired inside the critical section that makes the index
    /// forget it, which others may enter an epoch before the end of.
    fn reclaim(&self, context: &dyn Context) -> Progress {
        let mut fresh = self.take_retired();
        if let Some(table) = &self.table {
            let lines = std::mem::take(&mut *table.emptied.lock());
            let known = lines.into_iter().filter(|line| self.forget_line(*line));
            let before = fresh.len();
            fresh.extend(known);
            self.retired.fetch_add((fresh.len() - before) as u64, Relaxed);
        }
        let mut limbo = self.limbo.lock();
        let mut progress = Progress::Idle;
        if !fresh.is_empty() {
            limbo.push_back(Waiting { epoch: context.advance_epoch(), is_last: false, chunks: fresh });
            progress = Progress::Worked;
        }
        while limbo.front().is_some_and(|waiting| context.epoch_passed(waiting.epoch)) {
            let Some(Waiting { is_last, chunks: list, .. }) = limbo.pop_front() else { break };
            if !is_last {
                limbo.push_back(Waiting { epoch: context.advance_epoch(), is_last: true, chunks: list });
                continue;
            }
            let mut alloc = self.pages.alloc();
            list.iter().for_each(|offset| self.pages.give(&mut alloc, *offset));
            self.retired.fetch_sub(list.len() as u64, Relaxed);
            progress = Progress::Worked;
        }
        if progress == Progress::Idle && !limbo.is_empty() { Progress::Blocked } else { progress }
    }

    /// Pages that nothing was to be looked for in may have something now.
    pub(crate) fn look_for_expired(&self) {
        self.hand.lock().quiet_until_ms = 0;
    }

    /// The records of a page, each with where it is and what its head says.
    pub(crate) fn records_of(&self, page: u32, mut each: impl FnMut(u64, &crate::layout::Front)) {
        for (size, chunk) in self.pages.chunks(page) {
            let offset = self.pages.offset(page, size, chunk);
            let is_taken = self.pages.table[page as usize].taken.is_set(chunk);
            if !is_taken || self.pages.chunk_bytes(size) < CHUNK_BYTES_MIN {
                continue;
            }
            let mut bytes = [0; FRONT_BYTES];
            self.medium.region.read(self.medium.at(offset), &mut bytes);
            let place = self.pages.place(offset);
            let front = place.front(&bytes);
            let word = terrace_blocks::u64_at(&bytes, 0);
            if front.sound && place.sort_of(word, front.version).is_some() {
                each(offset, &front);
            }
        }
    }

    fn key_of(&self, offset: u64, key: &mut Buffer) -> bool {
        key.clear();
        matches!(self.fetch_chunk(offset, None, Want::Head, key), Fetch::Match(_))
    }

    /// The emptiest page of another class that has room for all of it elsewhere; a class that has none gains by emptying it. Of objects:
    /// one whose free lines would come together.
    pub(crate) fn page_to_empty(&self, alloc: &Alloc, wanted: usize) -> Option<u32> {
        if self.pages.has_objects() {
            return self.pages.page_to_gather(alloc, wanted);
        }
        let classes = self.pages.classes.count();
        let has_room: Vec<bool> = (0..classes)
            .map(|class| {
                class != wanted && self.pages.free_chunks(alloc, class) >= self.pages.chunks_in(class)
            })
            .collect();
        if !has_room.contains(&true) {
            return None;
        }
        let used = |page: u32| self.pages.table[page as usize].used.load(Relaxed);
        // Those behind the end are emptied for its sake, and give nobody a page.
        let pages = 0..self.pages.end() as u32;
        let candidates = pages.filter(|&page| {
            let is_of_one = self.pages.class_of(page).is_some_and(|class| has_room[class]);
            let entry = &self.pages.table[page as usize];
            is_of_one && used(page) > 0 && !entry.stuck.load(Relaxed) && !entry.unknown.load(Relaxed)
        });
        candidates.min_by_key(|page| used(*page))
    }

    /// Whether what a write found too little of is there now, as far as can be told.
    fn is_there(&self, alloc: &mut Alloc, wanted: usize, pages: usize) -> bool {
        if !self.pages.has_objects() {
            let has_chunk = pages == 0 && self.pages.free_chunks(alloc, wanted) > 0;
            return has_chunk || alloc.free.len() >= pages.max(1);
        }
        // Whether several find room only who takes them can tell.
        let has_all = pages > 0 && self.retired.load(Relaxed) == 0 && self.gathered.swap(false, Relaxed);
        has_all || pages == 0 && self.pages.has_stretch(alloc, wanted)
    }

    /// Moves what lives in a page of another class, if a class has no room.
    fn empty_a_page(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let wanted = self.wanted.load(Relaxed);
        if wanted == NONE {
            return Progress::Idle;
        }
        // Nothing that was retired becomes free meanwhile, and so no chunk that is read here is filled again.
        let Some(_nothing_is_freed) = self.limbo.try_lock() else { return Progress::Idle };
        let victim = {
            let mut alloc = self.pages.alloc();
            let pages = self.wanted_pages.load(Relaxed);
            if self.is_there(&mut alloc, wanted as usize, pages) {
                self.wanted.store(NONE, Relaxed);
                self.wanted_pages.store(0, Relaxed);
                return Progress::Idle;
            }
            // What was retired may make room by itself.
            if !alloc.shut.is_empty() || self.retired.load(Relaxed) > 0 {
                return Progress::Idle;
            }
            let Some(victim) = self.page_to_empty(&alloc, wanted as usize) else { return Progress::Idle };
            alloc.shut.push(victim);
            if self.pages.has_objects() {
                self.pages.unlist(&mut alloc, victim);
            }
            victim
        };
        let entry = &self.pages.table[victim as usize];
        let before = u64::from(entry.used.load(Relaxed));
        let moved =
            if self.may_leave(victim, before) { self.move_records(victim, index, context) } else { 0 };
        self.gathered.store(true, Relaxed);
        self.pages.open_again(&mut self.pages.alloc(), victim);
        if moved < before {
            entry.stuck.store(true, Relaxed);
        }
        self.emptied.fetch_add(1, Relaxed);
        Progress::Worked
    }

    /// Whether all that is taken of a page can move, which has so much: of objects it takes a page to move to, for which it must be left.
    fn may_leave(&self, page: u32, used: u64) -> bool {
        let mut lines = 0;
        self.records_of(page, |_, front| lines += front.lines() as u64);
        !self.pages.has_objects() || lines == used
    }

    /// A chunk of this size for a record that moves.
    pub(crate) fn take_to_move(&self, size: usize) -> Option<u64> {
        if self.pages.has_objects() {
            return self.take_object_to_move(size);
        }
        self.pages.take(&mut self.pages.alloc(), &self.medium, size)
    }

    /// Moves a page's records to other chunks of their sizes; how much it had of them, as pages count what is used.
    pub(crate) fn move_records(&self, page: u32, index: &AnyIndex, context: &dyn Context) -> u64 {
        let mut offsets = Vec::new();
        self.records_of(page, |offset, _| offsets.push(offset));
        let (mut moved, hasher) = (0, context.hasher());
        for from in offsets {
            let Some(bytes) = self.whole(from) else { continue };
            let Some(view) = self.view(from, &bytes) else { continue };
            let Some((_, size, _)) = self.pages.number(from) else { continue };
            let Some(to) = self.take_to_move(size) else { break };
            let key = hasher.key(view.head.meta.db(), view.key);
            let key = Key { hash: key.hash, ..key };
            if self.move_record(index, &key, (from, to), &view.to_new()) {
                moved += if self.pages.has_objects() { size as u64 } else { 1 };
                self.moved.fetch_add(1, Relaxed);
                self.retire(from);
            } else {
                self.pages.give(&mut self.pages.alloc(), to);
            }
        }
        moved
    }

    /// Puts a copy of a record elsewhere and lets the index lead there. Inside the key's critical section, so that no write of the key
    /// comes between: the copy would outlive what that frees.
    pub(crate) fn move_record(
        &self,
        index: &AnyIndex,
        key: &Key<'_>,
        (from, to): (u64, u64),
        record: &NewRecord<'_>,
    ) -> bool {
        let place = self.pages.place(to);
        let check = self.hasher.check(record.db, record.key);
        let mut chunk = Vec::new();
        place.encode(Sort::Record, key.hash, check, record, &mut chunk);
        self.medium.region.write_nt(self.medium.at(to) + 8, &chunk[8..]);
        self.medium.region.fence();
        let mut is_moved = false;
        let is_same = || self.read_front(from).is_some_and(|(_, front)| front.version == record.version);
        let verify = |address: Address| match address.raw() == from && is_same() {
            true => Verdict::Match,
            false => Verdict::Differs,
        };
        index.update(key, verify, |lookup| match lookup {
            Lookup::Found(_) => {
                self.medium.store_word(to, place.word(Sort::Record, record.version));
                self.medium.region.fence();
                if let Some(table) = &self.table {
                    table.note(key.hash, to, record.version, record.expire_at != 0);
                } else {
                    let old: Place = self.pages.place(from);
                    self.medium.free(std::iter::once((from, old.free())));
                }
                is_moved = true;
                (Change::Set(Address::new(to)), ())
            }
            _ => (Change::Keep, ()),
        });
        if is_moved && record.expire_at != 0 {
            self.note_expiry(to, record.expire_at);
        }
        is_moved
    }
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Victims in pages of some classes, about `count`: what was read since the hand came by is passed over once.
    fn victims_of(&self, takes: &dyn Fn(usize) -> bool, count: usize, found: &mut FoundKeys<'_>) -> usize {
        let mut hand = self.hand.lock();
        let pages = self.pages.table.len();
        let (mut keys, mut key) = (0, Buffer::new());
        for _ in 0..2 * pages {
            let page = hand.victims as u32;
            hand.victims = (hand.victims + 1) % pages.max(1);
            if !self.pages.class_of(page).is_some_and(takes) {
                continue;
            }
            let seen = &self.pages.table[page as usize].seen;
            self.records_of(page, |offset, front| {
                let is_seen = self.pages.number(offset).is_some_and(|(_, _, chunk)| seen.clear(chunk));
                if keys < count && !is_seen && self.key_of(offset, &mut key) {
                    keys += 1;
                    found(front.meta.db(), &key);
                }
            });
            if keys >= count.min(VICTIMS) {
                break;
            }
        }
        keys
    }

    /// All keys of the next page that has some, of any class but one: it will be free for that.
    fn victims_of_a_page(&self, but: u32, found: &mut FoundKeys<'_>) {
        let mut hand = self.hand.lock();
        let pages = self.pages.table.len();
        let (mut keys, mut key) = (0, Buffer::new());
        for _ in 0..pages {
            let page = hand.victims as u32;
            hand.victims = (hand.victims + 1) % pages.max(1);
            if self.pages.class_of(page).is_none_or(|class| class as u32 == but) {
                continue;
            }
            self.records_of(page, |offset, front| {
                if self.key_of(offset, &mut key) {
                    keys += 1;
                    found(front.meta.db(), &key);
                }
            });
            if keys > 0 {
                return;
            }
        }
    }
}

impl<R: ByteRegion> Background for HeapSpace<R> {
    fn step(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let reclaimed = self.reclaim(context);
        let parts: [&dyn Fn() -> Progress; 3] =
            [&|| self.empty_a_page(index, context), &|| self.shrink(index, context), &|| self.learn(context)];
        let worked = parts.into_iter().map(|part| part()).find(|progress| *progress != Progress::Idle);
        worked.unwrap_or(reclaimed)
    }

    fn find_expired(&self, _index: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        let Some(mut hand) = self.hand.try_lock() else { return Progress::Idle };
        let now_ms = context.now_ms();
        let flushed = (0..16).map(|db| context.flush_version(db)).max().unwrap_or(0);
        let hurries = self.wanted.load(Relaxed) != NONE;
        if flushed == hand.flushed && now_ms < hand.quiet_until_ms && !hurries {
            self.may_gain.store(context.has_unpurged(), Relaxed);
            return Progress::Idle;
        }
        // Who waits for room has pages looked at that were looked at just now.
        let due_ms = if hurries { now_ms + AGAIN_MS - 1 } else { now_ms };
        let count = self.pages.table.len();
        let (mut keys, mut key, mut looked) = (0, Buffer::new(), 0);
        while keys < FOUND && looked < PAGES_A_STEP && hand.expired < count {
            let entry = &self.pages.table[hand.expired];
            let due = entry.min_expire.load(Acquire) <= due_ms;
            let is_purged = entry.purged.load(Relaxed) >= flushed;
            if (due || !is_purged) && entry.used.load(Relaxed) > 0 {
                looked += 1;
                let (mut next_ms, mut left) = (u64::MAX, false);
                entry.min_expire.store(u64::MAX, Release);
                self.records_of(hand.expired as u32, |offset, front| {
                    let db = front.meta.db();
                    let is_dead = front.version <= context.flush_version(db);
                    let is_over = front.expire_at != 0 && front.expire_at <= now_ms;
                    if is_dead || is_over {
                        left = true;
                        if self.key_of(offset, &mut key) {
                            keys += 1;
                            found(db, &key);
                        }
                    } else if front.expire_at != 0 {
                        next_ms = next_ms.min(front.expire_at);
                    }
                });
                // What was found may stay, where it can't be deleted now.
                let again_ms = if left { now_ms + AGAIN_MS } else { next_ms.max(now_ms + AGAIN_MS) };
                entry.min_expire.fetch_min(again_ms, Release);
                if !left {
                    entry.purged.fetch_max(flushed, Relaxed);
                }
            }
            hand.expired += 1;
        }
        if hand.expired >= count {
            hand.expired = 0;
            hand.flushed = flushed;
            // What an empty page says is of records that are gone, and one that is to go is in nobody's way.
            let pages = self.pages.table.iter().filter(|page| page.used.load(Relaxed) > 0);
            let next = pages.map(|page| page.min_expire.load(Acquire)).min().unwrap_or(u64::MAX);
            hand.quiet_until_ms = next.min(now_ms + AGAIN_MS);
            self.may_gain.store(keys > 0 || next <= due_ms || context.has_unpurged(), Relaxed);
        } else {
            self.may_gain.store(true, Relaxed);
        }
        if keys > 0 { Progress::Worked } else { Progress::Idle }
    }

    fn find_victims(
        &self,
        _index: &AnyIndex,
        _context: &dyn Context,
        count: usize,
        found: &mut FoundKeys<'_>,
    ) {
        let wanted = self.wanted.load(Relaxed);
        // A page of objects makes room for any.
        let wanted = if self.pages.has_objects() { NONE } else { wanted };
        let of_class = |class: usize| wanted == NONE || class as u32 == wanted;
        let is_pages_turn = {
            let mut hand = self.hand.lock();
            hand.turn += 1;
            hand.turn.is_multiple_of(TURNS)
        };
        // Else a class would keep the pages that it has, whatever becomes of the others.
        if is_pages_turn || self.victims_of(&of_class, count, found) == 0 {
            self.victims_of_a_page(wanted, found);
        }
    }

    fn is_full(&self) -> bool {
        self.wanted.load(Relaxed) != NONE || self.is_over_dram()
    }

    fn close(&self, _index: &AnyIndex, context: &dyn Context) -> Result<(), StoreError> {
        while self.reclaim(context) == Progress::Worked {}
        // Sessions that ended gave their chunks back: none is torn by what comes.
        let none = [0; crate::layout::RUN_CHUNKS];
        let slots = (0..self.medium.geometry.sessions).filter(|slot| self.medium.run(*slot) != none);
        slots.for_each(|slot| self.medium.store_run(slot, &none));
        Ok(())
    }
}

impl<R: ByteRegion> ReadAtOnce for HeapSpace<R> {}

impl<R: ByteRegion> Sizing for HeapSpace<R> {
    fn tiers(&self) -> Vec<TierStats> {
        vec![TierStats {
            tier: "pmem",
            medium: self.description.clone(),
            records: (self.records.load(Relaxed) as i64).max(0) as u64,
            live_bytes: self.live_bytes.load(Relaxed),
            used_bytes: self.pages.used_bytes.load(Relaxed),
            capacity_bytes: self.capacity_bytes(),
            media: self.medium.region.counters().snapshot(),
            more_room: self.medium.region.len_max().map_or(MoreRoom::Never, |_| MoreRoom::WhileOpen),
            ..TierStats::default()
        }]
    }
    fn dram_bytes(&self) -> u64 {
        self.tables_bytes()
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let alloc = self.pages.alloc();
        let mut details = vec![
            ("heap_pages", self.pages.table.len() as u64),
            ("heap_pages_free", alloc.free.len() as u64),
            (
                "heap_pages_to_leave",
                (self.pages.table.len() - self.pages.end().min(self.pages.table.len())) as u64,
            ),
            ("heap_pages_emptied", self.emptied.load(Relaxed)),
            ("heap_records_moved", self.moved.load(Relaxed)),
            ("heap_chunks_retired", self.retired.load(Relaxed)),
        ];
        if self.pages.has_objects() {
            let longest = (0..alloc.open.len()).rev().find_map(|list| alloc.open[list].last());
            let longest = longest.map_or(0, |page| self.pages.longest(*page));
            details.push(("heap_free_together", (longest * crate::layout::LINE_BYTES) as u64));
        }
        if let Some(table) = &self.table {
            details.extend([
                ("heap_pages_of_index", table.pages_held()),
                ("heap_pages_to_learn", self.unknown_pages.load(Relaxed)),
                ("index_buckets", table.buckets()),
                ("index_bits_mended", table.healed.load(Relaxed)),
                ("index_splits_stalled", table.stalled.load(Relaxed)),
            ]);
        }
        details
    }
    fn index_grew(&self, index_bytes: u64) {
        self.index_bytes.store(index_bytes, Relaxed);
    }
    fn resize_tier(&self, tier: &str, bytes: u64) -> Result<(), StoreError> {
        match tier {
            "pmem" => self.resize_to(bytes),
            other => Err(StoreError::Options(format!("a heap has no tier {other}"))),
        }
    }
    fn more_dram(&self) -> MoreRoom {
        MoreRoom::WhileOpen
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.dram_bytes.store(bytes, Relaxed);
        Ok(())
    }
}

/// What a fetch needs of a chunk at least.
const _: () = assert!(
    CHUNK_HEAD_BYTES < FRONT_BYTES && FRONT_BYTES <= 64,
    "the front of a chunk lies in its first line"
);
