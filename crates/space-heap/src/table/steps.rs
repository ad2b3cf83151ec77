//! Several keys as one step: all of their changes count after a crash, or none.
//!
//! ```text
//! words of all chunks: each leads to the one before | fence | step: the last chunk, counts | fence | entries | fence | step: nothing under way
//!                                                                     '-- from here on the step counts
//! ```
//!
//! A step's own counts are what all steps that were made there have added: they change with the word that makes the step count.
//!
//! ```text
//! step   0 sequence  8 last chunk  16 how many  24 zero  32 of each database: keys, those that expire  288 check
//! ```
//!
//! # Invariants
//! * Two copies take turns. The one that is stored is not the one that counts, so that a crash tears the other.
//! * All stripes of the keys are locked from before the words to behind the last fence.
//! * A chunk's word leads to another, or says that it is free, only in a step that is under way: who finds it later takes no notice.

use parking_lot::Mutex;
use terrace_blocks::{u32_at, u64_at};
use terrace_engine::op::DATABASES;
use terrace_media::ByteRegion;

use super::PmTable;
use super::front::STEPS;

/// Of a copy.
pub const STEP_BYTES: u64 = 320;
const CRC_AT: usize = 32 + DATABASES * 16;

/// What a step's place says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    sequence: u64,
    /// The chunk whose word was stored last; 0: nothing is under way.
    pub last: u64,
    pub count: u64,
    /// Added by steps that were made here: keys of each database, and those that expire.
    pub added: [(i64, i64); DATABASES],
}

impl Step {
    fn encode(&self, step: usize, store_id: u64) -> [u8; STEP_BYTES as usize] {
        let mut bytes = [0; STEP_BYTES as usize];
        bytes[..24]
            .copy_from_slice([self.sequence, self.last, self.count].map(u64::to_le_bytes).as_flattened());
        for (db, (keys, expiring)) in self.added.iter().enumerate() {
            bytes[32 + db * 16..][..8].copy_from_slice(&keys.to_le_bytes());
            bytes[40 + db * 16..][..8].copy_from_slice(&expiring.to_le_bytes());
        }
        let place = (store_id ^ (step as u64).rotate_left(40)).to_le_bytes();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[..CRC_AT]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    fn decode(bytes: &[u8; STEP_BYTES as usize], step: usize, store_id: u64) -> Option<Self> {
        let found = Self {
            sequence: u64_at(bytes, 0),
            last: u64_at(bytes, 8),
            count: u64_at(bytes, 16),
            added: std::array::from_fn(|db| {
                (u64_at(bytes, 32 + db * 16) as i64, u64_at(bytes, 40 + db * 16) as i64)
            }),
        };
        (u32_at(bytes, CRC_AT) == u32_at(&found.encode(step, store_id), CRC_AT)).then_some(found)
    }
}

/// The places of steps, in DRAM.
pub struct Steps {
    places: [Mutex<Step>; STEPS],
}

impl Steps {
    pub fn new() -> Self {
        Self { places: std::array::from_fn(|_| Mutex::default()) }
    }
    /// What they have added.
    pub fn counts(&self) -> [(i64, i64); DATABASES] {
        let mut all = [(0, 0); DATABASES];
        for place in &self.places {
            for (sum, added) in all.iter_mut().zip(place.lock().added) {
                *sum = (sum.0 + added.0, sum.1 + added.1);
            }
        }
        all
    }
    /// Steps of these databases have added nothing.
    pub fn clear(&self, databases: impl Fn(usize) -> bool) {
        for place in &self.places {
            let mut place = place.lock();
            (0..DATABASES).filter(|db| databases(*db)).for_each(|db| place.added[db] = (0, 0));
        }
    }
}

impl<R: ByteRegion> PmTable<R> {
    /// Stores a step's place anew; durable when it returns.
    pub(super) fn save_step(&self, number: usize, step: &mut Step) {
        step.sequence += 1;
        let bytes = step.encode(number, self.medium.store_id);
        self.medium.region.write_nt(self.front.step(number, step.sequence % 2), &bytes);
        self.medium.region.fence();
    }
    /// Runs `make` with a place for a step, which it stores as under way and as done.
    pub(super) fn with_step<T>(&self, make: impl FnOnce(usize, &mut Step) -> T) -> T {
        let free = self.steps.places.iter().enumerate().find_map(|(i, place)| Some((i, place.try_lock()?)));
        // Whoever holds one waits for nothing.
        let (number, mut step) = free.unwrap_or_else(|| (0, self.steps.places[0].lock()));
        make(number, &mut step)
    }
    /// All places as they are in DRAM, stored; durable when it returns.
    pub(super) fn save_steps(&self) {
        for (number, place) in self.steps.places.iter().enumerate() {
            let mut place = place.lock();
            // Both copies: neither may have what was before.
            self.save_step(number, &mut place);
            self.save_step(number, &mut place);
        }
    }
    /// Learns what the places say. `None` if one is damaged in both copies.
    pub(super) fn load_steps(&self) -> Option<()> {
        for (number, place) in self.steps.places.iter().enumerate() {
            let copies = [0, 1].map(|copy| {
                let mut bytes = [0; STEP_BYTES as usize];
                self.medium.region.read(self.front.step(number, copy), &mut bytes);
                Step::decode(&bytes, number, self.medium.store_id)
            });
            *place.lock() = copies.into_iter().flatten().max_by_key(|step| step.sequence)?;
        }
        Some(())
    }
    /// The steps that are under way.
    pub(super) fn unfinished(&self) -> Vec<(usize, Step)> {
        let all = self.steps.places.iter().enumerate().map(|(number, place)| (number, *place.lock()));
        all.filter(|(_, step)| step.last != 0).collect()
    }
    /// A step is done; durable when it returns.
    pub(super) fn finish(&self, number: usize) {
        let mut place = self.steps.places[number].lock();
        place.last = 0;
        self.save_step(number, &mut place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_survives_and_damage_shows() {
        let mut step = Step { sequence: 4, last: 640, count: 3, ..Step::default() };
        step.added[15] = (-2, 1);
        let bytes = step.encode(2, 9);
        assert_eq!(Step::decode(&bytes, 2, 9), Some(step));
        assert_eq!((Step::decode(&bytes, 3, 9), Step::decode(&bytes, 2, 8)), (None, None));
        for at in (0..24).chain(32..CRC_AT + 4) {
            let mut bad = bytes;
            bad[at] ^= 4;
            assert_eq!(Step::decode(&bad, 2, 9), None, "byte {at}");
        }
    }
}
