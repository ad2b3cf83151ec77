//! What a clean stop saves of index and space, so that the next opening reads it instead of scanning every page and hashing every key.
//! `snapshot` has its blocks, `survey` holds it against the pages.
//!
//! ```text
//! parts   of the index | of the block table | of the hot list, if the space keeps one
//! added to the head
//!   0 parts of the index:u32, of the table:u32, of the hot list:u32, slots in the table:u32   16 name of the index:16
//!   32 typical bytes of a record:u64   40 entries that are values, extents, tombstones, poisons: 4 x u64
//!   72 tombstones:u64   80 keys of each database: 16 x u64, those that expire: 16 x u64   336 what the index adds
//! ```
//!
//! # Invariants
//! * It is saved when every record has a home in a block, and names homes alone: after it no step does anything any more.
//! * It is used as a whole or not at all: index, table and counts are taken over once every part has been verified, and every page
//!   was seen to be what the table says.

use std::fmt::Display;
use std::io;
use std::sync::atomic::Ordering::*;

use terrace_engine::DATABASES;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::Counted;
use terrace_index::{Address, Index, Key};

use crate::blocks::Blocks;
use crate::layout::{u32_at, u64_at};
use crate::lower::Lower;
use crate::place::Place;
use crate::slots::State;
use crate::snapshot::SavedSlot;

const NAME_BYTES: usize = 16;
const FIXED: usize = 80 + 2 * DATABASES * 8;

/// What a space knows of the addresses in its index.
pub trait Homes: Sync {
    /// Whether the address of a home says what kind of record lies there.
    const KINDS: bool;
    /// The address of a record's home in a block; `None` if it has none.
    fn home(&self, address: Address) -> Option<Address>;
    /// The place that a home's address names; `None` if it names none in a block.
    fn place(&self, home: Address) -> Option<Place>;
    /// The kind that a home's address tells.
    fn kind(&self, _home: Address) -> Option<Kind> {
        None
    }
    /// The address of a place, where that is all that it names.
    fn address(&self, _place: Place) -> Option<Address> {
        None
    }
    /// What was hot, a word for each record, hottest first; at most so many.
    fn hot(&self, _most: usize) -> Vec<u64> {
        Vec::new()
    }
}

/// What a snapshot brought back beside index and block table.
pub struct Restored {
    /// What counts.
    pub counted: Counted,
    /// The newest version of any record in a block.
    pub newest: u64,
    /// What was hot, as it was saved.
    pub hot: Vec<u64>,
}

fn name_of(index: &impl Index) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let bytes = index.name().as_bytes();
    let length = bytes.len().min(NAME_BYTES);
    name[..length].copy_from_slice(&bytes[..length]);
    name
}

impl<L: Lower> Blocks<L> {
    /// Saves index and space; they change no more. Where the head is, if it could be saved: if not, it was told why, or the index is
    /// none that can be.
    pub fn save_stopped<I: Index>(
        &self,
        homes: &impl Homes,
        index: &I,
        counted: &Counted,
        sequence: u64,
    ) -> Option<u32> {
        index.as_snapshot()?;
        match self.write_stopped(homes, index, counted, sequence) {
            Ok(head) => {
                self.counts.snapshots_saved.fetch_add(1, Relaxed);
                Some(head)
            }
            Err(error) => {
                self.saves_nothing(&error);
                None
            }
        }
    }

    /// Tells why no snapshot is saved. The pages are all there: the next opening scans them.
    pub fn saves_nothing(&self, why: &dyn Display) {
        tracing::warn!("the next start will scan all pages, for no snapshot could be saved: {why}");
        self.counts.snapshots_not_saved.fetch_add(1, Relaxed);
    }

    fn write_stopped<I: Index>(
        &self,
        homes: &impl Homes,
        index: &I,
        counted: &Counted,
        sequence: u64,
    ) -> io::Result<u32> {
        let saved = index.as_snapshot().ok_or_else(|| io::Error::other("the index can't be saved"))?;
        self.close_open_extents();
        let mut writer = self.begin_snapshot();
        let mut kinds = [0u64; 4];
        let mut placed = |address: Address| {
            let home = homes.home(address)?;
            let slot = self.slots.get(homes.place(home)?.slot as usize)?;
            // Where addresses don't say, all are among the values.
            kinds[homes.kind(home).unwrap_or(Kind::Value) as usize] += 1;
            (slot.state() == State::Sealed).then_some(home)
        };
        let segment_bytes = writer.part_bytes();
        let head = saved.save(segment_bytes, &mut placed, &mut |segment| writer.add(segment))?;
        let index_parts = writer.parts();
        self.save_table(&mut writer)?;
        let table_parts = writer.parts() - index_parts;
        // The hottest that there is room for beside the head.
        let free = self.free.slots.lock().len().saturating_sub(1);
        for part in homes.hot(free * (segment_bytes / 8)).chunks(segment_bytes / 8) {
            let bytes: Vec<u8> = part.iter().flat_map(|hot| hot.to_le_bytes()).collect();
            writer.add(&bytes)?;
        }
        let hot_parts = writer.parts() - index_parts - table_parts;
        check_counted(homes, &kinds, counted)?;
        let mut added = Vec::with_capacity(FIXED + head.len());
        let slots = self.slots.len() as u32;
        added.extend([index_parts, table_parts, hot_parts, slots].into_iter().flat_map(u32::to_le_bytes));
        added.extend_from_slice(&name_of(index));
        let words = [self.typical_bytes.load(Relaxed)]
            .into_iter()
            .chain(kinds)
            .chain([counted.tombstones])
            .chain(counted.keys)
            .chain(counted.expiring);
        added.extend(words.flat_map(u64::to_le_bytes));
        added.extend_from_slice(&head);
        writer.finish(sequence, &added)
    }

    /// Brings index and blocks back as the snapshot has them that this manifest names, its head being in slot `place`.
    ///
    /// # Errors
    /// Why it can't be trusted: then index and blocks are as before, and nothing on the medium has changed.
    pub fn load_stopped<I: Index>(
        &self,
        homes: &impl Homes,
        index: &mut I,
        place: u32,
        manifest: &Manifest,
        threads: usize,
    ) -> Result<Restored, String> {
        let reader = self.open_snapshot(place, manifest.sequence)?;
        let added = reader.added();
        if added.len() < FIXED {
            return Err("its head is short".into());
        }
        if added[16..32] != name_of(index) {
            let name = String::from_utf8_lossy(&added[16..32]);
            return Err(format!("it is of index {}", name.trim_end_matches('\0')));
        }
        let [parts @ .., slots] = [0, 4, 8, 12].map(|at| u64::from(u32_at(added, at)));
        if parts.iter().sum::<u64>() != u64::from(reader.parts()) {
            return Err("it has other parts than it says".into());
        }
        // What follows a table of another length is no part of it.
        if slots != self.slots.len() as u64 {
            return Err(format!("it is of {slots} blocks, and there are {}", self.slots.len()));
        }
        let [index_parts, table_parts, _] = parts.map(|parts| parts as u32);
        let table_end = index_parts + table_parts;
        let table = self.load_table(&reader, index_parts..table_end);
        let table = table.map_err(|error| error.to_string())?;
        let expected = |address: Address| {
            let holds = |place: Place| {
                let holds = |slot: &SavedSlot| slot.state == State::Sealed && place.offset < slot.used_bytes;
                table.slots.get(place.slot as usize).is_some_and(holds)
            };
            homes.place(address).is_some_and(holds)
        };
        let surveyed = self.survey(&reader, &table, manifest.persisted_seq, threads);
        let surveyed = surveyed.map_err(|error| error.to_string())?;
        let (mut hot, mut bytes) = (Vec::new(), Vec::new());
        for part in table_end..reader.parts() {
            reader.read(part, &mut bytes).map_err(|error| error.to_string())?;
            hot.extend(bytes.chunks_exact(8).map(|word| u64_at(word, 0)));
        }
        let name = index.name();
        let loading = index.as_snapshot_mut().ok_or_else(|| format!("index {name} can't be loaded"))?;
        let read = |part: u32, bytes: &mut Vec<u8>| reader.read(part, bytes);
        let loaded = loading.load(&added[FIXED..], index_parts, threads, &read, &expected);
        loaded.map_err(|error| error.to_string())?;
        let is_live = |(place, hash, db): &(Place, u64, u8)| {
            let key = Key { hash: *hash, db: *db, bytes: &[] };
            homes.address(*place).is_some_and(|address| index.contains(&key, address))
        };
        let kind = |kind: Kind| u64_at(added, 40 + kind as usize * 8);
        let counted = Counted {
            keys: std::array::from_fn(|db| u64_at(added, 80 + db * 8)),
            expiring: std::array::from_fn(|db| u64_at(added, 80 + (DATABASES + db) * 8)),
            tombstones: u64_at(added, 72),
            poisoned: kind(Kind::Poison)
                + surveyed.poisons.iter().filter(|poison| is_live(poison)).count() as u64,
        };
        let typical = u64_at(added, 32);
        reader.restore(&table);
        self.typical_bytes.store(typical, Relaxed);
        Ok(Restored { counted, newest: surveyed.newest, hot })
    }
}

/// Whether the index holds what was counted. What a flush forgot is in it until somebody looks for it, and not among the keys.
fn check_counted<H: Homes>(_homes: &H, kinds: &[u64; 4], counted: &Counted) -> io::Result<()> {
    let (keys, all): (u64, u64) = (counted.keys.iter().sum(), kinds.iter().sum());
    let other = H::KINDS && kinds[Kind::Tombstone as usize] != counted.tombstones;
    if other || keys + counted.tombstones > all {
        let what =
            format!("the index holds {kinds:?} records by kind, which is not what was counted: {counted:?}");
        return Err(io::Error::other(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_index::{Change, Clht, Verdict};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;

    const BLOCK: usize = 1024;
    const STORE: u64 = 1;

    /// An address is its block's slot, and eight of its bytes a step.
    struct Plain;

    impl Homes for Plain {
        const KINDS: bool = false;
        fn home(&self, address: Address) -> Option<Address> {
            Some(address)
        }
        fn place(&self, home: Address) -> Option<Place> {
            let (slot, offset) = (home.raw() >> 7, home.raw() << 3 & 0x3ff);
            Some(Place { slot: slot as u32, offset: offset as u32 })
        }
    }

    fn blocks(region: &Arc<HeapRegion>, slots: usize) -> Blocks<ByteTier<HeapRegion>> {
        let bytes = (slots * BLOCK + 512) as u64;
        let blocks =
            Blocks::new(ByteTier::new(region.clone(), 0, bytes, String::new()), BLOCK, STORE).unwrap();
        assert_eq!(blocks.slots.len(), slots);
        blocks
    }
    fn manifest(head: u32) -> Manifest {
        Manifest { sequence: 7, clean: true, snapshot: Some(head), ..Manifest::default() }
    }
    fn load(blocks: &Blocks<ByteTier<HeapRegion>>, head: u32) -> Result<Restored, String> {
        let mut index = Clht::with_min_buckets(4);
        blocks.load_stopped(&Plain, &mut index, head, &manifest(head), 1)
    }

    #[test]
    fn golden_bytes_of_what_is_added_to_a_head() {
        let region = Arc::new(HeapRegion::new(64 << 10).unwrap());
        let blocks = blocks(&region, 40);
        blocks.typical_bytes.store(0x140, Relaxed);
        blocks.slots[30].begin(State::Sealed, 3, None, 800);
        let index = Clht::with_min_buckets(4);
        let address = Address::new(30 << 7 | 64 >> 3);
        let key = Key { hash: 5, db: 2, bytes: b"" };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Insert(address), ()));
        let mut counted = Counted::default();
        (counted.keys[2], counted.expiring[2]) = (1, 1);
        let head = blocks.save_stopped(&Plain, &index, &counted, 7).unwrap();
        let reader = blocks.open_snapshot(head, 7).unwrap();
        let added = reader.added();
        assert_eq!(added[..16], *b"\x01\0\0\0\x03\0\0\0\0\0\0\0\x28\0\0\0", "parts, and 40 slots");
        assert_eq!(added[16..32], *b"clht\0\0\0\0\0\0\0\0\0\0\0\0");
        let words: Vec<u64> = (32..FIXED).step_by(8).map(|at| u64_at(added, at)).collect();
        assert_eq!(words[..6], [0x140, 1, 0, 0, 0, 0], "a typical length, kinds, tombstones");
        assert_eq!((FIXED, words[6 + 2], words[6 + DATABASES + 2]), (336, 1, 1));
        assert_eq!(words[6..].iter().sum::<u64>(), 2);
    }

    #[test]
    fn one_of_another_number_of_blocks_is_not_used() {
        let region = Arc::new(HeapRegion::new(64 << 10).unwrap());
        let before = blocks(&region, 54);
        let head = before.save_stopped(&Plain, &Clht::with_min_buckets(4), &Counted::default(), 7).unwrap();
        assert!(head < 10, "it lies in front");
        assert!(load(&blocks(&region, 54), head).is_ok());
        // A part has 18 slots: what follows 36 would pass for pieces of large values.
        for slots in [36, 40, 55] {
            let why = load(&blocks(&region, slots), head).err().unwrap();
            assert!(why.contains("it is of 54 blocks"), "{slots}: {why}");
        }
    }

    #[test]
    fn what_was_not_counted_is_not_saved() {
        let region = Arc::new(HeapRegion::new(64 << 10).unwrap());
        let blocks = blocks(&region, 40);
        let mut counted = Counted::default();
        counted.keys[0] = 1;
        assert_eq!(blocks.save_stopped(&Plain, &Clht::with_min_buckets(4), &counted, 7), None);
        let counts = [&blocks.counts.snapshots_saved, &blocks.counts.snapshots_not_saved];
        assert_eq!(counts.map(|count| count.load(Relaxed)), [0, 1]);
        assert_eq!(blocks.free.slots.lock().len(), 40, "its slots are free again");
    }
}
