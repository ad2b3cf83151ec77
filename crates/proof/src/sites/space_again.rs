//! A block of the hybrid log that is freed by a process which dies, and used again by the next one.
//!
//! ```text
//!   life 1   clears the first words of a flushed block's header and trailer, and dies before a fence
//!   life 2   reads the slot, finds it free, and flushes another block there; power is lost on the way
//!   opening  reads what is left: a header that is torn, over a trailer of either
//! ```
//!
//! Were what life 1 cleared not made safe by the reading of life 2, the first block's trailer could be back below the second
//! one's torn header: that is damage to whoever opens, for the manifest says that the first block was whole.

use std::sync::Arc;

use terrace_blocks::{ByteTier, Lower};
use terrace_engine::StoreError;
use terrace_engine::space::Durable;
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::{CrashImage, Explorer, Recorder, SimRegion, Trace, set_actor};
use terrace_space_hybrid_log::{HybridLog, HybridOptions};
use terrace_testkit::sweep::without::{Crashes, Outcome};

use super::log_bench::{OPENER, crash};

/// This file, as the compiler names it.
pub(super) const FILE: &str = file!();

const STORE_ID: u64 = 0xABCD;
const BLOCK_BYTES: usize = 1024;
const MANIFEST_BYTES: usize = 512;
const AREA_BYTES: usize = MANIFEST_BYTES + 15 * BLOCK_BYTES;
/// The slot, and its uses before and after; the manifest says of the first alone that it was flushed whole.
const SLOT: u64 = 2;
const FREED: u64 = 5;
const TRUSTED: u64 = 9;
const NEXT: u64 = 12;
/// Who frees, and who flushes.
const RECLAIMER: u32 = 8;
const FLUSHER: u32 = 9;

/// The two lives, and crashes of the second one.
pub(super) struct SpaceAgain {
    trace: Trace,
}

fn at() -> u64 {
    MANIFEST_BYTES as u64 + SLOT * BLOCK_BYTES as u64
}

/// 64 bytes that begin with a magic of this use of the slot, and end with their checksum.
fn sealed(magic: &[u8; 8], seq: u64, words: &[u64]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let magic = u64::from_le_bytes(*magic) ^ (seq ^ seq >> 32) << 32;
    for (to, word) in bytes.chunks_exact_mut(8).zip([&[magic], words].concat()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..56]);
    bytes[56..60].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A block without records, as `docs/formats/block.md` has it. The checksum of no bytes is zero.
fn block(seq: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[..64].copy_from_slice(&sealed(b"TRCBLOCK", seq, &[STORE_ID, seq, SLOT | 1 << 32]));
    let trailer = sealed(b"TRCTRAIL", seq, &[seq, 64 << 32, 0, u64::MAX]);
    bytes[BLOCK_BYTES - 64..].copy_from_slice(&trailer);
    bytes
}

fn tier(region: SimRegion) -> ByteTier<SimRegion> {
    ByteTier::new(Arc::new(region), 0, AREA_BYTES as u64, String::new())
}

fn open(region: SimRegion) -> Result<(), StoreError> {
    let options = HybridOptions {
        block_bytes: BLOCK_BYTES,
        dram_bytes: 8 * BLOCK_BYTES as u64,
        dram_budget: None,
        store_id: STORE_ID,
    };
    HybridLog::new(tier(region), options)?.scan_media(TRUSTED, 1, &|_, _| {}, &|_| {})
}

/// One for each place where the first life may end with the block cleared.
///
/// # Errors
/// If an opening fails without power loss.
pub(super) fn record() -> Result<Vec<SpaceAgain>, String> {
    let mut bytes = vec![0; AREA_BYTES];
    bytes[at() as usize..][..BLOCK_BYTES].copy_from_slice(&block(FREED));
    let words = [at(), at() + BLOCK_BYTES as u64 - 64];
    let recorder = Recorder::new();
    let first = tier(recorder.region(bytes));
    set_actor(RECLAIMER);
    first.clear_words(&words).and_then(|()| first.sync()).map_err(|error| error.to_string())?;
    drop(first);
    let mut all = Vec::new();
    let explored = Explorer::new(0).only(Crash::Process).store_sample(1).minimise(false).explore(
        &recorder.finish(),
        |point, image| {
            let left = image.region(0).to_bytes();
            if words.iter().any(|at| left[*at as usize..][..8] != [0; 8]) {
                return Ok(());
            }
            let (recorder, copy) = image.recording(point.crash);
            set_actor(OPENER);
            open(copy.region(0))?;
            set_actor(FLUSHER);
            let second = tier(copy.region(0));
            let written = second.write(at(), &block(NEXT)).and_then(|()| second.sync());
            written.map_err(StoreError::io("flushing a block"))?;
            all.push(SpaceAgain { trace: recorder.finish() });
            Ok::<(), StoreError>(())
        },
    );
    explored.map_err(|failure| failure.message)?;
    Ok(all)
}

impl SpaceAgain {
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(super) fn crash(&self, crashes: Crashes) -> Outcome {
        crash(&self.trace, crashes, |_, image: &CrashImage| {
            open(image.region(0)).map_err(|error| format!("opening: {error}"))
        })
    }
}
