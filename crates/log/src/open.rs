//! Opening a log: scan, judge, make the cut durable, hand over.
//!
//! Nothing is written before everything is judged, so that an error leaves the area as it was. The order of the writes:
//! the superblock with the next epoch and the synced generation (headers that carried it may be erased next), a sync,
//! the erasures in any order (see `judge`), a sync.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use terrace_media::{READINGS_MAX, agreed, read_agreed};

use crate::block_format::{COUNTER_BITS, HEADER_BYTES, HeaderState, Superblock, super_bytes};
use crate::device::LogDevice;
use crate::error::LogError;
use crate::judge::{Damage, SlotScan, cut};
use crate::log::{Log, LogOptions, block_count, block_offset, clear_header, write_super};
use crate::replay::{Replay, Segment};
use crate::scan::{BlockScan, scan};
use crate::table::{Slot, Table, UsedBlock};

/// What the scan found.
#[derive(Default)]
struct Found {
    used: Vec<BlockScan>,
    free: Vec<u32>,
    torn: Vec<u32>,
    /// The highest chain number known to be dead, by slot.
    freed: HashMap<u16, u64>,
    synced: u64,
}

/// An area, read and judged; nothing is written yet.
pub(crate) struct Judged {
    /// The superblock to go on with, and the copy that it goes to.
    pub next: Superblock,
    pub copy: usize,
    pub slots: BTreeMap<u16, SlotScan>,
    pub free: Vec<u32>,
    pub torn: Vec<u32>,
    /// The highest chain number known to be dead, by slot.
    pub freed: HashMap<u16, u64>,
}

/// Reads all of an area and says what counts. What is cut, or looks damaged, is read again first: it may be the reading that
/// went wrong.
pub(crate) fn judge(
    device: &impl LogDevice,
    options: &LogOptions,
    floor: u64,
    threads: usize,
    damage: Damage,
) -> Result<Judged, LogError> {
    let (found_super, copy) = read_super(device, options)?;
    let mut damaged = false;
    for _ in 0..READINGS_MAX {
        match judge_once(device, options, floor, threads, damage, (found_super, copy)) {
            Ok(judged) if ends_agree(device, options, &judged)? => return Ok(judged),
            Err(error @ LogError::Corrupt { .. }) if damaged => return Err(error),
            Err(LogError::Corrupt { .. }) => damaged = true,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err(agreed::differ().into())
}

/// Whether the blocks at which slots end, and all that are dropped, read the same again. Of those in front of them each is
/// vouched for by the base version of the next.
fn ends_agree(device: &impl LogDevice, options: &LogOptions, judged: &Judged) -> Result<bool, LogError> {
    let mut buffer = vec![0; options.block_bytes];
    for ends in judged.slots.values().flat_map(|slot| &slot.ends) {
        let (_, again) = scan(device, options, ends.block, &mut buffer)?;
        if again.map(|scan| scan.extent()).as_ref() != Some(ends) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn judge_once(
    device: &impl LogDevice,
    options: &LogOptions,
    floor: u64,
    threads: usize,
    damage: Damage,
    (found_super, copy): (Superblock, usize),
) -> Result<Judged, LogError> {
    let mut found = scan_all(device, options, found_super.blocks as u32, threads, damage)?;
    let synced = found.synced.max(found_super.synced);

    let mut chains: BTreeMap<u16, Vec<BlockScan>> = BTreeMap::new();
    for scan in found.used.drain(..) {
        chains.entry(scan.header.slot).or_default().push(scan);
    }
    let mut slots = BTreeMap::new();
    for (number, chain) in chains {
        slots.insert(number, SlotScan::new(chain, found.freed.get(&number).copied(), synced, damage)?);
    }
    cut(&mut slots, floor, options, super_bytes(device.page_bytes()), damage)?;
    let next = Superblock { synced, ..found_super };
    Ok(Judged { next, copy, slots, free: found.free, torn: found.torn, freed: found.freed })
}

pub(crate) fn open<D: LogDevice>(
    device: D,
    options: LogOptions,
    floor: u64,
    threads: usize,
) -> Result<(Log<D>, Replay<D>), LogError> {
    let mut found = judge(&device, &options, floor, threads, Damage::Refuse)?;
    let (next, blocks) = (found.next, found.next.blocks as u32);
    secure(&device, &options, blocks, &found.slots);
    device.sync()?;
    // A bad other copy may have been the newest one: its epoch is skipped.
    write_super(&device, found.copy, &next)?;
    erase(&device, &options, &found.slots, &found.torn)?;

    let slots = &mut found.slots;

    let mut free = found.free;
    free.extend(found.torn);
    free.extend(slots.values().flat_map(|slot| &slot.dropped));
    free.sort_unstable_by(|a, b| b.cmp(a));
    slots.retain(|_, slot| !slot.kept.is_empty());
    let mut table = Table {
        slots: HashMap::new(),
        free,
        erased: Vec::new(),
        wanted: 0,
        erasing: Vec::new(),
        near: None,
        opening: Vec::new(),
        next_generation: next.epoch << COUNTER_BITS,
    };
    for (number, chain) in found.freed {
        // A slot without blocks starts at the position that its session is opened with, but behind its dead chain.
        if !slots.contains_key(&number) {
            table.slots.insert(number, Slot { next_chain: chain + 1, ..Slot::default() });
        }
    }
    let mut segments = Vec::new();
    for (&number, slot) in &*slots {
        table.slots.insert(number, recovered(slot));
        segments.push((number, slot.kept.iter().map(Segment::of).collect()));
    }
    let log = Log::assemble(device, options, blocks, table);
    let replay = Replay::new(log.clone(), segments);
    Ok((log, replay))
}

/// What was found is about to be relied on, and erasures to be made for its sake: it must not be lost to power any more.
fn secure(device: &impl LogDevice, options: &LogOptions, blocks: u32, slots: &BTreeMap<u16, SlotScan>) {
    device.secure(0, super_bytes(device.page_bytes()));
    for block in 0..blocks {
        device.secure(block_offset(device, options, block), HEADER_BYTES as u64);
    }
    for scan in slots.values().flat_map(|slot| &slot.kept) {
        device.secure(block_offset(device, options, scan.block), scan.end as u64);
    }
}

fn recovered(slot: &SlotScan) -> Slot {
    let used = slot.kept.iter().map(|scan| UsedBlock {
        block: scan.block,
        chain: scan.header.chain,
        generation: scan.header.generation,
        base_version: scan.header.base_version,
        max_seq: u64::MAX,
        last_version: scan.last_version,
        needless: false,
    });
    Slot {
        next_chain: slot.kept.last().map_or(0, |scan| scan.header.chain + 1),
        last_version: slot.position(),
        used: used.collect(),
        ..Slot::default()
    }
}

/// The superblock with the epoch to go on with, and which copy to write it to.
fn read_super(device: &impl LogDevice, options: &LogOptions) -> Result<(Superblock, usize), LogError> {
    let fits = block_count(device, options)?;
    let half = super_bytes(device.page_bytes()) / 2;
    let mut copies = [None; 2];
    let mut blank = [false; 2];
    for copy in 0..2 {
        let mut bytes = [0; HEADER_BYTES];
        read_agreed(&mut bytes, |bytes| device.read(copy as u64 * half, bytes))?;
        copies[copy] = Superblock::decode(&bytes);
        blank[copy] = bytes == [0; HEADER_BYTES];
    }
    let newest = match copies {
        [Some(a), Some(b)] => usize::from(b.epoch > a.epoch),
        [Some(_), None] => 0,
        [None, Some(_)] => 1,
        [None, None] => {
            return Err(LogError::Mismatch("there is no log here, or its superblock is gone".into()));
        }
    };
    let other = 1 - newest;
    let Some(mut value) = copies[newest] else { return Err(LogError::Mismatch("no superblock".into())) };
    if value.store_id != options.store_id {
        return Err(LogError::Mismatch(format!("it belongs to store {:#x}", value.store_id)));
    }
    if value.block_bytes != options.block_bytes as u64 {
        return Err(LogError::Mismatch(format!("its blocks have {} bytes", value.block_bytes)));
    }
    // Fewer would lose what is in the others, and could be too few to write anything.
    if value.blocks > fits as u64 || value.blocks < fits as u64 && !device.grows() {
        return Err(LogError::Mismatch(format!("it has {} blocks, and {fits} fit", value.blocks)));
    }
    // The count is stored with the next epoch; until then others would be found blank again.
    value.blocks = fits as u64;
    value.epoch += if copies[other].is_none() && !blank[other] { 2 } else { 1 };
    Ok((value, other))
}

/// Scans all blocks, `threads` at a time.
fn scan_all(
    device: &impl LogDevice,
    options: &LogOptions,
    blocks: u32,
    threads: usize,
    damage: Damage,
) -> Result<Found, LogError> {
    let next = AtomicU32::new(0);
    let found = Mutex::new(Ok(Found::default()));
    let work = || {
        let mut buffer = vec![0; options.block_bytes];
        loop {
            // Relaxed: the counter alone is shared; results go through the mutex.
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                return;
            }
            let outcome = scan(device, options, block, &mut buffer);
            let mut found = found.lock();
            let Ok(into) = &mut *found else { return };
            if let Err(error) =
                outcome.and_then(|(state, scan)| into.add(device, options, block, state, scan, damage))
            {
                *found = Err(error);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(blocks as usize) {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner()
}

impl Found {
    fn add(
        &mut self,
        device: &impl LogDevice,
        options: &LogOptions,
        block: u32,
        state: HeaderState,
        scan: Option<BlockScan>,
        damage: Damage,
    ) -> Result<(), LogError> {
        match state {
            HeaderState::Blank => self.free.push(block),
            HeaderState::Torn => self.torn.push(block),
            HeaderState::Damaged if damage == Damage::Cut => self.torn.push(block),
            HeaderState::Used(header) => {
                self.synced = self.synced.max(header.synced);
                self.used.extend(scan);
            }
            HeaderState::Freed { slot, chain, synced } => {
                self.synced = self.synced.max(synced);
                let dead = self.freed.entry(slot).or_insert(chain);
                *dead = chain.max(*dead);
                self.free.push(block);
            }
            HeaderState::Damaged => {
                let offset = block_offset(device, options, block);
                let reason = "its header was whole once and fails its checksum";
                return Err(LogError::Corrupt { slot: None, block, offset, reason });
            }
        }
        Ok(())
    }
}

/// Erases headers of torn and dropped blocks, and the start of each slot's first cut group; writes headers again of which
/// the copy alone is left.
pub(crate) fn erase(
    device: &impl LogDevice,
    options: &LogOptions,
    slots: &BTreeMap<u16, SlotScan>,
    torn: &[u32],
) -> Result<(), LogError> {
    for &block in torn.iter().chain(slots.values().flat_map(|slot| &slot.dropped)) {
        clear_header(device, options, block)?;
    }
    for scan in slots.values().flat_map(|slot| &slot.kept).filter(|scan| scan.restored) {
        let header = scan.header.encode(options.store_id, scan.block);
        device.overwrite(block_offset(device, options, scan.block), &header)?;
    }
    for slot in slots.values().filter(|slot| slot.cut) {
        let Some(last) = slot.kept.last() else { continue };
        let offset = block_offset(device, options, last.block) + last.end as u64;
        // One word is enough (the magic and the checksum), and a group may start in the last word of a page.
        device.overwrite(offset, &[0; 8])?;
    }
    device.sync()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_log::ByteLog;

    #[test]
    fn the_newest_superblock_counts_and_the_other_is_written_over() {
        let bytes = 64 << 10;
        let device = ByteLog::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes);
        let options = LogOptions { block_bytes: 1024, store_id: 1 };
        let blocks = u64::from(block_count(&device, &options).unwrap());
        for newest in 0..2 {
            for copy in 0..2 {
                let epoch = if copy == newest { 8 } else { 7 };
                let value = Superblock { store_id: 1, epoch, block_bytes: 1024, blocks, synced: 0 };
                write_super(&device, copy, &value).unwrap();
            }
            let (next, copy) = read_super(&device, &options).unwrap();
            assert_eq!((next.epoch, copy), (9, 1 - newest), "generations go on and the newest copy stays");
        }
    }
}
