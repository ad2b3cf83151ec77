//! Schedules of a reader beside the keeper, explored: a key is found while its node is made anew, and the newest record of it is read while
//! copies of older ones are there.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use terrace_engine::hash::KeyHasher;
use terrace_index::{Key, Lookup, Verdict};
use terrace_media::{ByteRegion, HeapRegion, Homes, settle};
use terrace_sync::schedules::{at_once, explore, explore_planted};

use super::Nodes;
use super::dram::Seen;
use super::find::fp_of;
use super::layout::{Entry, FP_WORDS, entry_at};
use super::{Coherence, Far};
use crate::medium::{Geometry, Medium};
use crate::sync::AtomicU64;

/// Slots of the old node and of the new one.
const OLD: u32 = 0;
const NEW: u32 = 1;

/// A node whose first entry is the key's goes to another slot, and its entry to another place of it then. `loses_first`: the old node lets
/// the entry go before the new one is found.
fn node_made_anew_beside_a_reader(loses_first: bool) {
    let geometry = Geometry { page_bytes: 2048, buckets: 0, bytes: 80 << 10 };
    let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
    let nodes = Arc::new(Nodes::new(Arc::new(Medium::new(region, 0, geometry, 1)), KeyHasher::new(7), None));
    nodes.slots.add_page(0);
    let hash = nodes.hasher.key(0, b"k").hash;
    let fps = [u64::from(fp_of(hash)) * 0x101; FP_WORDS];
    let seen = Seen::new(1, fps, 1, 0, false);
    nodes.slots.begin(OLD, &seen);
    nodes.lead(0, b"", OLD);
    let keeper = nodes.clone();
    at_once(vec![
        Box::new(move || {
            if loses_first {
                keeper.slots.change(OLD, &seen.with(0, fps));
            }
            keeper.slots.begin(NEW, &seen);
            keeper.lead(0, b"", NEW);
            keeper.slots.leave(OLD);
            keeper.slots.change(NEW, &seen.with(2, fps));
        }),
        Box::new(move || {
            for _ in 0..2 {
                let key = Key { hash, db: 0, bytes: b"k" };
                let found = nodes.find(&key, |_| Verdict::Match);
                assert!(matches!(found, Lookup::Found(_)), "a key that is there was missed");
            }
        }),
    ]);
}

#[test]
fn a_key_is_found_while_its_node_is_made_anew() {
    explore(|| node_made_anew_beside_a_reader(false));
}

#[test]
#[should_panic(expected = "a key that is there was missed")]
fn an_entry_that_goes_before_its_node_does_is_caught() {
    explore_planted(|| node_made_anew_beside_a_reader(true));
}

/// Records that a key has one after the other, in the two places of a node in turn.
const RECORDS: u64 = 5;

/// A key's records come to a node while a reader on another NUMA node reads them. `in_one_era`: places are taken again in the era in which
/// they were let go.
fn records_beside_a_reader_with_copies(coherence: Coherence, in_one_era: bool) {
    let geometry = Geometry { page_bytes: 2048, buckets: 0, bytes: 80 << 10 };
    let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
    let copies = Arc::new(HeapRegion::new(4 << 10).unwrap());
    let far = Far { homes: Homes::new(2, geometry.bytes / 2, Vec::new()), copies, coherence };
    let medium = Arc::new(Medium::new(region, 0, geometry, 1));
    let nodes = Arc::new(Nodes::new(medium, KeyHasher::new(7), Some(far)));
    // All of the schedule is one thread of the machine's.
    settle(1);
    nodes.slots.add_page(0);
    nodes.slots.begin(OLD, &Seen::new(0, [0; FP_WORDS], 1, 0, false));
    // Which record counts, and how often the reader has come and gone.
    let counts = Arc::new(AtomicU64::new(0));
    let visits = Arc::new(AtomicU64::new(0));
    let place = |nodes: &Nodes<HeapRegion>, at: usize| nodes.place_of_slot(OLD) + entry_at(at) as u64;
    let put = move |nodes: &Nodes<HeapRegion>, record: u64| {
        let (at, gone) = (record as usize % 2, 1_u64 << ((record + 1) % 2));
        let bytes = Entry::inline(b"k", &record.to_le_bytes(), record).encode(1, place(nodes, at));
        nodes.medium.region.write(nodes.medium.at(place(nodes, at)), &bytes);
        let seen = nodes.slots.descriptor(OLD).read();
        let after = seen.with((seen.bitmap() | 1 << at) & !gone, seen.fps);
        if in_one_era {
            nodes.slots.descriptor(OLD).change(&after, false);
        } else {
            nodes.slots.change(OLD, &after);
        }
    };
    put(&nodes, 1);
    counts.store(1, SeqCst);
    let (keeper, counted, visited) = (nodes.clone(), counts.clone(), visits.clone());
    at_once(vec![
        Box::new(move || {
            for record in 2..RECORDS {
                put(&keeper, record);
                counted.store(record, SeqCst);
                // The place that was let go is taken once nobody is there who may have seen it count.
                let then = visited.load(SeqCst);
                while then % 2 == 1 && visited.load(SeqCst) == then {
                    crate::sync::spin_loop();
                }
            }
        }),
        Box::new(move || {
            for _ in 0..6 {
                visits.fetch_add(1, SeqCst);
                let least = counts.load(SeqCst);
                let counting = nodes.slots.descriptor(OLD).read().bitmap().trailing_zeros() as usize;
                let entry = nodes.read_near(place(&nodes, counting)).unwrap();
                assert!(entry.version >= least, "a record was read that another one had taken the place of");
                visits.fetch_add(1, SeqCst);
            }
        }),
    ]);
}

#[test]
fn the_newest_record_is_read_beside_copies() {
    explore(|| records_beside_a_reader_with_copies(Coherence::SelfInvalidate, false));
}

#[test]
fn the_newest_record_is_read_where_writers_tell_of_changes() {
    explore(|| records_beside_a_reader_with_copies(Coherence::Invalidate, false));
}

#[test]
#[should_panic(expected = "a record was read that another one had taken the place of")]
fn a_place_that_is_taken_again_in_its_era_is_caught() {
    explore_planted(|| records_beside_a_reader_with_copies(Coherence::SelfInvalidate, true));
}

#[test]
#[should_panic(expected = "a record was read that another one had taken the place of")]
fn a_writer_that_does_not_tell_of_its_change_is_caught() {
    explore_planted(|| records_beside_a_reader_with_copies(Coherence::Invalidate, true));
}
