//! How the write region and the read cache trade pages (HeterMM section 5.1, figure 6).
//!
//! ```text
//!             free frames --> writers' pages --> sealed, still in their frames --+
//!                ^      '---> pages of the cache --------------------------------+--> whichever is older gives its frame back
//!                '--------------------------------------- (an epoch later) ------'
//! ```
//!
//! Age is told in pages of the write region: where writers fill pages fast, those of the cache grow old and go. Where they rest,
//! pages of theirs that could still be updated in place are flushed, some at a time, and the cache has their frames.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, State};
use terrace_engine::ReadCache;
use terrace_engine::space::{Context, Durable};
use terrace_index::Address;

use crate::flush::Flushing;
use crate::space::{HybridLog, Local};

/// Where misses are cheap, one of so many is counted once the cache is full.
const COUNTED_EVERY: u32 = 4;
/// Pages that the cache fills between two looks at what writers did meanwhile.
const FILLED_A_LOOK: u64 = 4;
/// Writers rest if they began at most one page for so many of the cache.
const REST: u64 = 8;
/// Frames that the cache may keep for later, since steps come now and then: this part of DRAM.
const SPARE_PART: usize = 32;
/// Of DRAM, writers keep this part, and so many pages at least: for one that is filled and one that is flushed.
const WRITERS_LEAST: usize = 2;
const WRITERS_PART: usize = 16;

/// What trading remembers between steps.
#[derive(Default)]
pub(crate) struct Trading {
    /// Pages that the cache has been given.
    given: u64,
    /// As many as had been at the last look, and the newest page of writers then.
    looked: (u64, u64),
    aside_bytes: u64,
}

impl<L: Lower> HybridLog<L> {
    /// A client's get has read this record below DRAM: the cache may copy it.
    pub(crate) fn record_missed(&self, local: &mut Local<L>, address: Address, read: Option<&[u8]>) {
        let admission = self.cache.admission();
        if admission == ReadCache::Off {
            return;
        }
        let every = match admission {
            ReadCache::Sampled(every) => every.get(),
            // Counting costs a good part of what such a miss does.
            _ if L::DIRECT && self.cache.is_full() => COUNTED_EVERY,
            _ => 1,
        };
        local.missed += 1;
        if local.missed < every {
            return;
        }
        local.missed = 0;
        let place = self.addresses.place(address);
        let Some(slot) = self.blocks.slots.get(place.slot as usize) else { return };
        // A large value was read below DRAM, and the record that describes it perhaps not.
        if slot.frame().is_some() || slot.state() != State::Sealed || !L::DIRECT && read.is_none() {
            return;
        }
        let seq = slot.seq.load(Relaxed);
        self.cache.admit(
            &self.frames,
            (address, seq),
            self.blocks.last_seq.load(Relaxed),
            |copy| match read {
                Some(bytes) => copy(bytes),
                None => self.blocks.read_direct(place, seq, copy),
            },
        );
    }

    /// Gives the cache the frame that it wants, if one is to be had.
    pub(crate) fn trade_step(
        &self,
        trading: &mut Trading,
        flushing: &mut Flushing,
        context: &dyn Context,
    ) -> bool {
        if !self.cache.is_possible() {
            return false;
        }
        let aside = self.cache.aside_bytes();
        if aside != trading.aside_bytes {
            trading.aside_bytes = aside;
            self.target.set_aside(aside);
        }
        if self.cache.admission() == ReadCache::Off {
            return self.take_from_cache(flushing, None, context);
        }
        let wanted = self.cache.filling.lock().wants((self.target.frames() / SPARE_PART).max(1));
        if wanted == 0 || self.blocks.free.hungry.load(SeqCst) {
            return false;
        }
        let frames: Vec<u32> = {
            let mut pool = self.pool.lock();
            // Who keeps as many as writers want has one to give.
            let more = (pool.frames.len() + 1).saturating_sub(self.frames_wanted());
            let kept = pool.frames.len() - more.min(wanted).min(pool.frames.len());
            pool.frames.split_off(kept)
        };
        if frames.is_empty() {
            return false;
        }
        trading.given += frames.len() as u64;
        self.cache.filling.lock().give(frames.into_iter());
        self.look_at_writers(trading);
        true
    }

    /// Has pages flushed whose frames the cache needs more than writers do.
    fn look_at_writers(&self, trading: &mut Trading) {
        let (given, newest) = (trading.given, self.last_seq());
        if given < trading.looked.0 + FILLED_A_LOOK {
            return;
        }
        let (begun, filled) = (newest - trading.looked.1, given - trading.looked.0);
        let rest = begun * REST <= filled;
        trading.looked = (given, newest);
        self.resting.store(rest, Relaxed);
        if !rest {
            return;
        }
        let kept = WRITERS_LEAST.max(self.target.frames() / WRITERS_PART);
        let pool = self.pool.lock();
        let more = pool.unsealed.len().saturating_sub(kept).min(4 * filled as usize);
        let Some(last) = more.checked_sub(1).and_then(|last| pool.unsealed.get(last)) else { return };
        self.flush_target.fetch_max(self.blocks.slots[*last as usize].seq.load(Relaxed), SeqCst);
    }

    /// The oldest page of the cache gives its frame back, if it is older than `than`, the sequence number of a page of writers.
    pub(crate) fn take_from_cache(
        &self,
        flushing: &mut Flushing,
        than: Option<u64>,
        context: &dyn Context,
    ) -> bool {
        if !self.cache.is_possible() {
            return false;
        }
        {
            let filling = self.cache.filling.lock();
            let older = match (filling.oldest(), than) {
                (Some(stamp), Some(seq)) => stamp < seq,
                (_, None) => filling.holds_any(),
                (None, Some(_)) => false,
            };
            if !older {
                return false;
            }
        }
        let mut more = {
            let mut pool = self.pool.lock();
            if pool.frames.len() > 1 { pool.frames.pop() } else { None }
        };
        let rest = self.resting.load(Relaxed);
        let frame = self.cache.give_up_oldest(&self.frames, self.last_seq(), rest, &mut more);
        self.pool.lock().frames.extend(more);
        let Some(frame) = frame else { return false };
        flushing.cool(context.advance_epoch(), frame);
        true
    }
}
