//! What reads alone write: values of all lengths come up from the SSD and push others out, which must not go in pages that hold
//! next to nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::{Durability, Progress, Session, Store, TierStats};
use terrace_space_slab::Choices;
use terrace_testkit::rng::Rng;

use crate::conformance::Media;
use crate::keys::{get, set, write};

const START_US: u64 = 1_800_000_000_000_000;
/// Some six times DRAM.
const KEYS: u64 = 3000;
const BLOCK: u64 = 256 << 10;
/// Operations for each background step.
const STEPPED_EACH: u64 = 16;
/// As much as DRAM may hold that has no home yet.
const DRAM_BLOCKS: u64 = 16;

struct Mixed {
    store: Box<dyn Store>,
    session: Box<dyn Session>,
    rng: Rng,
    /// How often each was written.
    written: Vec<u8>,
    bytes_put: u64,
    _media: Media,
}

/// 100 B to 16 KiB, by the key: each stays in its class.
fn bytes_of(key: u64) -> usize {
    100 + (key * 7919 % 15_900) as usize
}

impl Mixed {
    fn new() -> Self {
        Self::on(Media::block_chosen(Choices::default()))
    }
    fn on(media: Media) -> Self {
        let clock = Arc::new(ManualClock::new(START_US));
        let store = media.open(&clock, Durability::Sync, true, false);
        let session = store.session().unwrap();
        let written = vec![0; KEYS as usize];
        let mut mixed = Self { store, session, rng: Rng::new(20), written, bytes_put: 0, _media: media };
        for key in 0..KEYS {
            mixed.put(key);
            mixed.store.step();
        }
        mixed.settle();
        mixed
    }
    fn put(&mut self, key: u64) {
        let times = &mut self.written[key as usize];
        *times += 1;
        let value = vec![*times; bytes_of(key)];
        self.bytes_put += value.len() as u64;
        write(self.session.as_mut(), |batch| set(batch, key, &value));
    }
    /// As many operations at random as there are keys; so many in a thousand are writes.
    fn pass(&mut self, writes: u64) {
        for operation in 0..KEYS {
            let key = self.rng.below(KEYS);
            if self.rng.below(1000) < writes {
                self.put(key);
            } else {
                let value = get(self.session.as_mut(), key).unwrap();
                assert!(value == vec![self.written[key as usize]; bytes_of(key)], "key {key}");
            }
            // Often they are behind: then all slots of a length are taken.
            if operation % STEPPED_EACH == 0 {
                self.store.step();
            }
        }
        self.settle();
    }
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.store.step() == Progress::Idle {
                break;
            }
        }
    }
    fn detail(&self, name: &str) -> u64 {
        let details = self.store.stats().engine_details;
        details.iter().find(|(known, _)| *known == name).unwrap().1
    }
    fn ssd(&self) -> TierStats {
        self.store.stats().tiers.pop().unwrap()
    }
    /// Blocks of the SSD in use that what lives there would not need.
    fn wasted(&self) -> u64 {
        let ssd = self.ssd();
        (ssd.used_bytes - ssd.live_bytes) / BLOCK
    }
}

#[test]
fn reads_write_what_was_dirty_once_in_full_pages_and_then_nothing() {
    let mut mixed = Mixed::new();
    let (pages, records) = (mixed.detail("pages_written"), mixed.detail("records_written"));
    mixed.pass(0);
    let (first, moved) = (mixed.detail("pages_written") - pages, mixed.detail("records_written") - records);
    assert!(mixed.detail("records_promoted") > 100, "reads bring something up");
    assert!(first <= DRAM_BLOCKS * 5 / 4 && moved >= first * 20, "{first} pages of {moved} records");
    let pages = mixed.detail("pages_written");
    let promoted = mixed.detail("records_promoted");
    for _ in 0..4 {
        mixed.pass(0);
    }
    assert!(mixed.detail("records_promoted") > promoted + 100, "reads go on to bring something up");
    let written = mixed.detail("pages_written") - pages;
    assert!(written <= 1, "{written} pages for reads");
    let ssd = mixed.ssd();
    assert!(ssd.used_bytes <= ssd.live_bytes * 11 / 10, "{ssd:?}");
}

/// What is written now and then must not take a page each time that it is pushed out.
#[test]
fn a_few_writes_among_reads_go_in_full_pages() {
    for writes in [3, 50] {
        let mut mixed = Mixed::new();
        mixed.pass(0);
        let (pages, bytes, records) =
            (mixed.detail("pages_written"), mixed.bytes_put, mixed.detail("records_written"));
        for _ in 0..6 {
            mixed.pass(writes);
        }
        let (pages, bytes) = (mixed.detail("pages_written") - pages, mixed.bytes_put - bytes);
        let records = mixed.detail("records_written") - records;
        let most = bytes * 5 / 4 / BLOCK + 3;
        let told = (pages, records, bytes / BLOCK, mixed.wasted(), mixed.detail("rounds_retired"));
        assert!(pages <= most, "{writes} in a thousand: {told:?}");
    }
}

/// What reads bring up to PMem, and what leaves DRAM for it, keeps its place on the SSD, and leaves for nothing.
#[test]
fn with_pmem_between_reads_write_what_was_never_on_the_ssd_once_and_then_nothing() {
    let mut mixed = Mixed::on(Media::chosen(Choices::default()));
    let before = mixed.ssd();
    assert!(before.used_bytes <= before.live_bytes * 11 / 10, "filled: {before:?}");
    mixed.pass(0);
    let pages = mixed.detail("pages_written");
    let moved = ["records_promoted", "records_from_ssd_to_pmem", "records_from_pmem_without_a_copy"];
    let at_first = moved.map(|name| mixed.detail(name));
    for _ in 0..4 {
        mixed.pass(0);
    }
    let written = mixed.detail("pages_written") - pages;
    let ssd = mixed.ssd();
    let told = moved.map(|name| mixed.detail(name)).into_iter().zip(at_first).map(|(now, then)| now - then);
    let told: Vec<u64> = told.collect();
    assert!(written <= 1, "{written} pages for reads, {told:?} {ssd:?}");
    assert!(told.iter().all(|moves| *moves > 100), "records still move: {moved:?} {told:?}");
    assert!(ssd.used_bytes <= ssd.live_bytes * 11 / 10, "{ssd:?}");
}
