//! The space.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use terrace_engine::record::{Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, Kind, NewRecord};
use terrace_engine::shared_words::SharedWords;
use terrace_engine::space::{
    Background, Class, Context, Fetch, Former, FoundKeys, InDram, LargeValues, Limits, ReadAtOnce, Records,
    Room, Sizing, Under, Want,
};
use terrace_engine::{MoreRoom, Progress, StoreError, TierStats};
use terrace_index::{Address, AnyIndex, Index, Key};
use terrace_media::Buffer;

use crate::allocated::allocated_bytes;
use crate::evict::{Sweep, Times};
use crate::record::HeapRecord;

/// Lists of retired records, so that sessions rarely share one.
const STRIPES: usize = 64;
/// The longest value.
const VALUE_BYTES_MAX: u64 = 1 << 30;
/// The least that a store may be shrunk to.
const BUDGET_BYTES_MIN: u64 = 64 << 10;

/// Slots of so many words are never too long for a record.
const SHORT_WORDS: usize = 8;

#[derive(Default)]
struct Stripe {
    /// Records and extents that left the index since the last epoch was begun, to be freed.
    retired: Mutex<Vec<Retired>>,
}

enum Retired {
    Record(HeapRecord),
    Extent(u64),
}

impl Retired {
    /// What it takes until it is freed.
    fn bytes(&self) -> u64 {
        match self {
            Retired::Record(record) => allocated_bytes(record.slot_bytes()),
            // SAFETY: the pointer came from `Arc::into_raw` in `write_extent`, and this is its last owner.
            Retired::Extent(pointer) => allocated_bytes(unsafe { (*(*pointer as *const Vec<u8>)).len() }),
        }
    }
}

// SAFETY: a retired record is no longer reachable through the index; whoever holds the list frees it once.
unsafe impl Send for Retired {}

/// Records in DRAM only. See the crate's text.
pub struct DramSpace {
    /// Bytes that records may take, with the index if that is counted; beyond it writes are refused (or evict).
    budget_bytes: AtomicU64,
    counts_index: bool,
    index_bytes: AtomicU64,
    pub(crate) used_bytes: CachePadded<AtomicU64>,
    /// Bytes of what was replaced or deleted and is not freed yet: they count, but nothing has to go for them.
    pub(crate) retired_bytes: CachePadded<AtomicU64>,
    /// The most bytes that a write waits for; 0: none does.
    pub(crate) wanted_bytes: AtomicU64,
    records: CachePadded<AtomicU64>,
    stripes: Box<[CachePadded<Stripe>]>,
    /// Waiting for their epoch to pass.
    limbo: Mutex<VecDeque<(u64, Vec<Retired>)>>,
    /// The search for expired records and victims.
    pub(crate) sweep: Mutex<Sweep>,
    pub(crate) with_expiry: AtomicU64,
    pub(crate) times: Times,
}

/// Whether a record is rewritten in a slot: in one that is far too long it would keep what others could have.
fn fits(words: usize, slot_words: usize) -> bool {
    words <= slot_words && (slot_words - words <= slot_words / 4 || slot_words <= SHORT_WORDS)
}

/// What a session keeps here.
#[derive(Default)]
pub struct Local {
    /// The rounds of the search that had ended when its write first found no room.
    pub(crate) asked: Option<u64>,
}

impl DramSpace {
    /// A space that may hold `budget_bytes` of records; with `counts_index` of records and index together.
    pub fn new(budget_bytes: u64, counts_index: bool) -> Self {
        Self {
            budget_bytes: AtomicU64::new(budget_bytes),
            counts_index,
            index_bytes: AtomicU64::default(),
            used_bytes: CachePadded::default(),
            retired_bytes: CachePadded::default(),
            wanted_bytes: AtomicU64::default(),
            records: CachePadded::default(),
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            limbo: Mutex::default(),
            sweep: Mutex::default(),
            with_expiry: AtomicU64::new(0),
            times: Times::default(),
        }
    }

    /// Bytes that records may take.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.budget_bytes.load(Relaxed).saturating_sub(self.index_bytes.load(Relaxed))
    }

    fn retire(&self, retired: Retired) {
        // Before it stops counting as used: in between it counts twice, and never not at all.
        self.retired_bytes.fetch_add(retired.bytes(), Relaxed);
        self.used_bytes.fetch_sub(retired.bytes(), Relaxed);
        let stripe = match &retired {
            Retired::Record(record) => record.address().raw() as usize >> 6,
            Retired::Extent(pointer) => *pointer as usize >> 6,
        };
        self.stripes[stripe % STRIPES].retired.lock().push(retired);
    }

    /// # Safety
    /// Nobody can reach what is in the list any more.
    unsafe fn free(list: Vec<Retired>) -> u64 {
        let mut bytes = 0;
        for retired in list {
            bytes += retired.bytes();
            match retired {
                // SAFETY: as the caller promises.
                Retired::Record(record) => unsafe { record.free() },
                // SAFETY: the pointer came from `Arc::into_raw` in `write_extent`, and this is its last owner.
                Retired::Extent(pointer) => drop(unsafe { Arc::from_raw(pointer as *const Vec<u8>) }),
            }
        }
        bytes
    }

    fn reclaim(&self, context: &dyn Context) -> Progress {
        let mut fresh = Vec::new();
        for stripe in &self.stripes {
            fresh.append(&mut stripe.retired.lock());
        }
        let mut limbo = self.limbo.lock();
        let mut progress = Progress::Idle;
        if !fresh.is_empty() {
            limbo.push_back((context.advance_epoch(), fresh));
            progress = Progress::Worked;
        }
        while limbo.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, list)) = limbo.pop_front() {
                // The search is in no epoch: what it found in the index stays while it has this.
                let _no_search = self.sweep.lock();
                // SAFETY: the records left the index before the epoch began, and every session has passed it; so has the search,
                // which reads only what it found in the index since it took the lock.
                let freed = unsafe { Self::free(list) };
                self.retired_bytes.fetch_sub(freed, Relaxed);
                progress = Progress::Worked;
            }
        }
        progress
    }

    /// Reads any record, at any time.
    #[inline(never)]
    fn fetch_any(record: HeapRecord, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        record.consistently(out, |head, out| {
            // Of a record that is rewritten, too: the word is stored as a whole, and its place does not change.
            let meta = head.meta;
            debug_assert!(meta.plausible());
            match key {
                Some(key) => {
                    let same = meta.key_bytes() == key.bytes.len()
                        && meta.db() == key.db
                        && record.bytes_equal(meta.key_word(), key.bytes);
                    if !same {
                        return Fetch::Differs;
                    }
                }
                None => record.append_bytes(meta.key_word(), meta.key_bytes(), out),
            }
            if want == Want::Value || (meta.kind() == Kind::Extent && key.is_some()) {
                record.append_bytes(meta.value_word(), meta.value_bytes(), out);
            }
            Fetch::Match(head)
        })
    }

    fn extent(description: &[u8]) -> Option<&Vec<u8>> {
        let pointer = u64::from_le_bytes(description.get(..8)?.try_into().ok()?);
        // SAFETY: descriptions are made by `write_extent`, and their extents live until an epoch after their release.
        Some(unsafe { &*(pointer as *const Vec<u8>) })
    }
}

impl Records for DramSpace {
    type Local = Local;
    const TOMBSTONES: bool = false;
    fn limits(&self) -> Limits {
        Limits {
            key_bytes: KEY_BYTES_MAX,
            inline_bytes: INLINE_VALUE_BYTES,
            // What could never lie here needs no search for room.
            value_bytes: VALUE_BYTES_MAX.min(self.capacity_bytes() / 100 * 98),
            group_bytes: 1 << 30,
            short_group_bytes: 1 << 30,
        }
    }
    fn attach(&self, _slot: usize) -> Result<Local, StoreError> {
        Ok(Local::default())
    }
    #[inline]
    fn touch(&self, address: Address) {
        let first = HeapRecord::at(address);
        prefetch(first.word(0));
        prefetch(first.word(8));
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        let record = HeapRecord::at(address);
        if let Some(key) = key
            && let Some(head) = record.fetch_once(key, want, out)
        {
            return Fetch::Match(head);
        }
        Self::fetch_any(record, key, want, out)
    }
    fn prepare(&self, local: &mut Local, records: &[usize], class: Class) -> Room {
        let bytes = records.iter().map(|words| allocated_bytes(words * 8)).sum();
        if class == Class::Write { self.room_for(local, bytes) } else { Room::Ready }
    }
    #[inline]
    fn fits(&self, _local: &Local, _records: &[usize]) -> bool {
        true
    }
    #[inline]
    fn put(&self, _local: &mut Local, under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        if record.expire_at != 0 {
            if self.with_expiry.load(Relaxed) == 0 {
                self.with_expiry.store(1, Relaxed);
            }
            self.times.note(record.expire_at);
        }
        if let Some((address, head)) = under.to_rewrite()
            && fits(record.words(), head.meta.slot_words())
        {
            HeapRecord::at(address).rewrite(record);
            return (address, 0);
        }
        let new = HeapRecord::new(record);
        self.used_bytes.fetch_add(allocated_bytes(record.words() * 8), Relaxed);
        self.records.fetch_add(1, Relaxed);
        (new.address(), 0)
    }
    fn release(&self, address: Address, head: &Head) {
        debug_assert_eq!(HeapRecord::at(address).slot_bytes(), head.meta.slot_words() * 8);
        self.records.fetch_sub(1, Relaxed);
        self.retire(Retired::Record(HeapRecord::at(address)));
    }
    #[inline]
    fn hit(
        &self,
        _local: &mut Local,
        _index: &AnyIndex,
        _key: &Key<'_>,
        address: Address,
        _tier: u8,
        _read: Option<&[u8]>,
    ) {
        HeapRecord::at(address).note_read();
    }
}

impl LargeValues for DramSpace {
    fn write_extent(
        &self,
        local: &mut Local,
        value: &[u8],
        _former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        let bytes = allocated_bytes(value.len());
        match self.room_for(local, bytes) {
            Room::Ready => {}
            none => return Err(Some(none)),
        }
        self.used_bytes.fetch_add(bytes, Relaxed);
        description.extend_from_slice(&(Arc::into_raw(Arc::new(value.to_vec())) as u64).to_le_bytes());
        Ok(())
    }
    fn release_extent(&self, description: &[u8], _other: &[u8]) {
        if let Some(Ok(pointer)) = description.get(..8).map(<[u8; 8]>::try_from) {
            self.retire(Retired::Extent(u64::from_le_bytes(pointer)));
        }
    }
    fn extent_bytes(&self, description: &[u8]) -> u64 {
        Self::extent(description).map_or(0, |bytes| bytes.len() as u64)
    }
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        match Self::extent(description) {
            Some(bytes) => {
                // No longer than it must be: it is large.
                out.reserve_exact(bytes.len());
                out.extend_from_slice(bytes);
                Fetch::Match(Head::default())
            }
            None => Fetch::Differs,
        }
    }
}

impl Background for DramSpace {
    fn step(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        self.look_around(index, context);
        self.reclaim(context)
    }
    fn find_expired(&self, _index: &AnyIndex, _context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        for (db, key) in self.sweep.lock().expired.drain(..) {
            found(db, &key);
        }
        Progress::Idle
    }
    fn find_victims(
        &self,
        _index: &AnyIndex,
        _context: &dyn Context,
        count: usize,
        found: &mut FoundKeys<'_>,
    ) {
        self.take_victims(count, found);
    }
    fn is_full(&self) -> bool {
        self.excess_bytes() > 0
    }
    fn close(&self, index: &AnyIndex, _context: &dyn Context) -> Result<(), StoreError> {
        // No session is left: everything can go at once.
        let mut addresses = Vec::new();
        index.for_each(&mut |address| addresses.push(address));
        addresses.sort_unstable();
        addresses.dedup();
        let mut retired: Vec<Retired> = Vec::new();
        for address in addresses {
            let mut description = Buffer::new();
            if let Fetch::Match(head) = self.fetch(address, None, Want::Value, &mut description)
                && head.meta.kind() == Kind::Extent
            {
                let pointer = description.get(head.meta.key_bytes()..).unwrap_or_default();
                if let Ok(pointer) = <[u8; 8]>::try_from(pointer) {
                    retired.push(Retired::Extent(u64::from_le_bytes(pointer)));
                }
            }
            retired.push(Retired::Record(HeapRecord::at(address)));
        }
        for stripe in &self.stripes {
            retired.append(&mut stripe.retired.lock());
        }
        for (_, mut list) in self.limbo.lock().drain(..) {
            retired.append(&mut list);
        }
        // SAFETY: no session is open, none will be, and the index is only dropped from now on.
        unsafe { Self::free(retired) };
        Ok(())
    }
}

impl Sizing for DramSpace {
    fn more_dram(&self) -> MoreRoom {
        MoreRoom::WhileOpen
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        if bytes < BUDGET_BYTES_MIN {
            return Err(StoreError::Options(format!("DRAM must be at least {BUDGET_BYTES_MIN} bytes")));
        }
        self.budget_bytes.store(bytes, Relaxed);
        Ok(())
    }
    fn index_grew(&self, index_bytes: u64) {
        if self.counts_index {
            self.index_bytes.store(index_bytes, Relaxed);
        }
    }
    fn tiers(&self) -> Vec<TierStats> {
        let used = self.used_bytes.load(Relaxed);
        vec![TierStats {
            tier: "dram",
            medium: "heap".into(),
            records: self.records.load(Relaxed),
            live_bytes: used,
            used_bytes: used,
            capacity_bytes: self.capacity_bytes(),
            ..TierStats::default()
        }]
    }
    fn dram_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed) + self.retired_bytes.load(Relaxed)
    }
}

impl ReadAtOnce for DramSpace {}
impl InDram for DramSpace {}

#[inline]
fn prefetch(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(word.as_ptr() as *const i8, std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}
