//! How much of a tier has its place on the medium: a file is as long as the tier from the start, and takes room as it fills.
//!
//! ```text
//! slots   0 ......................... backed ......................... end
//!         taken, or in the list of    free, and in no list: the file
//!         free ones                   system has not been asked yet
//! ```
//!
//! Steps ask for room ahead of need, so that no writer waits for the file system and no write finds the disk full. Where it refuses,
//! the tier is as large as what it has, and is asked for more again from time to time. Room that was had reads as zeros, as it did
//! before: a crash at any moment leaves nothing to recover.
//!
//! # Thread safety
//! `backed` changes under the lock of the free slots; who asks holds `refusal`, which is taken before that.
//!
//! # Invariants
//! * A slot from `backed` on was never written while `backed` has stood there, and is not in the list.
//! * Slots enter the list below all others (`written.rs` rests on the order).

use std::io;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use crate::blocks::Blocks;
use crate::lower::Lower;
use crate::manifest_copies::slots_between;
use crate::slots::State;
use crate::sync::{AtomicBool, AtomicU32, Mutex};

/// What is asked for at once at least, and at most.
const STEP_BYTES: u64 = 64 << 20;
const STEP_BYTES_MAX: u64 = 1 << 30;
/// The share of what there is that is asked for at once, between those bounds.
const STEP_SHARE: u64 = 8;
/// Who was refused asks again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// How much of a tier has its place.
pub(crate) struct Backing {
    backed: AtomicU32,
    refused: AtomicBool,
    refusal: Mutex<Option<Refusal>>,
}

struct Refusal {
    asked: Instant,
    why: String,
}

impl Backing {
    /// All of it has.
    pub fn all(slots: u32) -> Self {
        Self { backed: AtomicU32::new(slots), refused: AtomicBool::new(false), refusal: Mutex::new(None) }
    }
    /// Slots below have their place.
    pub fn backed(&self) -> u32 {
        self.backed.load(SeqCst)
    }
    /// The medium ends here, and is about to be shorter.
    pub fn cut(&self, end: u32) {
        self.backed.fetch_min(end, SeqCst);
    }
}

impl<L: Lower> Blocks<L> {
    /// Begins with what is in use, and a first part beside it. The list of free slots is complete.
    pub(crate) fn begin_backing(&self) {
        let in_use = self.slots.iter().enumerate().filter(|(_, slot)| slot.state() != State::Free).last();
        let in_use = in_use.map_or(0, |(number, _)| number as u32 + 1);
        {
            let mut free = self.free.slots.lock();
            free.retain(|slot| *slot < in_use);
            self.backing.backed.store(in_use, SeqCst);
        }
        // A copy of a store may have holes where it had none.
        let between = slots_between(&self.lower, self.block_bytes) as u32;
        let needed = in_use.max(between);
        if needed > 0
            && let Err(error) = self.lower.reserve(self.block_offset(needed))
        {
            tracing::warn!("tier {}: {error}; writes to it may fail", L::NAME);
        }
        self.ask(self.step());
    }

    /// Asks for room, by steps, where fewer than `wanted` slots are free; whether there are more now.
    pub fn back(&self, wanted: usize) -> bool {
        if self.backing.backed() as usize >= self.usable() {
            return false;
        }
        let free = self.free.slots.lock().len();
        free < wanted && self.ask(((wanted - free) as u32).max(self.step()))
    }

    /// Slots that steps keep free beside those that somebody needs, so that writers find some while more are asked for.
    pub fn ahead(&self) -> usize {
        self.step() as usize / 2
    }

    /// Free slots, those that the medium has to be asked for among them.
    pub fn free_slots(&self) -> usize {
        let listed = self.free.slots.lock().len();
        listed + self.obtainable().saturating_sub(self.backing.backed() as usize)
    }

    /// Slots that can be used, as far as anybody knows: less than [`usable`](Self::usable) where the medium refuses to be longer.
    pub fn obtainable(&self) -> usize {
        let usable = self.usable();
        if self.backing.refused.load(SeqCst) { usable.min(self.backing.backed() as usize) } else { usable }
    }

    /// Bytes that have their place on the medium.
    pub fn backed_bytes(&self) -> u64 {
        self.block_offset(self.backing.backed().min(self.usable() as u32))
    }

    /// Why there are no more of them, if the medium refuses.
    pub fn backing_refused(&self) -> Option<String> {
        self.backing.refusal.lock().as_ref().map(|refusal| refusal.why.clone())
    }

    fn step(&self) -> u32 {
        let bytes = self.backed_bytes() / STEP_SHARE;
        (bytes.clamp(STEP_BYTES, STEP_BYTES_MAX) / self.block_bytes as u64).max(1) as u32
    }

    fn ask(&self, wanted: u32) -> bool {
        let mut refusal = self.backing.refusal.lock();
        if refusal.as_ref().is_some_and(|refusal| refusal.asked.elapsed() < AGAIN) {
            return false;
        }
        let (backed, end) = (self.backing.backed(), self.usable() as u32);
        let more = match self.reserve_some(backed, wanted.min(end.saturating_sub(backed))) {
            Ok(more) => more,
            Err(error) => {
                if refusal.is_none() {
                    tracing::warn!(
                        "tier {} can't grow beyond {} bytes, of {} that it may have: {error}",
                        L::NAME,
                        self.backed_bytes(),
                        self.block_offset(end)
                    );
                }
                *refusal = Some(Refusal { asked: Instant::now(), why: error.to_string() });
                self.backing.refused.store(true, SeqCst);
                return false;
            }
        };
        if more == 0 {
            return false;
        }
        {
            let mut free = self.free.slots.lock();
            let to = (backed + more).min(self.usable() as u32);
            let new = (backed..to).rev().filter(|&slot| self.slots[slot as usize].state() == State::Free);
            let new: Vec<u32> = new.collect();
            free.splice(0..0, new);
            self.backing.backed.store(to.max(backed), SeqCst);
        }
        if refusal.take().is_some() {
            tracing::info!("tier {} grows again: it has {} bytes", L::NAME, self.backed_bytes());
        }
        self.backing.refused.store(false, SeqCst);
        true
    }

    /// Has the medium keep room for some blocks more, as many as it can have up to so many.
    fn reserve_some(&self, backed: u32, wanted: u32) -> io::Result<u32> {
        let mut more = wanted;
        while more > 0 {
            match self.lower.reserve(self.block_offset(backed + more)) {
                Ok(()) => break,
                Err(_) if more > 1 => more /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(more)
    }
}
