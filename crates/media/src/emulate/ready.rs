//! Granules that a thread has prefetched, and when each arrives.
//!
//! # Thread safety
//! The table is the thread's own, as a core's fill buffers are.
//!
//! # Invariants
//! A granule is in the table once at most; the read that uses it takes it out. A full set drops its oldest entry:
//! the read of that granule then pays in full, as if the prefetch had been dropped.

use std::cell::RefCell;

const SETS: usize = 32;
const WAYS: usize = 4;

#[derive(Clone, Copy)]
struct Entry {
    /// 0 is no region: the entry is free.
    region: u64,
    granule: u64,
    ready_ns: u64,
}

const FREE: Entry = Entry { region: 0, granule: 0, ready_ns: 0 };

thread_local! {
    static TABLE: RefCell<[[Entry; WAYS]; SETS]> = const { RefCell::new([[FREE; WAYS]; SETS]) };
}

fn set_of(region: u64, granule: u64) -> usize {
    let mixed = (granule ^ region.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 59) as usize % SETS
}

/// Whether this thread has the granule under way.
pub(crate) fn contains(region: u64, granule: u64) -> bool {
    TABLE.with_borrow(|table| {
        table[set_of(region, granule)].iter().any(|entry| entry.region == region && entry.granule == granule)
    })
}

/// Notes that a granule, which is not in the table, arrives at `ready_ns`.
pub(crate) fn insert(region: u64, granule: u64, ready_ns: u64) {
    TABLE.with_borrow_mut(|table| {
        let set = &mut table[set_of(region, granule)];
        // A free entry has the smallest key.
        if let Some(oldest) = set.iter_mut().min_by_key(|entry| (entry.region != 0, entry.ready_ns)) {
            *oldest = Entry { region, granule, ready_ns };
        }
    });
}

/// Takes a granule out; `None` if it wasn't prefetched.
pub(crate) fn take(region: u64, granule: u64) -> Option<u64> {
    TABLE.with_borrow_mut(|table| {
        let set = &mut table[set_of(region, granule)];
        let entry = set.iter_mut().find(|entry| entry.region == region && entry.granule == granule)?;
        Some(std::mem::replace(entry, FREE).ready_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_once_and_the_oldest_is_dropped() {
        let region = u64::MAX - 1;
        insert(region, 5, 50);
        assert!(contains(region, 5) && !contains(region, 6) && !contains(region - 1, 5));
        assert_eq!((take(region, 5), take(region, 5)), (Some(50), None));
        let same_set: Vec<u64> = (0..10_000).filter(|g| set_of(region, *g) == 0).take(WAYS + 1).collect();
        for (i, granule) in same_set.iter().enumerate() {
            insert(region, *granule, i as u64);
        }
        assert_eq!(take(region, same_set[0]), None);
        for (i, granule) in same_set.iter().enumerate().skip(1) {
            assert_eq!(take(region, *granule), Some(i as u64));
        }
    }
}
