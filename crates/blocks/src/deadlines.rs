//! When the records of blocks expire: a bounded list in DRAM, so that an expired record leaves the index by hash and place, unread.
//!
//! ```text
//!   a page is drawn, a footer is read --> [ slot: soonest ... latest | slot: ... ] --> expirer: what is due of a page, all at once
//!                                                             |
//!                          too long: the later half goes  <---+   the slot's `min_expire` says when its footer is to be read again
//! ```
//!
//! What is due comes in whole seconds, and later where records must be read, so that a page is met for many of its records at once.
//! Where writes would be refused nobody waits: then whatever has expired goes, wherever it lies.
//!
//! # Invariants
//! * A record with an expiry in a sealed block is listed, or has been due, or its slot's `min_expire` is no later than the list would say,
//!   and its slot's `first_expire` no later than it expires, but for a step.
//! * What is listed is of one use of its slot: of another one nothing is taken.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Kind, Lifetime};

use crate::layout::FooterEntry;
use crate::slot_table::Slots;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex};

/// The part of the DRAM for records that the list may take.
const PART: u64 = 8;
/// It has room for so many, however little DRAM there is.
const LEAST: usize = 1 << 10;
/// Of the list one in so many tells where its later half begins.
const SAMPLE: usize = 16;
/// DRAM of a page's entry beside its records.
const PAGE_BYTES: usize = 112;
/// Records that must be read wait for others of their page, for so many seconds at most.
const PATIENCE_S: u32 = 4;
/// Of a `Due` these bits are the words of its place; in those above stands how much earlier than due it expires, in steps.
const WORDS_BITS: u32 = 22;
pub(crate) const STEP_MS: u64 = 4;

/// A record that expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    hash: [u32; 2],
    /// In whole seconds, rounded up.
    at_s: u32,
    /// Words:22, how much earlier it expires:10.
    words: u32,
    /// Offset in words:22, kind:2, database:4, alone:1.
    place: u32,
}

impl Due {
    fn new(entry: &FooterEntry, words: u32) -> Option<Self> {
        if !entry.life.expires() || !matches!(entry.kind, Kind::Value | Kind::Extent) {
            return None;
        }
        let mut at_s = u32::try_from(entry.life.expire_at.div_ceil(1000)).ok()?;
        let unread = entry.life.alone && entry.kind == Kind::Value;
        if !unread {
            at_s = at_s.checked_next_multiple_of(PATIENCE_S)?;
        }
        let early = (u64::from(at_s) * 1000 - entry.life.expire_at) / STEP_MS;
        let early = u32::try_from(early).ok().filter(|early| *early < 1 << (32 - WORDS_BITS))?;
        let words = (words < 1 << WORDS_BITS).then_some(words | early << WORDS_BITS)?;
        let place = entry.offset >> 3
            | (entry.kind as u32) << 22
            | u32::from(entry.db & 15) << 24
            | u32::from(entry.life.alone) << 28;
        Some(Self { hash: [entry.hash as u32, (entry.hash >> 32) as u32], at_s, words, place })
    }
    /// The record's footer entry, as far as it is needed to find it.
    pub fn entry(&self) -> FooterEntry {
        FooterEntry {
            hash: u64::from(self.hash[0]) | u64::from(self.hash[1]) << 32,
            version: 0,
            check: 0,
            offset: (self.place & 0x3f_ffff) << 3,
            kind: if self.place >> 22 & 3 == Kind::Extent as u32 { Kind::Extent } else { Kind::Value },
            db: (self.place >> 24 & 15) as u8,
            life: Lifetime { expire_at: u64::from(self.at_s) * 1000, alone: self.place >> 28 & 1 == 1 },
        }
    }
    /// Words of the record's place.
    pub fn words(&self) -> u32 {
        self.words & ((1 << WORDS_BITS) - 1)
    }
    /// When it expires, less than a step late.
    fn expires_ms(&self) -> u64 {
        (u64::from(self.at_s) * 1000).saturating_sub(u64::from(self.words >> WORDS_BITS) * STEP_MS)
    }
    /// Whether it has expired, be it due or not.
    fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_ms() <= now_ms
    }
}

/// The records of one block, the soonest last.
struct Page {
    seq: u64,
    newest: u64,
    dues: Vec<Due>,
}

/// What is due of one block.
pub(crate) struct DuePage {
    pub slot: u32,
    pub seq: u64,
    /// No record of the block has a newer version.
    pub newest: u64,
    pub dues: Vec<Due>,
}

#[derive(Default)]
struct List {
    pages: HashMap<u32, Page>,
    /// When each page's soonest record is due.
    order: BTreeSet<(u32, u32)>,
    entries: usize,
}

impl List {
    fn remove(&mut self, slot: u32) -> Option<Page> {
        let page = self.pages.remove(&slot)?;
        if let Some(soonest) = page.dues.last() {
            self.order.remove(&(soonest.at_s, slot));
        }
        self.entries -= page.dues.len();
        Some(page)
    }
    fn insert(&mut self, slot: u32, page: Page) {
        self.remove(slot);
        if let Some(soonest) = page.dues.last() {
            self.order.insert((soonest.at_s, slot));
            self.entries += page.dues.len();
            self.pages.insert(slot, page);
        }
    }
    fn bytes(&self) -> u64 {
        (self.entries * size_of::<Due>() + self.pages.len() * PAGE_BYTES) as u64
    }
    /// A page of which something has expired, due or not; else before which time nothing that is listed expires.
    fn expired(&self, now_ms: u64) -> Result<u32, u64> {
        let latest = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX).saturating_add(PATIENCE_S);
        // What is due later than the latest of these expires less than the patience earlier.
        let mut next = (now_ms / 1000).saturating_add(1).saturating_mul(1000);
        for &(_, slot) in self.order.range(..=(latest, u32::MAX)) {
            let Some(page) = self.pages.get(&slot) else { continue };
            for due in page.dues.iter().rev().take_while(|due| due.at_s <= latest) {
                if due.has_expired(now_ms) {
                    return Ok(slot);
                }
                next = next.min(due.expires_ms());
            }
        }
        Err(next)
    }
    /// Drops the later half; the slots remember when theirs is due.
    fn shorten(&mut self, slots: &Slots) {
        let sampled = self.pages.values().flat_map(|page| page.dues.iter().step_by(SAMPLE));
        let mut sample: Vec<u32> = sampled.map(|due| due.at_s).collect();
        sample.sort_unstable();
        let Some(&median) = sample.get(sample.len() / 2) else { return };
        let numbers: Vec<u32> = self.pages.keys().copied().collect();
        for number in numbers {
            let Some(mut page) = self.remove(number) else { continue };
            let later = page.dues.partition_point(|due| due.at_s >= median);
            if later > 0 {
                let soonest = u64::from(page.dues[later - 1].at_s) * 1000;
                let first = page.dues[..later].iter().map(Due::expires_ms).min().unwrap_or(soonest);
                if let Some(slot) = slots.get(number as usize)
                    && slot.seq.load(Acquire) == page.seq
                {
                    let first = first.min(slot.first_expire());
                    slot.min_expire.fetch_min(soonest, Release);
                    slot.expires_first(first);
                }
                page.dues.drain(..later);
                page.dues.shrink_to_fit();
            }
            self.insert(number, page);
        }
    }
}

/// See the module.
pub(crate) struct Deadlines {
    list: Mutex<List>,
    most: AtomicUsize,
    bytes: AtomicU64,
    /// Nobody waits for others of a page.
    hurries: AtomicBool,
    /// Nothing that is listed expires before.
    quiet_until_ms: AtomicU64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            list: Mutex::default(),
            most: AtomicUsize::new(LEAST),
            bytes: AtomicU64::new(0),
            hurries: AtomicBool::new(false),
            quiet_until_ms: AtomicU64::new(u64::MAX),
        }
    }
}

impl Deadlines {
    /// The store has so much DRAM for records.
    pub fn limit(&self, dram_bytes: u64) {
        self.most.store(((dram_bytes / PART) as usize / size_of::<Due>()).max(LEAST), Relaxed);
    }
    /// From now on what has expired counts as due, or no longer.
    pub fn hurry(&self, hurries: bool) {
        self.hurries.store(hurries, Relaxed);
    }
    /// Whether it does.
    pub fn hurries(&self) -> bool {
        self.hurries.load(Relaxed)
    }
    /// DRAM that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
    /// Lists the records of a block, each with the words of its place. What was listed of its slot is forgotten. Stores when the
    /// block's footer is to be read again. What is due by then, in a hurry also what has only expired, is not listed, but comes back:
    /// the list may be too long for it.
    pub fn list<'a>(
        &self,
        slots: &Slots,
        (number, seq, newest): (u32, u64, u64),
        records: impl Iterator<Item = (&'a FooterEntry, u32)>,
        now_ms: Option<u64>,
    ) -> Option<DuePage> {
        let (mut dues, mut unlisted) = (Vec::new(), u64::MAX);
        for (entry, words) in records.filter(|(entry, _)| entry.life.expires()) {
            match Due::new(entry, words) {
                Some(due) => dues.push(due),
                None if matches!(entry.kind, Kind::Value | Kind::Extent) => {
                    unlisted = unlisted.min(entry.life.expire_at);
                }
                None => {}
            }
        }
        let hurries = self.hurries();
        let is_over = |due: &Due| {
            now_ms.is_some_and(|now| u64::from(due.at_s) * 1000 <= now || hurries && due.has_expired(now))
        };
        let over: Vec<Due> = dues.iter().filter(|due| is_over(due)).copied().collect();
        dues.retain(|due| !is_over(due));
        dues.sort_unstable_by_key(|due| std::cmp::Reverse(due.at_s));
        dues.shrink_to_fit();
        let slot = &slots[number as usize];
        slot.min_expire.store(unlisted, Release);
        slot.expires_first(unlisted);
        let over = (!over.is_empty()).then_some(DuePage { slot: number, seq, newest, dues: over });
        let mut list = self.list.lock();
        if dues.is_empty() && list.pages.is_empty() {
            return over;
        }
        self.insert(&mut list, number, Page { seq, newest, dues });
        if list.entries > self.most.load(Relaxed) {
            list.shorten(slots);
        }
        self.bytes.store(list.bytes(), Relaxed);
        over
    }
    /// Lists a page that may expire sooner than all that was there.
    fn insert(&self, list: &mut List, slot: u32, page: Page) {
        let first = page.dues.iter().map(Due::expires_ms).min().unwrap_or(u64::MAX);
        self.quiet_until_ms.fetch_min(first, Relaxed);
        list.insert(slot, page);
    }
    /// What is due of a block: first of the one whose soonest record is due first, then, in a hurry, of any.
    pub fn take(&self, now_ms: u64) -> Option<DuePage> {
        self.take_due(now_ms)
            .or_else(|| if self.is_in_vain(now_ms) { None } else { self.take_expired(now_ms) })
    }
    /// Whether nobody hurries, or a search would find nothing.
    fn is_in_vain(&self, now_ms: u64) -> bool {
        !self.hurries() || now_ms < self.quiet_until_ms.load(Relaxed)
    }
    /// Looks for a page of which something has expired.
    fn look(&self, list: &List, now_ms: u64) -> Option<u32> {
        match list.expired(now_ms) {
            Ok(slot) => Some(slot),
            Err(next) => {
                self.quiet_until_ms.store(next, Relaxed);
                None
            }
        }
    }
    fn take_expired(&self, now_ms: u64) -> Option<DuePage> {
        let mut list = self.list.lock();
        let slot = self.look(&list, now_ms)?;
        let mut page = list.remove(slot)?;
        let (seq, newest) = (page.seq, page.newest);
        let (dues, left) = page.dues.iter().partition(|due| due.has_expired(now_ms));
        page.dues = left;
        list.insert(slot, page);
        self.bytes.store(list.bytes(), Relaxed);
        Some(DuePage { slot, seq, newest, dues })
    }
    fn take_due(&self, now_ms: u64) -> Option<DuePage> {
        let now_s = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX);
        let mut list = self.list.lock();
        let &(at_s, slot) = list.order.first()?;
        if at_s > now_s {
            return None;
        }
        let mut page = list.remove(slot)?;
        let (seq, newest) = (page.seq, page.newest);
        let dues = page.dues.split_off(page.dues.partition_point(|due| due.at_s > now_s));
        if page.dues.capacity() > page.dues.len() * 2 {
            page.dues.shrink_to_fit();
        }
        list.insert(slot, page);
        self.bytes.store(list.bytes(), Relaxed);
        Some(DuePage { slot, seq, newest, dues })
    }
    /// What was taken is due once more, later.
    pub fn put_back(&self, mut taken: DuePage, at_ms: u64) {
        let at_s = u32::try_from(at_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        for due in &mut taken.dues {
            (due.at_s, due.words) = (at_s, due.words());
        }
        let mut list = self.list.lock();
        let dues = match list.remove(taken.slot) {
            Some(mut page) if page.seq == taken.seq => {
                page.dues.append(&mut taken.dues);
                page.dues.sort_unstable_by_key(|due| std::cmp::Reverse(due.at_s));
                page.dues
            }
            Some(other) => {
                list.insert(taken.slot, other);
                return;
            }
            None => taken.dues,
        };
        self.insert(&mut list, taken.slot, Page { seq: taken.seq, newest: taken.newest, dues });
        self.bytes.store(list.bytes(), Relaxed);
    }
    /// A slot's block is gone.
    pub fn forget(&self, slot: u32) {
        let mut list = self.list.lock();
        list.remove(slot);
        self.bytes.store(list.bytes(), Relaxed);
    }
    /// When the first listed record of a slot expires; `u64::MAX` if none is.
    pub fn first_of(&self, slot: u32) -> u64 {
        let list = self.list.lock();
        let dues = list.pages.get(&slot).into_iter().flat_map(|page| &page.dues);
        dues.map(Due::expires_ms).min().unwrap_or(u64::MAX)
    }
    /// Shows database and deadline of some records.
    pub fn sample(&self, found: &mut dyn FnMut(u8, u64)) {
        let list = self.list.lock();
        // Pages in no order, of each some all over its time.
        for page in list.pages.values().take(SAMPLE) {
            for due in page.dues.iter().step_by((page.dues.len() / SAMPLE).max(1)) {
                let entry = due.entry();
                found(entry.db, entry.life.expire_at);
            }
        }
    }
    /// Whether [`take`](Self::take) would find anything.
    pub fn is_due(&self, now_ms: u64) -> bool {
        let list = self.list.lock();
        let due = list.order.first().is_some_and(|(at_s, _)| u64::from(*at_s) * 1000 <= now_ms);
        due || !self.is_in_vain(now_ms) && self.look(&list, now_ms).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, expire_at: u64, alone: bool) -> FooterEntry {
        let (kind, life) = (Kind::Value, Lifetime { expire_at, alone });
        FooterEntry {
            hash: number << 32 | 7,
            version: 5,
            check: 1,
            offset: 64 + 8 * number as u32,
            kind,
            db: 3,
            life,
        }
    }
    fn list(deadlines: &Deadlines, slots: &Slots, number: u32, seq: u64, entries: &[FooterEntry]) {
        slots[number as usize].seq.store(seq, Relaxed);
        let records = entries.iter().map(|entry| (entry, 4));
        assert!(deadlines.list(slots, (number, seq, 9), records, None).is_none());
    }

    #[test]
    fn what_is_due_of_a_block_comes_at_once_and_once() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(4));
        list(
            &deadlines,
            &slots,
            1,
            8,
            &[entry(0, 5_000, true), entry(1, 0, true), entry(2, 9_500, true), entry(3, 4_001, true)],
        );
        assert_eq!(slots[1].min_expire.load(Relaxed), u64::MAX, "all of them are listed");
        assert!(deadlines.take_due(4_999).is_none() && !deadlines.is_due(4_999) && deadlines.is_due(5_000));
        let page = deadlines.take_due(5_000).unwrap();
        let mut of: Vec<_> = page.dues.iter().map(|due| due.entry().hash >> 32).collect();
        of.sort_unstable();
        assert_eq!((page.slot, page.seq, page.newest, of), (1, 8, 9, vec![0, 3]));
        assert!(deadlines.take_due(9_999).is_none());
        let last = deadlines.take_due(10_000).unwrap().dues[0].entry();
        assert_eq!((last.hash, last.offset, last.db, last.life.alone), (2 << 32 | 7, 80, 3, true));
        assert!(deadlines.take_due(u64::MAX).is_none() && deadlines.bytes() == 0);
    }

    #[test]
    fn what_must_be_read_waits_for_others_and_a_block_that_is_gone_is_forgotten() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(4));
        list(&deadlines, &slots, 1, 8, &[entry(0, 5_000, false), entry(1, 8_000, false)]);
        assert!(deadlines.take_due(7_999).is_none());
        assert_eq!(deadlines.first_of(1), 5_000);
        let page = deadlines.take_due(8_000).unwrap();
        assert_eq!(page.dues.len(), 2);
        deadlines.put_back(page, 9_000);
        assert!(deadlines.take_due(8_999).is_none());
        deadlines.forget(1);
        assert!(deadlines.take_due(u64::MAX).is_none());
    }

    #[test]
    fn in_a_hurry_what_has_expired_goes_before_it_is_due() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(4));
        let lives = [(5_001, false), (5_500, true), (7_999, false), (8_001, false), (12_000, true)];
        let entries: Vec<_> = (0..).zip(lives).map(|(i, (at, alone))| entry(i, at, alone)).collect();
        list(&deadlines, &slots, 1, 8, &entries[..3]);
        list(&deadlines, &slots, 2, 9, &entries[3..]);
        assert!(deadlines.take(5_999).is_none() && !deadlines.is_due(5_999));
        deadlines.hurry(true);
        // Late by less than a step, and never early.
        let mut gone = Vec::new();
        for now in 5_000..9_000 {
            let is_due = deadlines.is_due(now);
            let taken: Vec<_> =
                std::iter::from_fn(|| deadlines.take(now)).flat_map(|page| page.dues).collect();
            assert_eq!(is_due, !taken.is_empty());
            for entry in taken.iter().map(Due::entry) {
                assert!((entry.hash >> 32) < 4 && entry.offset == 64 + 8 * (entry.hash >> 32) as u32);
                let (at, _) = lives[(entry.hash >> 32) as usize];
                assert!((at..at + STEP_MS).contains(&now), "{at} at {now}");
                gone.push(at);
            }
        }
        assert_eq!(gone, [5_001, 5_500, 7_999, 8_001]);
        assert_eq!(deadlines.take(12_000).map(|page| (page.slot, page.dues[0].words())), Some((2, 4)));
        // What could not be read waits all the same.
        list(&deadlines, &slots, 1, 8, &entries[..1]);
        let page = deadlines.take(13_000).unwrap();
        deadlines.put_back(page, 14_000);
        assert!(deadlines.take(13_999).is_none() && deadlines.take(14_000).is_some());
    }

    /// The clock may stand still: a search that found nothing says nothing of what is listed after it.
    #[test]
    fn in_a_hurry_what_is_listed_after_a_search_goes_too() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(4));
        deadlines.hurry(true);
        list(&deadlines, &slots, 1, 8, &[entry(0, 9_500, true)]);
        assert!(!deadlines.is_due(5_100) && deadlines.take(5_100).is_none());
        list(&deadlines, &slots, 2, 9, &[entry(1, 5_100, true)]);
        assert!(deadlines.is_due(5_100));
        assert_eq!(deadlines.take(5_100).map(|page| page.slot), Some(2));
        assert!(!deadlines.is_due(9_499) && deadlines.is_due(9_500));
    }

    #[test]
    fn slots_remember_when_what_the_list_dropped_expires_and_it_comes_back_at_once() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(2));
        let entries: Vec<_> = (0..LEAST as u64 + 1).map(|i| entry(i, 5_100 + i % 2 * 300, false)).collect();
        list(&deadlines, &slots, 1, 8, &entries);
        let slot = &slots[1];
        assert_eq!((deadlines.bytes(), slot.min_expire.load(Relaxed)), (0, 8_000), "it is too long");
        assert_eq!(slot.first_expire(), 5_100);
        // As one that reads its footer does.
        deadlines.hurry(true);
        let records = entries.iter().map(|entry| (entry, 4));
        let over = deadlines.list(&slots, (1, 8, 9), records, Some(5_103)).unwrap();
        assert_eq!((over.slot, over.dues.len()), (1, LEAST / 2 + 1));
        assert!(over.dues.iter().all(|due| (due.hash[1]) % 2 == 0), "the others live");
        assert_eq!((slot.first_expire(), deadlines.first_of(1)), (u64::MAX, 5_400));
    }

    #[test]
    fn a_list_that_is_too_long_keeps_what_is_due_soon_and_slots_remember_the_rest() {
        let (deadlines, slots) = (Deadlines::default(), Slots::new(64));
        for number in 0..64 {
            let entries: Vec<_> = (0..100).map(|i| entry(i, (i + 1) * 10_000, true)).collect();
            list(&deadlines, &slots, number, 8, &entries);
            let most = (LEAST + 100) * size_of::<Due>() + 64 * PAGE_BYTES;
            assert!(deadlines.bytes() <= most as u64, "{} bytes", deadlines.bytes());
        }
        let mut seen = [0u64; 64];
        while let Some(page) = deadlines.take_due(u64::MAX) {
            seen[page.slot as usize] += page.dues.len() as u64;
        }
        for (number, seen) in seen.into_iter().enumerate() {
            let again = slots[number].min_expire.load(Relaxed);
            assert!(
                seen > 0 && (seen == 100 || again <= (seen + 1) * 10_000),
                "{number}: {seen} listed, then {again}"
            );
        }
    }
}
