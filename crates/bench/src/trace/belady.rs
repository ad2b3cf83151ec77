//! Belady's bound: the hits of a cache that knows the future.
//!
//! A record may be kept from an access until its next get; a set brings it in for nothing, so to keep it until then is
//! worth nothing. Of the intervals that overlap, those that end latest go: the most hits that any placement can have, the
//! one that refuses entry included.

use std::collections::BinaryHeap;

use super::accesses::Trace;

const NEVER: u32 = u32::MAX;

/// Hits of gets from access number `from` on, with `capacity` records.
pub(super) fn hits(trace: &Trace, records: u32, capacity: usize, from: usize) -> u64 {
    let mut next_get = vec![NEVER; trace.len()];
    let mut upcoming = vec![NEVER; records as usize];
    for (i, access) in trace.iter().enumerate().rev() {
        let record = access.record as usize;
        next_get[i] = upcoming[record];
        upcoming[record] = if access.is_set { NEVER } else { i as u32 };
    }
    // Until which get a record is kept; entries of the heap that say otherwise are stale.
    let mut kept_until = vec![NEVER; records as usize];
    let mut heap: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut kept, mut hits) = (0, 0);
    for (i, access) in trace.iter().enumerate() {
        let record = access.record as usize;
        if kept_until[record] == i as u32 {
            kept -= 1;
            kept_until[record] = NEVER;
            hits += u64::from(i >= from);
        }
        let until = next_get[i];
        if until == NEVER || capacity == 0 {
            continue;
        }
        kept_until[record] = until;
        kept += 1;
        heap.push((until, record as u32));
        while kept > capacity {
            if let Some((until, record)) = heap.pop()
                && kept_until[record as usize] == until
            {
                kept_until[record as usize] = NEVER;
                kept -= 1;
            }
        }
        if heap.len() > 4 * capacity + 1024 {
            heap.retain(|&(until, record)| kept_until[record as usize] == until);
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The most hits by trying everything: which records to keep after each access.
    fn exhaustive(accesses: &[(u32, bool)], capacity: usize, kept: &[u32]) -> u64 {
        let Some((&(record, is_set), rest)) = accesses.split_first() else { return 0 };
        let hit = u64::from(!is_set && kept.contains(&record));
        let mut with = kept.to_vec();
        if !with.contains(&record) {
            with.push(record);
        }
        let mut best = 0;
        if with.len() <= capacity {
            best = exhaustive(rest, capacity, &with);
        } else {
            for i in 0..with.len() {
                let mut without = with.clone();
                without.remove(i);
                best = best.max(exhaustive(rest, capacity, &without));
            }
        }
        hit + best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nothing_beats_it_and_something_reaches_it(
            accesses in prop::collection::vec((0u32..5, prop::bool::weighted(0.2)), 0..11),
            capacity in 1usize..4,
        ) {
            let best = exhaustive(&accesses, capacity, &[]);
            prop_assert_eq!(hits(&Trace::of(&accesses), 5, capacity, 0), best);
        }
    }

    #[test]
    fn no_room_no_hits_and_all_room_all_hits() {
        let trace = Trace::of(&[(0, false), (1, false), (0, false), (1, true), (1, false), (2, false)]);
        assert_eq!(hits(&trace, 3, 0, 0), 0);
        assert_eq!(hits(&trace, 3, 3, 0), 2);
        assert_eq!(hits(&trace, 3, 3, 3), 1, "only what is measured counts");
    }
}
