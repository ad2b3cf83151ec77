//! Whole bufs: what comes up with a record that was read from the SSD, and what does not.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_space_slab::{Choices, Swap};

use super::placement::{KEYS, Placed};

/// Everybody may come up: then it is told by counts who did.
fn everybody(swap: Swap) -> Placed {
    let mut placed =
        Placed::new(Choices { swap, eviction: "lru/all".parse().unwrap(), ..Choices::default() });
    placed.set_to(7, 0..KEYS);
    placed
}

fn reads(placed: &Placed) -> u64 {
    placed.store.stats().tiers[2].media.reads
}

#[test]
fn who_lies_with_a_record_comes_up_with_it_by_one_read() {
    let cold = 12_000..12_400;
    let mut by_swap = Vec::new();
    for swap in [Swap::Tuple, Swap::Buf] {
        let mut placed = everybody(swap);
        let (before, hits) = (reads(&placed), placed.hits());
        placed.get(cold.clone());
        let from_ssd = placed.hits()[2] - hits[2];
        by_swap.push((from_ssd, reads(&placed) - before, placed.detail("records_fetched_along")));
    }
    let [(tuple_hits, tuple_reads, along), (buf_hits, buf_reads, buf_along)] = by_swap[..] else {
        panic!("two ways")
    };
    assert!(tuple_hits > 300 && tuple_reads >= tuple_hits && along == 0, "{by_swap:?}");
    assert!(buf_hits * 5 < tuple_hits && buf_reads * 5 < tuple_reads, "{by_swap:?}");
    assert!(buf_along > 300, "{by_swap:?}");
}

/// What was put anew lies elsewhere: the old versions in the bufs that are read come up no more.
#[test]
fn what_was_put_anew_does_not_come_up_in_its_old_version() {
    let mut placed = everybody(Swap::Buf);
    let odd = || (12_001..12_400).step_by(2);
    placed.set_to(8, odd());
    placed.get((12_000..12_400).step_by(2));
    assert!(placed.detail("bufs_fetched") > 0);
    // Each answer is looked at.
    placed.get(odd());
    placed.get(0..KEYS);
    placed.get(odd());
}
