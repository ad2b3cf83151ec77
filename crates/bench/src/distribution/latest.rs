//! YCSB's "latest": the newer a record, the more often it is read.

use super::{YCSB_EXPONENT, Zipf};
use crate::rng::Rng;

/// Draws records counted back from the newest by Zipf 0.99.
///
/// Threads insert in turn: thread t of T inserts records N + t, N + t + T, and so on. A thread assumes that the others are as
/// far as itself, and where a draw falls on another thread's insert it takes its own neighbour, so that what it reads is
/// surely there and a seed means the same operations whatever the timing.
#[derive(Clone, Debug)]
pub struct Latest {
    records: u64,
    thread: u64,
    threads: u64,
    inserted: u64,
    zipf: Zipf,
}

impl Latest {
    /// Over `records` loaded records, for one of `threads` threads.
    pub fn new(records: u64, thread: u64, threads: u64) -> Self {
        Self { records, thread, threads, inserted: 0, zipf: Zipf::new(records, YCSB_EXPONENT) }
    }
    /// Tells of an insert by this thread.
    pub fn inserted(&mut self) {
        self.inserted += 1;
        self.zipf = Zipf::new(self.total(), YCSB_EXPONENT);
    }
    fn total(&self) -> u64 {
        self.records + self.inserted * self.threads
    }
    /// A record that is there.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let record = self.total() - self.zipf.draw(rng);
        match record.checked_sub(self.records) {
            None => record,
            Some(since) => self.records + since / self.threads * self.threads + self.thread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_read_most_and_nothing_missing_is_read() {
        let mut latest = Latest::new(1000, 1, 2);
        let mut rng = Rng::new(1, 0);
        for _ in 0..50 {
            latest.inserted();
        }
        let mut counts = vec![0u32; 1100];
        for _ in 0..100_000 {
            counts[latest.draw(&mut rng) as usize] += 1;
        }
        assert_eq!(counts.iter().max(), Some(&counts[1099]), "the newest own record leads");
        for (record, count) in counts.iter().enumerate().skip(1000).filter(|(record, _)| record % 2 == 0) {
            assert_eq!(*count, 0, "record {record} is another thread's");
        }
    }
}
