//! Eras of nodes: how long what is in a place that counts is the same (BonsaiKV section 4.3.2: WoSI, and its clock).
//!
//! ```text
//!   version of a line   era:16 | change:7 | odd:1        a place let go in an era is written over in a later one alone
//! ```
//!
//! Whoever copies an entry notes the era, and reads it with the line that leads there: the copy is of what counts while that era lasts.
//! Nobody is told of a change, and nothing waits. The paper has a clock of all nodes in the place of eras, and checkpoints wait by it.
//!
//! # Invariants
//! - Of a place that counts all is the same that was read of it in this era.
//! - A place that was let go in an era is taken in it only if no other one is free: then a new era begins, and copies of all the node end.

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock};

use super::dram::{Descriptor, Seen};
use super::layout::ENTRIES_MAX;
use super::stamps::{Coherence, Stamp, Stamps};
use crate::sync::AtomicU64;

/// Eras of the slots of each page, kept by the keeper: the places let go in them.
pub struct Eras {
    let_go: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// The NUMA node of each page.
    homes: Arc<[u8]>,
    stamps: Arc<Stamps>,
}

impl Eras {
    pub fn new(homes: Arc<[u8]>, stamps: Arc<Stamps>) -> Self {
        Self { let_go: homes.iter().map(|_| OnceLock::new()).collect(), homes, stamps }
    }
    pub fn add_page(&self, page: u32, slots: usize) {
        self.let_go[page as usize].get_or_init(|| (0..slots).map(|_| AtomicU64::new(0)).collect());
    }
    fn word(&self, page: u32, i: usize) -> Option<&AtomicU64> {
        self.let_go[page as usize].get()?.get(i)
    }
    /// The places of a slot that were let go in its era.
    pub fn let_go(&self, page: u32, i: usize) -> u64 {
        self.word(page, i).map_or(0, |word| word.load(Relaxed))
    }
    /// Makes a slot's line say something else. `is_new`: another node is there from now on.
    pub fn change(&self, (slot, page, i): (u32, u32, usize), line: &Descriptor, to: &Seen, is_new: bool) {
        let was = line.read();
        let before = was.bitmap();
        let gone = before & !to.bitmap();
        if self.stamps.coherence() != Coherence::SelfInvalidate {
            line.change(to, false);
            if self.stamps.coherence() == Coherence::None {
                return;
            }
            if self.stamps.coherence() == Coherence::Update && to.is_node() && !is_new {
                // Whoever changes it writes copies anew, or says that there are none.
                return;
            }
            let home = u32::from(self.homes[page as usize]);
            let ended = if is_new { before } else { gone };
            let entries = (0..ENTRIES_MAX).filter(|i| ended >> i & 1 == 1);
            self.stamps.invalidate(home, entries.map(|i| Stamp::new(slot, (i, was.fp(i)), 0)));
            return;
        }
        let Some(word) = self.word(page, i) else { return line.change(to, true) };
        let let_go = word.load(Relaxed);
        let is_new_era = is_new || let_go & to.bitmap() & !before != 0 || line.is_last_of_era();
        let comes_round = is_new_era && line.is_last_era();
        if comes_round {
            // Of the eras that come there is no stamp yet.
            self.stamps.forget(slot);
        }
        // Of what goes with the era before it there is no copy in this one.
        word.store(if is_new_era { 0 } else { let_go | gone }, Relaxed);
        line.change(to, is_new_era);
        if comes_round {
            // And none of the last one is left by a reader who began a copy meanwhile: whoever begins one now finds the node changed.
            self.stamps.look();
            self.stamps.forget(slot);
        }
    }
    /// DRAM that it takes.
    pub fn dram_bytes(&self) -> u64 {
        let pages = self.let_go.iter().filter_map(OnceLock::get).map(|page| page.len() * 8);
        (pages.sum::<usize>() + self.let_go.len() * size_of::<OnceLock<Box<[AtomicU64]>>>()) as u64
            + self.stamps.dram_bytes()
    }
}
