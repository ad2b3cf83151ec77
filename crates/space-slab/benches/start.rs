//! How long a start takes, from the snapshot of a clean stop and by a scan of the same store.
//!
//! `cargo bench -p terrace-space-slab --bench start -- DIR RECORDS [ROUNDS]` makes a store in the empty directory, fills it
//! and opens it by turns in both ways.

use std::path::Path;
use std::sync::Arc;

use terrace_engine::clock::SystemClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, BlockFile, BlockFileOptions};
use terrace_space_slab::{Choices, Opening, Sizes, open_block};

type Anything = Box<dyn std::error::Error>;

const BLOCK: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;
const VALUE: [u8; 200] = [7; 200];
/// What a record takes on the medium, and then some.
const RECORD_BYTES: u64 = 320;

fn open(dir: &Path, records: u64, fresh: bool) -> Result<Box<dyn Store>, Anything> {
    let options = |direct| BlockFileOptions { direct, ring: true, prewrite: false };
    let file = |name: &str, bytes: u64, direct: bool| {
        let path = dir.join(name);
        let made = if fresh {
            BlockFile::create(&path, bytes, &options(direct))
        } else {
            BlockFile::open(&path, &options(direct))
        };
        made.map(AnyDevice::of)
    };
    let data_bytes = (records * RECORD_BYTES * 3 / 2 + 64 * BLOCK).next_multiple_of(BLOCK);
    let log = file("log", LOG_BYTES, false)?;
    let data = file("data", data_bytes, true)?;
    let opening = Opening {
        sizes: Sizes {
            block_bytes: BLOCK as usize,
            log_block_bytes: 256 << 10,
            manifests_apart: 0,
            log_bytes: LOG_BYTES,
            dram_bytes: (records * RECORD_BYTES / 10).next_multiple_of(BLOCK).max(32 * BLOCK),
            dram_with_index: false,
            store_id: 1,
        },
        fresh,
        machine: MachineOptions {
            engine: "tac",
            durability: Durability::default(),
            immediate: false,
            evict: false,
            sessions: 4,
            hasher: KeyHasher::new(7),
            clock: Arc::new(SystemClock),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(1024)),
        description: String::new(),
        progress: &|_, _| {},
    };
    Ok(open_block(&log, &data, Choices::default(), opening)?)
}

fn fill(store: &dyn Store, records: u64) -> Result<(), Anything> {
    let mut session = store.session()?;
    for start in (0..records).step_by(64) {
        let mut batch = Batch::new();
        for number in start..records.min(start + 64) {
            let value = batch.bytes(&VALUE);
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            let set = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
            batch.push(0, format!("key:{number:016}").as_bytes(), set);
        }
        session.execute(&mut batch);
        let _ = session.wait(&mut batch);
    }
    Ok(())
}

fn main() -> Result<(), Anything> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(dir), Some(records)) = (arguments.next(), arguments.next()) else {
        return Err("start DIR RECORDS [ROUNDS]".into());
    };
    let (dir, records) = (Path::new(&dir), records.parse()?);
    let rounds: u32 = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let store = open(dir, records, true)?;
    fill(&*store, records)?;
    store.close()?;
    drop(store);
    println!("{:>8}  {:>12}  {:>12}  {:>6}", "records", "snapshot, ms", "scan, ms", "ratio");
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..2 {
            // The second time it was opened and not closed: then there is no snapshot, and nothing in the log.
            let store = open(dir, records, false)?;
            let recovery = store.stats().recovery.ok_or("it was opened as new")?;
            times.push((recovery.snapshot, recovery.nanoseconds as f64 / 1e6, recovery.records));
            if times.len() == 2 {
                store.close()?;
            }
        }
        let [(used, by_snapshot, found), (_, by_scan, scanned)] = times[..] else { continue };
        println!(
            "{found:>8}  {by_snapshot:>12.1}  {by_scan:>12.1}  {:>6.1}  {used:?}, {scanned} scanned",
            by_scan / by_snapshot
        );
    }
    Ok(())
}
