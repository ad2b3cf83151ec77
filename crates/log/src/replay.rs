//! What an opened log holds, entry by entry.

use std::collections::BTreeMap;

use terrace_media::READINGS_MAX;

use crate::block_format::HEADER_BYTES;
use crate::device::LogDevice;
use crate::error::LogError;
use crate::group::{Place, parse};
use crate::log::Log;
use crate::scan::BlockScan;

/// The good part of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    block: u32,
    generation: u64,
    base_version: u64,
    end: usize,
    last_version: u64,
}

impl Segment {
    pub fn of(scan: &BlockScan) -> Self {
        Self {
            block: scan.block,
            generation: scan.header.generation,
            base_version: scan.header.base_version,
            end: scan.end,
            last_version: scan.last_version,
        }
    }
}

/// An entry found in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayEntry<'a> {
    /// Its session's slot.
    pub slot: u16,
    /// Its version.
    pub version: u64,
    /// Its bytes, as they were given to [`Writer::entry`](crate::Writer::entry).
    pub bytes: &'a [u8],
    /// Names the atomic step that it belongs to: the same for all entries of a step, which come one behind the other.
    pub step: u64,
    /// Whether the next entry belongs to the same step.
    pub continues: bool,
    /// Where it stands: no other entry of the log has this number, and it is the same at each pass. Two of them are
    /// [`PLACES_APART`] from each other at least.
    pub place: u64,
}

/// The least between the places of two entries.
pub const PLACES_APART: u64 = 16;

/// The entries that count after the cut. They are read again from the medium at each pass, in DRAM of one block a thread.
///
/// Replay them, make writers for the sessions that go on (each starts a new block), and call [`retire`](Self::retire).
/// Until then nothing that was found is reclaimed.
pub struct Replay<D> {
    log: Log<D>,
    segments: Vec<(u16, Vec<Segment>)>,
}

impl<D: LogDevice> Replay<D> {
    pub(crate) fn new(log: Log<D>, segments: Vec<(u16, Vec<Segment>)>) -> Self {
        Self { log, segments }
    }

    /// Each slot's position: the last version that counts. Slots of which no block is left are not in it.
    pub fn positions(&self) -> BTreeMap<u16, u64> {
        let last = |segments: &[Segment]| segments.last().map(|segment| segment.last_version);
        self.segments.iter().filter_map(|(slot, segments)| Some((*slot, last(segments)?))).collect()
    }
    /// The highest version that the log knows; 0 if it is empty.
    pub fn max_version(&self) -> u64 {
        self.positions().into_values().max().unwrap_or(0)
    }
    /// Blocks to be read, for a progress bar.
    pub fn blocks(&self) -> usize {
        self.segments.iter().map(|(_, segments)| segments.len()).sum()
    }

    /// Visits every entry, slot by slot, each slot's in ascending versions.
    ///
    /// # Errors
    /// [`LogError::Io`]; [`LogError::Corrupt`] if the medium gives other bytes than when the log was opened.
    pub fn for_each(&self, mut visit: impl FnMut(ReplayEntry<'_>)) -> Result<(), LogError> {
        let mut buffer = Vec::new();
        for (slot, segments) in &self.segments {
            let mut step = None;
            for segment in segments {
                self.visit_segment(*slot, segment, (&mut buffer, &mut step), &mut visit)?;
            }
        }
        Ok(())
    }

    /// Versions that cut the log into parts of about so many bytes, each between one of them and the next, in ascending order. The last
    /// one is the log's newest.
    pub fn part_ends(&self, bytes: usize) -> Vec<u64> {
        let segments = self.segments.iter().flat_map(|(_, segments)| segments);
        let mut all: Vec<_> = segments.map(|segment| (segment.last_version, segment.end)).collect();
        all.sort_unstable();
        let (mut ends, mut part) = (Vec::new(), 0);
        for (i, (version, length)) in all.iter().enumerate() {
            part += length;
            if part >= bytes || i + 1 == all.len() {
                ends.push(*version);
                part = 0;
            }
        }
        ends.dedup();
        ends
    }

    /// Visits the entries of versions above `after` and up to `upto`, in the order of [`for_each`](Self::for_each). It reads no
    /// block that has none of them. A step of which a part is left out may have another name.
    ///
    /// # Errors
    /// As [`for_each`](Self::for_each).
    pub fn for_each_between(
        &self,
        (after, upto): (u64, u64),
        mut visit: impl FnMut(ReplayEntry<'_>),
    ) -> Result<(), LogError> {
        let mut buffer = Vec::new();
        for (slot, segments) in &self.segments {
            let mut step = None;
            for segment in segments {
                if segment.last_version > after && segment.base_version < upto {
                    let reading = (&mut buffer, &mut step);
                    self.visit_segment(*slot, segment, reading, &mut |entry: ReplayEntry<'_>| {
                        if entry.version > after && entry.version <= upto {
                            visit(entry);
                        }
                    })?;
                }
            }
        }
        Ok(())
    }

    /// As [`for_each`](Self::for_each) on `threads` threads at once: each visits, in the same order, the entries whose
    /// `shard` (a hash of the key in the bytes) is its number modulo `threads`.
    ///
    /// # Errors
    /// As [`for_each`](Self::for_each); the first thread's error wins.
    pub fn for_each_parallel(
        &self,
        threads: usize,
        shard: impl Fn(&[u8]) -> u64 + Sync,
        visit: impl Fn(usize, ReplayEntry<'_>) + Sync,
    ) -> Result<(), LogError> {
        let threads = threads.max(1);
        let (shard, visit) = (&shard, &visit);
        let work = move |thread: usize| {
            self.for_each(|entry| {
                if shard(entry.bytes) % threads as u64 == thread as u64 {
                    visit(thread, entry);
                }
            })
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            let mut result = work(0);
            for other in others {
                match other.join() {
                    Ok(outcome) => result = result.and(outcome),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            result
        })
    }

    /// Says that every entry found lives in a page with a sequence number of at most `seq`: once that is persisted,
    /// [`Log::reclaim`] frees their blocks.
    pub fn retire(self, seq: u64) {
        let mut table = self.log.shared.table.lock();
        for (number, segments) in &self.segments {
            let Some(slot) = table.slots.get_mut(number) else { continue };
            for segment in segments {
                for used in slot.used.iter_mut().filter(|used| used.block == segment.block) {
                    used.max_seq = seq;
                }
            }
        }
    }

    /// Reads a segment; again where its groups don't read as when the log was opened.
    fn read_segment(&self, segment: &Segment, place: Place, buffer: &mut Vec<u8>) -> Result<(), LogError> {
        buffer.resize(segment.end, 0);
        for _ in 0..READINGS_MAX {
            self.log.shared.device.read(place.block_offset, buffer)?;
            let (mut at, mut last) = (HEADER_BYTES, segment.base_version);
            while at < segment.end
                && let Some(group) = parse(buffer, at, place, last)
            {
                (at, last) = (at + group.bytes, group.last_version);
            }
            if at == segment.end {
                break;
            }
        }
        Ok(())
    }

    fn visit_segment(
        &self,
        slot: u16,
        segment: &Segment,
        (buffer, step): (&mut Vec<u8>, &mut Option<u64>),
        visit: &mut impl FnMut(ReplayEntry<'_>),
    ) -> Result<(), LogError> {
        let shared = &self.log.shared;
        let place = shared.place(segment.block, segment.generation);
        self.read_segment(segment, place, buffer)?;
        let (mut at, mut last) = (HEADER_BYTES, segment.base_version);
        while at < segment.end {
            let Some(group) = parse(buffer, at, place, last) else {
                let (offset, reason) =
                    (place.block_offset + at as u64, "it changed since the log was opened");
                return Err(LogError::Corrupt { slot: Some(slot), block: segment.block, offset, reason });
            };
            for entry in group.entries() {
                let at = place.block_offset + entry.at as u64;
                let first = *step.get_or_insert(at);
                visit(ReplayEntry {
                    slot,
                    version: entry.version,
                    bytes: entry.bytes,
                    step: first,
                    continues: entry.continues,
                    place: at,
                });
                if !entry.continues {
                    *step = None;
                }
            }
            (at, last) = (at + group.bytes, group.last_version);
        }
        Ok(())
    }
}
