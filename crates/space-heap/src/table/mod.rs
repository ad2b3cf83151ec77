//! The index on the medium, in the same heap as the records: what a restart needs is there, whatever the number of keys.
//!
//! ```text
//! front   root: buckets | steps | lanes | counts                  stripes, directory: in DRAM
//! pages   buckets, in order: a page of them after the other       chunks of one line: what overflows a bucket
//!
//! set     record, lane | fence | entry, count, old chunk's word | fence          a stripe is locked
//! split   8 buckets: buddies, no lanes | fence | root, twice | what has moved goes | fence
//! ```
//!
//! | file | what |
//! |---|---|
//! | `front`, `root`, `line` | the format |
//! | `stripes` | locks, and how readers do without |
//! | `probe`, `chain` | look-ups without the lock, and with it |
//! | `lanes`, `steps` | a change, and several, that no crash halves |
//! | `counts` | keys of each database |
//! | `grow` | buckets split, eight at a time |
//! | `spares` | chunks for lines |
//! | `heal` | bits that flip |
//! | `reopen` | what a crash left |
//!
//! Lock order: the grower, stripes in ascending order, a step's place, the pages' lists.
//!
//! # Invariants
//! * An entry leads to a record that is durable. A chunk that no entry leads to is free, whatever its word says.
//! * What a reader found of a chunk or a line stays there until its epoch has passed.

mod chain;
mod counts;
mod front;
mod grow;
mod heal;
mod lanes;
mod line;
mod probe;
mod reopen;
mod root;
mod spares;
mod steps;
mod stripes;
mod update;

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use terrace_blocks::{Table, u64_at};
use terrace_engine::op::DATABASES;
use terrace_engine::record::RecordMeta;
use terrace_index::linear::bucket_of;
use terrace_media::ByteRegion;

use crate::layout::{CHUNK_HEAD_BYTES, FRONT_BYTES, LINE_BYTES, PAGE_HEADER_BYTES};
use crate::medium::Medium;
use crate::pages::Pages;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};
use front::Front;
use grow::Grower;
use line::{Line, Tag};
use spares::Spares;
use steps::Steps;
pub(crate) use stripes::Stripes;

pub(crate) use front::Front as TableFront;
pub(crate) use line::HEAP_BYTES_MAX;
pub(crate) use update::PmIndex;

/// Counts of entries, so that threads rarely share one.
const COUNTS: usize = 16;

/// The index of a heap. See the module.
pub(crate) struct PmTable<R> {
    medium: Arc<Medium<R>>,
    pages: Arc<Pages>,
    front: Front,
    stripes: Stripes,
    /// Entries in ten buckets above which it grows.
    load: u64,
    /// What was put last under each stripe's lock: chunk, with 1 where the record expires, and version.
    notes: Box<[(AtomicU64, AtomicU64)]>,
    /// How many are published. Only the grower stores.
    buckets: AtomicU64,
    /// The pages of buckets, in order.
    directory: Table<AtomicU32>,
    entries: [CachePadded<AtomicI64>; COUNTS],
    /// Records of each database up to this version count for nothing.
    flushed: [AtomicU64; DATABASES],
    grower: Mutex<Grower>,
    spares: Spares,
    steps: Steps,
    /// Lines that a split has emptied, and who gives them back.
    pub(crate) emptied: Mutex<Vec<u64>>,
    /// Bits that had flipped, and were set right.
    pub(crate) healed: AtomicU64,
    /// Splits that found no page.
    pub(crate) stalled: AtomicU64,
}

impl<R: ByteRegion> PmTable<R> {
    /// On a medium whose geometry has room for it; what is there comes with [`make`](Self::make) or [`reopen`](Self::reopen).
    pub(crate) fn new(medium: Arc<Medium<R>>, pages: Arc<Pages>, load: u64) -> Self {
        let front = medium.table_front();
        let stripes = Stripes::new(front.stripes());
        Self {
            notes: (0..stripes.count()).map(|_| Default::default()).collect(),
            stripes,
            load,
            buckets: AtomicU64::new(front.first_buckets()),
            directory: Table::new(0),
            entries: std::array::from_fn(|_| CachePadded::new(AtomicI64::new(0))),
            flushed: std::array::from_fn(|_| AtomicU64::new(0)),
            grower: Mutex::new(Grower::new(front.first_buckets())),
            spares: Spares::new(),
            steps: Steps::new(),
            emptied: Mutex::default(),
            healed: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            medium,
            pages,
            front,
        }
    }

    /// A record was put in a chunk, and the stripe of its key is locked by this thread.
    #[inline]
    pub(crate) fn note(&self, hash: u64, chunk: u64, version: u64, expires: bool) {
        let note = &self.notes[self.stripes.of(hash)];
        note.0.store(chunk | u64::from(expires), Relaxed);
        note.1.store(version, Relaxed);
    }
    /// The version of the record in a chunk, and whether it expires.
    fn facts(&self, chunk: u64) -> (u64, bool) {
        let at = self.medium.at(chunk) + CHUNK_HEAD_BYTES as u64;
        let meta = RecordMeta(self.medium.region.load_u64(at + 8));
        (self.medium.region.load_u64(at), meta.has_expiry())
    }
    /// The same of a chunk that was put just now, if that is remembered.
    fn facts_of_new(&self, stripe: usize, chunk: u64) -> (u64, bool) {
        let (noted, version) = &self.notes[stripe];
        let noted = noted.load(Relaxed);
        if noted & !1 == chunk { (version.load(Relaxed), noted & 1 == 1) } else { self.facts(chunk) }
    }

    #[inline]
    fn tag(&self, hash: u64) -> Tag {
        Tag::new(hash, self.front.base)
    }
    /// Buckets of a page.
    #[inline]
    fn per_page(&self) -> u64 {
        ((self.pages.page_bytes - PAGE_HEADER_BYTES) / LINE_BYTES) as u64
    }
    /// Where a bucket's line starts, from the first page on.
    #[inline]
    fn line_of(&self, bucket: u64) -> u64 {
        let (ordinal, line) = (bucket / self.per_page(), bucket % self.per_page());
        let page = self.directory[ordinal as usize].load(Relaxed);
        u64::from(page) * self.pages.page_bytes as u64 + PAGE_HEADER_BYTES as u64 + line * LINE_BYTES as u64
    }
    /// The bucket of a hash.
    pub(crate) fn bucket(&self, hash: u64) -> u64 {
        self.bucket_of(hash)
    }
    #[inline]
    fn bucket_of(&self, hash: u64) -> u64 {
        bucket_of(hash, self.buckets.load(Acquire))
    }
    /// The first slot of a line that may hold an entry.
    #[inline]
    fn first_slot(&self, at: u64) -> usize {
        usize::from(!self.pages.is_index(self.pages.page_of(at)))
    }
    /// Whether a line may start there.
    fn is_line(&self, at: u64) -> bool {
        let page = self.pages.page_of(at);
        let is_bucket = self.pages.is_index(page)
            && at.is_multiple_of(LINE_BYTES as u64)
            && at % self.pages.page_bytes as u64 >= PAGE_HEADER_BYTES as u64;
        is_bucket || self.pages.number(at).is_some_and(|(_, class, _)| class == spares::CLASS)
    }
    /// What the check of a line without words is.
    #[inline]
    fn seed(&self, at: u64) -> u64 {
        ((at + 1) ^ self.medium.store_id.rotate_left(32)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f) | 1
    }
    #[inline]
    fn read_line(&self, at: u64) -> Line {
        let mut bytes = [0; LINE_BYTES];
        self.medium.region.read(self.medium.at(at), &mut bytes);
        Line(std::array::from_fn(|i| u64_at(&bytes, i * 8)))
    }
    /// All of a chunk up to the end of its record, if that is whole.
    fn whole_record(&self, chunk: u64) -> Option<Vec<u8>> {
        let (_, class, _) = self.pages.number(chunk)?;
        let mut front = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(chunk), &mut front);
        let end = CHUNK_HEAD_BYTES + RecordMeta(u64_at(&front, CHUNK_HEAD_BYTES + 8)).used_words() * 8;
        let mut bytes = vec![0; end.min(self.pages.chunk_bytes(class))];
        self.medium.region.read(self.medium.at(chunk), &mut bytes);
        self.pages.place(chunk).view(&bytes).is_some().then_some(bytes)
    }

    /// The same, if the chunk's head says which key it is of.
    fn sound_record(&self, chunk: u64) -> Option<Vec<u8>> {
        // A short record ends before the front of a chunk does.
        let mut front = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(chunk), &mut front);
        self.whole_record(chunk).filter(|_| self.pages.place(chunk).front(&front).sound)
    }

    /// Whether a chunk is a line of the index.
    pub(crate) fn is_overflow(&self, chunk: u64) -> bool {
        self.medium.region.load_u64(self.medium.at(chunk)) == self.link_word(chunk)
    }
    /// The class of its lines.
    pub(crate) fn line_class(&self) -> usize {
        spares::CLASS
    }
    fn add_entries(&self, stripe: usize, entries: i64) {
        self.entries[stripe % COUNTS].fetch_add(entries, Relaxed);
    }
    /// Entries, about.
    pub(crate) fn len(&self) -> u64 {
        self.entries.iter().map(|count| count.load(Relaxed)).sum::<i64>().max(0) as u64
    }
    /// Pages of buckets.
    pub(crate) fn pages_held(&self) -> u64 {
        self.directory.len() as u64
    }
    pub(crate) fn buckets(&self) -> u64 {
        self.buckets.load(Acquire)
    }
    /// DRAM held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.stripes.bytes() + (self.notes.len() * 16 + self.directory.bytes()) as u64
    }
}
