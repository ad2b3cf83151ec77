//! Reading: from the frame if the page has one, from its copy in the read cache, straight from byte-addressable media, or by a read that completes later
//! (HeterMM section 4.2). The last two are those of [`Blocks`](terrace_blocks::Blocks).

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, Words, fetch_words, prefetch};
use terrace_engine::Buffer;
use terrace_engine::space::{Fetch, Want};
use terrace_index::{Address, Key};

use crate::space::HybridLog;

impl<L: Lower> HybridLog<L> {
    #[inline]
    pub(crate) fn touch_record(&self, address: Address) {
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return };
        match slot.frame() {
            Some(frame) => prefetch(&self.frames.words(frame)[place.offset as usize / 8..]),
            None if self.cache.touch(address) => {}
            None if L::DIRECT => self.blocks.prefetch_direct(place),
            None => {}
        }
    }

    /// Starts loading the record's copy once [`touch_record`](Self::touch_record) has loaded where that may be; the record itself if
    /// there seems to be none.
    #[inline]
    pub(crate) fn touch_copy(&self, address: Address) {
        if self.cache.is_empty() {
            return;
        }
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return };
        if slot.frame().is_none() && !self.cache.touch_copy(&self.frames, address) && L::DIRECT {
            self.blocks.prefetch_direct(place);
        }
    }

    #[inline]
    pub(crate) fn fetch_record(
        &self,
        address: Address,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return Fetch::Differs };
        if let Some(frame) = slot.frame() {
            return fetch_words(
                Words(&self.frames.words(frame)[place.offset as usize / 8..]),
                key,
                want,
                out,
            );
        }
        let seq = slot.seq.load(Relaxed);
        if let Some(words) = self.cache.find(&self.frames, address, seq) {
            return fetch_words(Words(words), key, want, out);
        }
        if !L::DIRECT {
            return Fetch::NeedsRead;
        }
        self.blocks.fetch_direct(place, seq, key, want, out)
    }
}
