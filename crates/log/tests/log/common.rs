//! Logs on simulated media, and what they replay.

use std::sync::Arc;

use terrace_log::{BlockLog, ByteLog, Log, LogDevice, LogError, LogOptions, Replay};
use terrace_media_sim::{SimBlock, SimRegion};

/// A slot, a version, the bytes.
pub type Found = (u16, u64, Vec<u8>);

/// Options with this block size.
pub fn options(block_bytes: usize) -> LogOptions {
    LogOptions { block_bytes, store_id: 0xABCD }
}

/// The whole region as a log area.
pub fn on_region(region: &SimRegion) -> ByteLog<SimRegion> {
    let len = terrace_media::ByteRegion::len(region);
    ByteLog::new(Arc::new(region.clone()), 0, len)
}

/// The whole device as a log area.
pub fn on_block(device: &SimBlock) -> BlockLog<SimBlock> {
    let len = terrace_media::BlockDevice::len(device);
    BlockLog::new(Arc::new(device.clone()), 0, len)
}

/// A region for `blocks` log blocks of 1 KiB.
pub fn region(blocks: usize) -> SimRegion {
    SimRegion::from_image(vec![0; 128 + blocks * 1024])
}

/// Opens with two threads.
pub fn open<D: LogDevice>(
    device: D,
    block_bytes: usize,
    floor: u64,
) -> Result<(Log<D>, Replay<D>), LogError> {
    Log::open(device, options(block_bytes), floor, 2)
}

/// Everything replayed.
pub fn found<D: LogDevice>(replay: &Replay<D>) -> Vec<Found> {
    let mut found = Vec::new();
    replay
        .for_each(|entry| found.push((entry.slot, entry.version, entry.bytes.to_vec())))
        .expect("the log reads");
    found
}

/// The bytes of a test entry: they tell slot and version apart.
pub fn payload(slot: u16, version: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + version * 7 + slot as u64) as u8).collect()
}
