//! Values too long for a record: in parts, each a chunk, durable before the record that describes them.
//!
//! ```text
//! description   0 bytes:u64  8 crc:u32 parts:u32  16 number:u64  24.. where each part starts:u64
//! part          its head has the value's number and the part's length; all but the last fill their chunks, of slabs those of the longest
//!               class
//! ```
//!
//! A part that no record describes is freed by the next opening.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::record::Head;
use terrace_engine::space::{Fetch, Former, LargeValues, Records, Room};
use terrace_media::{Buffer, ByteRegion};

use crate::layout::{CHUNK_HEAD_BYTES, Sort};
use crate::read::TIER;
use crate::session::Local;
use crate::space::HeapSpace;

const DESCRIPTION_BYTES: usize = 24;
/// The longest value however large the heap is: a batch's buffers are addressed with 32 bits.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// The longest value whose description is no longer than `inline` bytes, with chunks of up to `page` bytes.
pub fn value_bytes_max(inline: usize, page: usize) -> u64 {
    let parts = inline.saturating_sub(DESCRIPTION_BYTES) / 8;
    ((page - 64 - CHUNK_HEAD_BYTES) as u64 * parts as u64).min(VALUE_BYTES_MAX)
}

/// Where the parts of a described value start.
pub(crate) fn parts(description: &[u8]) -> impl Iterator<Item = u64> {
    let list = description.get(DESCRIPTION_BYTES..).unwrap_or_default();
    list.chunks_exact(8).map(|part| u64_at(part, 0))
}

/// The number of a described value.
pub(crate) fn number_of(description: &[u8]) -> u64 {
    description.get(16..24).map_or(0, |bytes| u64_at(bytes, 0))
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Takes chunks for so many bytes; each with the bytes of the value that go there.
    fn take_parts(&self, bytes: usize) -> Result<Vec<(u64, usize)>, Room> {
        if self.pages.has_objects() {
            let parts_max = (self.limits().inline_bytes - DESCRIPTION_BYTES) / 8;
            return self.take_objects_for_parts(bytes, parts_max);
        }
        let longest = self.pages.classes.count() - 1;
        let most = self.pages.chunk_bytes(longest) - CHUNK_HEAD_BYTES;
        let class_of = |part: usize| self.pages.size_for(part).unwrap_or(longest);
        let lengths: Vec<usize> = (0..bytes).step_by(most).map(|done| most.min(bytes - done)).collect();
        let mut wanted = vec![0; longest + 1];
        lengths.iter().for_each(|part| wanted[class_of(*part)] += 1);
        let mut alloc = self.pages.alloc();
        // All of them or none: takers of a few each would wait for each other.
        if let Some((of, pages)) = self.missing(&alloc, &wanted) {
            return Err(self.no_room(&alloc, of, pages));
        }
        let mut taken = Vec::with_capacity(lengths.len());
        for part in lengths {
            match self.pages.take(&mut alloc, &self.medium, class_of(part)) {
                Some(offset) => taken.push((offset, part)),
                None => {
                    taken.iter().for_each(|(offset, _)| self.pages.give(&mut alloc, *offset));
                    return Err(self.no_room(&alloc, class_of(part), 0));
                }
            }
        }
        Ok(taken)
    }

    /// Writes a value to chunks of its own, and how to find it; durable when it returns. `chunk` is made use of.
    pub(crate) fn write_parts(
        &self,
        value: &[u8],
        chunk: &mut Vec<u8>,
        description: &mut Vec<u8>,
    ) -> Result<(), Room> {
        let taken = self.take_parts(value.len())?;
        let number = self.last_value.fetch_add(1, Relaxed) + 1;
        let mut rest = value;
        for &(offset, bytes) in &taken {
            let (part, more) = rest.split_at(bytes);
            rest = more;
            chunk.clear();
            chunk.resize(CHUNK_HEAD_BYTES, 0);
            self.pages.place(offset).encode_piece(number, bytes as u32, chunk);
            self.medium.region.write_nt(self.medium.at(offset) + 8, &chunk[8..]);
            self.medium.region.write_nt(self.medium.at(offset) + CHUNK_HEAD_BYTES as u64, part);
        }
        self.medium.region.fence();
        for &(offset, _) in &taken {
            self.medium.store_word(offset, self.pages.place(offset).word(Sort::Piece, number));
        }
        self.medium.region.fence();
        self.live_bytes.fetch_add(value.len() as u64, Relaxed);
        description.extend_from_slice(&(value.len() as u64).to_le_bytes());
        description.extend_from_slice(&crc32c::crc32c(value).to_le_bytes());
        description.extend_from_slice(&(taken.len() as u32).to_le_bytes());
        description.extend_from_slice(&number.to_le_bytes());
        taken.iter().for_each(|(offset, _)| description.extend_from_slice(&offset.to_le_bytes()));
        Ok(())
    }

    /// What a part's chunk may hold of the value with this number; `None` if it is not its part.
    pub(crate) fn part_bytes(&self, offset: u64, number: u64) -> Option<usize> {
        self.pages.number(offset)?;
        let mut head = [0; CHUNK_HEAD_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut head);
        let is_part = u64_at(&head, 0) == self.pages.place(offset).word(Sort::Piece, number);
        let bytes = u32_at(&head, 16) as usize;
        (is_part && u64_at(&head, 8) == number && bytes + CHUNK_HEAD_BYTES <= self.chunk_room(offset)?)
            .then_some(bytes)
    }
}

impl<R: ByteRegion> LargeValues for HeapSpace<R> {
    fn write_extent(
        &self,
        local: &mut Local,
        value: &[u8],
        _former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        self.write_parts(value, &mut local.chunk, description).map_err(Some)
    }
    fn release_extent(&self, description: &[u8], _other: &[u8]) {
        let number = number_of(description);
        let mine = parts(description).filter(|offset| self.part_bytes(*offset, number).is_some());
        let mine: Vec<u64> = mine.collect();
        if self.is_freed_later(number) {
            return;
        }
        // The record that describes it may be the one that a crash leaves, where the index says which: parts of none are found later.
        if self.table.is_none() {
            self.medium.free(mine.iter().map(|offset| (*offset, self.pages.place(*offset).free())));
        }
        mine.iter().for_each(|offset| self.retire(*offset));
        self.live_bytes.fetch_sub(self.extent_bytes(description), Relaxed);
    }
    fn extent_bytes(&self, description: &[u8]) -> u64 {
        description.get(..8).map_or(0, |bytes| u64_at(bytes, 0))
    }
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        let start = out.len();
        if description.len() < DESCRIPTION_BYTES {
            return Fetch::Damaged(Head::default());
        }
        let (total, crc) = (self.extent_bytes(description), u32_at(description, 8));
        let longest = self.pages.page_bytes as u64 * (description.len() / 8) as u64;
        out.reserve_exact(total.min(longest) as usize);
        for offset in parts(description) {
            let room = self.pages.number(offset).map(|(_, size, _)| self.pages.chunk_bytes(size));
            let left = total as usize - (out.len() - start).min(total as usize);
            let Some(bytes) = room.map(|room| left.min(room - CHUNK_HEAD_BYTES)) else { break };
            out.append(bytes, |out| {
                let at = out.len();
                out.resize(at + bytes, 0);
                self.medium.region.read(self.medium.at(offset) + CHUNK_HEAD_BYTES as u64, &mut out[at..]);
            });
        }
        if (out.len() - start) as u64 == total && crc32c::crc32c(&out[start..]) == crc {
            return Fetch::Match(Head { tier: TIER, ..Head::default() });
        }
        out.truncate(start);
        Fetch::Damaged(Head::default())
    }
}
