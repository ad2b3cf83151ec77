//! Schedules of a reader beside the keeper, explored: a key is found while its node is made anew.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_index::{Key, Lookup, Verdict};
use terrace_media::HeapRegion;
use terrace_sync::schedules::{at_once, explore, explore_planted};

use super::Nodes;
use super::dram::Seen;
use super::find::fp_of;
use super::layout::FP_WORDS;
use crate::medium::{Geometry, Medium};

/// Slots of the old node and of the new one.
const OLD: u32 = 0;
const NEW: u32 = 1;

/// A node whose first entry is the key's goes to another slot, and its entry to another place of it then. `loses_first`: the old node lets
/// the entry go before the new one is found.
fn node_made_anew_beside_a_reader(loses_first: bool) {
    let geometry = Geometry { page_bytes: 2048, buckets: 0, bytes: 80 << 10 };
    let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
    let nodes = Arc::new(Nodes::new(Arc::new(Medium::new(region, 0, geometry, 1)), KeyHasher::new(7)));
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
                keeper.slots.descriptor(OLD).change(&seen.with(0, fps));
            }
            keeper.slots.begin(NEW, &seen);
            keeper.lead(0, b"", NEW);
            keeper.slots.leave(OLD);
            keeper.slots.descriptor(NEW).change(&seen.with(2, fps));
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
