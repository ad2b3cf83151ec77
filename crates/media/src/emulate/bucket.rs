//! Bandwidth: a device that transfers one thing after the other.
//!
//! # Thread safety
//! One word, changed by compare-and-swap. Relaxed: it orders nothing but itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One direction of a device's bandwidth, shared by all threads. No credit gathers while it is idle.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// When the device has transferred everything reserved so far, in nanoseconds.
    free_ns: AtomicU64,
    /// Nanoseconds that one granule takes, 0 if bandwidth is unlimited.
    granule_ns: f64,
}

impl Bucket {
    /// `gb_per_s` is in 10^9 bytes a second, which is bytes a nanosecond.
    pub(crate) fn new(granule_bytes: u64, gb_per_s: Option<f64>) -> Self {
        let granule_ns = gb_per_s.map_or(0.0, |rate| granule_bytes as f64 / rate);
        Self { free_ns: AtomicU64::new(0), granule_ns }
    }

    /// Reserves a transfer; returns when it starts and when it is through.
    #[inline]
    pub(crate) fn reserve(&self, now_ns: u64, granules: u64) -> (u64, u64) {
        if self.granule_ns == 0.0 {
            return (now_ns, now_ns);
        }
        let takes = (granules as f64 * self.granule_ns).round() as u64;
        let mut free = self.free_ns.load(Relaxed);
        loop {
            let start = free.max(now_ns);
            match self.free_ns.compare_exchange_weak(free, start + takes, Relaxed, Relaxed) {
                Ok(_) => return (start, start + takes),
                Err(seen) => free = seen,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_queue_up_and_idle_time_is_lost() {
        let bucket = Bucket::new(256, Some(2.56));
        assert_eq!(bucket.reserve(1000, 1), (1000, 1100));
        assert_eq!(bucket.reserve(1000, 2), (1100, 1300));
        assert_eq!(bucket.reserve(5000, 1), (5000, 5100));
        assert_eq!(Bucket::new(64, None).reserve(7, 1 << 30), (7, 7));
    }
}
