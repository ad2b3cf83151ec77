//! What was asked of a medium, counted where it happens.
//!
//! # Thread safety
//! Everything is relaxed: counters order nothing. A thread owns a stripe for its life (handed over through a mutex,
//! which orders one owner's last add before the next one's first), or shares the last stripe when all are taken.
//!
//! # Invariants
//! An owned stripe has one writer, so a load and a store add to it without a locked instruction, which would
//! also wait for every earlier store and keep later reads from overlapping.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

const STRIPES: usize = 32;

/// The stripe of all threads that found no other.
const SHARED: usize = STRIPES - 1;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Default)]
        struct Stripe { $($name: AtomicU64),* }

        /// Sums of [`Counters`] at one moment; subtract two to get a phase.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CountersSnapshot { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            /// The sums now. Not atomic across fields.
            pub fn snapshot(&self) -> CountersSnapshot {
                let mut sum = CountersSnapshot::default();
                for stripe in &self.stripes { $(sum.$name += stripe.$name.load(Relaxed);)* }
                self.parts.iter().fold(sum, |sum, part| sum + part())
            }
            $(/// Adds to the field of the same name in [`CountersSnapshot`].
            #[inline]
            pub fn $name(&self, n: u64) {
                let mine = stripe();
                let counter = &self.stripes[mine].$name;
                if mine == SHARED {
                    counter.fetch_add(n, Relaxed);
                } else {
                    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
                }
            })*
        }

        impl std::ops::Add for CountersSnapshot {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name),* }
            }
        }

        impl std::ops::Sub for CountersSnapshot {
            type Output = Self;
            fn sub(self, earlier: Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name)),* }
            }
        }
    };
}

/// Counters of one medium, striped so that threads don't share a cache line.
#[derive(Default)]
pub struct Counters {
    stripes: [CachePadded<Stripe>; STRIPES],
    /// What the media counted that this one consists of.
    parts: Vec<Box<Snapshots>>,
}

/// Takes a snapshot of some medium's counters.
type Snapshots = dyn Fn() -> CountersSnapshot + Send + Sync;

impl Counters {
    /// Counters of a medium that consists of others, which count by themselves.
    pub fn of<S: Fn() -> CountersSnapshot + Send + Sync + 'static>(parts: impl Iterator<Item = S>) -> Self {
        let parts = parts.map(|part| Box::new(part) as Box<Snapshots>).collect();
        Self { parts, ..Self::default() }
    }
}

counters! {
    /// Read accesses (calls on byte media, requests on block media).
    reads,
    /// Bytes read.
    read_bytes,
    /// Write bursts: on byte media the fences that made stores durable, on block media write requests.
    writes,
    /// Bytes written.
    write_bytes,
    /// Cache lines written back, non-temporal stores included.
    lines_flushed,
    /// Fences on byte media, syncs on block media.
    fences,
}

/// Stripes without an owner.
static FREE: Mutex<[bool; SHARED]> = Mutex::new([true; SHARED]);

thread_local! {
    /// The thread's stripe, or `usize::MAX` before its first count.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    static OWNED: Owned = const { Owned };
}

/// Gives the stripe back when its thread ends.
struct Owned;

impl Drop for Owned {
    fn drop(&mut self) {
        // Destructors that run later on this thread count in the shared stripe.
        let mine = MINE.with(|mine| mine.replace(SHARED));
        if let Some(free) = FREE.lock().get_mut(mine) {
            *free = true;
        }
    }
}

#[inline]
fn stripe() -> usize {
    match MINE.with(Cell::get) {
        usize::MAX => take_stripe(),
        mine => mine,
    }
}

#[cold]
fn take_stripe() -> usize {
    // Only a thread whose end will be noticed may own a stripe.
    let mine = match OWNED.try_with(|_| ()) {
        Err(_) => SHARED,
        Ok(()) => {
            let mut free = FREE.lock();
            let found = free.iter().position(|free| *free).unwrap_or(SHARED);
            if let Some(free) = free.get_mut(found) {
                *free = false;
            }
            found
        }
    };
    MINE.with(|cell| cell.set(mine));
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_stripes() {
        let counters = Counters::default();
        let barrier = std::sync::Barrier::new(STRIPES + 8);
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 8 {
                scope.spawn(|| {
                    counters.reads(1);
                    // All hold their stripe here, so some share the last one.
                    barrier.wait();
                    (0..1000).for_each(|_| counters.read_bytes(3));
                });
            }
        });
        let seen = counters.snapshot();
        assert_eq!((seen.reads, seen.read_bytes), (40, 40 * 3000));
    }

    #[test]
    fn phases_are_differences() {
        let counters = Counters::default();
        counters.writes(2);
        let before = counters.snapshot();
        counters.writes(5);
        assert_eq!(counters.snapshot() - before, CountersSnapshot { writes: 5, ..Default::default() });
    }
}
