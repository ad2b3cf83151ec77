//! What placements do to a store on both kinds of media: where records go, and which way they never take.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use tempfile::TempDir;
use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, AnyRegion, BlockFile, BlockFileOptions, HeapRegion};
use terrace_space_slab::{Choices, Opening, Placement, Sizes, open_tiered};

const SIZES: Sizes = Sizes {
    block_bytes: 64 << 10,
    log_block_bytes: 64 << 10,
    manifests_apart: 0,
    log_bytes: 2 << 20,
    dram_bytes: 1 << 20,
    dram_with_index: false,
    store_id: 1,
};
/// Beside the log, so many records of [`VALUE`] bytes find a slot there, of two granules each.
const IN_PMEM: u64 = 64 * 127;
const VALUE: usize = 400;
pub(crate) const KEYS: u64 = 20_000;

pub(crate) struct Placed {
    pub(crate) store: Box<dyn Store>,
    session: Box<dyn Session>,
    clock: Arc<ManualClock>,
    /// The byte that each key's value consists of.
    values: Vec<u8>,
    _dir: TempDir,
}

impl Placed {
    pub(crate) fn new(choices: impl Into<Choices>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let region = Arc::new(HeapRegion::new(SIZES.log_bytes + 64 * (64 << 10)).unwrap());
        let options = BlockFileOptions { direct: false, ring: false, prewrite: false };
        let data = AnyDevice::of(BlockFile::create(&dir.path().join("data"), 48 << 20, &options).unwrap());
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        let opening = Opening {
            sizes: SIZES,
            fresh: true,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::default(),
                immediate: true,
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(7),
                clock: clock.clone(),
                threads: 1,
                recovery_keys: 10,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
            description: String::new(),
            progress: &|_, _| {},
        };
        let store =
            open_tiered((&Arc::new(AnyRegion::new(region.clone())), 0), &data, "", choices.into(), opening)
                .unwrap();
        let session = store.session().unwrap();
        Self { store, session, clock, values: vec![7; KEYS as usize], _dir: dir }
    }
    /// Does something to each key, and lets the store work.
    fn each(&mut self, keys: impl Iterator<Item = u64>, op: impl Fn(&mut Batch) -> OpKind) {
        for key in keys {
            let mut batch = Batch::new();
            let kind = op(&mut batch);
            batch.push(0, &key.to_be_bytes(), kind);
            self.session.execute(&mut batch);
            let settled = self.session.wait(&mut batch);
            match batch.reply(0, &settled) {
                Reply::Stored { .. } => {}
                Reply::Hit { value: Some(value), .. } => {
                    assert_eq!(batch.output(value), [self.values[key as usize]; VALUE], "key {key}");
                }
                reply => panic!("key {key}: {reply:?}"),
            }
            drop(settled);
            // What is kept free follows from how many come in a time.
            self.clock.advance_us(1000);
            self.store.step();
        }
        for _ in 0..50 {
            self.store.step();
        }
    }
    fn set(&mut self, keys: impl Iterator<Item = u64>) {
        self.set_to(7, keys);
    }
    pub(crate) fn set_to(&mut self, value: u8, keys: impl Iterator<Item = u64>) {
        let keys: Vec<u64> = keys.collect();
        keys.iter().for_each(|&key| self.values[key as usize] = value);
        self.each(keys.into_iter(), |batch| {
            let (value, condition, expiry) = (batch.bytes(&[value; VALUE]), Condition::Always, Expiry::Clear);
            OpKind::Set { value, condition, expiry, flags: None, old_value: false }
        });
    }
    pub(crate) fn get(&mut self, keys: impl Iterator<Item = u64>) {
        self.each(keys, |_| OpKind::Get { value: true });
    }
    /// Reads each key so often before the store works again: no slot of PMem takes it meanwhile.
    fn get_at_once(&mut self, keys: impl Iterator<Item = u64>, times: usize) {
        for key in keys {
            let mut batch = Batch::new();
            for _ in 0..times {
                batch.push(0, &key.to_be_bytes(), OpKind::Get { value: true });
            }
            self.session.execute(&mut batch);
            let settled = self.session.wait(&mut batch);
            assert!(matches!(batch.reply(0, &settled), Reply::Hit { .. }));
            drop(settled);
            self.clock.advance_us(1000);
            self.store.step();
        }
    }
    pub(crate) fn detail(&self, name: &str) -> u64 {
        let details = self.store.stats().engine_details;
        details.iter().find(|(known, _)| *known == name).unwrap().1
    }
    /// Records in DRAM, PMem and on the SSD.
    fn records(&self) -> [u64; 3] {
        let tiers = self.store.stats().tiers;
        [tiers[0].records, tiers[1].records, tiers[2].records]
    }
    /// Gets that each tier answered.
    pub(crate) fn hits(&self) -> [u64; 3] {
        let tiers = self.store.stats().tiers;
        [tiers[0].hits, tiers[1].hits, tiers[2].hits]
    }
}

/// Reads some keys often enough that any gate lets them up.
fn heat(placed: &mut Placed, keys: std::ops::Range<u64>) {
    for _ in 0..12 {
        placed.get(keys.clone());
    }
}

#[test]
fn anti_2_never_moves_a_record_between_dram_and_pmem() {
    let mut placed = Placed::new(Placement::Anti2);
    placed.set(0..KEYS);
    let [dram, pmem, _] = placed.records();
    assert!(dram > 500 && pmem > IN_PMEM * 8 / 10, "puts go to both: {:?}", placed.records());
    let put = placed.detail("records_from_dram_to_pmem");
    assert!(put > IN_PMEM * 8 / 10, "those bound for PMem came through DRAM: {put}");
    heat(&mut placed, 0..1000);
    assert_eq!(placed.detail("records_from_pmem_to_dram"), 0);
    assert_eq!(placed.detail("records_from_dram_to_pmem"), put, "a victim goes past PMem");
    let (to_pmem, to_dram) = (placed.detail("records_from_ssd_to_pmem"), placed.detail("records_promoted"));
    assert!(to_pmem > 2 * to_dram && to_dram > 20, "by size: {to_pmem} to PMem, {to_dram} to DRAM");

    // A set is no way up, either: these are as many in PMem as before.
    let before = placed.hits();
    placed.get(0..1000);
    let at = placed.hits();
    placed.set(0..1000);
    placed.get(0..1000);
    let after = placed.hits();
    let (was, is) = (at[1] - before[1], after[1] - at[1]);
    assert!(was > 500 && is + 50 > was, "{was} of 1000 were in PMem, {is} are");
}

#[test]
fn anti_nvm_keeps_in_pmem_what_is_in_dram() {
    let mut placed = Placed::new(Placement::AntiNvm);
    placed.set(0..KEYS);
    // What was put first may lie in DRAM still.
    heat(&mut placed, 5000..6000);
    let promoted = placed.detail("records_promoted");
    assert!(promoted > 500, "{promoted}");
    assert_eq!(
        placed.detail("records_from_pmem_to_dram"),
        promoted,
        "from the SSD to PMem, from there to DRAM"
    );
    // Others come and go in PMem and take the places in DRAM; the homes of those that were there stay.
    let before = placed.detail("records_from_pmem_to_ssd");
    placed.get(10_000..14_000);
    placed.get(10_000..14_000);
    let gone = placed.detail("records_from_pmem_to_ssd") - before;
    assert!(gone > 500, "{gone} gave way");
    let clean = placed.detail("records_evicted_clean");
    heat(&mut placed, 7000..8300);
    assert!(placed.detail("records_evicted_clean") > clean + 500, "they go without a copy");
    let before = placed.hits();
    placed.get(5000..6000);
    let found: Vec<u64> = placed.hits().iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(found[1] > 100 && found[2] < 50, "in DRAM, PMem and on the SSD: {found:?}");
}

#[test]
fn tac_moves_records_up_from_both() {
    for placement in [Placement::Tac, Placement::AntiTuple] {
        let mut placed = Placed::new(placement);
        placed.set(0..KEYS);
        placed.get_at_once(10_000..10_300, 8);
        heat(&mut placed, 0..1000);
        let (promoted, from_pmem) =
            (placed.detail("records_promoted"), placed.detail("records_from_pmem_to_dram"));
        assert!(
            from_pmem > 100 && promoted > from_pmem + 100,
            "{promoted} up, {from_pmem} of them from PMem"
        );
    }
}
