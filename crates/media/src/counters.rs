//! What was asked of a medium, counted where it happens.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

const STRIPES: usize = 16;

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
                sum
            }
            $(/// Adds to the field of the same name in [`CountersSnapshot`].
            #[inline]
            pub fn $name(&self, n: u64) {
                // Stripes are per thread or nearly so; a plain add would lose counts where two threads share one.
                self.stripes[stripe()].$name.fetch_add(n, Relaxed);
            })*
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

fn stripe() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) as usize % STRIPES);
        }
        mine.get()
    })
}
