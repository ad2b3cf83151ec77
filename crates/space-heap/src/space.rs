//! The space.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use terrace_engine::DATABASES;
use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::MANIFEST_BYTES;
use terrace_engine::record::{Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, Kind, NewRecord};
use terrace_engine::space::{Class, Fetch, GivenUp, Limits, Records, Room, Under, Want};
use terrace_engine::version::Version;
use terrace_index::{Address, AnyIndex, Key};
use terrace_media::{Buffer, ByteRegion};

use crate::background::{Hand, Waiting};
use crate::extents::Fillable;
use crate::layout::{CHUNK_HEAD_BYTES, Sort};
use crate::learn::Learning;
use crate::medium::Medium;
use crate::pages::{NONE, Pages};
use crate::recover::{Found, UnderWay};
use crate::resize::Shrinking;
use crate::session::Local;
use crate::table::PmTable;

/// Lists of retired chunks, so that sessions rarely share one.
const STRIPES: usize = 64;
/// A step may take so large a part of the heap.
const STEP_PART: u64 = 8;

/// Records in a heap of persistent memory. See the crate's text.
pub struct HeapSpace<R> {
    pub(crate) medium: Arc<Medium<R>>,
    pub(crate) pages: Arc<Pages>,
    /// The index, where the heap keeps it.
    pub(crate) table: Option<Arc<PmTable<R>>>,
    pub(crate) learning: Learning,
    /// Pages whose chunks are not known, and one while the index was not read for the sake of that.
    pub(crate) unknown_pages: AtomicU64,
    pub(crate) hasher: KeyHasher,
    /// DRAM for the index and the tables.
    pub(crate) dram_bytes: AtomicU64,
    pub(crate) index_bytes: AtomicU64,
    pub(crate) records: CachePadded<AtomicU64>,
    pub(crate) live_bytes: CachePadded<AtomicU64>,
    /// Chunks that left the index since the last epoch was begun, free on the medium.
    stripes: Box<[CachePadded<Mutex<Vec<u64>>>]>,
    /// Waiting for their epoch to pass.
    pub(crate) limbo: Mutex<VecDeque<Waiting>>,
    /// Chunks in either.
    pub(crate) retired: AtomicU64,
    /// The size that a write found no chunk of.
    pub(crate) wanted: AtomicU32,
    /// Free pages that would do for it, or of objects lines; 0: a chunk.
    pub(crate) wanted_pages: AtomicUsize,
    /// Lines of a page came together since somebody found too few.
    pub(crate) gathered: AtomicBool,
    /// Something that has expired, or that a flush forgot, may take room.
    pub(crate) may_gain: AtomicBool,
    /// The number of the newest large value.
    pub(crate) last_value: AtomicU64,
    pub(crate) hand: Mutex<Hand>,
    /// Of an opening.
    pub(crate) found: Mutex<Found>,
    pub(crate) under_way: OnceLock<UnderWay>,
    /// Pages that were emptied for another class.
    pub(crate) emptied: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) description: String,
    /// The newest manifest that was stored, and how long the heap is.
    pub(crate) manifest: Mutex<([u8; MANIFEST_BYTES], u64)>,
    pub(crate) shrinking: Mutex<Shrinking>,
    /// Records of each database up to this version are forgotten.
    pub(crate) flushed: [AtomicU64; DATABASES],
}

impl<R: ByteRegion> HeapSpace<R> {
    /// A space on the first `bytes` of a medium; what is there is found by recovery.
    pub fn new(
        medium: Medium<R>,
        bytes: u64,
        hasher: KeyHasher,
        dram_bytes: u64,
        description: String,
    ) -> Self {
        let count = medium.pages_in(bytes);
        let pages = Arc::new(Pages::new(medium.geometry.page_bytes, medium.geometry.granularity, count));
        let medium = Arc::new(medium);
        let load = medium.geometry.index_load;
        let table = load.map(|load| Arc::new(PmTable::new(medium.clone(), pages.clone(), load)));
        Self {
            pages,
            medium,
            table,
            learning: Learning::done(),
            unknown_pages: AtomicU64::new(0),
            hasher,
            dram_bytes: AtomicU64::new(dram_bytes),
            index_bytes: AtomicU64::new(0),
            records: CachePadded::default(),
            live_bytes: CachePadded::default(),
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            limbo: Mutex::default(),
            retired: AtomicU64::new(0),
            wanted: AtomicU32::new(NONE),
            wanted_pages: AtomicUsize::new(0),
            gathered: AtomicBool::new(false),
            may_gain: AtomicBool::new(false),
            last_value: AtomicU64::new(0),
            hand: Mutex::default(),
            found: Mutex::default(),
            under_way: OnceLock::new(),
            emptied: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            description,
            manifest: Mutex::new(([0; MANIFEST_BYTES], bytes)),
            shrinking: Mutex::default(),
            flushed: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Makes a new heap: every page is known on the medium. Durable when it returns.
    pub fn make(&self) {
        (0..self.pages.table.len() as u32).for_each(|page| self.medium.blank(page));
        self.medium.region.fence();
        if let Some(table) = &self.table {
            table.make_new();
        }
    }

    /// A chunk that is free on the medium is taken until an epoch has passed.
    pub(crate) fn retire(&self, offset: u64) {
        self.retired.fetch_add(1, Relaxed);
        self.stripes[(offset / 64) as usize % STRIPES].lock().push(offset);
    }
    /// What was retired since.
    pub(crate) fn take_retired(&self) -> Vec<u64> {
        let mut fresh = Vec::new();
        self.stripes.iter().for_each(|stripe| fresh.append(&mut stripe.lock()));
        fresh
    }

    /// Bytes of all chunks of the heap as long as it is to be, about.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.pages.end() as u64 * self.pages.room_bytes() as u64
    }
    /// DRAM beside the index.
    pub(crate) fn tables_bytes(&self) -> u64 {
        self.pages.dram_bytes()
    }
    /// Whether index and tables take more than they may.
    pub(crate) fn is_over_dram(&self) -> bool {
        self.index_bytes.load(Relaxed) + self.tables_bytes() > self.dram_bytes.load(Relaxed)
    }

    /// A record in a page expires then.
    pub(crate) fn note_expiry(&self, offset: u64, expire_at: u64) {
        let page = &self.pages.table[self.pages.page_of(offset) as usize];
        page.min_expire.fetch_min(expire_at, Release);
    }

    fn let_go(&self, head: &Head, offset: u64) {
        let Some((page, _, chunk)) = self.pages.number(offset) else {
            // A bucket whose line is damaged: nobody can tell what it led to.
            return;
        };
        if let Some(table) = self.table.as_ref().filter(|_| head.meta.kind() == Kind::Poison)
            && table.is_overflow(offset)
        {
            return;
        }
        self.records.fetch_sub(1, Relaxed);
        // One that is not known yet will be found free.
        if self.pages.table[page as usize].taken.is_set(chunk) {
            self.live_bytes.fetch_sub(head.meta.slot_words() as u64 * 8, Relaxed);
            self.retire(offset);
        }
    }
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Makes a step count: durable when it returns, with what it gives up freed.
    fn commit_step(&self, local: &mut Local, version: u64, given_up: &[GivenUp]) {
        let place = |up: &GivenUp| (up.address.raw(), self.pages.place(up.address.raw()));
        let removed: Vec<_> = given_up
            .iter()
            .filter(|up| up.is_removed)
            .map(|up| (up.address.raw(), place(up).1.word(Sort::Dying, up.head.version)))
            .collect();
        local.step.commit(&self.medium, &removed, Version(version));
        local.step.take_expiring().for_each(|(offset, expire_at)| self.note_expiry(offset, expire_at));
        self.medium.free(given_up.iter().map(|up| (up.address.raw(), place(up).1.free())));
    }
}

impl<R: ByteRegion> Records for HeapSpace<R> {
    type Local = Local;
    const TOMBSTONES: bool = false;

    fn limits(&self) -> Limits {
        let page = self.pages.room_bytes();
        let inline = INLINE_VALUE_BYTES.min(page / 4) / 8 * 8;
        let step = (self.capacity_bytes() / STEP_PART) as usize;
        Limits {
            key_bytes: KEY_BYTES_MAX.min(page / 4) / 8 * 8,
            inline_bytes: inline,
            value_bytes: crate::large::value_bytes_max(inline, page).min(self.capacity_bytes() / 100 * 95),
            group_bytes: step,
            short_group_bytes: step,
        }
    }
    fn attach(&self, slot: usize) -> Result<Local, StoreError> {
        if slot >= self.medium.geometry.sessions {
            return Err(StoreError::TooManySessions(self.medium.geometry.sessions));
        }
        Ok(Local::new(slot))
    }
    fn detach(&self, local: &mut Local) {
        self.give_all_back(local);
    }
    #[inline]
    fn touch(&self, address: Address) {
        self.medium.region.prefetch(self.medium.at(address.raw()), 128);
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        self.fetch_chunk(address.raw(), key, want, out)
    }
    fn prepare(&self, local: &mut Local, records: &[usize], class: Class) -> Room {
        match class {
            Class::Write if self.is_over_dram() => return Room::Full,
            // A delete puts nothing: a full heap must let keys go.
            Class::Release => return Room::Ready,
            Class::Write | Class::Restore => {}
        }
        let is_one = matches!(records, [_]) && !local.in_step;
        if let Some(table) = &self.table
            && !(if is_one { table.keep_room() } else { table.promise_room(&mut local.lines, records.len()) })
        {
            return self.no_room(&self.pages.alloc(), table.line_class(), 0);
        }
        match records {
            [words] if is_one => self.prepare_one(local, *words),
            _ => self.prepare_step(local, records),
        }
    }
    fn fits(&self, local: &Local, records: &[usize]) -> bool {
        self.has_room(local, records)
    }
    fn begin_step(&self, local: &mut Local) {
        local.in_step = true;
    }
    fn put(&self, local: &mut Local, _under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        let size = self.size_for_words(record.words());
        let Some(Fillable { offset, rest }) = size.and_then(|size| local.take(size)) else {
            panic!("room for {} words was made before", record.words());
        };
        if let Some(rest) = rest {
            self.pages.start_at(&self.medium, rest);
        }
        let key = self.hasher.key(record.db, record.key);
        let check = self.hasher.check(record.db, record.key);
        let place = self.pages.place(offset);
        place.encode(Sort::Record, key.hash, check, record, &mut local.chunk);
        if let Some(table) = &self.table {
            self.medium.region.write_nt(self.medium.at(offset), &local.chunk);
            table.note(key.hash, offset, record.version, record.expire_at != 0);
            if record.kind == Kind::Extent {
                self.keep_parts(record.value);
            }
        } else if local.in_step {
            local.step.add(&self.medium, offset, place, record, &local.chunk);
        } else {
            self.medium.fill(offset, &local.chunk);
        }
        if record.expire_at != 0 {
            self.note_expiry(offset, record.expire_at);
        }
        self.records.fetch_add(1, Relaxed);
        self.live_bytes.fetch_add(record.words() as u64 * 8, Relaxed);
        (Address::new(offset), 0)
    }
    fn end_step(&self, local: &mut Local, version: u64, given_up: &[GivenUp]) {
        if self.table.is_none() {
            self.commit_step(local, version, given_up);
        }
        given_up.iter().for_each(|up| self.let_go(&up.head, up.address.raw()));
        local.in_step = false;
        self.give_held_back(local);
    }
    fn release(&self, address: Address, head: &Head) {
        let offset = address.raw();
        if self.table.is_none() {
            self.medium.free(std::iter::once((offset, self.pages.place(offset).free())));
        }
        self.let_go(head, offset);
    }
    fn rest(&self, local: &mut Local) {
        self.give_held_back(local);
        if self.wanted.load(Relaxed) != NONE || self.is_shrinking() {
            self.give_all_back(local);
        }
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
        if let Some((page, _, chunk)) = self.pages.number(address.raw()) {
            self.pages.table[page as usize].seen.set(chunk);
        }
    }
}

/// The least bytes that a record takes.
pub(crate) const CHUNK_BYTES_MIN: usize = CHUNK_HEAD_BYTES + terrace_engine::record::HEAD_BYTES;
