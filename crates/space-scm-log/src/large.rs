//! Values too long for a record: in parts, durable before the record that describes them is in the log.
//!
//! ```text
//! description   0 bytes:u64  8 crc:u32 parts:u32  16.. of each part: place in words:40 bytes:24
//! part          head (layout), bytes
//! ```
//!
//! A part that no record describes is garbage from the start: parts count as live when the table leads to their record. Until a record that
//! describes them is put, their pages are pinned; from then on until the round of that record is over.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::record::Head;
use terrace_engine::space::{Fetch, Former, LargeValues, Room};
use terrace_media::{Buffer, ByteRegion};

use crate::directory::Directory;
use crate::keeper::Bump;
use crate::layout::{EDGE_BYTES, Kind, PART_HEAD_BYTES, encode_part};
use crate::medium::Medium;
use crate::session::Local;
use crate::space::{ScmSpace, TIER};

const DESCRIPTION_BYTES: usize = 16;
/// The longest value however large the memory is: a batch's buffers are addressed with 32 bits.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A part takes so much of a page at most: what is too short for one at the end of a page is lost.
const PAGE_PART: usize = 4;
/// And a value is cut to fill a page if that leaves a part of so many bytes at least.
const PART_BYTES_MIN: usize = 64;

/// Bytes of a value in a part at most.
fn part_max(page_bytes: usize) -> usize {
    ((page_bytes - 2 * EDGE_BYTES) / PAGE_PART - PART_HEAD_BYTES) / 8 * 8
}

/// The longest value whose description is no longer than `inline` bytes.
pub(crate) fn value_bytes_max(inline: usize, page_bytes: usize) -> u64 {
    let parts = inline.saturating_sub(DESCRIPTION_BYTES) / PLACE_BYTES;
    (part_max(page_bytes) as u64 * parts as u64).min(VALUE_BYTES_MAX)
}
/// Of a description: where a part is, in words, and how many bytes it has, in the low bits.
const PLACE_BYTES: usize = 8;
const LENGTH_BITS: u32 = 24;

fn packed(place: u64, bytes: usize) -> u64 {
    (place / 8) << LENGTH_BITS | bytes as u64
}
fn unpacked(word: u64) -> (u64, usize) {
    ((word >> LENGTH_BITS) * 8, (word & ((1 << LENGTH_BITS) - 1)) as usize)
}

/// Where the parts of a described value are, and how many of its bytes each has.
pub(crate) fn parts(description: &[u8]) -> impl Iterator<Item = (u64, usize)> {
    let list = description.get(DESCRIPTION_BYTES..).unwrap_or_default();
    list.chunks_exact(PLACE_BYTES).map(|part| unpacked(u64_at(part, 0)))
}
/// A part that a description has at one place is at another.
pub(crate) fn set_place(description: &mut [u8], from: u64, to: u64) {
    for part in description[DESCRIPTION_BYTES..].chunks_exact_mut(PLACE_BYTES) {
        let (place, bytes) = unpacked(u64_at(part, 0));
        if place == from {
            part.copy_from_slice(&packed(to, bytes).to_le_bytes());
        }
    }
}
/// The checksum of a described value.
pub(crate) fn crc_of(description: &[u8]) -> Option<u32> {
    (description.len() >= DESCRIPTION_BYTES).then(|| u32_at(description, 8))
}
/// The checksum of what the parts of a described value hold; `None` if one of them can't be where the description says.
pub(crate) fn stored_crc<R: ByteRegion>(medium: &Medium<R>, description: &[u8]) -> Option<u32> {
    let (mut crc, mut part) = (0, Vec::new());
    for (at, length) in parts(description) {
        medium.page_of(at)?;
        if part_bytes(length) > medium.rest_of_page(at) {
            return None;
        }
        part.resize(length, 0);
        medium.region.read(medium.at(at) + PART_HEAD_BYTES as u64, &mut part);
        crc = crc32c::crc32c_append(crc, &part);
    }
    Some(crc)
}
/// Bytes that a part takes.
pub(crate) fn part_bytes(value: usize) -> usize {
    PART_HEAD_BYTES + value.next_multiple_of(8)
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Fewer free pages are not enough: cleaning must not take them for a success, and count anew what it does in vain.
    fn no_room_for_parts(&self, pages: usize) -> Room {
        self.wanted_pages.fetch_max(pages, Relaxed);
        self.no_room(pages)
    }
    /// Takes places for so many bytes of a value.
    fn take_parts(&self, bytes: usize) -> Result<Vec<(u64, usize)>, Room> {
        let most = part_max(self.medium.geometry.page_bytes);
        let mut open = self.parts.lock();
        let pages = bytes.div_ceil(most).div_ceil(PAGE_PART) + 1;
        if self.log.free_blocks() < pages + self.reserve_pages() {
            drop(open);
            return Err(self.no_room_for_parts(pages));
        }
        let mut taken = Vec::new();
        let mut left = bytes;
        while left > 0 {
            let rest = open.map_or(0, |bump| self.rest_of(bump)).saturating_sub(PART_HEAD_BYTES) / 8 * 8;
            let part = if rest >= PART_BYTES_MIN { most.min(rest).min(left) } else { most.min(left) };
            left -= part;
            let before: Option<Bump> = *open;
            let place = self.take_place(&mut open, (&mut Vec::new(), 0), Kind::Parts, part_bytes(part));
            let Some(place) = place else {
                *open = before;
                self.unpin(taken.into_iter(), 0);
                return Err(self.no_room_for_parts(pages));
            };
            if let Some(page) = self.medium.page_of(place) {
                self.pages.page(page).pins.fetch_add(1, SeqCst);
            }
            taken.push((place, part));
        }
        Ok(taken)
    }
}

impl<R: ByteRegion, T: Directory<R>> LargeValues for ScmSpace<R, T> {
    fn write_extent(
        &self,
        _local: &mut Local,
        value: &[u8],
        _former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        let taken = self.take_parts(value.len()).map_err(Some)?;
        let mut rest = value;
        for (place, bytes) in &taken {
            let (part, more) = rest.split_at(*bytes);
            rest = more;
            let head = encode_part(part);
            self.medium.region.write_nt(self.medium.at(*place), &head);
            self.write_padded(place + PART_HEAD_BYTES as u64, part);
        }
        self.medium.region.fence();
        self.waiting_bytes.fetch_add(value.len() as u64, Relaxed);
        description.extend_from_slice(&(value.len() as u64).to_le_bytes());
        description.extend_from_slice(&crc32c::crc32c(value).to_le_bytes());
        description.extend_from_slice(&(taken.len() as u32).to_le_bytes());
        self.ahead.lock().extend(taken.first().map(|(place, _)| *place));
        for (place, bytes) in taken {
            description.extend_from_slice(&packed(place, bytes).to_le_bytes());
        }
        Ok(())
    }
    /// What a record described is given up by the round that replaces that.
    fn release_extent(&self, description: &[u8], _other: &[u8]) {
        if self.takes_ahead(description) {
            self.unpin(parts(description), 0);
        }
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
        let longest: u64 = parts(description).map(|(_, bytes)| bytes as u64).fold(0, u64::saturating_add);
        out.reserve_exact(total.min(longest).min(VALUE_BYTES_MAX) as usize);
        for (place, bytes) in parts(description) {
            let has_room = self.medium.page_of(place).is_some()
                && part_bytes(bytes.min(VALUE_BYTES_MAX as usize)) <= self.medium.rest_of_page(place);
            if !has_room {
                break;
            }
            out.append(bytes, |out| {
                let at = out.len();
                out.resize(at + bytes, 0);
                self.medium.region.read(self.medium.at(place) + PART_HEAD_BYTES as u64, &mut out[at..]);
            });
        }
        if (out.len() - start) as u64 == total && crc32c::crc32c(&out[start..]) == crc {
            return Fetch::Match(Head { tier: TIER, ..Head::default() });
        }
        out.truncate(start);
        Fetch::Damaged(Head::default())
    }
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Whether a description is of a value that no record described before.
    fn takes_ahead(&self, description: &[u8]) -> bool {
        parts(description).next().is_some_and(|(first, _)| self.ahead.lock().remove(&first))
    }
    /// A record that describes a large value was put, in the epoch that its session is in: the table leads there, or to something newer,
    /// once this round is over.
    pub(crate) fn describe(&self, description: &[u8], round: u64) {
        if self.takes_ahead(description) {
            self.unpin(parts(description), round);
        }
    }
    fn unpin(&self, parts: impl Iterator<Item = (u64, usize)>, round: u64) {
        for page in parts.filter_map(|(place, _)| self.medium.page_of(place)) {
            let page = self.pages.page(page);
            // Before the pin goes: in between both hold it.
            page.round.fetch_max(round, SeqCst);
            page.pins.fetch_sub(1, SeqCst);
        }
    }

    /// Writes bytes to a place, padded to whole words; durable after a fence.
    pub(crate) fn write_padded(&self, place: u64, bytes: &[u8]) {
        let (whole, rest) = bytes.split_at(bytes.len() / 8 * 8);
        if !whole.is_empty() {
            self.medium.region.write_nt(self.medium.at(place), whole);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.medium.region.write_nt(self.medium.at(place) + whole.len() as u64, &word);
        }
    }
}
