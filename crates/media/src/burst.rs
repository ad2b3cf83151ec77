//! What the current thread has flushed and not yet fenced, by region.
//!
//! # Thread safety
//! The thread's own, as its store buffer is: a fence makes durable what *its* thread flushed.
//!
//! # Invariants
//! At most one entry a region; a fence takes it out.

use std::cell::RefCell;

struct Burst {
    region: u64,
    /// Granules that the device will write.
    granules: u64,
    last_granule: u64,
}

thread_local! {
    static OPEN: RefCell<Vec<Burst>> = const { RefCell::new(Vec::new()) };
}

/// Notes that granules `first..=last` of a region were flushed. Flushes that follow each other within one granule are
/// combined, as a device's write buffer does.
#[inline]
pub(crate) fn note(region: u64, first: u64, last: u64) {
    // A thread that is ending has no table any more; its last burst then goes uncounted, nothing else.
    let _ = OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        match open.iter_mut().find(|burst| burst.region == region) {
            Some(burst) => {
                burst.granules += last - first + u64::from(burst.last_granule != first);
                burst.last_granule = last;
            }
            None => open.push(Burst { region, granules: last - first + 1, last_granule: last }),
        }
    });
}

/// Ends the thread's burst in a region: its granules, or `None` if it flushed nothing there.
#[inline]
pub(crate) fn end(region: u64) -> Option<u64> {
    let taken = OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        let at = open.iter().position(|burst| burst.region == region)?;
        Some(open.swap_remove(at).granules)
    });
    taken.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_by_region_and_by_thread() {
        let (a, b) = (u64::MAX, u64::MAX - 1);
        note(a, 3, 3);
        note(a, 3, 4);
        note(a, 4, 4);
        note(b, 1, 8);
        assert_eq!(std::thread::spawn(move || end(a)).join().unwrap(), None);
        assert_eq!((end(a), end(a)), (Some(2), None));
        assert_eq!(end(b), Some(8));
    }
}
