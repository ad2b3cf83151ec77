//! What a clean stop saves, and the opening after it: index and block table (`clean_stop.rs` of `terrace_blocks`), and a hot list of
//! 8 bytes for each record that was in DRAM, hottest first (`warm.rs`).

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Homes, Lower, Place};
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::Counted;
use terrace_index::{Address, Index};

use crate::location::{Location, Locations};
use crate::space::SlabSpace;

impl<L: Lower> Homes for SlabSpace<L> {
    const KINDS: bool = true;

    fn home(&self, address: Address) -> Option<Address> {
        if Locations::is_dram(address) { self.home_of(address) } else { Some(address) }
    }
    fn place(&self, home: Address) -> Option<Place> {
        match self.locations.location(home) {
            Location::Page(place, _) => Some(place),
            Location::Dram(_) | Location::Pmem(_) => None,
        }
    }
    fn kind(&self, home: Address) -> Option<Kind> {
        Locations::kind(home)
    }
    fn hot(&self, most: usize) -> Vec<u64> {
        self.hot_list(most)
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Saves index and space; they change no more. Where the head is, if it could be saved.
    pub(crate) fn save<I: Index>(&self, index: &I, counted: &Counted, sequence: u64) -> Option<u32> {
        index.as_snapshot()?;
        if self.middle.is_some() {
            // A snapshot names pages alone.
            return None;
        }
        self.stop_steps();
        if self.debts.unsettled.load(Relaxed) > 0 {
            self.blocks.saves_nothing(&"what some sets replaced was not found out");
            return None;
        }
        self.blocks.save_stopped(self, index, counted, sequence)
    }

    /// Brings index and space back as a snapshot has them.
    pub(crate) fn load<I: Index>(
        &self,
        index: &mut I,
        place: u32,
        manifest: &Manifest,
        threads: usize,
    ) -> Result<(Counted, u64), String> {
        if self.middle.is_some() {
            return Err("it says nothing of the middle tier".into());
        }
        let restored = self.blocks.load_stopped(self, index, place, manifest, threads)?;
        self.begin_warming(restored.hot);
        Ok((restored.counted, restored.newest))
    }
}
