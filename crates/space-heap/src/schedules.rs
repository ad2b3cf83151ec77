//! Schedules of look-ups without the lock beside a split, explored: `cargo xtask schedules`.
//!
//! Two buckets of a stripe, a word each. A writer copies the entry to the second, publishes that there are two, and takes it out of the
//! first; another one puts a second key. A reader that looks for the key, which is always there, always finds it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use terrace_sync::schedules::{at_once, explore, explore_planted};

use crate::sync::AtomicU64;
use crate::table::Stripes;

const KEY: u64 = 7;
const OTHER: u64 = 9;

struct Table {
    stripes: Stripes,
    buckets: AtomicU64,
    words: [AtomicU64; 2],
    /// The writer does not say that entries move.
    is_silent: bool,
}

impl Table {
    fn split(&self) {
        let mut held = self.stripes.lock(0);
        if !self.is_silent {
            held.begin_move();
        }
        self.words[1].store(self.words[0].load(Acquire), Release);
        self.buckets.store(2, Release);
        self.words[0].store(0, Release);
    }
    /// Another key takes the word that the split has left.
    fn put(&self) {
        let mut held = self.stripes.lock(0);
        if self.words[0].load(Acquire) == 0 {
            held.begin_move();
            self.words[0].store(OTHER, Release);
        }
    }
    fn finds(&self) -> bool {
        loop {
            let noted = self.stripes.begin_read(0);
            let bucket = self.buckets.load(Acquire) as usize - 1;
            let is_there = self.words[bucket].load(Acquire) == KEY;
            if is_there || self.stripes.stands(0, noted) {
                return is_there;
            }
        }
    }
}

fn split_beside_readers(is_silent: bool) {
    let table = Arc::new(Table {
        stripes: Stripes::new(1),
        buckets: AtomicU64::new(1),
        words: [AtomicU64::new(KEY), AtomicU64::new(0)],
        is_silent,
    });
    let (splits, puts, reads) = (table.clone(), table.clone(), table);
    at_once(vec![
        Box::new(move || splits.split()),
        Box::new(move || puts.put()),
        Box::new(move || (0..2).for_each(|_| assert!(reads.finds(), "a key that is there was missed"))),
    ]);
}

#[test]
fn a_key_is_found_while_its_bucket_splits() {
    explore(|| split_beside_readers(false));
}

#[test]
#[should_panic(expected = "a key that is there was missed")]
fn a_split_that_says_nothing_is_caught() {
    explore_planted(|| split_beside_readers(true));
}
