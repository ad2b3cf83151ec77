//! The blocks of a tier: what all parts share.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;

use terrace_engine::{Failure, StoreError};

use crate::backing::Backing;
use crate::deadlines::Deadlines;
use crate::extent::Extents;
use crate::footer::read_footer;
use crate::free::Free;
use crate::held::Pieces;
use crate::layout::FooterEntry;
use crate::lower::Lower;
use crate::manifest_copies::{block_at, manifest_area, slots_between};
use crate::oldest::Oldest;
use crate::place::{least_block_bytes, slots_max};
use crate::size::{Size, stored_bytes, stored_middle_bytes};
use crate::slot_table::Slots;
use crate::slots::State;
use crate::sync::{AtomicBool, AtomicU64, Mutex};
use crate::written::Written;

/// The longest block, in bytes.
const BLOCK_BYTES_MAX: usize = 32 << 20;

/// The blocks of a tier, their table, and which slots are free.
pub struct Blocks<L> {
    /// The tier.
    pub lower: L,
    /// Size of a block: a power of two.
    pub block_bytes: usize,
    /// The store's identity, part of every block's header.
    pub store_id: u64,
    /// The block table.
    pub slots: Slots,
    /// Slots that nothing is in.
    pub free: Free,
    /// The newest use of any slot.
    pub last_seq: AtomicU64,
    /// A typical record's length on the medium, so that one read usually gets a whole record.
    pub typical_bytes: AtomicU64,
    /// Which slots hold, or held, a block.
    pub written: Written,
    /// Whether the device failed.
    pub failure: FirstFailure,
    /// Counts for people and tests.
    pub counts: Counts,
    pub(crate) deadlines: Deadlines,
    pub(crate) extents: Extents,
    pub(crate) oldest: Oldest,
    pub(crate) pieces: Pieces,
    pub(crate) size: Size,
    pub(crate) backing: Backing,
    /// Where the medium ended that was ever written, when it was opened.
    pub(crate) written_end: u64,
    /// Blocks whose records an opening went through.
    pub(crate) scanned: AtomicU64,
    /// What kept recovery from looking at what it adopts.
    pub(crate) adoption_failed: Mutex<Option<StoreError>>,
    /// Used blocks without a header: torn, or adopted by what describes them (recovery).
    pub(crate) lost_headers: Mutex<Vec<u32>>,
    /// One manifest is stored at a time. Whether both copies are known to be the same.
    pub(crate) manifest_copies: Mutex<bool>,
}

/// Counts for people and tests.
#[derive(Default)]
pub struct Counts {
    /// Slots that were freed.
    pub reused: AtomicU64,
    /// Tombstones that nobody needs any more.
    pub tombstones_dropped: AtomicU64,
    /// Blocks and pages that were searched for what is dead.
    pub purged: AtomicU64,
    /// Footers read to find out when records expire.
    pub footers: AtomicU64,
    /// Records that expired and left the index unread.
    pub expired_unread: AtomicU64,
    /// Large values written.
    pub extents_written: AtomicU64,
    /// Blocks of large values whose pieces were gathered elsewhere.
    pub extents_moved: AtomicU64,
    /// Bytes written for that.
    pub gathered_bytes: AtomicU64,
    /// Damaged records and large values that somebody asked for.
    pub damaged: AtomicU64,
    /// Headers of blocks of large values that recovery missed.
    pub headers_lost: AtomicU64,
    /// Reads that waited for a device read of another job.
    pub reads_merged: AtomicU64,
    /// Slots looked at to find what to evict, and whose block to reclaim.
    pub looked_at: AtomicU64,
    /// Snapshots saved at clean stops.
    pub snapshots_saved: AtomicU64,
    /// Those that could not be saved.
    pub snapshots_not_saved: AtomicU64,
}

/// Why nothing more is written: a write or sync failed. The first reason counts.
#[derive(Default)]
pub struct FirstFailure {
    has_failed: AtomicBool,
    failure: OnceLock<Failure>,
}

impl FirstFailure {
    /// Nothing more is written.
    #[cold]
    pub fn fail(&self, what: &str, error: &io::Error) {
        self.failure.get_or_init(|| {
            let failure = Failure::now(what, error);
            tracing::error!(
                "{}; no more pages are flushed, restart after repairing the device",
                failure.what
            );
            failure
        });
        self.has_failed.store(true, SeqCst);
    }
    /// Whether anything failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }
    /// What did.
    pub fn get(&self) -> Option<&Failure> {
        self.failure.get()
    }
}

impl<L: Lower> Blocks<L> {
    /// The blocks of a tier, all free. What the tier holds is found by [`scan_blocks`](Self::scan_blocks); a new tier must
    /// read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if blocks can't have that size (the text says which they may have), or if the medium is shorter than
    /// it was left; [`StoreError::Io`] if it can't be read.
    pub fn new(lower: L, block_bytes: usize, store_id: u64) -> Result<Self, StoreError> {
        let least = least_block_bytes::<L>();
        if !block_bytes.is_power_of_two() || block_bytes < least || block_bytes > BLOCK_BYTES_MAX {
            return Err(StoreError::Options(format!(
                "pages of {block_bytes} bytes: a power of two from {least} to {BLOCK_BYTES_MAX} is needed"
            )));
        }
        let stored =
            stored_bytes(&lower, store_id).map_err(StoreError::io("reading how long the tier is"))?;
        let middle = stored_middle_bytes(&lower, store_id)
            .map_err(StoreError::io("reading how long the tier above is"))?;
        let bytes = stored.unwrap_or(lower.len());
        if bytes > lower.len() {
            return Err(StoreError::Options(format!(
                "the medium holds {} bytes, but {bytes} are recorded: it was truncated, or a part is missing",
                lower.len()
            )));
        }
        let uncut = lower.len_max().is_some() && bytes < lower.len();
        let count = bytes.saturating_sub(manifest_area::<L>()) / block_bytes as u64;
        let count = count.min(slots_max(block_bytes)) as usize;
        let between = slots_between(&lower, block_bytes);
        if (count as u64) < between || !lower.manifests_apart().is_multiple_of(block_bytes as u64) {
            return Err(StoreError::Options(format!(
                "the lower tier has {bytes} bytes: between the copies of its manifest alone lie {}, in pages of {block_bytes}",
                lower.manifests_apart()
            )));
        }
        let written_end = lower.written_end();
        Ok(Self {
            lower,
            block_bytes,
            store_id,
            slots: Slots::new(count),
            free: Free::all(count as u32),
            last_seq: AtomicU64::new(0),
            typical_bytes: AtomicU64::new(128),
            written: Written::default(),
            failure: FirstFailure::default(),
            deadlines: Deadlines::default(),
            counts: Counts::default(),
            extents: Extents::default(),
            oldest: Oldest::default(),
            pieces: Pieces::default(),
            size: Size::new(bytes, uncut, middle),
            backing: Backing::all(count as u32),
            written_end,
            scanned: AtomicU64::new(0),
            adoption_failed: Mutex::new(None),
            lost_headers: Mutex::new(Vec::new()),
            manifest_copies: Mutex::new(false),
        })
    }
    /// The store has so much DRAM for records, of which the list of deadlines takes a part. Returns how much that, the
    /// lists of large values' pieces and the order of blocks take now.
    pub fn limit_lists(&self, dram_bytes: u64) -> u64 {
        self.deadlines.limit(dram_bytes);
        self.deadlines.bytes() + self.held_bytes() + self.oldest.bytes()
    }
    /// Whether writes would be refused: then what has expired goes at once, and does not wait for others of its block.
    pub fn hurry_expiry(&self, hurries: bool) {
        self.deadlines.hurry(hurries);
    }
    /// Shows database and deadline of some records whose deadlines are listed.
    pub fn sample_deadlines(&self, found: &mut dyn FnMut(u8, u64)) {
        self.deadlines.sample(found);
    }
    /// What is listed of a slot is forgotten: its `min_expire` says when its footer is to be read.
    pub fn forget_deadlines(&self, slot: u32) {
        self.deadlines.forget(slot);
    }
    /// Where a slot's block starts on the medium.
    #[inline]
    pub fn block_offset(&self, slot: u32) -> u64 {
        block_at(&self.lower, slot, self.block_bytes)
    }
    /// Slots kept for deletes and reclamation.
    pub fn reserve(&self) -> usize {
        (self.slots.len() / 64).clamp(RECLAIM_SLOTS + 2, 64)
    }
    /// Whether the slot's block can be read from the medium.
    pub fn on_medium(&self, slot: u32) -> bool {
        matches!(self.slots[slot as usize].state(), State::Sealed | State::Freeing)
    }
    /// A sealed block's footer and where its records end, from the medium.
    pub fn footer_entries(&self, number: u32) -> Option<(Vec<FooterEntry>, u32)> {
        let slot = &self.slots[number as usize];
        let (seq, bytes) = (slot.seq.load(Acquire), slot.footer_bytes());
        let (trailer, entries) =
            read_footer(&self.lower, self.block_offset(number), self.block_bytes, bytes).ok()??;
        (trailer.seq == seq).then_some((entries, trailer.data_end))
    }
}

/// Slots that only reclamation takes: with none, it could move nothing, and nothing would ever be free again.
pub const RECLAIM_SLOTS: usize = 2;
