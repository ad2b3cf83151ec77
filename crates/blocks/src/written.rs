//! Which slots have been written: free slots are taken in ascending order, so those that never were are the last ones.
//!
//! ```text
//! in each copy of the manifest, behind it
//! 208 magic "TRCSLOTS"   216 slots known to have been written   224 crc of store id and 208..224:u32   228.. zero
//! ```
//!
//! A lower slot that reads as zeros has lost what it held: freeing a block clears two words and leaves the rest.
//!
//! # Thread safety
//! A slot's flag is set by whoever made its first header durable; the count is raised by `save_manifest`, one at a time.
//!
//! # Invariants
//! * A flag is set only when the header's store id is durable in the slot. Every later header has the same word in the same
//!   place, so that no crash takes it away.
//! * The count falls only when the tier shrinks, and each copy was true when it was written: the higher valid one counts, as far as
//!   there are slots.

use std::sync::atomic::Ordering::*;
use std::{io, mem};

use terrace_engine::manifest::MANIFEST_BYTES;
use terrace_media::read_agreed;

use crate::layout::{u32_at, u64_at};
use crate::lower::Lower;
use crate::manifest_copies::read_copy;
use crate::slot_table::Slots;
use crate::slots::Slot;
use crate::sync::{AtomicU64, Mutex};

const MAGIC: &[u8; 8] = b"TRCSLOTS";
const BYTES: usize = 24;
const CRC_AT: usize = 16;

/// What is known of the slots' first writes.
#[derive(Default)]
pub struct Written {
    /// Slots from the first one on of which that is known.
    count: AtomicU64,
    /// Slots with a header that was written and is not known to be synced.
    unsynced: Mutex<Vec<u32>>,
    /// Slots below the stored count that read as zeros when the store was opened.
    blank: Mutex<Vec<u32>>,
}

impl Written {
    /// Begins with what a store's manifest says.
    pub fn found(&self, count: u64, slots: &Slots) {
        self.count.store(count.min(slots.len() as u64), Relaxed);
        slots.iter().take(count as usize).for_each(|slot| slot.written.store(true, Relaxed));
    }
    /// Whether a slot is known to have been written before the store was opened.
    pub fn knows(&self, slot: u32) -> bool {
        u64::from(slot) < self.count.load(Relaxed)
    }
    /// A slot that was written reads as zeros. Unless a large value is adopted in it, that is damage.
    pub fn vanished(&self, slot: u32) {
        self.blank.lock().push(slot);
    }
    /// The slots of all calls of [`vanished`](Self::vanished).
    pub fn take_vanished(&self) -> Vec<u32> {
        mem::take(&mut *self.blank.lock())
    }
    /// The slots from the `end`th on, `gone`, are free and end with the tier: should there be such slots again, they are new ones.
    pub(crate) fn cut<'a>(&self, end: usize, gone: impl Iterator<Item = &'a Slot>) {
        self.count.fetch_min(end as u64, Relaxed);
        self.unsynced.lock().retain(|&slot| (slot as usize) < end);
        gone.for_each(|slot| slot.written.store(false, Relaxed));
    }
    /// A slot's header was written, and will be durable with the next sync that begins.
    pub fn header(&self, number: u32, slot: &Slot) {
        if !slot.written.load(Relaxed) {
            self.unsynced.lock().push(number);
        }
    }
    /// Runs a sync; the headers that were written before it are durable then.
    ///
    /// # Errors
    /// The sync's.
    pub fn synced(&self, slots: &Slots, sync: io::Result<()>, covered: Vec<u32>) -> io::Result<()> {
        match &sync {
            Ok(()) => covered.iter().for_each(|&number| slots[number as usize].written.store(true, Release)),
            Err(_) => self.unsynced.lock().extend(covered),
        }
        sync
    }
    /// The headers that a sync which begins now will cover.
    pub fn sync_begins(&self) -> Vec<u32> {
        mem::take(&mut *self.unsynced.lock())
    }
    /// Adds the count to a manifest's bytes, as high as it is now.
    pub fn encode(&self, slots: &Slots, store_id: u64, unit: &mut [u8]) {
        let known = self.count.load(Relaxed);
        let more = slots.iter().skip(known as usize).take_while(|slot| slot.written.load(Acquire)).count();
        self.count.store(known + more as u64, Relaxed);
        encode(known + more as u64, store_id, &mut unit[MANIFEST_BYTES..][..BYTES]);
    }
}

fn encode(count: u64, store_id: u64, out: &mut [u8]) {
    out[..8].copy_from_slice(MAGIC);
    out[8..CRC_AT].copy_from_slice(&count.to_le_bytes());
    let crc = checksum(store_id, &out[..CRC_AT]);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

fn decode(bytes: &[u8], store_id: u64) -> Option<u64> {
    let sound = bytes[..8] == MAGIC[..] && u32_at(bytes, CRC_AT) == checksum(store_id, &bytes[..CRC_AT]);
    sound.then(|| u64_at(bytes, 8))
}

pub(crate) fn checksum(store_id: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&store_id.to_le_bytes()), bytes)
}

/// The count on a tier; 0 if none is stored, as by programs that did not know it.
///
/// # Errors
/// The device's.
pub fn stored_count<L: Lower>(lower: &L, store_id: u64) -> io::Result<u64> {
    let mut count = 0;
    for copy in 0..2 {
        let mut bytes = [0; BYTES];
        read_agreed(&mut bytes, |bytes| read_copy(lower, copy, MANIFEST_BYTES, bytes))?;
        count = count.max(decode(&bytes, store_id).unwrap_or(0));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_and_damage() {
        let mut bytes = [0; BYTES];
        encode(0x1122, 7, &mut bytes);
        assert_eq!((&bytes[..8], u64_at(&bytes, 8), &bytes[20..]), (&MAGIC[..], 0x1122, &[0; 4][..]));
        assert_eq!(decode(&bytes, 7), Some(0x1122));
        assert_eq!(decode(&bytes, 8), None, "another store's");
        assert_eq!(decode(&[0; BYTES], 7), None);
        for at in 0..CRC_AT + 4 {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(decode(&bad, 7), None, "byte {at}");
        }
    }

    #[test]
    fn the_count_ends_at_the_first_slot_that_may_not_be_durable_and_never_falls() {
        let slots = Slots::new(6);
        let written = Written::default();
        let mut unit = vec![0; 256];
        let mut count = |written: &Written| {
            written.encode(&slots, 7, &mut unit);
            decode(&unit[MANIFEST_BYTES..][..BYTES], 7)
        };
        written.header(0, &slots[0]);
        slots[1].written.store(true, Relaxed);
        assert_eq!(count(&written), Some(0), "not synced");
        let covered = written.sync_begins();
        written.header(2, &slots[2]);
        assert!(written.synced(&slots, Err(io::Error::other("sick")), covered).is_err());
        assert_eq!(count(&written), Some(0));
        let covered = written.sync_begins();
        written.header(3, &slots[3]);
        written.synced(&slots, Ok(()), covered).unwrap();
        assert_eq!(count(&written), Some(3), "the fourth was written while the sync ran");
        let reopened = Written::default();
        reopened.found(5, &slots);
        assert!(reopened.knows(4) && !reopened.knows(5));
        assert_eq!(count(&reopened), Some(5));
    }
}
