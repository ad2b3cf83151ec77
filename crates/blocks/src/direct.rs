//! Reading a record straight from byte-addressable media, and what is left of one that is damaged.

use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Head, RecordMeta, RecordView};
use terrace_engine::space::{Fetch, Want};
use terrace_engine::{fetch_lost, fetch_view};
use terrace_index::Key;
use terrace_media::Buffer;

use crate::blocks::Blocks;
use crate::layout::{BlockTrailer, Stored, TRAILER_BYTES, checked, entries, u64_at};
use crate::lower::Lower;
use crate::place::Place;

/// The longest stretch that is read before a record's length is known.
const FIRST_BYTES_MAX: usize = 1024;
const FIRST_BYTES_MIN: usize = 64;
const SHORT_BYTES: usize = 192;

impl<L: Lower> Blocks<L> {
    /// How many bytes to read of a record of unknown length.
    #[inline]
    pub(crate) fn first_bytes(&self, place: Place) -> usize {
        let typical = self.typical_bytes.load(Relaxed) as usize;
        typical.clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX).min(self.block_bytes - place.offset as usize)
    }

    /// The same, if somebody may know it.
    pub(crate) fn first_read(&self, place: Place, known: Option<usize>) -> usize {
        match known {
            Some(bytes) => bytes.max(FIRST_BYTES_MIN).min(self.block_bytes - place.offset as usize),
            None => self.first_bytes(place),
        }
    }

    /// Starts loading the record at a place into the cache.
    #[inline]
    pub fn prefetch_direct(&self, place: Place) {
        self.lower.prefetch(self.block_offset(place.slot) + u64::from(place.offset), self.first_bytes(place));
    }

    /// Reads the record at a place whose slot is used as `seq`, as [`Records::fetch`](terrace_engine::space::Records::fetch) says. If
    /// it is damaged, the block's footer says whose it is.
    ///
    /// # Panics
    /// On block media.
    pub fn fetch_direct(
        &self,
        place: Place,
        seq: u64,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        self.with_direct(place, seq, |found| match found {
            Some((mut view, _)) => {
                view.head.tier = L::TIER;
                fetch_view(&view, key, want, out)
            }
            None => match (self.footer_of(place, seq), key) {
                (Some((hash, head)), Some(key)) if hash == key.hash => {
                    self.counts.damaged.fetch_add(1, Relaxed);
                    fetch_lost(hash, head, Some(key))
                }
                _ => Fetch::Differs,
            },
        })
    }

    /// Shows the whole record at a place whose slot is used as `seq`; nothing if it is damaged.
    ///
    /// # Panics
    /// On block media.
    pub fn read_direct(&self, place: Place, seq: u64, show: &mut dyn FnMut(&[u8])) {
        self.with_direct(place, seq, |found| found.into_iter().for_each(|(_, bytes)| show(bytes)));
    }

    #[inline]
    fn with_direct<R>(
        &self,
        place: Place,
        seq: u64,
        then: impl FnOnce(Option<(RecordView<'_>, &[u8])>) -> R,
    ) -> R {
        let first = self.first_bytes(place);
        // Clearing the buffer is a good part of a short read's cost.
        if first <= SHORT_BYTES {
            self.with_record(&mut [0; SHORT_BYTES][..first], place, seq, then)
        } else {
            self.with_record(&mut [0; FIRST_BYTES_MAX][..first], place, seq, then)
        }
    }

    #[inline]
    fn with_record<R>(
        &self,
        first: &mut [u8],
        place: Place,
        seq: u64,
        then: impl FnOnce(Option<(RecordView<'_>, &[u8])>) -> R,
    ) -> R {
        let offset = self.block_offset(place.slot) + u64::from(place.offset);
        self.lower.read_now(offset, first);
        let meta = RecordMeta(u64_at(first, 8));
        let used = meta.used_words() * 8;
        let long;
        let bytes: &[u8] = if used <= first.len() || !meta.plausible() {
            first
        } else if place.offset as usize + used > self.block_bytes {
            &[]
        } else {
            let mut whole = vec![0; used];
            whole[..first.len()].copy_from_slice(first);
            self.lower.read_now(offset + first.len() as u64, &mut whole[first.len()..]);
            long = whole;
            &long
        };
        then(
            checked(seq, place.slot, place.offset, bytes).map(|view| (view, &bytes[..used.min(bytes.len())])),
        )
    }

    /// The hash that the footer of a block has for a place whose record can't be read, and what else it says; `None` if the block
    /// is not that of `seq`, or its footer is bad, too.
    pub(crate) fn footer_of(&self, place: Place, seq: u64) -> Option<(u64, Head)> {
        let block = self.block_bytes;
        let start = self.block_offset(place.slot);
        let mut bytes = [0; TRAILER_BYTES];
        self.lower.read(start + (block - TRAILER_BYTES) as u64, &mut bytes).ok()?;
        let Stored::Valid(trailer) = BlockTrailer::decode(&bytes, block) else { return None };
        if trailer.seq != seq {
            return None;
        }
        let mut footer = vec![0; trailer.footer_bytes()];
        self.lower.read(start + (block - TRAILER_BYTES - footer.len()) as u64, &mut footer).ok()?;
        if crc32c::crc32c(&footer) != trailer.footer_crc {
            return None;
        }
        let mut list = entries(&trailer, &footer).skip_while(|entry| entry.offset != place.offset);
        let entry = list.next()?;
        let end = list.next().map_or(trailer.data_end, |next| next.offset);
        let words = end.saturating_sub(entry.offset) as usize / 8;
        Some((entry.hash, Head::lost(entry.version, entry.kind, entry.db, words, L::TIER)))
    }
}
