//! `RANDOMKEY`: one of the keys that a step of an iteration finds which begins anywhere.
//!
//! An ordered index begins only where it was before, so there the key is one of the first.

use std::hash::{BuildHasher, RandomState};

use crate::resp::call::{Call, Outcome};
use crate::resp::step::Answer;
use crate::resp::task::Task;

/// Keys among which one is chosen, about.
const COUNT: u32 = 256;

pub(in crate::resp) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let random = RandomState::new().hash_one(call.ctx.now_ms);
    // In a transaction there is one step only, from which all keys of a small database are seen.
    let from_start = call.batch.is_atomic();
    call.task(Random { random, cursor: if from_start { 0 } else { random }, from_start })
}

struct Random {
    random: u64,
    cursor: u64,
    /// The end was reached once without a key: what lies before the first place is being looked at.
    from_start: bool,
}

impl Task for Random {
    fn step(&self) -> (u64, u32) {
        (self.cursor, COUNT)
    }

    fn look(&mut self, answer: &mut Answer<'_>, op: usize, cursor: u64) -> bool {
        let batch = answer.batch;
        let count = batch.scanned(op).count();
        let chosen =
            self.random.checked_rem(count as u64).and_then(|nth| batch.scanned(op).nth(nth as usize));
        self.cursor = cursor;
        match chosen {
            Some(key) => answer.encoder.bulk(key),
            None if cursor == 0 && self.from_start => answer.encoder.null(),
            None => {
                self.from_start |= cursor == 0;
                return false;
            }
        }
        true
    }
}
