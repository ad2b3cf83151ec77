//! `KEYS`.
//!
//! It looks at the keys in several turns, so unlike Redis's its answer is no snapshot: a key that comes or goes meanwhile may
//! be in it or not. Others are in it exactly once.

use std::collections::HashSet;

use crate::effort::TOO_MUCH;
use crate::resp::call::{Call, Outcome};
use crate::resp::glob::{self, Glob};
use crate::resp::step::Answer;
use crate::resp::task::Task;

/// Keys looked at in one turn, about.
const COUNT: u32 = 4096;
/// Bytes of names, after which it gives up: the answer must fit memory.
const BYTES_MAX: usize = 64 << 20;
/// What keeping a name costs beside its bytes, about.
const NAME_BYTES: usize = 48;

pub(in crate::resp) fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = glob::read(call.arg(1))?;
    call.task(Keys { pattern, cursor: 0, found: HashSet::new(), bytes: 0 })
}

struct Keys {
    pattern: Glob,
    cursor: u64,
    /// A step of the iteration may show a key that an earlier one has shown.
    found: HashSet<Box<[u8]>>,
    bytes: usize,
}

impl Task for Keys {
    fn step(&self) -> (u64, u32) {
        (self.cursor, COUNT)
    }

    fn look(&mut self, answer: &mut Answer<'_>, op: usize, cursor: u64) -> bool {
        let batch = answer.batch;
        for key in batch.scanned(op).filter(|key| self.pattern.matches(key, answer.effort)) {
            if self.found.insert(key.into()) {
                self.bytes += key.len() + NAME_BYTES;
            }
        }
        self.cursor = cursor;
        if answer.effort.is_over() {
            answer.encoder.error(TOO_MUCH.as_bytes());
            return true;
        }
        if self.bytes > BYTES_MAX {
            let text = format!("ERR KEYS found more than {} MiB of names: use SCAN", BYTES_MAX >> 20);
            answer.encoder.error(text.as_bytes());
            return true;
        }
        if cursor != 0 {
            return false;
        }
        answer.encoder.array(self.found.len());
        self.found.iter().for_each(|key| answer.encoder.bulk(key));
        true
    }
}
