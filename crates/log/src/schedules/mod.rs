//! Schedules of the log's blocks, explored: `cargo xtask schedules`.
//!
//! Of the log, the block table is behind a mutex that no I/O is done under, and `synced` is an atomic beside it. So what can go
//! wrong lies between the locks. Invariants, checked by the device at every write of a block's header:
//!
//! * a block is begun only where what is there is safe from power loss: its erasure was synced before it became free;
//! * every block up to the generation that a header claims to be synced has its header on the medium;
//! * a writer that waits for a block gets one: nobody waits for ever.

mod device;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Plain, Ordering};

use terrace_sync::schedules::{at_once, explore, explore_planted};
use terrace_sync::yield_now;

use self::device::{BLOCK_BYTES, Device};
use crate::error::LogError;
use crate::log::{Log, LogOptions};

const BLOCKS: usize = 4;
/// Above every sequence number and version here; `u64::MAX` stands for one that is not known yet.
const LAST: u64 = u64::MAX - 1;

/// What the thread that reclaims does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// It gives erased blocks to writers before a sync.
    FreedBeforeSync,
    /// It says that blocks are synced before they are.
    SyncedTooEarly,
    /// It never reclaims.
    Idle,
}

/// Two sessions write groups of nearly a block each, more than there are blocks; a third thread frees what is written, as
/// though all of it were durable elsewhere.
fn writers_and_a_reclaimer(bug: Bug) {
    let options = LogOptions { block_bytes: BLOCK_BYTES, store_id: 1 };
    let log = Log::create(Device::new(BLOCKS), options).unwrap();
    let finished: Arc<[Plain; 2]> = Arc::default();
    let writer = |slot: u16| {
        let (mut writer, finished) = (log.writer(slot, 0), finished.clone());
        move || {
            for version in 1..=3 {
                writer.entry(version, version, &[&[slot as u8; 600]]);
                loop {
                    match writer.write(0, &[]) {
                        Ok(_) => break,
                        Err(LogError::Full) => yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            drop(writer);
            finished[usize::from(slot)].store(true, Ordering::SeqCst);
        }
    };
    let (first, second) = (writer(0), writer(1));
    let reclaimer = log.clone();
    at_once(vec![
        Box::new(first),
        Box::new(second),
        Box::new(move || {
            while !finished.iter().all(|finished| finished.load(Ordering::SeqCst)) {
                let shared = &reclaimer.shared;
                match bug {
                    Bug::Idle => {}
                    Bug::SyncedTooEarly => {
                        let written = shared.table.lock().written_generation();
                        shared.synced.fetch_max(written, Ordering::Release);
                        reclaimer.reclaim(LAST, LAST).unwrap();
                    }
                    Bug::FreedBeforeSync => {
                        reclaimer.reclaim(LAST, LAST).unwrap();
                        let mut table = shared.table.lock();
                        let erased = std::mem::take(&mut table.erased);
                        table.free.extend(erased);
                    }
                    Bug::None => drop(reclaimer.reclaim(LAST, LAST).unwrap()),
                }
                yield_now();
            }
        }),
    ]);
    log.reclaim(LAST, LAST).unwrap();
    log.sync().unwrap();
    assert_eq!((log.free_blocks(), log.used_blocks()), (BLOCKS, 0), "every block is in its place");
}

#[test]
fn blocks_go_round() {
    explore(|| writers_and_a_reclaimer(Bug::None));
}

#[test]
#[should_panic(expected = "begun over what is not safe")]
fn planted_a_block_freed_before_its_erasure_is_synced() {
    explore_planted(|| writers_and_a_reclaimer(Bug::FreedBeforeSync));
}

#[test]
#[should_panic(expected = "claims to be synced")]
fn planted_a_generation_that_is_called_synced_too_early() {
    explore_planted(|| writers_and_a_reclaimer(Bug::SyncedTooEarly));
}

#[test]
#[should_panic(expected = "exceeded max_steps")]
fn planted_nobody_reclaims() {
    explore_planted(|| writers_and_a_reclaimer(Bug::Idle));
}
