//! What a snapshot says of the blocks is held against the blocks: an opening that starts from it may miss nothing that a scan
//! would have seen.
//!
//! Every slot is read as a scan reads it, by the same code: header, trailer and the whole footer, with their checksums. What is
//! not done is what a scan spends its time on: finding the newest record of each key. So the time still grows with the data, by
//! 24 bytes read for each record.
//!
//! # Invariants
//! * Where a survey succeeds a scan would, and would find the same blocks with the same records: each block of records has the
//!   use of its slot that the snapshot says, and its footer is whole. The snapshot was made from those footers' records.
//! * Anything else is left to the scan: torn, lost, misplaced or stale blocks, damage, a device that fails. A survey repairs
//!   nothing, reports nothing and changes nothing, so that the scan finds what it would have found without it.

use std::sync::atomic::{AtomicU64, Ordering::*};

use parking_lot::Mutex;
use terrace_engine::StoreError;
use terrace_engine::record::Kind;

use crate::blocks::Blocks;
use crate::lower::Lower;
use crate::place::Place;
use crate::scan::Reading;
use crate::slots::State;
use crate::snapshot::{SavedSlot, SavedTable, SnapshotReader};

/// What a survey saw in the footers.
pub(crate) struct Surveyed {
    /// The newest version among the records of all blocks.
    pub newest: u64,
    /// Where records lie that say that they were damaged, with hash and database: few, and not all of them live.
    pub poisons: Vec<(Place, u64, u8)>,
}

impl<L: Lower> Blocks<L> {
    /// Looks at every slot. Blocks up to `trusted_seq` were flushed whole, says the manifest.
    ///
    /// # Errors
    /// The first slot that is not as the snapshot says, or whose reading failed.
    pub(crate) fn survey(
        &self,
        reader: &SnapshotReader<'_, L>,
        table: &SavedTable,
        trusted_seq: u64,
        threads: usize,
    ) -> Result<Surveyed, StoreError> {
        let newest = AtomicU64::new(0);
        let poisons = Mutex::new(Vec::new());
        let own = reader.blocks_by_slot();
        self.each_slot(threads, &|_, _| {}, &|number| {
            let reading = self.agreed_reading(number, trusted_seq)?;
            let is_so = match own.get(&number) {
                // Its bytes were verified when it was read.
                Some(&seq) => reading == Reading::Snapshot { seq },
                None => {
                    is_as_saved(&reading, &table.slots[number as usize], u64::from(number) < table.written)
                }
            };
            if !is_so {
                return Err(StoreError::Corrupt(format!(
                    "block {number} is not what it was at the last stop"
                )));
            }
            if let Reading::Whole { list, .. } = &reading {
                let versions = || list.iter().map(|entry| entry.version);
                newest.fetch_max(versions().max().unwrap_or(0), Relaxed);
                table.oldest[number as usize].store(versions().min().unwrap_or(0), Relaxed);
                for entry in list.iter().filter(|entry| entry.kind == Kind::Poison) {
                    let place = Place { slot: number, offset: entry.offset };
                    poisons.lock().push((place, entry.hash, entry.db));
                }
            }
            Ok(())
        })?;
        Ok(Surveyed { newest: newest.into_inner(), poisons: poisons.into_inner() })
    }
}

/// Whether a slot holds what a snapshot says. `known`: says the manifest that it was written once.
fn is_as_saved(reading: &Reading, saved: &SavedSlot, known: bool) -> bool {
    match (reading, saved.state) {
        (Reading::Free { .. }, State::Free) => true,
        (Reading::Blank, State::Free) => !known,
        // One that was to be freed is still whole.
        (Reading::Whole { trailer, .. }, State::Sealed | State::Freeing) => {
            let (used, count) = (trailer.data_end, trailer.count);
            (trailer.seq, used, count) == (saved.seq, saved.used_bytes, saved.count)
        }
        (Reading::Extents { seq, .. }, State::Extents | State::Freeing) => *seq == saved.seq,
        // Another snapshot, of a store that was closed twice.
        (Reading::Snapshot { seq }, State::Freeing) => *seq == saved.seq,
        _ => false,
    }
}
