//! Fetching a record from its chunk.
//!
//! # Thread safety
//! A chunk that the index led to during this epoch is not filled again before the epoch has passed. Its word may change meanwhile.

use terrace_blocks::u64_at;
use terrace_engine::record::{Head, Kind, RecordMeta, RecordView};
use terrace_engine::space::{Fetch, Want};
use terrace_engine::{fetch_lost, fetch_view};
use terrace_index::Key;
use terrace_media::{Buffer, ByteRegion};

use crate::layout::{CHUNK_HEAD_BYTES, FRONT_BYTES, Front};
use crate::space::HeapSpace;

/// Read before a record's length is known: two lines, which hold 64 bytes with a key of 8.
const FIRST_BYTES: usize = 128;
/// Records up to here are read to the stack.
const SHORT_BYTES: usize = 1024;
/// [`Head::tier`] of what is read here.
pub(crate) const TIER: u8 = 1;

impl<R: ByteRegion> HeapSpace<R> {
    /// Reads a record, as [`Records::fetch`](terrace_engine::space::Records::fetch) says.
    #[inline]
    pub(crate) fn fetch_chunk(
        &self,
        offset: u64,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        let mut short = [0; SHORT_BYTES];
        let Some(room) = self.chunk_room(offset) else { return self.fetch_nothing(offset, key) };
        let first = FIRST_BYTES.min(room);
        self.medium.region.read(self.medium.at(offset), &mut short[..first]);
        let end = CHUNK_HEAD_BYTES + RecordMeta(u64_at(&short, CHUNK_HEAD_BYTES + 8)).used_words() * 8;
        let long;
        let bytes = if end <= first {
            &short[..end]
        } else if end > room {
            return self.fetch_damaged(offset, key);
        } else if end <= SHORT_BYTES {
            self.medium.region.read(self.medium.at(offset) + first as u64, &mut short[first..end]);
            &short[..end]
        } else {
            long = self.read_bytes(offset, end);
            &long[..]
        };
        match self.view(offset, bytes) {
            Some(view) => fetch_view(&view, key, want, out),
            None => self.fetch_damaged(offset, key),
        }
    }

    /// Bytes of the chunk that starts there, if one does.
    #[inline]
    pub(crate) fn chunk_room(&self, offset: u64) -> Option<usize> {
        if self.pages.has_objects() {
            return self.pages.number(offset).map(|(_, size, _)| self.pages.chunk_bytes(size));
        }
        Some(self.pages.chunk_bytes(self.pages.class_of(self.pages.page_of(offset))?))
    }

    fn read_bytes(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.medium.region.read(self.medium.at(offset), &mut read);
        read
    }

    /// The record in a chunk's bytes, if it is whole and its word is one that it can have: a session that came here before its key was
    /// overwritten may find it free.
    pub(crate) fn view<'a>(&self, offset: u64, bytes: &'a [u8]) -> Option<RecordView<'a>> {
        let mut view = self.pages.place(offset).view(bytes)?;
        view.head.tier = TIER;
        Some(view)
    }

    /// All of a chunk up to the end of its record, and that is whole.
    pub(crate) fn whole(&self, offset: u64) -> Option<Vec<u8>> {
        let front = self.read_front(offset)?.1;
        let end = CHUNK_HEAD_BYTES + front.meta.used_words() * 8;
        let bytes = self.read_bytes(offset, end.min(self.chunk_room(offset)?));
        self.view(offset, &bytes)?;
        Some(bytes)
    }

    /// A chunk's word, and the front of its record.
    pub(crate) fn read_front(&self, offset: u64) -> Option<(u64, Front)> {
        let mut front = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut front);
        Some((u64_at(&front, 0), self.pages.place(offset).front(&front)))
    }

    /// No chunk starts there: a line of the index may that is damaged, and then whose record it led to can't be told.
    #[cold]
    fn fetch_nothing(&self, offset: u64, key: Option<&Key<'_>>) -> Fetch {
        match key.filter(|_| self.pages.is_index(self.pages.page_of(offset))) {
            Some(key) => Fetch::Damaged(self.unknown(key.db)),
            None => Fetch::Differs,
        }
    }

    /// The head of a record of which nothing is known: it is none that a flush has forgotten.
    fn unknown(&self, db: u8) -> Head {
        let flushed = self.flushed[usize::from(db) & 15].load(std::sync::atomic::Ordering::Relaxed);
        Head::lost(flushed + 1, Kind::Value, db, 0, TIER)
    }

    #[cold]
    fn fetch_damaged(&self, offset: u64, key: Option<&Key<'_>>) -> Fetch {
        match (self.read_front(offset), key) {
            (Some((_, front)), _) if front.sound => {
                let (kind, db) = (front.meta.kind(), front.meta.db());
                let lost = Head::lost(front.version, kind, db, front.meta.slot_words(), TIER);
                fetch_lost(front.hash, lost, key)
            }
            // Whose it was can't be told: an error is better than a miss.
            (_, Some(key)) => Fetch::Damaged(self.unknown(key.db)),
            (_, None) => Fetch::Differs,
        }
    }
}
