//! A table that grows from nothing and shrinks back, an operation at a time.

use std::time::Duration;

use terrace_index::{Change, Index, Key, Lookup};

use crate::keys;
use crate::lookups::thread_time;
use crate::records::Records;

fn insert<I: Index>(index: &I, records: &Records, number: u64) {
    let key = keys::key(number);
    let probe = Key { hash: keys::hash(key), db: 0, bytes: &key.to_ne_bytes() };
    let change = |lookup| {
        assert_eq!(lookup, Lookup::Absent);
        (Change::Set(records.address(number)), ())
    };
    index.update(&probe, |address| records.verify(key, address), change);
}

fn remove<I: Index>(index: &I, records: &Records, number: u64) {
    let key = keys::key(number);
    let probe = Key { hash: keys::hash(key), db: 0, bytes: &key.to_ne_bytes() };
    assert!(index.remove(&probe, records.address(number)), "record {number} was there");
}

/// Inserts every record.
pub fn load<I: Index>(index: &I, records: &Records) {
    (0..records.count()).for_each(|number| insert(index, records, number));
}

/// The worst of many operations.
#[derive(Default)]
struct Worst {
    buckets: u64,
    time: Duration,
}

/// Times each operation and compares the number of buckets before and after.
fn worst<I: Index>(
    index: &I,
    records: &Records,
    size: impl Fn(&I) -> u64,
    operation: fn(&I, &Records, u64),
) -> Worst {
    let mut worst = Worst::default();
    for number in 0..records.count() {
        let before = size(index);
        let start = thread_time();
        operation(index, records, number);
        worst.time = worst.time.max(thread_time() - start);
        worst.buckets = worst.buckets.max(size(index).abs_diff(before));
    }
    worst
}

/// Grows a table from nothing to all records and back, and prints the worst of both; whether each operation was bounded.
pub fn measure<I: Index>(index: &I, records: &Records, size: impl Fn(&I) -> u64) -> bool {
    /// No operation of any table here moves more buckets than this.
    const BOUND: u64 = 4;
    let grown = worst(index, records, &size, insert);
    let (bytes, buckets) = (index.memory_bytes(), size(index));
    println!(
        "growth: at most {} buckets in one insert, the longest {:?} of thread CPU time",
        grown.buckets, grown.time
    );
    let shrunk = worst(index, records, &size, remove);
    println!("shrinking: at most {} buckets in one removal, the longest {:?}", shrunk.buckets, shrunk.time);
    println!("{buckets} buckets, {bytes} bytes; empty again {}, {}", size(index), index.memory_bytes());
    grown.buckets <= BOUND && shrunk.buckets <= BOUND
}
