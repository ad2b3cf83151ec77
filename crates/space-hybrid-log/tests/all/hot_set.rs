//! What the log's blocks cost while records are overwritten in place: a hot set that fits DRAM would never be flushed but for them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, MachineOptions, Meta, OpKind, Reply, Session, Store,
};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, AnyRegion, HeapRegion};
use terrace_media_sim::SimBlock;
use terrace_space_hybrid_log::{Opening, Sizes, open_block, open_byte};

const BLOCK_BYTES: usize = 64 << 10;
const VALUE_BYTES: usize = 1000;
const KEYS: u64 = 1000;
/// Pages of the hot set, and DRAM for many more.
const DRAM: usize = 64;
const TIER_BYTES: usize = 16 << 20;
const TOGETHER: usize = 16;
const NOW_US: u64 = 1_800_000_000_000_000;
/// Overwrites that are counted: the hot set a hundred times.
const OVERWRITES: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Medium {
    PMem,
    Ssd,
}

/// Which keys are overwritten.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// All alike.
    Uniform,
    /// Nine of ten are of a tenth of the keys.
    Skewed,
}

/// The media of a store.
enum Media {
    Byte(Arc<HeapRegion>),
    Block { log: SimBlock, data: SimBlock },
}

impl Media {
    fn new(medium: Medium, log_bytes: usize) -> Self {
        let blank = |bytes| SimBlock::from_image(vec![0; bytes]);
        match medium {
            Medium::PMem => Self::Byte(Arc::new(HeapRegion::new((log_bytes + TIER_BYTES) as u64).unwrap())),
            Medium::Ssd => Self::Block { log: blank(log_bytes + BLOCK_BYTES), data: blank(TIER_BYTES) },
        }
    }
    /// What a process that was killed leaves: what is in the page cache, too. Of byte media the very memory.
    fn left(&self) -> Self {
        let copy = |block: &SimBlock| SimBlock::from_image(block.to_bytes());
        match self {
            Self::Byte(region) => Self::Byte(region.clone()),
            Self::Block { log, data } => Self::Block { log: copy(log), data: copy(data) },
        }
    }
    fn open(&self, durability: Durability, log_bytes: usize, fresh: bool) -> Box<dyn Store> {
        let opening = Opening {
            sizes: Sizes {
                manifests_apart: 0,
                block_bytes: BLOCK_BYTES,
                log_block_bytes: BLOCK_BYTES,
                log_bytes: log_bytes as u64,
                dram_bytes: (DRAM * BLOCK_BYTES) as u64,
                dram_with_index: false,
                store_id: 3,
            },
            fresh,
            machine: MachineOptions {
                engine: "hetermm",
                durability,
                immediate: matches!(self, Self::Byte(_)),
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(7),
                clock: Arc::new(ManualClock::new(NOW_US)),
                threads: 1,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(1024)),
            description: String::new(),
            progress: &|_, _| {},
        };
        match self {
            Self::Byte(region) => open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, opening).unwrap(),
            Self::Block { log, data } => {
                open_block(&AnyDevice::of(log.clone()), &AnyDevice::of(data.clone()), opening).unwrap()
            }
        }
    }
}

fn set(session: &mut dyn Session, keys: &[u64]) {
    let mut batch = Batch::new();
    for key in keys {
        let value = batch.bytes(&[b'v'; VALUE_BYTES]);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        batch.push(
            0,
            &key.to_le_bytes(),
            OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false },
        );
    }
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    for i in 0..keys.len() {
        assert!(matches!(batch.reply(i, &proof), Reply::Stored { .. }), "{:?}", batch.reply(i, &proof));
    }
}

fn run(session: &mut dyn Session, batch: &mut Batch, key: u64, kind: OpKind) -> Reply {
    batch.push(0, &key.to_le_bytes(), kind);
    session.execute(batch);
    let proof = session.wait(batch);
    batch.reply(0, &proof)
}

/// What a get finds: all that is kept beside the value, and the value.
fn get(session: &mut dyn Session, key: u64) -> Option<(Meta, Vec<u8>)> {
    let mut batch = Batch::new();
    match run(session, &mut batch, key, OpKind::Get { value: true }) {
        Reply::Hit { meta, value } => Some((meta, batch.output(value.unwrap()).to_vec())),
        Reply::Miss => None,
        other => panic!("{key}: {other:?}"),
    }
}

fn detail(store: &dyn Store, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.iter().find(|(of, _)| *of == name).map_or(0, |(_, value)| *value)
}

/// Bytes of log and data that are written for a byte of a client's, and pages flushed.
#[derive(Debug)]
struct Cost {
    log: f64,
    data: f64,
    pages: u64,
    compressed: u64,
}

/// Bytes written to the log, and to blocks; pages flushed.
fn written(store: &dyn Store, medium: Medium) -> (u64, u64, u64) {
    let stats = store.stats();
    let pages = detail(store, "blocks_sealed");
    let tier = stats.tiers.iter().find(|tier| tier.tier != "dram").unwrap();
    let data = pages * BLOCK_BYTES as u64;
    match medium {
        Medium::PMem => (tier.media.write_bytes - data, data, pages),
        Medium::Ssd => (stats.log.unwrap().media.write_bytes, data, pages),
    }
}

fn cost(medium: Medium, durability: Durability, log_bytes: usize, draw: Draw) -> Cost {
    let store = Media::new(medium, log_bytes).open(durability, log_bytes, true);
    let mut session = store.session().unwrap();
    let all: Vec<u64> = (0..KEYS).collect();
    all.chunks(TOGETHER).for_each(|keys| set(&mut *session, keys));
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut before = (0, 0, 0);
    // As many first that are not counted.
    for part in 0..2 {
        before = if part == 1 { written(&*store, medium) } else { before };
        for _ in 0..OVERWRITES / TOGETHER {
            let keys: Vec<u64> = (0..TOGETHER)
                .map(|_| match draw {
                    Draw::Uniform => random(KEYS),
                    Draw::Skewed if random(10) == 0 => random(KEYS),
                    Draw::Skewed => random(KEYS / 10),
                })
                .collect();
            set(&mut *session, &keys);
            store.step();
            store.step();
        }
    }
    let after = written(&*store, medium);
    let client = (OVERWRITES * (VALUE_BYTES + 8)) as f64;
    Cost {
        log: (after.0 - before.0) as f64 / client,
        data: (after.1 - before.1) as f64 / client,
        pages: after.2 - before.2,
        compressed: detail(&*store, "log_blocks_compressed"),
    }
}

#[test]
#[ignore = "prints a table for docs/benchmarks.md"]
fn table() {
    let modes = [Durability::Sync, Durability::Batch(Duration::from_millis(100))];
    for (medium, durability) in [(Medium::PMem, modes[0]), (Medium::Ssd, modes[0]), (Medium::Ssd, modes[1])] {
        for draw in [Draw::Uniform, Draw::Skewed] {
            for log_mib in [2, 4, 8, 16, 32, 64] {
                let Cost { log, data, pages, compressed } = cost(medium, durability, log_mib << 20, draw);
                println!(
                    "{medium:?} {durability} {draw:?} log {log_mib} MiB: log {log:.3}, data {data:.3}, both {:.3}, pages \
                     {pages}, compressed {compressed}",
                    log + data
                );
            }
        }
    }
}

/// The hot set ten times over in the log: no page is flushed for the log's sake, and hardly more is written to that.
#[test]
fn a_hot_set_that_fits_dram_is_not_flushed() {
    for medium in [Medium::PMem, Medium::Ssd] {
        let Cost { log, data, pages, compressed } = cost(medium, Durability::Sync, 16 << 20, Draw::Uniform);
        assert!(
            compressed > 1000 && pages == 0 && data == 0.0,
            "{medium:?}: {pages} pages, {compressed} blocks"
        );
        assert!(log < if medium == Medium::PMem { 1.06 } else { 1.37 }, "{medium:?}: {log}");
    }
}

/// Where much of the oldest blocks is still needed pages are flushed as ever: copies would cost more.
#[test]
fn where_copies_would_cost_more_pages_are_flushed() {
    for (draw, log_mib, most) in [(Draw::Uniform, 2, 1.65), (Draw::Skewed, 8, 1.15)] {
        let Cost { log, data, pages, .. } = cost(Medium::PMem, Durability::Sync, log_mib << 20, draw);
        assert!(pages > 0 && log < 1.06 && log + data < most, "{draw:?}: {log} and {data}");
    }
}

/// Cold records lie among the hot ones: values, long values, deleted keys, some with flags and an expiry. The log's blocks are used
/// again several times; after a kill each is as it was, with its version.
#[test]
fn what_was_copied_is_as_it_was() {
    const LOG_BYTES: usize = 4 << 20;
    const COLD: std::ops::Range<u64> = 10_000..10_020;
    for medium in [Medium::PMem, Medium::Ssd] {
        let media = Media::new(medium, LOG_BYTES);
        let store = media.open(Durability::Sync, LOG_BYTES, true);
        let mut session = store.session().unwrap();
        for key in COLD {
            let mut batch = Batch::new();
            let value = batch.bytes(&vec![key as u8; if key % 5 == 0 { 100_000 } else { 50 }]);
            let expiry = if key % 2 == 0 { Expiry::Clear } else { Expiry::At(NOW_US / 1000 + 1_000_000) };
            let (condition, flags) = (Condition::Always, Some(key as u32));
            let set = OpKind::Set { value, condition, expiry, flags, old_value: false };
            assert!(matches!(run(&mut *session, &mut batch, key, set), Reply::Stored { .. }));
            if key % 3 == 0 {
                let delete = OpKind::Delete { condition: Condition::Always, old_value: false };
                assert!(matches!(run(&mut *session, &mut Batch::new(), key, delete), Reply::Deleted { .. }));
            }
        }
        let before: Vec<_> = COLD.map(|key| get(&mut *session, key)).collect();
        assert_eq!(before.iter().flatten().count(), 14);
        let hot: Vec<u64> = (0..100).collect();
        for _ in 0..400 {
            hot.chunks(TOGETHER).for_each(|keys| set(&mut *session, keys));
            store.step();
        }
        assert_eq!(COLD.map(|key| get(&mut *session, key)).collect::<Vec<_>>(), before);
        let (compressed, copied, pages) = ["log_blocks_compressed", "log_records_copied", "blocks_sealed"]
            .map(|name| detail(&*store, name))
            .into();
        assert!(
            compressed > 400 && copied >= 20 && pages == 0,
            "{compressed} blocks, {copied} records, {pages} pages"
        );

        // Nothing is dropped in order.
        let left = media.left();
        std::mem::forget((session, store));
        for _ in 0..2 {
            let store = left.open(Durability::Sync, LOG_BYTES, false);
            let mut session = store.session().unwrap();
            assert_eq!(store.len(0), 100 + 14);
            assert_eq!(COLD.map(|key| get(&mut *session, key)).collect::<Vec<_>>(), before, "{medium:?}");
            std::mem::forget((session, store));
        }
    }
}
