//! The allocator hook counts what an index takes, on the heap and in mappings of its own.
#![cfg(not(shuttle))]

use std::alloc::System;

use terrace_index::dram::{Counting, measure, metered};
use terrace_index::{Address, Change, Clht, Index, Key, Verdict};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

#[test]
fn what_is_taken_is_counted() {
    let (kept, bytes) = measure(|| {
        drop(vec![1u8; 1 << 20]);
        let mut kept = Vec::with_capacity(100);
        kept.resize(100_000, 1u8);
        kept
    });
    assert_eq!(bytes, Some(kept.capacity() as u64));
    let (most, bytes) = metered(|meter| {
        let _between = vec![1u8; 1 << 20];
        meter.taken()
    });
    assert_eq!((most, bytes), (Some(1 << 20), Some(0)));

    const ENTRIES: u64 = 300_000;
    let (index, bytes) = measure(|| {
        let index = Clht::with_min_buckets(64);
        for number in 1..=ENTRIES {
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let key = Key { hash: hash ^ hash >> 32, db: 0, bytes: b"" };
            index.update(&key, |_| Verdict::Differs, |_| (Change::Insert(Address::new(number)), ()));
        }
        index
    });
    let bytes = bytes.unwrap();
    let own = index.memory_bytes();
    println!("{:.2} bytes an entry counted, {own} by the index itself", bytes as f64 / ENTRIES as f64);
    // What the index says of itself leaves out its list of free buckets, and the kernel may give whole huge pages.
    assert!(
        bytes > ENTRIES * 8 && bytes >= own * 9 / 10 && bytes <= own + (8 << 20),
        "{bytes}, {own} by itself"
    );
}
