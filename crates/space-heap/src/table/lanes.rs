//! One line for each stripe: the change that was made there last. It is durable before the change, so that a crash in the middle of that
//! is made good by making it again.
//!
//! ```text
//! 0 check  8 where the word is  16 the new one  24 the old one  32 version of the record  40 where the count is  48 the count's word  56 zero
//! ```
//!
//! # Invariants
//! * The record that a new entry leads to is stored before the same fence as the lane. Where a crash tore it, the change has not happened.
//! * All that a change stores is durable before the stripe is unlocked: a lane is written over only once it is not needed.

use terrace_blocks::u64_at;
use terrace_media::ByteRegion;

use super::PmTable;
use super::line::{CHECK, LINK, chunk_of};
use super::stripes::Held;
use crate::layout::{CHUNK_HEAD_BYTES, LINE_BYTES};

/// Of a lane.
pub const LANE_BYTES: u64 = LINE_BYTES as u64;

/// A change of a word of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Where the word is, from the first page on.
    pub at: u64,
    pub new: u64,
    pub old: u64,
    /// Of the record that a new entry leads to.
    pub version: u64,
    /// Where a count is, in the region, and what it is to be; 0: nowhere.
    pub count_at: u64,
    pub count: u64,
}

impl Lane {
    fn encode(&self, stripe: usize, store_id: u64) -> [u8; LANE_BYTES as usize] {
        let mut bytes = [0; LANE_BYTES as usize];
        let words = [self.at, self.new, self.old, self.version, self.count_at, self.count, 0];
        bytes[8..].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        let place = (store_id ^ (stripe as u64).rotate_left(40)).to_le_bytes();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[8..]);
        bytes[..8].copy_from_slice(&(1 << 32 | u64::from(crc)).to_le_bytes());
        bytes
    }
    fn decode(bytes: &[u8; LANE_BYTES as usize], stripe: usize, store_id: u64) -> Option<Self> {
        let [at, new, old, version, count_at, count] = std::array::from_fn(|i| u64_at(bytes, 8 + i * 8));
        let lane = Self { at, new, old, version, count_at, count };
        (lane.encode(stripe, store_id) == *bytes).then_some(lane)
    }
    /// The line, and which of its words.
    fn slot(&self) -> (u64, usize) {
        let line = self.at / LINE_BYTES as u64 * LINE_BYTES as u64;
        (line, ((self.at - line) / 8) as usize)
    }
    /// The chunk that is free afterwards.
    fn freed(&self) -> Option<u64> {
        (self.old != 0 && self.slot().1 < LINK).then(|| chunk_of(self.old))
    }
}

impl<R: ByteRegion> PmTable<R> {
    /// Makes a change: durable when it returns, with all that this thread has stored before.
    pub(super) fn make(&self, held: &mut Held<'_>, lane: &Lane) {
        let region = &self.medium.region;
        region.write_nt(self.front.lane(held.stripe), &lane.encode(held.stripe, self.medium.store_id));
        region.fence();
        held.begin_move();
        self.store(held, lane);
        held.end_move();
        self.store_rest(lane);
        region.fence();
    }

    /// A stripe's lane tells nothing any more; durable after a fence of this thread.
    pub(super) fn clear_lane(&self, stripe: usize) {
        self.medium.region.write_nt(self.front.lane(stripe), &[0; LANE_BYTES as usize]);
    }

    /// Stores a word and its line's check; durable after a fence of this thread.
    pub(super) fn store(&self, held: &mut Held<'_>, lane: &Lane) {
        let (at, slot) = lane.slot();
        let mut line = match held.line {
            Some((known, line)) if known == at => line,
            Some(_) | None => self.read_line(at),
        };
        line.set(slot, lane.new);
        held.line = Some((at, line));
        self.store_words(at, &line, slot);
    }
    pub(super) fn store_words(&self, at: u64, line: &super::line::Line, slot: usize) {
        let region = &self.medium.region;
        region.store_u64(self.medium.at(at) + slot as u64 * 8, line.0[slot]);
        region.store_u64(self.medium.at(at) + CHECK as u64 * 8, line.0[CHECK]);
        region.flush(self.medium.at(at), LINE_BYTES);
    }
    fn store_count(&self, lane: &Lane) {
        if lane.count_at != 0 {
            self.medium.region.store_u64(lane.count_at, lane.count);
            self.medium.region.flush(lane.count_at, 8);
        }
    }
    /// The count, and the old chunk's word.
    fn store_rest(&self, lane: &Lane) {
        self.store_count(lane);
        if let Some(chunk) = lane.freed() {
            self.medium.store_word(chunk, self.pages.place(chunk).free());
        }
    }

    /// Of an opening: makes the change once more that a stripe's lane tells, if it has happened.
    pub(super) fn make_again(&self, stripe: usize) {
        let mut bytes = [0; LANE_BYTES as usize];
        self.medium.region.read(self.front.lane(stripe), &mut bytes);
        let Some(lane) = Lane::decode(&bytes, stripe, self.medium.store_id) else { return };
        let (at, slot) = lane.slot();
        if !self.is_line(at) {
            return;
        }
        let mut line = self.read_line(at);
        let (first, seed) = (self.first_slot(at), self.seed(at));
        let is_made = line.0[slot] == lane.new;
        let leads_on = slot == LINK || lane.new == 0;
        if !is_made && !leads_on && !self.is_filled(chunk_of(lane.new), lane.version) {
            // A crash tore the record, or has kept none of it: nobody was answered.
            return;
        }
        // The check may be that of before. Whatever else it says is damage, and stays visible.
        let with = |word| {
            let mut line = line;
            line.0[slot] = word;
            line
        };
        let (before, after) = (with(lane.old).check(first, seed), with(lane.new).check(first, seed));
        if [before, after].contains(&line.0[CHECK]) {
            line = with(lane.new);
            line.0[CHECK] = after;
        } else {
            line.set(slot, lane.new);
        }
        self.store_words(at, &line, slot);
        // The old chunk may hold another record by now.
        self.store_count(&lane);
        self.medium.region.fence();
    }

    /// Of an opening: whether a chunk holds the whole record of this version, its head and word too: by its hash others find its entry, and
    /// a chunk whose word says that it is free is anybody's to take. It is made durable if a dead process did not.
    fn is_filled(&self, chunk: u64, version: u64) -> bool {
        let Some(bytes) = self.sound_record(chunk) else { return false };
        let is_it = u64_at(&bytes, CHUNK_HEAD_BYTES) == version;
        if !is_it || self.pages.place(chunk).sort_of(u64_at(&bytes, 0), version).is_none() {
            return false;
        }
        self.medium.region.flush(self.medium.at(chunk), bytes.len());
        self.medium.region.fence();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_survives_and_damage_shows() {
        let lane = Lane { at: 64 * 9 + 16, new: 5, old: 6, version: 7, count_at: 8, count: 9 };
        let bytes = lane.encode(3, 1);
        assert_eq!(Lane::decode(&bytes, 3, 1), Some(lane));
        assert_eq!((Lane::decode(&bytes, 4, 1), Lane::decode(&bytes, 3, 2)), (None, None));
        assert_eq!(lane.slot(), (64 * 9, 2));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Lane::decode(&bad, 3, 1), None, "byte {at}");
        }
        assert_eq!(Lane::decode(&[0; 64], 3, 1), None);
    }
}
