//! Fetching a record from its slot.
//!
//! # Thread safety
//! A slot that the index led to during this epoch is not written before the epoch has passed.

use terrace_blocks::{checked, u64_at};
use terrace_engine::Buffer;
use terrace_engine::record::{Head, Kind, RecordMeta, RecordView};
use terrace_engine::space::{Fetch, Want};
use terrace_engine::{fetch_lost, fetch_view};
use terrace_index::Key;

use super::layout::{LINE_BYTES, SLOT_HEAD_BYTES, StoredSlot};
use super::slab::PmemSlabs;

/// Read before a record's length is known.
const FIRST_BYTES: usize = 256;
/// [`Head::tier`] of what is read here.
const TIER: u8 = 1;

impl PmemSlabs {
    /// Starts loading the record of a slot.
    #[inline]
    pub fn touch(&self, at: u64) {
        self.medium.prefetch(at, FIRST_BYTES);
    }

    /// The version of the record in a slot.
    pub fn version(&self, at: u64) -> u64 {
        self.medium.load(at + SLOT_HEAD_BYTES as u64)
    }

    /// Reads the record of a slot, as [`Records::fetch`](terrace_engine::space::Records::fetch) says.
    pub fn fetch(&self, at: u64, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        let mut first = [0; FIRST_BYTES];
        self.medium.read(at, &mut first);
        let long;
        let bytes = match self.rest(at, &first) {
            Some(whole) => {
                long = whole;
                &long[..]
            }
            None => &first[..],
        };
        match self.view(at, bytes) {
            Some(view) => fetch_view(&view, key, want, out),
            None => self.fetch_damaged(at, key),
        }
    }

    /// The whole record in a slot, encoded; `None` if it is damaged.
    pub fn record(&self, at: u64) -> Option<Vec<u8>> {
        let mut first = [0; FIRST_BYTES];
        self.medium.read(at, &mut first);
        let bytes = self.rest(at, &first).unwrap_or_else(|| first.to_vec());
        self.view(at, &bytes)?;
        Some(bytes[SLOT_HEAD_BYTES..].to_vec())
    }

    /// All of a slot whose record is longer than its first bytes.
    fn rest(&self, at: u64, first: &[u8; FIRST_BYTES]) -> Option<Vec<u8>> {
        let meta = RecordMeta(u64_at(first, SLOT_HEAD_BYTES + 8));
        let end = SLOT_HEAD_BYTES + meta.used_words() * 8;
        let room = self.class_of(self.slab_of(at)).map_or(0, |class| self.slot_bytes(class));
        if end <= FIRST_BYTES || end > room || !meta.plausible() {
            return None;
        }
        let mut whole = vec![0; end];
        whole[..FIRST_BYTES].copy_from_slice(first);
        self.medium.read(at + FIRST_BYTES as u64, &mut whole[FIRST_BYTES..]);
        Some(whole)
    }

    fn view<'a>(&self, at: u64, bytes: &'a [u8]) -> Option<RecordView<'a>> {
        let place = self.place(at);
        let offset = place.offset + SLOT_HEAD_BYTES as u32;
        // A commit word that is not right speaks of damage that an opening will find as well.
        let committed = u64_at(bytes, 0) == place.commit(u64_at(bytes, SLOT_HEAD_BYTES));
        let mut view =
            checked(place.seq, place.slab, offset, &bytes[SLOT_HEAD_BYTES..]).filter(|_| committed)?;
        view.head.tier = TIER;
        Some(view)
    }

    #[cold]
    fn fetch_damaged(&self, at: u64, key: Option<&Key<'_>>) -> Fetch {
        let mut line = [0; LINE_BYTES];
        self.medium.read(at, &mut line);
        match (self.place(at).decode(&line), key) {
            (StoredSlot::Filled(head) | StoredSlot::Damaged(head), _) => {
                let (kind, db) = (head.meta.kind(), head.meta.db());
                let lost = Head::lost(head.version, kind, db, head.meta.slot_words(), TIER);
                fetch_lost(head.hash, lost, key)
            }
            // Whose it was can't be told: an error is better than a miss.
            (StoredSlot::Free | StoredSlot::Lost, Some(key)) => {
                Fetch::Damaged(Head::lost(0, Kind::Value, key.db, 0, TIER))
            }
            (StoredSlot::Free | StoredSlot::Lost, None) => Fetch::Differs,
        }
    }
}
