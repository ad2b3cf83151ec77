//! The log: creating it, syncing it, reclaiming its blocks, measuring it.
//!
//! # Thread safety
//! `Shared` is used by all writers and by whoever syncs and reclaims, at the same time. The block table is behind a
//! mutex that is never held during I/O; reclaiming excludes reclaiming by holding `eraser`. Lock order: `eraser`, `table`.
//!
//! # Invariants
//! - A block gets on the free list only when its header is erased and that is safe from power loss.
//! - `synced` only grows: headers of blocks up to that generation are safe from power loss. Stored after a sync
//!   (release), read when a header is written and when blocks are freed (acquire).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::archive::Archive;
use crate::block_format::{COUNTER_BITS, HEADER_BYTES, Superblock, copy_bytes, encode_freed, super_bytes};
use crate::device::{LogDevice, Tail};
use crate::error::LogError;
use crate::group::{Place, group_bytes};
use crate::open;
use crate::replay::Replay;
use crate::sync::{AtomicU64, Mutex};
use crate::table::Table;
use crate::writer::Writer;

/// What a log is made with, and must be opened with.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Size of a log block: a power of two, 1 KiB to 4 MiB, at least 4 KiB on block media.
    pub block_bytes: usize,
    /// The store's identity; checksums include it. Different for every store ever made on this area.
    pub store_id: u64,
}

pub(crate) struct Shared<D> {
    pub device: D,
    pub options: LogOptions,
    pub table: Mutex<Table>,
    pub synced: AtomicU64,
    pub blocks: u32,
    eraser: Mutex<()>,
    superseded: AtomicU64,
    /// Who keeps the blocks that leave their sessions' chains.
    pub archive: OnceLock<Arc<dyn Archive>>,
}

/// Some of the log's oldest blocks. See [`Log::oldest`].
#[derive(Clone, Debug)]
pub struct Oldest {
    /// No entry of them has a newer version.
    pub upto: u64,
    /// What they take.
    pub bytes: u64,
    generations: Vec<u64>,
}

/// The logs of all sessions of a store, in one area. Cheap to clone.
pub struct Log<D> {
    pub(crate) shared: Arc<Shared<D>>,
}

impl<D> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: LogDevice> Shared<D> {
    /// Where in the area a block starts.
    pub fn block_offset(&self, block: u32) -> u64 {
        block_offset(&self.device, &self.options, block)
    }
    /// Where the copy of a block's header stands, on media that have one.
    pub fn copy_offset(&self, block: u32) -> u64 {
        self.block_offset(block) + self.groups_end() as u64
    }
    /// Where in a block groups end at the latest.
    pub fn groups_end(&self) -> usize {
        self.options.block_bytes - copy_bytes(self.device.immediate())
    }
    /// Blocks that so many entries need at most, if the longest of them is so long.
    pub fn blocks_for(&self, entries: usize, bytes: usize, longest: usize, dependencies: usize) -> usize {
        // What does not hold the longest entry any more may be left empty.
        let room = (self.groups_end() - HEADER_BYTES).saturating_sub(group_bytes(dependencies, 0) + longest);
        bytes.div_ceil(room.max(1)).min(entries) + 1
    }
    pub fn place(&self, block: u32, generation: u64) -> Place {
        Place { store_id: self.options.store_id, generation, block_offset: self.block_offset(block) }
    }
}

pub(crate) fn block_offset(device: &impl LogDevice, options: &LogOptions, block: u32) -> u64 {
    super_bytes(device.page_bytes()) + block as u64 * options.block_bytes as u64
}

/// The number of blocks that fit, if the options make sense.
pub(crate) fn block_count(device: &impl LogDevice, options: &LogOptions) -> Result<u32, LogError> {
    let size = options.block_bytes;
    if !size.is_power_of_two() || !(1024..=4 << 20).contains(&size) || size < device.page_bytes() {
        return Err(LogError::Mismatch(format!(
            "a log block can't have {size} bytes: a power of two from 1 KiB (on block media 4 KiB) to 4 MiB is needed"
        )));
    }
    let blocks = device.len().saturating_sub(super_bytes(device.page_bytes())) / size as u64;
    if blocks == 0 {
        return Err(LogError::Mismatch(format!("{} bytes hold no log block of {size}", device.len())));
    }
    // More blocks than this would be a log of 4 TiB at least; what is over stays unused.
    Ok(blocks.min(u32::MAX as u64) as u32)
}

/// Clears a block's header: on byte media its copy first.
pub(crate) fn clear_header(
    device: &impl LogDevice,
    options: &LogOptions,
    block: u32,
) -> Result<(), LogError> {
    let start = block_offset(device, options, block);
    let copy = copy_bytes(device.immediate());
    if copy > 0 {
        device.overwrite(start + (options.block_bytes - copy) as u64, &vec![0; copy])?;
    }
    device.overwrite(start, &[0; HEADER_BYTES])?;
    Ok(())
}

/// Writes one of the two copies of the superblock and waits until it is safe.
#[track_caller]
pub(crate) fn write_super(device: &impl LogDevice, copy: usize, value: &Superblock) -> Result<(), LogError> {
    let offset = copy as u64 * super_bytes(device.page_bytes()) / 2;
    device.overwrite(offset, &value.encode())?;
    device.sync()?;
    Ok(())
}

impl<D: LogDevice> Log<D> {
    /// Formats the area and opens it. Whatever was there is gone.
    ///
    /// # Errors
    /// [`LogError::Mismatch`] if the options don't fit the device, [`LogError::Io`].
    pub fn create(device: D, options: LogOptions) -> Result<Self, LogError> {
        let blocks = block_count(&device, &options)?;
        let mut tail = Tail::new();
        // Without a superblock it isn't a log: it goes first and comes last.
        device.append(&mut tail, 0, &vec![0; super_bytes(device.page_bytes()) as usize])?;
        device.sync()?;
        // Copies of an earlier log's headers stay: their checksums fail here.
        for block in 0..blocks {
            device.append(&mut tail, block_offset(&device, &options, block), &[0; HEADER_BYTES])?;
        }
        device.sync()?;
        let value = Superblock {
            store_id: options.store_id,
            epoch: 1,
            block_bytes: options.block_bytes as u64,
            blocks: blocks as u64,
            synced: 0,
        };
        write_super(&device, 0, &value)?;
        let table = Table {
            slots: Default::default(),
            free: (0..blocks).rev().collect(),
            erased: Vec::new(),
            wanted: 0,
            erasing: Vec::new(),
            near: None,
            opening: Vec::new(),
            next_generation: 1 << COUNTER_BITS,
        };
        Ok(Self::assemble(device, options, blocks, table))
    }

    pub(crate) fn assemble(device: D, options: LogOptions, blocks: u32, table: Table) -> Self {
        let synced = AtomicU64::new(table.next_generation - 1);
        let table = Mutex::new(table);
        Self {
            shared: Arc::new(Shared {
                device,
                options,
                table,
                synced,
                blocks,
                eraser: Mutex::default(),
                superseded: AtomicU64::new(0),
                archive: OnceLock::new(),
            }),
        }
    }

    /// Opens a log after a stop or a crash: verifies every block, cuts what can't count, and makes the cut durable, so that
    /// what was cut can't come back. See [`Replay`] for what to do next.
    ///
    /// Every version up to `floor`, of any session, must be durable outside of the log: a dependency on it counts as met.
    /// Pass the largest value that any call of [`reclaim`](Self::reclaim) may have been given. `threads` scan at once.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if bytes below a recorded durable position are bad, [`LogError::Mismatch`] if this is not the
    /// log of these options, [`LogError::Io`].
    pub fn open(
        device: D,
        options: LogOptions,
        floor: u64,
        threads: usize,
    ) -> Result<(Self, Replay<D>), LogError> {
        open::open(device, options, floor, threads)
    }

    /// A writer for the session in `slot`, whose versions all lie above `last_version` and above everything that this
    /// slot's log holds.
    ///
    /// # Panics
    /// If the slot already has a writer.
    pub fn writer(&self, slot: u16, last_version: u64) -> Writer<D> {
        Writer::new(Arc::clone(&self.shared), slot, last_version)
    }

    /// Waits until all completed writes are safe from power loss. Nothing to wait for on byte media.
    ///
    /// # Errors
    /// [`LogError::Io`]; then nothing may be taken for safe.
    #[track_caller]
    pub fn sync(&self) -> Result<(), LogError> {
        let shared = &*self.shared;
        let (erased, written) = {
            let mut table = shared.table.lock();
            (std::mem::take(&mut table.erased), table.written_generation())
        };
        let result = shared.device.sync();
        let mut table = shared.table.lock();
        match result {
            Ok(()) => {
                table.free.extend(erased);
                shared.synced.fetch_max(written, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                table.erased.extend(erased);
                Err(error.into())
            }
        }
    }

    /// Whether a writer waits for blocks that [`reclaim`](Self::reclaim) has erased and not yet made free.
    pub fn owes_blocks(&self) -> bool {
        self.shared.table.lock().owes_blocks()
    }

    /// Frees each slot's oldest blocks, up to the first that is a live writer's current one or holds an entry whose `seq` is
    /// above `persisted`, save those of [`supersede`](Self::supersede); returns how many. A slot's *last* block is freed only if its versions are all at most `floor`:
    /// it carries the slot's position, which other sessions' groups may depend on.
    ///
    /// Before the call it must be durable that (1) every entry with a `seq` of at most `persisted` is recoverable without
    /// the log, together with all that it depends on; (2) every version up to `floor`, of any session, is; (3) the
    /// next [`open`](Self::open) will be given `floor` or more. A `floor` of 0 is always right and keeps a block a slot.
    ///
    /// On block media this syncs before it erases; the blocks become free at the next sync, which follows at once if
    /// none is free, and comes with the next call if few are or if a writer waits for more.
    ///
    /// # Errors
    /// [`LogError::Io`]; blocks not yet erased stay in use.
    pub fn reclaim(&self, persisted: u64, floor: u64) -> Result<usize, LogError> {
        let shared = &*self.shared;
        let _only_one = shared.eraser.lock();
        let immediate = shared.device.immediate();
        let (any, thirsty) = {
            let table = shared.table.lock();
            (table.any_victim(persisted, floor), table.owes_blocks() || table.free.len() < table.erased.len())
        };
        if !any && !thirsty {
            return Ok(0);
        }
        // A block that others depend on goes only after the header that carries its slot's position on is safe. And blocks
        // that were erased are free only then: nobody else may have a reason to sync, and who waits for one would for ever.
        self.sync()?;
        let synced = if immediate { u64::MAX } else { shared.synced.load(Ordering::Acquire) };
        let victims = shared.table.lock().take_victims(persisted, floor, synced);
        for (i, victim) in victims.iter().enumerate() {
            // Byte media order the erasures by their fences, so that a chain never gets a hole. On block media pages may
            // arrive in any order, and the header says that everything older is dead too.
            let block = victim.used.block;
            let archive = shared.archive.get();
            if let Some(archive) = archive {
                archive.keep(block, victim.used.generation);
            }
            let result = if immediate {
                clear_header(&shared.device, &shared.options, block)
            } else {
                let store_id = shared.options.store_id;
                let header = encode_freed(victim.slot, victim.used.chain, synced, store_id, block);
                shared.device.overwrite(shared.block_offset(block), &header).map_err(LogError::from)
            };
            let mut table = shared.table.lock();
            if let Err(error) = result {
                for victim in victims[i..].iter().rev() {
                    let slot = table.slots.entry(victim.slot).or_default();
                    slot.used.push_front(victim.used);
                    // Its state on the medium is unknown: no new writer may build on it.
                    slot.broken = true;
                }
                table.erasing.clear();
                return Err(error);
            }
            table.erasing.retain(|erasing| erasing.used.block != victim.used.block);
            if victim.used.max_seq > persisted {
                shared.superseded.fetch_add(1, Ordering::Relaxed);
            }
            match (archive, immediate) {
                (Some(archive), _) => archive.kept(block),
                (None, true) => table.free.push(block),
                (None, false) => {
                    table.erased.push(victim.used.block);
                }
            }
        }
        if !immediate && shared.table.lock().free.is_empty() {
            self.sync()?;
        }
        Ok(victims.len())
    }

    /// The oldest blocks to which nobody appends any more: a part of those in use, at most so many bytes. `None` if there are none.
    pub fn oldest(&self, part: usize, bytes: u64) -> Option<Oldest> {
        let block_bytes = self.shared.options.block_bytes as u64;
        let table = self.shared.table.lock();
        let most = (table.in_use().count() / part).min((bytes / block_bytes) as usize).max(1);
        let oldest = table.oldest(most);
        Some(Oldest {
            upto: oldest.last()?.last_version,
            bytes: oldest.len() as u64 * block_bytes,
            generations: oldest.iter().map(|used| used.generation).collect(),
        })
    }

    /// No entry of these blocks is needed any more: the next [`reclaim`](Self::reclaim) frees them whatever their `seq`.
    ///
    /// Before the call it must be durable that each of their entries is recoverable without them, or something newer is in its place,
    /// together with all that it depends on.
    pub fn supersede(&self, oldest: &Oldest) {
        self.shared.table.lock().supersede(&oldest.generations);
    }

    /// Blocks that were begun so far, beside some constant.
    pub fn begun_blocks(&self) -> u64 {
        self.shared.table.lock().next_generation
    }

    /// Blocks that were freed for [`supersede`](Self::supersede)'s sake.
    pub fn superseded_blocks(&self) -> u64 {
        self.shared.superseded.load(Ordering::Relaxed)
    }

    /// The most that one group can hold: padded entries (see [`Writer::buffered_bytes`]) with this many dependencies.
    pub fn max_group_bytes(&self, dependencies: usize) -> usize {
        let overhead = HEADER_BYTES + group_bytes(dependencies, 0);
        self.shared.groups_end().saturating_sub(overhead)
    }
    /// Whether blocks for such a step, as [`Writer::reserve_step`] would hold them, are at most half of the log, beside two for
    /// each of so many sessions: then it holds them sooner or later, if the log is reclaimed meanwhile.
    pub fn takes_step(
        &self,
        (entries, bytes, longest): (usize, usize, usize),
        dependencies: usize,
        sessions: usize,
    ) -> bool {
        self.shared.blocks_for(entries, bytes, longest, dependencies) <= self.step_blocks(sessions)
    }
    /// About how long a step that is, in bytes of entries.
    pub fn max_step_bytes(&self, dependencies: usize, sessions: usize) -> usize {
        self.step_blocks(sessions).saturating_sub(1) * self.max_group_bytes(dependencies)
    }
    fn step_blocks(&self, sessions: usize) -> usize {
        (self.shared.blocks as usize).saturating_sub(2 * sessions) / 2
    }
    /// A lower bound of the versions of all entries in used blocks; `None` if no block is used.
    pub fn min_version(&self) -> Option<u64> {
        self.shared.table.lock().in_use().map(|used| used.base_version + 1).min()
    }
    /// Blocks that hold groups, of open and closed sessions.
    pub fn used_blocks(&self) -> usize {
        self.shared.table.lock().in_use().count()
    }
    /// Blocks that any writer can take now.
    pub fn free_blocks(&self) -> usize {
        self.shared.table.lock().free.len()
    }
    /// Bytes of the blocks in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_blocks() as u64 * self.shared.options.block_bytes as u64
    }
    /// Bytes of all blocks.
    pub fn capacity_bytes(&self) -> u64 {
        self.shared.blocks as u64 * self.shared.options.block_bytes as u64
    }
    /// The medium that the log is on.
    pub fn device(&self) -> &D {
        &self.shared.device
    }
}
