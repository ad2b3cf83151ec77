//! Writers slow down before the log is full.
//!
//! Blocks of the log are freed once the pages that they stand for are written, and that takes as long as it takes: at a nearly full
//! tier each page that is written waits for others to be emptied. Writers that ran on at full speed would meet a full log, and
//! the next answer would take all of that time. So what is free is given out more and more slowly: each byte costs a time in
//! proportion to the bytes that are left. All sessions draw on the same time.

use std::sync::atomic::Ordering::*;

use crate::sync::AtomicU64;

/// Writers run on at full speed until so small a part of the log is free.
const FREE_PART: usize = 5;
/// At the speed of a moment, what is free lasts so long: about as long as the pages take that a part of the log stands for.
const LASTS_NS: u64 = 150_000_000;
/// In a small log these are few: it lasts no longer than all of it would at so many bytes a second.
const BYTES_A_SECOND: u64 = 128 << 20;
/// What a writer owes less than this it pays later: waiting has its price, too.
const LEAST_NS: u64 = 1_000_000;

/// How fast the log may be filled.
#[derive(Default)]
pub(crate) struct Pace {
    /// Nanoseconds for a KiB; 0: there is no need to wait.
    ns_per_kib: AtomicU64,
    /// Until then all is paid that was written, in the clock's microseconds.
    paid_us: AtomicU64,
}

impl Pace {
    /// So many blocks of the log are free, of so many, which together have so many bytes.
    pub fn set(&self, free: usize, all: usize, bytes: u64) {
        let limit = if free * FREE_PART < all {
            let lasts_ns = LASTS_NS.min(bytes * 1000 / (BYTES_A_SECOND / 1_000_000));
            (lasts_ns * 1024 / (bytes * free.max(1) as u64 / all as u64).max(1)).max(1)
        } else {
            0
        };
        self.ns_per_kib.store(limit, Relaxed);
    }
    /// Whether anybody has to wait.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.ns_per_kib.load(Relaxed) != 0
    }
    /// Somebody writes so many bytes.
    #[cold]
    pub fn charge(&self, bytes: usize, now_us: u64) {
        let due_us = (bytes as u64 * self.ns_per_kib.load(Relaxed)).div_ceil(1024 * 1000);
        // The clock may have gone back.
        let paid = |paid_us: u64| if paid_us > now_us + Self::MOST_US { now_us } else { paid_us.max(now_us) };
        let _ = self.paid_us.fetch_update(Relaxed, Relaxed, |paid_us| Some(paid(paid_us) + due_us));
    }
    /// How long who writes next has to wait, in microseconds.
    #[cold]
    pub fn owed_us(&self, now_us: u64) -> u64 {
        let owed_us = self.paid_us.load(Relaxed).saturating_sub(now_us);
        if owed_us * 1000 < LEAST_NS || owed_us > Self::MOST_US { 0 } else { owed_us }
    }
    /// More than anybody owes.
    const MOST_US: u64 = 10_000_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_given_out_more_and_more_slowly_and_lasts() {
        let pace = Pace::default();
        let (all, block) = (128usize, 256 << 10);
        let (mut now_us, mut free) = (5_000_000u64, all * block / FREE_PART - 1);
        let (mut longest, mut written) = (0, 0);
        let record = 1500;
        // Half a second, which is more than the pages of a quarter of it take.
        while now_us < 5_500_000 && free > record {
            pace.set(free / block, all, (all * block) as u64);
            let owed = pace.owed_us(now_us);
            longest = longest.max(owed);
            now_us += owed;
            pace.charge(record, now_us);
            (free, written) = (free - record, written + record);
        }
        assert!(free > record, "{written} bytes were written, and nothing is left after {now_us} us");
        assert!(written > all * block / 16, "{written}");
        assert!(longest < 20_000, "{longest}");
        for (free, limited) in [(26, false), (25, true), (0, true), (128, false)] {
            pace.set(free, all, (all * block) as u64);
            assert_eq!(pace.is_limited(), limited, "{free}");
        }
    }

    #[test]
    fn sessions_share_what_is_free_and_a_clock_that_goes_back_holds_nobody_up() {
        let pace = Pace::default();
        pace.set(1, 100, 100 << 18);
        (0..100).for_each(|_| pace.charge(1 << 10, 1_000_000_000));
        let one = pace.owed_us(1_000_000_000);
        (0..100).for_each(|_| pace.charge(1 << 10, 1_000_000_000));
        assert_eq!(pace.owed_us(1_000_000_000), one * 2);
        assert_eq!(pace.owed_us(1_000), 0);
        pace.charge(1 << 10, 1_000);
        assert!(pace.owed_us(1_000) < one);
    }
}
