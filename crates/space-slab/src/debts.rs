//! Blind sets: a set need not read the record that it replaces, and background steps find out later whether it replaced one.
//!
//! ```text
//!   set --> the index knows one unread candidate L on a page, by hash alone --> the new record goes into DRAM, beside L
//!                                                                                |  UNSETTLED, the key counts as live
//!           L leaves the index if it is an older version of the key  <-- footers of pages that many wait for, one read each
//! ```
//!
//! A footer tells by hash and check, 96 bits, which is what recovery goes by, too. A read of it serves all that wait for its page:
//! that is what a blind set saves. Where so few wait that their records are fewer bytes, these are read.
//!
//! # Invariants
//! * A record that owes is the newest of its key, and every unread candidate that may be the key's is older. It stays in DRAM, where
//!   a look-up tells it from others at once (among candidates that need a read and one that matches, the match wins), until it
//!   has been settled: two unread records of one key never meet.
//! * A debt goes with every later write of its key, deletes too: a tombstone that was dropped would let the older version return.
//! * Records get to pages, and the index to know them there, in steps alone: within one step no candidate is added.
//! * The older version leaves the index after the newer one was issued: who frees its page waits for that.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{FooterEntry, Lower, Place, checked};
use terrace_engine::Progress;
use terrace_engine::record::{Kind, Lifetime, RecordView};
use terrace_engine::space::{Context, Replaced, Under};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use crate::location::{Location, Locations};
use crate::slot::Debt;
use crate::space::SlabSpace;
use crate::sync::{AtomicU64, Mutex};

/// Of the records in DRAM, so many may owe, as a share of one by this.
const SHARE: u64 = 4;
/// Pages that are asked in one step, and slots that are looked at: whoever waits for another step waits for that.
const PAGES_A_STEP: usize = 8;
const SLOTS_A_STEP: usize = 4096;
/// Slots that are settled in one step because their slab is to be emptied: most take a read.
const IN_THE_WAY_A_STEP: usize = 64;
/// In the place of a page's number: the slot was put by a later write, which knew of no page.
pub(crate) const NO_PAGE: u32 = u32::MAX;
/// With nothing else to do, for so many steps others of the same pages are waited for.
const PATIENCE_STEPS: u32 = 8;

/// A slot whose record owes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    /// The page that its candidate lay in.
    pub page: u32,
    /// Where the slot starts.
    pub offset: u64,
    /// The record that was put beside the candidate; 0: one of a later write.
    pub version: u64,
}

/// Records that owe.
#[derive(Default)]
pub(crate) struct Debts {
    /// Slots that were put and no step has heard of.
    told: Mutex<Vec<Owed>>,
    /// How many owe, and how many may.
    pub unsettled: AtomicU64,
    limit: AtomicU64,
    /// 1: somebody waits for the room that older versions take.
    wanted: AtomicU64,
    pub counts: Counts,
}

/// Counts for people and tests.
#[derive(Default)]
pub(crate) struct Counts {
    /// Sets that read nothing.
    pub blind: AtomicU64,
    /// Of those, how many had replaced a record, and how many none.
    pub replaced: AtomicU64,
    pub new: AtomicU64,
    /// Footers read for that, and those that could not be; records that could not be told then.
    pub footers: AtomicU64,
    pub unreadable: AtomicU64,
    pub given_up: AtomicU64,
}

impl Debts {
    /// A session tells of slots that it has put.
    pub fn hand_over(&self, slots: &mut Vec<Owed>) {
        self.told.lock().append(slots);
    }
    /// So many records are in DRAM.
    pub fn limit_to_share_of(&self, records: u64) {
        self.limit.store(records / SHARE, Relaxed);
    }
    /// Whether older versions will leave pages soon, where there is no room left without.
    pub fn hurry(&self) -> bool {
        let come = self.unsettled.load(Relaxed) > 0;
        if come {
            self.wanted.store(1, Relaxed);
        }
        come
    }
    /// DRAM that it takes to remember them.
    pub fn bytes(&self) -> u64 {
        self.unsettled.load(Relaxed) * 2 * size_of::<Owed>() as u64
    }
}

/// What settling remembers between steps.
#[derive(Default)]
pub(crate) struct Settling {
    /// Slots that owe, by the page of their candidate; how many.
    pages: HashMap<u32, Vec<Owed>>,
    owing: usize,
    /// Pages in the order in which they are asked, the last one first.
    order: Vec<u32>,
    /// Steps since there was anything else to do.
    idle_steps: u32,
}

impl Settling {
    fn add(&mut self, owed: Owed) {
        self.pages.entry(owed.page).or_default().push(owed);
        self.owing += 1;
    }
    /// These come first in the next step.
    fn put_back(&mut self, page: u32, slots: Vec<Owed>) {
        self.owing += slots.len();
        self.pages.entry(page).or_default().extend(slots);
        self.order.push(page);
    }
    /// The slots of the page that most waited for when the order was made.
    fn next(&mut self) -> Option<(u32, Vec<Owed>)> {
        if self.order.is_empty() {
            self.order.extend(self.pages.keys());
            // What knows no page finds out first.
            self.order.sort_by_key(|page| (*page == NO_PAGE, self.pages[page].len(), *page));
        }
        let page = self.order.pop()?;
        let slots = self.pages.remove(&page).unwrap_or_default();
        self.owing -= slots.len();
        Some((page, slots))
    }
    /// Slots of which this holds, so many at most.
    fn take(&mut self, most: usize, holds: impl Fn(&Owed) -> bool) -> Vec<Owed> {
        let mut taken = Vec::new();
        for slots in self.pages.values_mut() {
            let left = most - taken.len();
            taken.extend(slots.extract_if(.., |owed| holds(owed)).take(left));
        }
        self.pages.retain(|_, slots| !slots.is_empty());
        self.owing -= taken.len();
        taken
    }
}

/// How much there is to hurry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Haste {
    /// Other things are to be done.
    None,
    /// There is nothing else to do.
    Idle,
    /// Somebody waits for records to leave DRAM, or for pages.
    Urgent,
    /// The store is closed: all of it, now.
    Closing,
}

/// A record that owes.
struct Owing {
    owed: Owed,
    hash: u64,
    check: u32,
    db: u8,
    key: Vec<u8>,
    /// It belongs to those that wait for another page.
    is_elsewhere: bool,
    /// Its older versions in pages.
    older: Vec<Older>,
}

struct Older {
    address: Address,
    /// `None`: neither footer nor record can be read.
    found: Option<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    record: Replaced,
    life: Lifetime,
    words: usize,
}

/// What a page says of a candidate.
enum Told {
    /// It is another key's.
    Another,
    Older(Found),
    Unreadable,
}

/// Whether a record in a page is a key's, by the page's footer.
fn by_footer(footer: Option<&(Vec<FooterEntry>, u32)>, offset: u32, of: &Owing) -> Told {
    let listed = footer.and_then(|(entries, data_end)| {
        let at = entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        let end = entries.get(at + 1).map_or(*data_end, |next| next.offset);
        Some((entries[at], ((end - offset) / 8) as usize))
    });
    match listed {
        Some((entry, _)) if (entry.hash, entry.check, entry.db) != (of.hash, of.check, of.db) => {
            Told::Another
        }
        Some((FooterEntry { version, kind, life, .. }, words)) => {
            let record = Replaced { version, kind, expires: life.expires() };
            Told::Older(Found { record, life, words })
        }
        None => Told::Unreadable,
    }
}

/// Units of a page that were read last: several records may lie in them.
#[derive(Default)]
struct Window {
    slot: u32,
    at: usize,
    bytes: Vec<u8>,
}

/// A candidate: in which block, at which offset, and of whom.
type Asked = (u32, u32, usize, Address);

impl<L: Lower> SlabSpace<L> {
    /// See [`Records::takes_unread`](terrace_engine::space::Records::takes_unread).
    pub(crate) fn may_put_beside(&self, unread: Address, flushed: u64) -> bool {
        let Location::Page(place, _) = self.locations.location(unread) else { return false };
        // Of a large value the description is needed, and tombstones are counted.
        if Locations::kind(unread) != Some(Kind::Value) {
            return false;
        }
        let Some(page) = self.blocks.slots.get(place.slot as usize) else { return false };
        // What a flush forgot is no key; a page that was written before and after it doesn't say of which it is.
        (flushed == 0 || page.min_version.load(Acquire) > flushed)
            && self.debts.unsettled.load(Relaxed) < self.debts.limit.load(Relaxed)
    }

    /// What a record owes that is put over another, and the page that the candidate lies in, if it is known.
    #[inline]
    pub(crate) fn debt_of(&self, under: Under<'_>) -> (Debt, u32) {
        let debt = match under {
            Under::Nothing => Debt::default(),
            Under::Unread(unread) => {
                self.debts.counts.blind.fetch_add(1, Relaxed);
                return (Debt::UNREAD, self.locations.place(unread).slot);
            }
            Under::Record { address, forgotten, .. } => match self.locations.location(address) {
                Location::Dram(offset) => {
                    let debt = self.slabs.slot(offset).debt();
                    if forgotten { debt.forgotten() } else { debt }
                }
                Location::Pmem(_) | Location::Page(..) => Debt::default(),
            },
        };
        (debt, NO_PAGE)
    }

    /// One step: those are settled whose pages most others wait for.
    pub(crate) fn settle_step(
        &self,
        settling: &mut Settling,
        haste: Haste,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        let told = std::mem::take(&mut *self.debts.told.lock());
        let more_come = !told.is_empty();
        told.into_iter().for_each(|owed| settling.add(owed));
        if settling.owing == 0 {
            return Progress::Idle;
        }
        let limit = self.debts.limit.load(Relaxed);
        // Once begun, until half of them are settled: of the pages that are left few wait for each.
        let share = if settling.order.is_empty() { 2 } else { 4 };
        let many = settling.owing as u64 * share >= limit;
        let haste = match self.debts.wanted.swap(0, Relaxed) {
            1 if haste < Haste::Urgent => Haste::Urgent,
            _ => haste,
        };
        // While more come, whoever waits reads a page for more of them.
        let is_quiet = haste == Haste::Idle && !more_come;
        settling.idle_steps = if is_quiet { settling.idle_steps + 1 } else { 0 };
        if haste < Haste::Urgent && !many && settling.idle_steps < PATIENCE_STEPS {
            settling.order.clear();
            return if haste == Haste::Idle { Progress::Blocked } else { Progress::Idle };
        }
        let (mut owing, mut asked) = (Vec::new(), Vec::new());
        let mut left = SLOTS_A_STEP;
        if self.is_draining.load(SeqCst) {
            // By their pages alone the turn of those that somebody waits for might come last.
            let in_the_way = settling
                .take(IN_THE_WAY_A_STEP, |owed| self.slabs.is_draining(self.slabs.slab_of(owed.offset)));
            for slot in in_the_way {
                self.look_at(slot, &mut owing, &mut asked, index, context);
            }
        }
        let pages = if owing.is_empty() { PAGES_A_STEP } else { 0 };
        for _ in 0..pages {
            let Some((page, mut slots)) = settling.next() else { break };
            let more = slots.split_off(slots.len().min(left));
            left -= slots.len();
            for slot in slots {
                self.look_at(slot, &mut owing, &mut asked, index, context);
            }
            if !more.is_empty() {
                settling.put_back(page, more);
                break;
            }
        }
        self.ask_footers(asked, &mut owing);
        for owing in &owing {
            if owing.is_elsewhere {
                settling.add(owing.owed);
            } else {
                self.settle(owing, index, context);
            }
        }
        Progress::Worked
    }

    /// Settles all that owe: nobody puts anything any more.
    pub(crate) fn settle_all(&self, settling: &mut Settling, index: &AnyIndex, context: &dyn Context) {
        while self.settle_step(settling, Haste::Closing, index, context) == Progress::Worked {
            if settling.owing == 0 {
                break;
            }
        }
    }

    /// Finds out what a slot's record may be an older version of.
    fn look_at(
        &self,
        owed: Owed,
        owing: &mut Vec<Owing>,
        asked: &mut Vec<Asked>,
        index: &AnyIndex,
        context: &dyn Context,
    ) {
        let offset = owed.offset;
        // It may have been let go, and put again, for another record or by another batch.
        if !self.slabs.is_slot(offset) || !self.slabs.slot(offset).debt().is_owed() {
            return;
        }
        let words = self.slabs.slot(offset).record();
        let mut bytes = Vec::new();
        let head = words.consistently(|head| {
            bytes.clear();
            words.copy_bytes(head.meta.key_word(), head.meta.key_bytes(), &mut bytes);
            head
        });
        let (db, hasher) = (head.meta.db(), context.hasher());
        let hash = hasher.key(db, &bytes).hash;
        let key = Key { hash, db, bytes: &bytes };
        let mut candidates: Vec<Address> = Vec::new();
        index.get(&key, |at| {
            // Where somebody writes meanwhile the index may ask again.
            if matches!(self.locations.location(at), Location::Page(..)) && !candidates.contains(&at) {
                candidates.push(at);
            }
            Verdict::Differs
        });
        let check = hasher.check(db, &bytes);
        let mut owes = Owing { owed, hash, check, db, key: bytes, is_elsewhere: false, older: Vec::new() };
        match candidates.first() {
            Some(first) if owed.page == NO_PAGE => {
                owes.owed.page = self.locations.place(*first).slot;
                owes.is_elsewhere = true;
            }
            _ => asked.extend(candidates.into_iter().map(|at| {
                let place = self.locations.place(at);
                (place.slot, place.offset, owing.len(), at)
            })),
        }
        owing.push(owes);
    }

    /// Finds out of whom candidates are.
    fn ask_footers(&self, mut asked: Vec<Asked>, owing: &mut [Owing]) {
        asked.sort_unstable();
        for page in asked.chunk_by(|a, b| a.0 == b.0) {
            // Where few wait, their records are fewer bytes than the footer.
            let (of_records, mut window) = (self.bytes_of_records(page), Window::default());
            let whole = self.blocks.slots[page[0].0 as usize].footer_bytes().next_multiple_of(L::UNIT);
            let mut footer = (of_records >= whole).then(|| self.footer_for_debts(page[0].0));
            for &(slot, offset, of, address) in page {
                let of = &mut owing[of];
                let mut told = match &footer {
                    Some(footer) => by_footer(footer.as_ref(), offset, of),
                    None => Told::Unreadable,
                };
                if matches!(told, Told::Unreadable) {
                    told = self.by_record(&mut window, address, of);
                }
                if matches!(told, Told::Unreadable) && footer.is_none() {
                    told = by_footer(footer.insert(self.footer_for_debts(slot)).as_ref(), offset, of);
                }
                let found = match told {
                    Told::Another => continue,
                    Told::Older(found) => Some(found),
                    Told::Unreadable => None,
                };
                of.older.push(Older { address, found });
            }
        }
    }

    /// Whether a record in a page is a key's, by itself.
    fn by_record(&self, window: &mut Window, address: Address, of: &Owing) -> Told {
        let Some(bytes) = self.record_in(window, address) else { return Told::Unreadable };
        match RecordView::decode(&bytes) {
            Some(view) if view.key == of.key && view.head.meta.db() == of.db => {
                let meta = view.head.meta;
                let (version, kind) = (view.head.version, meta.kind());
                let record = Replaced { version, kind, expires: view.head.expire_at != 0 };
                Told::Older(Found { record, life: view.head.life(), words: meta.slot_words() })
            }
            _ => Told::Another,
        }
    }

    fn footer_for_debts(&self, page: u32) -> Option<(Vec<FooterEntry>, u32)> {
        self.debts.counts.footers.fetch_add(1, Relaxed);
        let footer = self.blocks.footer_entries(page);
        if footer.is_none() {
            self.debts.counts.unreadable.fetch_add(1, Relaxed);
        }
        footer
    }

    /// What reading records of a page one by one takes of it; they are in order.
    fn bytes_of_records(&self, page: &[Asked]) -> usize {
        let (mut bytes, mut known) = (0, 0);
        for (place, len) in page.iter().filter_map(|asked| self.extent_of(asked.3)) {
            let units = self.units_around(place, len);
            bytes += units.end.saturating_sub(units.start.max(known));
            known = units.end;
        }
        bytes
    }

    /// Where in a page a record lies, and how much of it a read takes.
    fn extent_of(&self, address: Address) -> Option<(Place, usize)> {
        let Location::Page(place, first) = self.locations.location(address) else { return None };
        let rest = self.blocks.block_bytes.saturating_sub(place.offset as usize);
        Some((place, first.unwrap_or(rest).min(rest)))
    }
    /// The units of a page that so many bytes lie in.
    fn units_around(&self, place: Place, len: usize) -> Range<usize> {
        let at = place.offset as usize;
        at / L::UNIT * L::UNIT..(at + len).next_multiple_of(L::UNIT).min(self.blocks.block_bytes)
    }

    /// A record in a page, if it is whole.
    fn record_at(&self, address: Address) -> Option<Vec<u8>> {
        self.record_in(&mut Window::default(), address)
    }
    /// The same, of what was read for the record before it, if it lies there.
    fn record_in(&self, window: &mut Window, address: Address) -> Option<Vec<u8>> {
        let (place, len) = self.extent_of(address)?;
        let units = self.units_around(place, len);
        let is_there = |window: &Window| {
            window.slot == place.slot
                && window.at <= units.start
                && units.end <= window.at + window.bytes.len()
        };
        if !is_there(window) {
            window.bytes.clear();
            window.bytes.resize(units.len(), 0);
            (window.slot, window.at) = (place.slot, units.start);
            let at = self.blocks.block_offset(place.slot) + units.start as u64;
            if self.blocks.lower.read(at, &mut window.bytes).is_err() {
                window.bytes.clear();
                return None;
            }
        }
        let from = place.offset as usize - window.at;
        let bytes = window.bytes[from..from + len].to_vec();
        let seq = self.blocks.slots[place.slot as usize].seq.load(Acquire);
        checked(seq, place.slot, place.offset, &bytes).is_some().then_some(bytes)
    }

    /// Every candidate is known: older versions leave the index, and the count is put right.
    ///
    /// One of which neither footer nor record can be read leaves it, too: it is the key's by more than 32 bits of its hash, and as
    /// long as it stayed there the newer version could not leave DRAM. What it took of its page is not known, and stays counted.
    fn settle(&self, owing: &Owing, index: &AnyIndex, context: &dyn Context) {
        let key = Key { hash: owing.hash, db: owing.db, bytes: &owing.key };
        let mut found = None;
        for older in &owing.older {
            let verify = |at| if at == older.address { Verdict::Match } else { Verdict::Differs };
            let removed = index.update(&key, verify, |looked| match looked {
                Lookup::Found(_) => (Change::Remove, true),
                Lookup::Absent | Lookup::Unread(_) => (Change::Keep, false),
            });
            if !removed {
                continue;
            }
            let Some(Found { record, words, .. }) = older.found else {
                self.debts.counts.given_up.fetch_add(1, Relaxed);
                found = Some(Replaced { version: u64::MAX, kind: Kind::Value, expires: false });
                continue;
            };
            match record.kind {
                Kind::Extent => {
                    // Where it is damaged the next opening finds that nobody has its pieces.
                    let bytes = self.record_at(older.address);
                    if let Some(view) = bytes.as_deref().and_then(RecordView::decode) {
                        self.large.forget(view.value);
                        self.blocks.forget_extent(view.value);
                    }
                }
                Kind::Tombstone => context.forgotten(Kind::Tombstone),
                Kind::Value | Kind::Poison => {}
            }
            self.release_copy(older.address, words);
            found = Some(record);
        }
        let outlasts = |expire_at| {
            let lives = owing.older.iter().map(|older| older.found.map(|found| found.life));
            lives.into_iter().all(|life| life.is_some_and(|life| life.leaves_alone(expire_at)))
        };
        // Wherever the record is by now.
        let verify = |at| if self.is_in_dram(at, &key) { Verdict::Match } else { Verdict::Differs };
        let taken = index.update(&key, verify, |looked| {
            let Lookup::Found(at) = looked else { return (Change::Keep, None) };
            let Location::Dram(offset) = self.locations.location(at) else { return (Change::Keep, None) };
            let slot = self.slabs.slot(offset);
            // Of a later write the versions between are not known.
            if owing.owed.version != 0
                && slot.version() == owing.owed.version
                && outlasts(slot.record().consistently(|head| head.expire_at))
            {
                slot.record().set_alone();
            }
            (Change::Keep, Some((offset, slot.take_debt(false), slot.version())))
        });
        if let Some((offset, debt, version)) = taken
            && debt.is_owed()
        {
            self.debts.unsettled.fetch_sub(1, Relaxed);
            if self.is_bound(None) {
                self.bound.lock().push(offset);
            }
            let counts = &self.debts.counts;
            let counter = if found.is_some() { &counts.replaced } else { &counts.new };
            counter.fetch_add(1, Relaxed);
            if debt.assumed_live() {
                context.recount(owing.db, version, found);
            }
        }
    }
}

#[cfg(test)]
mod tests;
