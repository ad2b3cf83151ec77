//! Schedules of a round beside sessions and readers, explored: `cargo xtask schedules`.
//!
//! A session fills a frame and seals it, while a keeper shows what is in it: each record once, and all before the frame is done. A record
//! goes from the front to the table, while a reader looks for it, which it always finds.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, NewRecord};
use terrace_index::{Address, Change, Clht, Index, Key, Lookup, Verdict};
use terrace_media::HeapRegion;
use terrace_sync::schedules::{at_once, explore, explore_planted};

use crate::dram::Dram;
use crate::index::ScmIndex;
use crate::layout::{Bucket, Leads};
use crate::medium::{Geometry, Medium};
use crate::table::PmTable;

const RECORDS: u64 = 3;

fn record(version: u64) -> NewRecord<'static> {
    NewRecord {
        version,
        kind: Kind::Value,
        db: 0,
        flags: 0,
        state: 0,
        expire_at: 0,
        token: 0,
        key: b"k",
        value: b"v",
    }
}

/// The session seals its frame when `sealed_after` records are in it.
fn frame_beside_a_keeper(sealed_after: u64) {
    let dram = Arc::new(Dram::new(1, 4096, 0));
    let (session, keeper) = (dram.clone(), dram);
    at_once(vec![
        Box::new(move || {
            let mut word = 0;
            for version in 1..=RECORDS {
                session.write(0, word, &record(version));
                word += record(version).words();
                if version == sealed_after {
                    session.seal(0);
                }
            }
        }),
        Box::new(move || {
            let (mut done, mut shown) = (Vec::new(), Vec::new());
            while done.is_empty() {
                keeper.leave_up_to(u64::MAX, &mut done, |_, version, _| shown.push(version));
                terrace_sync::yield_now();
            }
            assert_eq!(shown, [1, 2, 3], "records of a frame that is done");
        }),
    ]);
}

#[test]
fn a_frame_is_done_when_all_in_it_was_shown() {
    explore(|| frame_beside_a_keeper(RECORDS));
}

#[test]
#[should_panic(expected = "records of a frame that is done")]
fn a_frame_that_is_sealed_too_early_is_caught() {
    explore_planted(|| frame_beside_a_keeper(RECORDS - 1));
}

const KEY: Key<'static> = Key { hash: 5, db: 0, bytes: b"k" };
/// Where the record is on the medium.
const PLACE: u64 = 512;

fn round_beside_a_reader(leaves_early: bool) {
    let geometry = Geometry { page_bytes: 4096, buckets: 16, bytes: 64 << 10 };
    let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
    let medium = Arc::new(Medium::new(region, 0, geometry, 1));
    let table = Arc::new(PmTable::new(medium, KeyHasher::new(0)));
    let dram = Arc::new(Dram::new(1, 4096, 0));
    let index = Arc::new(ScmIndex {
        front: Arc::new(Clht::with_min_buckets(1)),
        directory: table.clone(),
        dram: dram.clone(),
        region: PhantomData,
    });
    let fresh = dram.write(0, 0, &record(1));
    index.update(&KEY, |_| Verdict::Differs, |_| (Change::Set(fresh), ()));
    let (reader, finds) = (index.clone(), Arc::new(AtomicUsize::new(0)));
    let found = finds.clone();
    at_once(vec![
        Box::new(move || {
            let stored = || table.store(KEY.hash, Bucket { leads: Leads::Entry(PLACE), is_lost: false });
            if !leaves_early {
                stored();
            }
            index.front.remove(&KEY, fresh);
            terrace_sync::yield_now();
            if leaves_early {
                stored();
            }
        }),
        Box::new(move || {
            for _ in 0..2 {
                let known = [fresh, Address::new(PLACE)];
                let verify =
                    |address| if known.contains(&address) { Verdict::Match } else { Verdict::Differs };
                let found = reader.get(&KEY, verify);
                assert!(matches!(found, Lookup::Found(_)), "a key that is there was missed");
                finds.fetch_add(1, Relaxed);
            }
        }),
    ]);
    assert_eq!(found.load(Relaxed), 2);
}

#[test]
fn a_key_is_found_while_it_goes_to_the_table() {
    explore(|| round_beside_a_reader(false));
}

#[test]
#[should_panic(expected = "a key that is there was missed")]
fn a_key_that_leaves_the_front_first_is_caught() {
    explore_planted(|| round_beside_a_reader(true));
}
