//! What a clean stop saves, so that the next opening reads it instead of scanning every page and hashing every key
//! (`crates/blocks/src/snapshot.rs` has its blocks).
//!
//! ```text
//! parts   of the index | of the block table | of the hot list: 8 bytes for each record that was in DRAM, hottest first (warm.rs)
//! added to the head
//!   0 parts of the index:u32, of the table:u32, of the hot list:u32, zero:u32   16 name of the index:16
//!   32 typical bytes of a record:u64   40 entries that are values, extents, tombstones, poisons: 4 x u64
//!   72 tombstones:u64   80 keys of each database: 16 x u64   208 what the index adds
//! ```
//!
//! # Invariants
//! * It is saved when every record in DRAM has a home, and names homes alone: after it no step does anything any more.
//! * It is used as a whole or not at all: index, table and counts are taken over once every part has been verified, and every page
//!   was seen to be what the table says.

use std::io;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, SavedSlot, State, u32_at, u64_at};
use terrace_engine::DATABASES;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::Counted;
use terrace_index::{Address, Index};

use crate::location::Locations;
use crate::space::SlabSpace;

const NAME_BYTES: usize = 16;
const FIXED: usize = 80 + DATABASES * 16;

/// The kind of the record that a page's address names (see `location`).
fn kind_in(address: Address) -> usize {
    (address.raw() >> 44 & 3) as usize
}

fn name_of(index: &impl Index) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let bytes = index.name().as_bytes();
    let length = bytes.len().min(NAME_BYTES);
    name[..length].copy_from_slice(&bytes[..length]);
    name
}

impl<L: Lower> SlabSpace<L> {
    /// Saves index and space; they change no more. Where the head is, if it could be saved.
    pub(crate) fn save<I: Index>(&self, index: &I, counted: &Counted, sequence: u64) -> Option<u32> {
        index.as_snapshot()?;
        if self.middle.is_some() {
            // A snapshot names pages alone.
            return None;
        }
        match self.write_snapshot(index, counted, sequence) {
            Ok(head) => {
                self.details.snapshots_saved.fetch_add(1, Relaxed);
                Some(head)
            }
            Err(error) => {
                // The pages are all there: the next opening scans them.
                tracing::warn!("the next start will scan all pages, for no snapshot could be saved: {error}");
                self.details.snapshots_not_saved.fetch_add(1, Relaxed);
                None
            }
        }
    }

    fn write_snapshot<I: Index>(&self, index: &I, counted: &Counted, sequence: u64) -> io::Result<u32> {
        let saved = index.as_snapshot().ok_or_else(|| io::Error::other("the index can't be saved"))?;
        self.stop_steps();
        if self.debts.unsettled.load(Relaxed) > 0 {
            return Err(io::Error::other("what some sets replaced was not found out"));
        }
        self.blocks.close_open_extents();
        let mut writer = self.blocks.begin_snapshot();
        let mut kinds = [0u64; 4];
        let mut placed = |address: Address| {
            let home = if Locations::is_dram(address) { self.home_of(address)? } else { address };
            kinds[kind_in(home)] += 1;
            Some(home)
        };
        let segment_bytes = writer.part_bytes();
        let head = saved.save(segment_bytes, &mut placed, &mut |segment| writer.add(segment))?;
        let index_parts = writer.parts();
        self.blocks.save_table(&mut writer)?;
        let table_parts = writer.parts() - index_parts;
        // The hottest that there is room for beside the head.
        let free = self.blocks.free.slots.lock().len().saturating_sub(1);
        for part in self.hot_list(free * (segment_bytes / 8)).chunks(segment_bytes / 8) {
            let bytes: Vec<u8> = part.iter().flat_map(|hot| hot.to_le_bytes()).collect();
            writer.add(&bytes)?;
        }
        let hot_parts = writer.parts() - index_parts - table_parts;
        let keys: u64 = counted.keys.iter().sum();
        let tombstones = kinds[Kind::Tombstone as usize];
        // What a flush forgot is in the index until somebody looks for it, and not among the keys.
        if tombstones != counted.tombstones || keys > kinds.iter().sum::<u64>() - tombstones {
            let what = format!(
                "the index holds {kinds:?} records by kind, which is not what was counted: {counted:?}"
            );
            return Err(io::Error::other(what));
        }
        let mut added = Vec::with_capacity(FIXED + head.len());
        added.extend([index_parts, table_parts, hot_parts, 0].into_iter().flat_map(u32::to_le_bytes));
        added.extend_from_slice(&name_of(index));
        let typical = self.blocks.typical_bytes.load(Relaxed);
        let words = [typical]
            .into_iter()
            .chain(kinds)
            .chain([counted.tombstones])
            .chain(counted.keys)
            .chain(counted.expiring);
        added.extend(words.flat_map(u64::to_le_bytes));
        added.extend_from_slice(&head);
        writer.finish(sequence, &added)
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
        let reader = self.blocks.open_snapshot(place, manifest.sequence)?;
        let added = reader.added();
        if added.len() < FIXED {
            return Err("its head is short".into());
        }
        if added[16..32] != name_of(index) {
            let name = String::from_utf8_lossy(&added[16..32]);
            return Err(format!("it is of index {}", name.trim_end_matches('\0')));
        }
        let parts = [0, 4, 8].map(|at| u64::from(u32_at(added, at)));
        if parts.iter().sum::<u64>() != u64::from(reader.parts()) {
            return Err("it has other parts than it says".into());
        }
        let [index_parts, table_parts, _] = parts.map(|parts| parts as u32);
        let table_end = index_parts + table_parts;
        let kinds: [u64; 4] = std::array::from_fn(|kind| u64_at(added, 40 + kind * 8));
        let counted = Counted {
            keys: std::array::from_fn(|db| u64_at(added, 80 + db * 8)),
            expiring: std::array::from_fn(|db| u64_at(added, 80 + (DATABASES + db) * 8)),
            tombstones: u64_at(added, 72),
            poisoned: kinds[Kind::Poison as usize],
        };
        let table = self.blocks.load_table(&reader, index_parts..table_end);
        let table = table.map_err(|error| error.to_string())?;
        let expected = |address: Address| {
            let place = |address| self.locations.place(address);
            let holds =
                |slot: &SavedSlot| slot.state == State::Sealed && place(address).offset < slot.used_bytes;
            !Locations::is_dram(address) && table.slots.get(place(address).slot as usize).is_some_and(holds)
        };
        let newest = self.blocks.survey(&reader, &table, manifest.persisted_seq, threads);
        let newest = newest.map_err(|error| error.to_string())?;
        let mut hot = Vec::new();
        let mut bytes = Vec::new();
        for part in table_end..reader.parts() {
            reader.read(part, &mut bytes).map_err(|error| error.to_string())?;
            hot.extend(bytes.chunks_exact(8).map(|word| u64_at(word, 0)));
        }
        let name = index.name();
        let loading = index.as_snapshot_mut().ok_or_else(|| format!("index {name} can't be loaded"))?;
        let read = |part: u32, bytes: &mut Vec<u8>| reader.read(part, bytes);
        let loaded = loading.load(&added[FIXED..], index_parts, threads, &read, &expected);
        loaded.map_err(|error| error.to_string())?;
        let typical = u64_at(added, 32);
        reader.restore(&table);
        self.begin_warming(hot);
        self.blocks.typical_bytes.store(typical, Relaxed);
        Ok((counted, newest))
    }
}
