//! The space.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use terrace_engine::manifest::Manifest;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{
    Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, Kind as RecordKind, NewRecord, RecordView,
};
use terrace_engine::space::{
    Class, Counted, Durable, Entries, Fetch, Found, Limits, Records, Room, Under, Want,
};
use terrace_engine::{Failure, Scanned, StoreError, fetch_view};
use terrace_index::{Address, Index, Key};
use terrace_log::{Archive, ByteLog, Log};
use terrace_media::{Buffer, ByteRegion};

use crate::directory::{Directory, Held};
use crate::dram::{Dram, is_in_dram};
use crate::keeper::{Bump, Keeper};
use crate::layout::{EDGE_BYTES, ENTRY_HEAD_BYTES, Kind, LINE_BYTES, Root, decode_entry, entry_bytes};
use crate::medium::Medium;
use crate::pages::Pages;
use crate::session::Local;

/// [`Head::tier`] of what is read from the medium.
pub(crate) const TIER: u8 = 1;
/// Read before an entry's length is known: two lines.
const FIRST_BYTES: usize = 128;
/// The shortest entry.
const ENTRY_BYTES_MIN: usize = ENTRY_HEAD_BYTES + terrace_engine::record::HEAD_BYTES;
/// Entries up to here are read to the stack.
const SHORT_BYTES: usize = 1024;
/// In front of a log group's entries, and what its dependencies may take.
const GROUP_BYTES: usize = 64;
/// Of the pages so many, and one in so many more, are kept for deletes and for cleaning.
const RESERVE_PAGES: usize = 4;
const RESERVE_PART: usize = 48;
/// With fewer free pages than one in so many it is looked at what is about to take some.
const COMING_PART: usize = 2;
/// Bytes of a page that nothing may fit in.
const LEFT_AT_ENDS: u64 = 288;

/// Records in the pages of their log. See the crate's text.
pub struct ScmSpace<R: ByteRegion, T: Directory<R>> {
    pub(crate) medium: Arc<Medium<R>>,
    pub(crate) directory: Arc<T>,
    pub(crate) front: Arc<T::Front>,
    pub(crate) dram: Arc<Dram>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) log: Log<ByteLog<R>>,
    pub(crate) keeper: Mutex<Keeper<T::Changes>>,
    /// The page of large values that is filled.
    pub(crate) parts: Mutex<Option<Bump>>,
    /// Large values that no record describes yet, by their first part.
    pub(crate) ahead: Mutex<HashSet<u64>>,
    /// Rounds that have begun, and how many of them are over.
    pub(crate) begun: AtomicU64,
    pub(crate) completed: AtomicU64,
    /// The newest round that a record waits for.
    pub(crate) last_given: AtomicU64,
    /// Bytes put since the last round began.
    pub(crate) waiting_bytes: AtomicU64,
    /// Live bytes of all pages, about.
    pub(crate) live_bytes: AtomicI64,
    /// The newest whole-database flush that is known, and up to which one what was forgotten is gone.
    pub(crate) forgotten: AtomicU64,
    pub(crate) purged: AtomicU64,
    /// A write found no page.
    pub(crate) lacks_page: AtomicBool,
    /// Pages beside the reserve that a large value waits for.
    pub(crate) wanted_pages: AtomicUsize,
    /// Pages cleaned since there were enough.
    pub(crate) fruitless: AtomicU64,
    /// What the log holds is being made up for.
    pub(crate) is_redoing: AtomicBool,
    pub(crate) failed: OnceLock<Failure>,
    pub(crate) cleaned: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) description: String,
    pub(crate) flushed: [AtomicU64; DATABASES],
}

/// Keeps blocks of the log as pages of records.
pub(crate) struct Keeps<R> {
    pub medium: Arc<Medium<R>>,
    pub pages: Arc<Pages>,
}

impl<R: ByteRegion> Archive for Keeps<R> {
    fn keep(&self, block: u32, generation: u64) {
        self.pages.page(block).generation.store(generation, Relaxed);
        self.pages.store_kind(&self.medium, block, Kind::Archived);
    }
    /// Not before: what is cleaned is given to others, and a header that goes then would be theirs.
    fn kept(&self, block: u32) {
        self.pages.show_kind(block, Kind::Archived);
    }
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// A space whose parts are there; what the medium holds comes with [`reopen`](Durable::reopen).
    pub(crate) fn new(
        medium: Arc<Medium<R>>,
        directory: Arc<T>,
        front: Arc<T::Front>,
        dram: Arc<Dram>,
        log: Log<ByteLog<R>>,
        description: String,
    ) -> Self {
        let pages = Arc::new(Pages::new(medium.pages()));
        log.archive_to(Arc::new(Keeps { medium: medium.clone(), pages: pages.clone() }));
        Self {
            medium,
            directory,
            front,
            dram,
            pages,
            log,
            keeper: Mutex::default(),
            parts: Mutex::default(),
            ahead: Mutex::default(),
            begun: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            last_given: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            live_bytes: AtomicI64::new(0),
            forgotten: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            lacks_page: AtomicBool::new(false),
            wanted_pages: AtomicUsize::new(0),
            fruitless: AtomicU64::new(0),
            is_redoing: AtomicBool::new(false),
            failed: OnceLock::new(),
            cleaned: AtomicU64::new(0),
            moved_bytes: AtomicU64::new(0),
            description,
            flushed: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Makes a new store's page table and directory; durable when it returns.
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        for page in 0..self.pages.table.len() as u32 {
            self.pages.change(&self.medium, page, Kind::Free);
        }
        for is_committed in [false, true] {
            self.medium.save_root(&Root {
                sequence: u64::from(is_committed),
                is_committed,
                ..Root::default()
            });
        }
        T::make(self)
    }

    /// Nothing more can be stored, and why.
    pub(crate) fn fail(&self, what: String) {
        if self.failed.set(Failure::now("pmem", &what)).is_ok() {
            tracing::error!("pmem: {what}; nothing more is written");
        }
    }

    /// Whether it has failed.
    pub(crate) fn has_failure(&self) -> bool {
        self.failed.get().is_some()
    }
    /// Pages that ordinary writes leave alone.
    pub(crate) fn reserve_pages(&self) -> usize {
        RESERVE_PAGES + self.pages.table.len() / RESERVE_PART
    }
    /// Bytes that one object may take.
    pub(crate) fn longest(&self) -> usize {
        self.medium.geometry.page_bytes - 2 * EDGE_BYTES
    }
    /// Pages that the directory takes for what is in front of it, at most about.
    fn coming_pages(&self) -> usize {
        match self.directory.coming_bytes() {
            0 => 0,
            each => (self.front.len() * each).div_ceil(self.longest() as u64) as usize,
        }
    }
    /// Bytes that may be live.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        let others = self.reserve_pages() + self.medium.lines_pages().count();
        let pages = self.pages.table.len().saturating_sub(others) as u64;
        // Of short pages what is left at their ends counts more.
        let longest = self.longest() as u64;
        pages * (longest / 100 * T::FULL_PERCENT).min(longest.saturating_sub(LEFT_AT_ENDS))
    }
    /// Whether what is live leaves no room, whatever is cleaned.
    pub(crate) fn is_over(&self, more: u64) -> bool {
        self.live_bytes.load(Relaxed).max(0) as u64 + more > self.capacity_bytes()
    }
    /// Whether pages were cleaned in vain for long.
    pub(crate) fn gains_nothing(&self) -> bool {
        self.fruitless.load(Relaxed) > 2 * self.pages.table.len() as u64
    }
    /// There are not so many free pages: whether there may be some by themselves.
    #[cold]
    pub(crate) fn no_room(&self, pages: usize) -> Room {
        self.lacks_page.store(true, Relaxed);
        let more = pages as u64 * self.longest() as u64;
        let is_purged = self.purged.load(Relaxed) >= self.forgotten.load(Relaxed);
        let knows = is_purged && !self.pages.has_unknown();
        let is_waiting = self.last_given.load(Relaxed) > self.completed.load(Relaxed);
        if (self.is_over(more) || self.gains_nothing()) && knows && !is_waiting {
            self.wanted_pages.store(0, Relaxed);
            Room::Full
        } else {
            Room::Wait
        }
    }

    /// The head of a record of which nothing is known: it is none that a flush has forgotten.
    pub(crate) fn unknown(&self, db: u8) -> Head {
        let flushed = self.flushed[usize::from(db) & 15].load(Relaxed);
        Head::lost(flushed + 1, RecordKind::Value, db, 0, TIER)
    }

    /// Reads a record from its entry.
    #[inline]
    fn fetch_entry(
        &self,
        place: u64,
        version: Option<u64>,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        let medium = &*self.medium;
        let room = medium.rest_of_page(place);
        if medium.page_of(place).is_none() || place < LINE_BYTES as u64 || room < ENTRY_BYTES_MIN {
            return self.fetch_damaged(key);
        }
        let mut short = [0; SHORT_BYTES];
        let first = FIRST_BYTES.min(room);
        medium.region.read(medium.at(place), &mut short[..first]);
        let Some(end) = entry_bytes(&short).filter(|end| *end <= room) else {
            return self.fetch_damaged(key);
        };
        let mut long = Vec::new();
        let bytes = if end <= first {
            &short[..end]
        } else if end <= SHORT_BYTES {
            medium.region.read(medium.at(place) + first as u64, &mut short[first..end]);
            &short[..end]
        } else {
            long.resize(end, 0);
            medium.region.read(medium.at(place), &mut long);
            &long[..]
        };
        match decode_entry(bytes) {
            Some(mut view) if version.is_none_or(|version| version == view.head.version) => {
                view.head.tier = TIER;
                match fetch_view(&view, key, want, out) {
                    // Swapped lines may hold a record that is whole, and that nothing leads here.
                    Fetch::Differs if key.is_some_and(|key| !self.is_beside(key, &view)) => {
                        self.fetch_damaged(key)
                    }
                    fetched => fetched,
                }
            }
            _ => self.fetch_damaged(key),
        }
    }
    #[cold]
    fn is_beside(&self, key: &Key<'_>, view: &RecordView<'_>) -> bool {
        self.directory.is_beside(key.hash, self.directory.hash_of(view))
    }
    /// Whose it was can't be told: an error is better than a miss.
    #[cold]
    fn fetch_damaged(&self, key: Option<&Key<'_>>) -> Fetch {
        key.map_or(Fetch::Differs, |key| Fetch::Damaged(self.unknown(key.db)))
    }
}

/// The longest things that a store of this geometry takes.
pub(crate) fn limits_of(page_bytes: usize, frame_bytes: u64) -> Limits {
    let payload = page_bytes - 2 * EDGE_BYTES - GROUP_BYTES;
    let inline = INLINE_VALUE_BYTES.min(payload / 4) / 8 * 8;
    let short = page_bytes.min(128 << 10) / 2;
    let group = ((frame_bytes / 4) as usize).max(short);
    Limits {
        key_bytes: KEY_BYTES_MAX.min(payload / 4) / 8 * 8,
        inline_bytes: inline,
        value_bytes: crate::large::value_bytes_max(inline, page_bytes),
        group_bytes: group,
        short_group_bytes: short,
    }
}

impl<R: ByteRegion, T: Directory<R>> Records for ScmSpace<R, T> {
    type Local = Local;
    const TOMBSTONES: bool = true;

    fn limits(&self) -> Limits {
        let limits = limits_of(self.medium.geometry.page_bytes, self.dram.bytes());
        Limits { value_bytes: limits.value_bytes.min(self.capacity_bytes() / 2), ..limits }
    }
    fn attach(&self, _slot: usize) -> Result<Local, StoreError> {
        Ok(Local::default())
    }
    fn detach(&self, local: &mut Local) {
        self.give_frames_back(local, true);
    }
    #[inline]
    fn touch(&self, address: Address) {
        if is_in_dram(address) {
            self.dram.prefetch(address);
        } else if !self.directory.touch(address) {
            self.medium.region.prefetch(self.medium.at(address.raw()), FIRST_BYTES);
        }
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        if is_in_dram(address) {
            self.dram.fetch(address, key, want, out)
        } else {
            match self.directory.fetch(address, key, want, out) {
                Some(Held::Record(fetch)) => fetch,
                Some(Held::At(place, version)) => self.fetch_entry(place, Some(version), key, want, out),
                None => self.fetch_entry(address.raw(), None, key, want, out),
            }
        }
    }
    #[inline]
    fn prepare(&self, local: &mut Local, records: &[usize], class: Class) -> Room {
        if class == Class::Write {
            let (free, pages) = (self.log.free_blocks(), self.pages.table.len());
            let reserve = self.reserve_pages();
            // The log must not take the pages that the next round needs: it would never end.
            if free < reserve || free < pages / COMING_PART && free < reserve + self.coming_pages() {
                return self.no_room(1);
            }
        }
        self.prepare_frames(local, records)
    }
    #[inline]
    fn fits(&self, local: &Local, records: &[usize]) -> bool {
        self.has_frames(local, records)
    }
    #[inline]
    fn put(&self, local: &mut Local, _under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        let words = record.words();
        let (frame, at) = self.place_in_frame(local, words);
        let address = self.dram.write(frame, at, record);
        // Before the round that begins next every session has passed, and this record is issued.
        let seq = self.begun.load(SeqCst) + 1;
        if record.kind == RecordKind::Extent {
            self.describe(record.value, seq);
        }
        if self.last_given.load(Relaxed) < seq {
            self.last_given.fetch_max(seq, SeqCst);
        }
        self.waiting_bytes.fetch_add(words as u64 * 8, Relaxed);
        (address, seq)
    }
    /// The round that reaches its successor gives it up.
    fn release(&self, _address: Address, _head: &Head) {}
    fn rest(&self, local: &mut Local) {
        self.give_frames_back(local, self.wants_frames());
    }
}

impl<R: ByteRegion, T: Directory<R>> Durable for ScmSpace<R, T> {
    const ADDRESSED: bool = true;

    fn persisted_seq(&self) -> u64 {
        self.completed.load(SeqCst)
    }
    fn last_seq(&self) -> u64 {
        self.last_given.load(SeqCst)
    }
    fn cut_seq(&self, _trusted: u64) -> u64 {
        self.persisted_seq()
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    #[track_caller]
    fn save_manifest(&self, bytes: &[u8]) -> io::Result<()> {
        self.medium.save_manifest(bytes);
        Ok(())
    }
    fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }
    fn failure(&self) -> Option<Failure> {
        self.failed.get().cloned()
    }
    fn scan_media(
        &self,
        _trusted_seq: u64,
        _threads: usize,
        _progress: &(dyn Fn(u64, u64) + Sync),
        _found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn scan_again(
        &self,
        _threads: usize,
        _progress: &(dyn Fn(u64, u64) + Sync),
        _found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn scanned(&self) -> Scanned {
        self.pages.scanned()
    }
    fn read_keys(
        &self,
        _addresses: &[Address],
        _found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        Ok(())
    }
    fn adopt(&self, _found: &Found) {}
    fn adopt_extent(&self, _description: &[u8]) {}
    fn clear_torn(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn reopen(&self, manifest: &Manifest) -> Result<Option<Counted>, StoreError> {
        for (flushed, found) in self.flushed.iter().zip(&manifest.flush_versions) {
            flushed.store(*found, Relaxed);
        }
        self.find_pages(manifest)?;
        self.find_root(manifest).map(Some)
    }
    fn redo(
        &self,
        _counted: Counted,
        newest: u64,
        flushed: &[u64; DATABASES],
        entries: &Entries<'_>,
    ) -> Result<Counted, StoreError> {
        self.redo_log(newest, flushed, entries)
    }
}
