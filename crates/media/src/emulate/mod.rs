//! A device's latency and bandwidth, added to plain memory.
//!
//! ```text
//!   prefetch --> Bucket (read) --> ready table of this thread --.
//!   read ------> ready time of each granule, else Bucket -------+--> spin until the latest
//!   fence -----> granules of this thread's burst, Bucket (write) --> spin
//! ```
//!
//! # Thread safety
//! Threads meet in the two buckets and the sum of charges alone, all relaxed.
//!
//! # Invariants
//! Waits spin and never sleep: a sleep is coarser than everything emulated here. A granule read twice is charged
//! twice, except within one call.

mod bucket;
mod clock;
mod ready;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::homes;
use crate::profile::{Profile, ProfileError};
use bucket::Bucket;
use clock::Clock;

/// What a profile adds to a region's accesses.
#[derive(Debug)]
pub(crate) struct Emulation {
    read_sequential_ns: u64,
    read_random_ns: u64,
    store_ns: u64,
    far_ns: u64,
    granule_shift: u32,
    reads: Bucket,
    writes: Bucket,
    clock: Clock,
    charged_ns: AtomicU64,
}

impl Emulation {
    /// What `profile` adds to this machine's memory; `None` if that is nothing.
    pub(crate) fn new(profile: &Profile) -> Result<Option<Self>, ProfileError> {
        let added = Self::with_clock(profile, Clock::Machine)?;
        let latency = added.read_sequential_ns + added.read_random_ns + added.store_ns + added.far_ns;
        if latency == 0 && profile.read_gb_per_s.is_none() && profile.write_gb_per_s.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { clock: Clock::machine(), ..added }))
    }

    fn with_clock(profile: &Profile, clock: Clock) -> Result<Self, ProfileError> {
        let dram = Profile::built_in("dram")?;
        Ok(Self {
            read_sequential_ns: profile.read_sequential_ns.saturating_sub(dram.read_sequential_ns),
            read_random_ns: profile.read_random_ns.saturating_sub(dram.read_random_ns),
            store_ns: profile.store_ns.saturating_sub(dram.store_ns),
            far_ns: profile.far_ns,
            granule_shift: profile.granule_bytes.trailing_zeros(),
            reads: Bucket::new(profile.granule_bytes, profile.read_gb_per_s),
            writes: Bucket::new(profile.granule_bytes, profile.write_gb_per_s),
            clock,
            charged_ns: AtomicU64::new(0),
        })
    }

    /// The first and the last granule of a range that isn't empty.
    #[inline]
    pub(crate) fn granules(&self, offset: u64, len: usize) -> (u64, u64) {
        (offset >> self.granule_shift, (offset + len as u64 - 1) >> self.granule_shift)
    }

    /// Waits as a read of the range would: until each prefetched granule has arrived, and for the rest in full.
    pub(crate) fn read(&self, region: u64, offset: u64, len: usize) {
        let (first, last) = self.granules(offset, len);
        let now = self.clock.now_ns();
        let mut deadline = now;
        let (mut missing, mut latency) = (0, 0);
        for granule in first..=last {
            match ready::take(region, granule) {
                Some(ready) => deadline = deadline.max(ready),
                None => {
                    missing += 1;
                    latency += self.step_ns(granule == first);
                }
            }
        }
        if missing > 0 {
            let (start, end) = self.reads.reserve(now, missing);
            deadline = deadline.max(start + latency).max(end);
        }
        self.charge(now, deadline);
    }

    /// Starts reads of those granules of the range that aren't under way. Waits for nothing.
    pub(crate) fn prefetch(&self, region: u64, offset: u64, len: usize) {
        let (first, last) = self.granules(offset, len);
        let now = self.clock.now_ns();
        let mut latency = 0;
        for granule in first..=last {
            if !ready::contains(region, granule) {
                latency += self.step_ns(granule == first);
                let (start, end) = self.reads.reserve(now, 1);
                ready::insert(region, granule, end.max(start + latency));
            }
        }
    }

    /// Waits as a fence would that makes a burst over `granules` granules durable.
    pub(crate) fn burst(&self, granules: u64) {
        self.clock.wait_until(self.burst_until(granules));
    }

    /// Charges for that, and says when it would be over. Waits for nothing.
    pub(crate) fn burst_until(&self, granules: u64) -> u64 {
        let now = self.clock.now_ns();
        let (start, end) = self.writes.reserve(now, granules);
        let deadline = end.max(start + self.store_ns + self.away_ns());
        self.charged_ns.fetch_add(deadline.saturating_sub(now), Relaxed);
        deadline
    }

    /// Nanoseconds that accesses were charged, in all: from an access's start to the time at which the device would
    /// have been done with it. What the machine itself takes meanwhile is part of it.
    pub(crate) fn charged_ns(&self) -> u64 {
        self.charged_ns.load(Relaxed)
    }

    #[inline]
    fn step_ns(&self, first: bool) -> u64 {
        if first { self.read_random_ns + self.away_ns() } else { self.read_sequential_ns }
    }

    /// What an access takes more where it is made from another NUMA node.
    #[inline]
    fn away_ns(&self) -> u64 {
        if homes::is_far() { self.far_ns } else { 0 }
    }

    fn charge(&self, now_ns: u64, deadline_ns: u64) {
        if deadline_ns > now_ns {
            self.charged_ns.fetch_add(deadline_ns - now_ns, Relaxed);
            self.clock.wait_until(deadline_ns);
        }
    }
}

/// Waits until a time that [`Emulation::burst_until`] gave, on whichever device; 0 is over.
#[inline]
pub(crate) fn wait_until(deadline_ns: u64) {
    if deadline_ns > 0 {
        Clock::Machine.wait_until(deadline_ns);
    }
}

#[cfg(test)]
mod tests;
