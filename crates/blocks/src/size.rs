//! How long a tier is: kept behind each copy of the manifest, so that a tier can grow and shrink while it is used.
//!
//! ```text
//! in each copy of the manifest, behind the count of written slots
//! 232 magic "TRCSIZES"   240 bytes of the tier            248 crc of store id and 232..248:u32   zero
//! 256 magic "TRCMIDDL"   264 bytes of the space's tier    272 crc of store id and 256..272:u32   zero     block media alone
//!                            between DRAM and this one
//! ```
//!
//! The second is there from the first time on that such a tier was resized; before that it is as long as its medium.
//!
//! The medium may be longer than that, never shorter: it is made longer before a larger size is stored, and cut after a smaller one
//! is, in both copies. So a crash leaves the old size or the new one, and at worst bytes behind the end that nobody looks at; the
//! next opening cuts them off, and growing does before anything else, for new blocks must read as zeros.
//!
//! # Invariants
//! * A smaller size is stored only when every block behind it is free: cleared on the medium, and that is durable.
//! * No block behind a stored size is ever taken. Steps are not under way while the end moves (the space's lock).

use std::io;
use std::sync::atomic::Ordering::*;

use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_media::read_agreed;

use crate::blocks::Blocks;
use crate::layout::{u32_at, u64_at};
use crate::lower::Lower;
use crate::manifest_copies::{manifest_unit, read_copy, stored_manifest};
use crate::slots::State;
use crate::sync::{AtomicBool, AtomicU64};
use crate::written::checksum;

const MAGIC: &[u8; 8] = b"TRCSIZES";
const MIDDLE_MAGIC: &[u8; 8] = b"TRCMIDDL";
/// Behind the manifest.
const AT: usize = MANIFEST_BYTES + 24;
const BYTES: usize = 24;
const MIDDLE_AT: usize = AT + BYTES;
const CRC_AT: usize = 16;
/// No size was ever stored.
const NEVER: u64 = u64::MAX;

/// The sizes that manifests say, and whether the medium may be longer.
pub(crate) struct Size {
    bytes: AtomicU64,
    uncut: AtomicBool,
    middle: AtomicU64,
}

impl Size {
    pub fn new(bytes: u64, uncut: bool, middle: Option<u64>) -> Self {
        let middle = AtomicU64::new(middle.unwrap_or(NEVER));
        Self { bytes: AtomicU64::new(bytes), uncut: AtomicBool::new(uncut), middle }
    }
    /// Adds them to a manifest's bytes.
    pub fn encode(&self, store_id: u64, unit: &mut [u8]) {
        encode(MAGIC, self.bytes.load(SeqCst), store_id, &mut unit[AT..][..BYTES]);
        let middle = self.middle.load(SeqCst);
        if middle != NEVER {
            encode(MIDDLE_MAGIC, middle, store_id, &mut unit[MIDDLE_AT..][..BYTES]);
        }
    }
}

fn encode(magic: &[u8; 8], bytes: u64, store_id: u64, out: &mut [u8]) {
    out[..8].copy_from_slice(magic);
    out[8..CRC_AT].copy_from_slice(&bytes.to_le_bytes());
    let crc = checksum(store_id, &out[..CRC_AT]);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// `None` where none was ever stored, an error where it is damaged.
fn decode(magic: &[u8; 8], bytes: &[u8], store_id: u64) -> Result<Option<u64>, ()> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let sound = bytes[..8] == magic[..] && u32_at(bytes, CRC_AT) == checksum(store_id, &bytes[..CRC_AT]);
    if sound { Ok(Some(u64_at(bytes, 8))) } else { Err(()) }
}

/// How long the tier is, as its newest manifest says; `None` if it says nothing, as those of programs that did not know it: then
/// it is as long as the medium.
///
/// # Errors
/// The device's.
pub fn stored_bytes<L: Lower>(lower: &L, store_id: u64) -> io::Result<Option<u64>> {
    stored(lower, store_id, (MAGIC, AT))
}

/// How long the space's tier between DRAM and this one is, as the newest manifest says; `None` if it says nothing: then it is as
/// long as its medium.
///
/// # Errors
/// The device's.
pub fn stored_middle_bytes<L: Lower>(lower: &L, store_id: u64) -> io::Result<Option<u64>> {
    if manifest_unit::<L>() < (MIDDLE_AT + BYTES) as u64 {
        return Ok(None);
    }
    stored(lower, store_id, (MIDDLE_MAGIC, MIDDLE_AT))
}

fn stored<L: Lower>(lower: &L, store_id: u64, (magic, at): (&[u8; 8], usize)) -> io::Result<Option<u64>> {
    let mut found = Vec::new();
    for copy in 0..2 {
        let mut unit = vec![0; at + BYTES];
        read_agreed(&mut unit, |bytes| read_copy(lower, copy, 0, bytes))?;
        if let (Some(manifest), Ok(size)) =
            (Manifest::decode(&unit[..MANIFEST_BYTES]), decode(magic, &unit[at..], store_id))
        {
            found.push((manifest.sequence, size));
        }
    }
    Ok(found.into_iter().max_by_key(|(sequence, _)| *sequence).and_then(|(_, size)| size))
}

impl<L: Lower> Blocks<L> {
    /// Blocks that may be used: fewer than the tier has while it shrinks.
    #[inline]
    pub fn usable(&self) -> usize {
        self.free.end.load(Acquire) as usize
    }
    /// Whether a block lies behind the end that the tier is to have.
    #[inline]
    pub fn is_beyond(&self, slot: u32) -> bool {
        slot >= self.free.end.load(Acquire)
    }
    /// Blocks behind that end that are not free yet.
    pub fn to_move(&self) -> usize {
        let (end, all) = (self.usable(), self.slots.len());
        (end..all).filter(|&number| self.slots[number].state() != State::Free).count()
    }

    /// The tier is to have so many blocks, and no more than it has: from now on no other ones are taken. Steps are not under way.
    pub fn set_end(&self, count: u32) {
        {
            let mut free = self.free.slots.lock();
            let before = self.free.end.swap(count, SeqCst);
            free.retain(|&slot| slot < count);
            // Those that nobody took while they were not to be used. Below all others: they may never have been written.
            // Those that have no place on the medium come when it has been asked for one.
            let backed = (before..count.min(self.backing.backed())).rev();
            let back = backed.filter(|&slot| self.slots[slot as usize].state() == State::Free);
            let back: Vec<u32> = back.collect();
            free.splice(0..0, back);
        }
        self.close_extents_beyond();
    }

    /// Makes the tier longer, to so many blocks; they read as zeros. Steps are not under way.
    ///
    /// # Errors
    /// If the medium can't be; nothing has changed then, or the tier counts as failed.
    pub fn grow(&self, count: u32) -> io::Result<()> {
        // What a crash left behind the end would be found again.
        let bytes = self.size.bytes.load(SeqCst);
        self.cut(bytes)?;
        let longer = self.lower.resize(self.block_offset(count)).and_then(|()| self.lower.sync());
        if let Err(error) = longer {
            let _ = self.cut(bytes);
            return Err(error);
        }
        self.slots.reserve(count as usize);
        self.size.bytes.store(self.block_offset(count), SeqCst);
        self.store_size()?;
        self.slots.set_len(count as usize);
        self.set_end(count);
        Ok(())
    }

    /// Ends the tier where it was to end, if nothing is left behind that; `false` if something is. Nobody takes a block behind the end
    /// meanwhile; [`finish_shrinking`](Self::finish_shrinking) comes next. Steps are not under way.
    pub fn end_tier(&self) -> bool {
        if self.to_move() > 0 {
            return false;
        }
        let end = self.usable();
        let before = self.slots.len();
        self.slots.set_len(end);
        self.written.cut(end, (end..before).map(|number| &self.slots[number]));
        self.size.bytes.store(self.block_offset(end as u32), SeqCst);
        self.backing.cut(end as u32);
        true
    }

    /// Stores where the tier ends, and cuts off what lies behind that.
    ///
    /// # Errors
    /// The device's. What could not be cut off is when the store is opened next.
    pub fn finish_shrinking(&self) -> io::Result<()> {
        self.store_size()?;
        self.cut(self.size.bytes.load(SeqCst))
    }

    /// Cuts off what a crash left behind the end, once both copies of the manifest say where that is.
    ///
    /// # Errors
    /// The device's.
    pub fn cut_leftovers(&self) -> io::Result<()> {
        if !self.size.uncut.load(Relaxed) || !*self.manifest_copies.lock() {
            return Ok(());
        }
        // Once: what the device does not let go of now it need not let go of later.
        self.size.uncut.store(false, Relaxed);
        self.cut(self.size.bytes.load(SeqCst))
    }

    fn cut(&self, end: u64) -> io::Result<()> {
        if self.lower.len() <= end {
            return Ok(());
        }
        self.lower.resize(end).and_then(|()| self.lower.sync())
    }

    /// Stores how long the space's tier between DRAM and this one is from now on; durable in both copies when it returns.
    ///
    /// # Errors
    /// The device's; then this tier counts as failed, and the size is the one or the other.
    pub fn store_middle_bytes(&self, bytes: u64) -> io::Result<()> {
        self.size.middle.store(bytes, SeqCst);
        self.store_size()
    }

    /// Whether both copies of the manifest are known to say the same, sizes too.
    pub fn sizes_agree(&self) -> bool {
        *self.manifest_copies.lock()
    }

    /// Whether that was ever stored.
    pub fn has_middle_bytes(&self) -> bool {
        self.size.middle.load(SeqCst) != NEVER
    }

    /// Stores the newest manifest again, with the sizes as they are now. Where it can't, the tier counts as failed: whatever manifest
    /// is stored next says them, too, and nothing may be written that counts on others.
    fn store_size(&self) -> io::Result<()> {
        let mut same = self.manifest_copies.lock();
        let stored = stored_manifest(&self.lower).and_then(|manifest| {
            manifest.ok_or_else(|| io::Error::other("neither copy of the manifest is valid"))
        });
        let stored = stored.and_then(|manifest| self.store_copies(&mut same, &manifest.encode()));
        stored.inspect_err(|error| self.failure.fail("storing the size of a tier", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_and_damage() {
        let mut bytes = [0; BYTES];
        encode(MAGIC, 0x1122, 7, &mut bytes);
        assert_eq!((&bytes[..8], u64_at(&bytes, 8), &bytes[20..]), (&MAGIC[..], 0x1122, &[0; 4][..]));
        assert_eq!(decode(MAGIC, &bytes, 7), Ok(Some(0x1122)));
        assert_eq!(decode(MAGIC, &bytes, 8), Err(()), "another store's");
        assert_eq!(decode(MIDDLE_MAGIC, &bytes, 7), Err(()), "another tier's");
        assert_eq!((AT, MIDDLE_AT), (232, 256));
        assert_eq!(decode(MAGIC, &[0; BYTES], 7), Ok(None));
        for at in 0..CRC_AT + 4 {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(decode(MAGIC, &bad, 7), Err(()), "byte {at}");
        }
    }
}
