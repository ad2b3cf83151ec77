//! The log's side of recovery: which of its entries are the newest records of their keys.
//!
//! A bit an entry says so. The records themselves are read again when they are restored, some MiB of the log at a time: a log may hold
//! more than the DRAM.

use terrace_log::{LogDevice, PLACES_APART, Replay};

use super::winners::Winners;
use crate::core::{Generation, decode_generation};
use crate::hash::KeyHasher;
use crate::record::{Kind, RecordView};
use crate::session::StoreError;

/// About so much of the log is restored at a time.
const PART_BYTES: u64 = 4 << 20;

/// See the module.
pub(super) struct FromLog<D> {
    pub replay: Replay<D>,
    /// By places of entries.
    wins: Vec<u64>,
    /// Entries whose value lies elsewhere.
    extents: u64,
}

impl<D: LogDevice> FromLog<D> {
    pub fn new(replay: Replay<D>) -> Self {
        Self { replay, wins: Vec::new(), extents: 0 }
    }

    /// Offers every record with a version above the floor. `generation` takes what whole databases went through.
    pub fn offer(
        &mut self,
        floor: u64,
        hasher: &KeyHasher,
        winners: &Winners,
        mut generation: impl FnMut(u64, Generation),
    ) -> Result<(), StoreError> {
        let (mut bad_entry, mut extents) = (None, 0);
        let read = self.replay.for_each(|entry| {
            let (entry_slot, version, place) = (entry.slot, entry.version, entry.place);
            if let Some(found) = decode_generation(entry.bytes) {
                generation(version, found);
                return;
            }
            if version <= floor {
                return;
            }
            // An older record is a copy: see `compress`.
            let view = RecordView::decode(entry.bytes).filter(|view| view.head.version <= version);
            let Some(view) = view else {
                bad_entry.get_or_insert((entry_slot, version));
                return;
            };
            let of_record = view.head.version;
            if of_record <= floor {
                return;
            }
            extents += u64::from(view.head.meta.kind() == Kind::Extent);
            let key = hasher.key(view.head.meta.db(), view.key);
            let check = hasher.check(key.db, key.bytes);
            winners.offer_log((key.hash, check), of_record, place, view.head.life());
        });
        read.map_err(replaying)?;
        self.extents = extents;
        let Some((slot, version)) = bad_entry else { return Ok(()) };
        Err(StoreError::Corrupt(format!(
            "replaying the log: version {version} of session {slot} is no record of that version, though its checksum holds: it was not \
             written by this program"
        )))
    }

    /// The entry at this place is its key's newest record.
    pub fn wins(&mut self, place: u64) {
        let (word, bit) = split(place);
        if word >= self.wins.len() {
            self.wins.resize(word + 1, 0);
        }
        self.wins[word] |= bit;
    }

    /// Shows large values that records describe which win.
    pub fn extents(&self, show: &mut dyn FnMut(&RecordView<'_>)) -> Result<(), StoreError> {
        if self.extents == 0 || self.wins.is_empty() {
            return Ok(());
        }
        let read = self.replay.for_each(|entry| {
            if self.has_won(entry.place)
                && let Some(view) = RecordView::decode(entry.bytes)
                && view.head.meta.kind() == Kind::Extent
            {
                show(&view);
            }
        });
        read.map_err(replaying)
    }

    /// Shows the records that win, in the order of their versions, with few of them in DRAM: `dram_bytes` say how much there is.
    pub fn restore(
        &self,
        dram_bytes: u64,
        show: &mut dyn FnMut(&RecordView<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.wins.is_empty() {
            return Ok(());
        }
        let (mut bytes, mut list, mut after) = (Vec::new(), Vec::new(), 0);
        for upto in self.replay.part_ends(dram_bytes.min(PART_BYTES) as usize) {
            bytes.clear();
            list.clear();
            let read = self.replay.for_each_between((after, upto), |entry| {
                if self.has_won(entry.place) {
                    list.push((entry.version, bytes.len(), entry.bytes.len()));
                    bytes.extend_from_slice(entry.bytes);
                }
            });
            read.map_err(replaying)?;
            list.sort_unstable();
            for &(_, at, length) in &list {
                if let Some(view) = RecordView::decode(&bytes[at..at + length]) {
                    show(&view)?;
                }
            }
            after = upto;
        }
        Ok(())
    }

    fn has_won(&self, place: u64) -> bool {
        let (word, bit) = split(place);
        self.wins.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

fn split(place: u64) -> (usize, u64) {
    let number = place / PLACES_APART;
    ((number / 64) as usize, 1 << (number % 64))
}

fn replaying(error: terrace_log::LogError) -> StoreError {
    StoreError::Corrupt(format!("replaying the log: {error}"))
}
