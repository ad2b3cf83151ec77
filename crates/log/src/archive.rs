//! Blocks whose entries are the records themselves: they are read where they stand, and outlive their place in a session's chain.
//!
//! ```text
//! written --> settled --> applied (the index leads there) --> archived: the header goes, the entries stay --> given back, free
//! '------------ in its session's chain -----------------'
//! ```
//!
//! On byte-addressable media alone. Who keeps an archived block remembers its generation, by which its groups are verified.

use crate::block_format::{HEADER_BYTES, read_u64};
use crate::device::LogDevice;
use crate::error::LogError;
use crate::group::{ENTRY_BYTES, GROUP_BYTES, group_length, padded, parse};
use crate::log::Log;
use crate::replay::ReplayEntry;
use crate::table::UsedBlock;

/// An odd number whose multiples are far apart.
const SCATTERS: u32 = 0x9E37_79B1;

/// Keeps blocks that leave their chains.
pub trait Archive: Send + Sync {
    /// The block, in this use of it, is about to leave its chain; that it is kept must be durable when this returns. It is free again once
    /// it is [given back](Log::give_block).
    fn keep(&self, block: u32, generation: u64);
    /// The block has left its chain: its header is gone.
    fn kept(&self, block: u32);
}

/// How far a session's chain was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    /// The block, by its number in the chain.
    chain: u64,
    /// Where in it the next group starts; 0: at its first one.
    at: usize,
    /// The last version before that.
    pub last: u64,
}

impl<D: LogDevice> Log<D> {
    /// From now on blocks that leave their chains are kept: [`reclaim`](Self::reclaim) frees none.
    pub fn archive_to(&self, archive: std::sync::Arc<dyn Archive>) {
        // A second one has no meaning, and no caller.
        let _ = self.shared.archive.set(archive);
    }
    /// Takes a free block, for other things than groups. Its first and last 64 bytes must stay zeros.
    pub fn take_block(&self) -> Option<u32> {
        self.shared.table.lock().take()
    }
    /// The same, one that is wanted if there is such a one among the next ones.
    pub fn take_block_first_of(&self, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.shared.table.lock().take_first_of(is_wanted)
    }
    /// From now on blocks that are near to the thread that takes one are taken first.
    pub fn prefer(&self, is_near: impl Fn(u32) -> bool + Send + 'static) {
        let mut table = self.shared.table.lock();
        // Neighbours are near to the same threads: they are not to come all at once.
        table.free.sort_unstable_by_key(|block| block.wrapping_mul(SCATTERS));
        table.near = Some(Box::new(is_near));
    }
    /// A block is free.
    pub fn give_block(&self, block: u32) {
        self.shared.table.lock().free.push(block);
    }
    /// Blocks that were found free and are not: they are taken.
    pub fn withdraw(&self, is_taken: impl Fn(u32) -> bool) {
        self.shared.table.lock().free.retain(|block| !is_taken(*block));
    }
    /// The blocks that hold groups of chains, each with its generation.
    pub fn chained_blocks(&self) -> Vec<(u32, u64)> {
        self.shared.table.lock().in_use().map(|used| (used.block, used.generation)).collect()
    }
    /// How many blocks there are.
    pub fn blocks(&self) -> u32 {
        self.shared.blocks
    }
    /// Where in the area a block starts.
    pub fn block_offset(&self, block: u32) -> u64 {
        self.shared.block_offset(block)
    }
    /// The block that a byte of the area lies in.
    pub fn block_at(&self, offset: u64) -> Option<u32> {
        let first = self.shared.block_offset(0);
        let block = offset.checked_sub(first)? / self.shared.options.block_bytes as u64;
        u32::try_from(block).ok().filter(|block| *block < self.shared.blocks)
    }

    /// Visits the entries of a block in this use of it. Where a group does not hold together, those of its entries are looked for
    /// that `whole` knows, which says how long the one is that begins with these bytes; such a one may also be of an earlier use.
    ///
    /// # Errors
    /// The device's.
    pub fn walk(
        &self,
        block: u32,
        generation: u64,
        whole: impl Fn(&[u8]) -> Option<usize>,
        mut visit: impl FnMut(ReplayEntry<'_>),
    ) -> Result<(), LogError> {
        let shared = &*self.shared;
        let place = shared.place(block, generation);
        let mut bytes = vec![0; shared.groups_end()];
        shared.device.read(place.block_offset, &mut bytes)?;
        let mut show = |version: u64, at: usize, entry: &[u8]| {
            let place = place.block_offset + at as u64;
            visit(ReplayEntry { slot: 0, version, bytes: entry, step: place, continues: false, place });
        };
        let mut at = HEADER_BYTES;
        while at + ENTRY_BYTES < bytes.len() {
            if let Some(group) = parse(&bytes, at, place, 0) {
                group.entries().for_each(|entry| show(entry.version, entry.at, entry.bytes));
                at += group.bytes;
            } else if let Some(length) = whole(&bytes[at + ENTRY_BYTES..]) {
                let entry = &bytes[at + ENTRY_BYTES..][..length];
                show(read_u64(&bytes, at), at, entry);
                at += padded(ENTRY_BYTES + length);
            } else {
                at += 8;
            }
        }
        Ok(())
    }

    /// Visits the entries of a session's chain behind `tail`, up to the group that ends in version `upto` or the last one that is there;
    /// entries of versions above it are not shown. `tail` is where the next call goes on: at the first group that was not shown whole.
    ///
    /// # Errors
    /// The device's.
    pub fn visit_tail(
        &self,
        slot: u16,
        tail: &mut Tail,
        upto: u64,
        mut visit: impl FnMut(ReplayEntry<'_>),
    ) -> Result<(), LogError> {
        let used: Vec<UsedBlock> = {
            let table = self.shared.table.lock();
            let Some(slot) = table.slots.get(&slot) else { return Ok(()) };
            slot.used.iter().filter(|used| used.chain >= tail.chain).copied().collect()
        };
        let mut group = Vec::new();
        for used in used {
            if used.chain > tail.chain || tail.at == 0 {
                *tail = Tail { chain: used.chain, at: HEADER_BYTES, last: used.base_version.max(tail.last) };
            }
            let mut show = |entry: ReplayEntry<'_>| {
                if entry.version <= upto {
                    visit(entry);
                }
            };
            let place = (slot, used.block, used.generation);
            while let Some((end, version)) = self.visit_group(place, tail.at, 0, &mut group, &mut show)? {
                if version > upto {
                    return Ok(());
                }
                (tail.at, tail.last) = (end, version);
            }
        }
        Ok(())
    }

    /// The group at byte `at` of a block: where it ends, and its last version; `None` if none is there.
    fn visit_group(
        &self,
        (slot, block, generation): (u16, u32, u64),
        at: usize,
        after: u64,
        bytes: &mut Vec<u8>,
        visit: &mut impl FnMut(ReplayEntry<'_>),
    ) -> Result<Option<(usize, u64)>, LogError> {
        let shared = &*self.shared;
        let place = shared.place(block, generation);
        if at + GROUP_BYTES > shared.groups_end() {
            return Ok(None);
        }
        let mut head = [0; GROUP_BYTES];
        shared.device.read(place.block_offset + at as u64, &mut head)?;
        let Some(length) = group_length(&head).filter(|length| at + length <= shared.groups_end()) else {
            return Ok(None);
        };
        bytes.clear();
        bytes.resize(length, 0);
        shared.device.read(place.block_offset + at as u64, bytes)?;
        // As if it stood at the start of the block: its checksum has where it stands.
        let Some(group) = parse(
            bytes,
            0,
            crate::group::Place { block_offset: place.block_offset + at as u64, ..place },
            after,
        ) else {
            return Ok(None);
        };
        let mut step = None;
        for entry in group.entries() {
            let entry_at = place.block_offset + (at + entry.at) as u64;
            let first = *step.get_or_insert(entry_at);
            visit(ReplayEntry {
                slot,
                version: entry.version,
                bytes: entry.bytes,
                step: first,
                continues: entry.continues,
                place: entry_at,
            });
            if !entry.continues {
                step = None;
            }
        }
        Ok(Some((at + length, group.last_version)))
    }
}
