//! Openings that follow each other closely, on logs made so that what one opening left unsafe would mislead the next.
//!
//! ```text
//!   died     an opening dies before a fence; the next one is crashed: two superblocks at risk at once
//!   epoch    an opening, and groups that rest on nothing; crashed, opened and gone on with in the same blocks: were the epoch
//!            given twice, remains of what was cut would pass for groups
//!   synced   only blocks that the opening drops say that an older block was safe: the superblock must say so before they go
//! ```

use std::sync::Arc;

use terrace_log::{Log, LogDevice, LogError};
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::{CrashImage, Explorer, Recorder, SimBlock, SimRegion, Trace, set_actor};
use terrace_testkit::sweep::MediaKind;
use terrace_testkit::sweep::without::{Crashes, Outcome};

use super::log_bench::{
    Entry, OPENER, STORE_ID, area_bytes, block_bytes, crash, found, on_block, on_region, options,
};

/// This file, as the compiler names it.
pub(super) const FILE: &str = file!();

/// A version of no group.
const NEVER: u64 = 1 << 40;

/// One of them.
pub(super) struct LogAgain {
    media: MediaKind,
    trace: Trace,
    /// What must be there wherever it crashes; `None` where the sessions go on closely after each crash instead.
    exact: Option<Arc<Vec<Entry>>>,
}

/// All of a medium's.
///
/// # Errors
/// If a log fails without any crash.
pub(super) fn record(media: MediaKind) -> Result<Vec<LogAgain>, String> {
    let all = match media {
        MediaKind::Byte | MediaKind::Tiered => died().and_then(|mut all| {
            all.push(epoch()?);
            Ok(all)
        }),
        MediaKind::Block => synced().map(|one| vec![one]),
    };
    all.map_err(|error| error.to_string())
}

/// Bytes of an entry whose group takes a third of a block, about.
fn third(media: MediaKind) -> usize {
    block_bytes(media) / 4 - 24
}

/// Writes one such group.
fn write<D: LogDevice>(
    writer: &mut terrace_log::Writer<D>,
    media: MediaKind,
    (version, seq): (u64, u64),
    dependencies: &[(u16, u64)],
) -> Result<(), LogError> {
    writer.entry(version, seq, &[&vec![version as u8; third(media)]]);
    writer.write(0, dependencies).map(|_| ())
}

fn died() -> Result<Vec<LogAgain>, LogError> {
    let media = MediaKind::Byte;
    let options = options(media, STORE_ID);
    let region = SimRegion::from_image(vec![0; area_bytes(media)]);
    let log = Log::create(on_region(region.clone()), options)?;
    write(&mut log.writer(0, 0), media, (1, 1), &[])?;
    drop(log);
    let exact = Arc::new(found(&Log::open(on_region(region.clone()), options, 0, 1)?.1)?);
    let recorder = Recorder::new();
    set_actor(OPENER);
    drop(Log::open(on_region(recorder.region(region.to_bytes())), options, 0, 1)?);
    let mut all = Vec::new();
    let explored = Explorer::new(0).only(Crash::Process).store_sample(1).minimise(false).explore(
        &recorder.finish(),
        |point, image| {
            let (recorder, copy) = image.recording(point.crash);
            Log::open(on_region(copy.region(0)), options, 0, 1)?;
            all.push(LogAgain { media, trace: recorder.finish(), exact: Some(exact.clone()) });
            Ok::<(), LogError>(())
        },
    );
    match explored {
        Ok(_) => Ok(all),
        Err(failure) => Err(LogError::Mismatch(failure.message)),
    }
}

fn epoch() -> Result<LogAgain, LogError> {
    let media = MediaKind::Byte;
    let options = options(media, STORE_ID);
    let region = SimRegion::from_image(vec![0; area_bytes(media)]);
    drop(Log::create(on_region(region.clone()), options)?);
    let recorder = Recorder::new();
    set_actor(OPENER);
    let (log, _) = Log::open(on_region(recorder.region(region.to_bytes())), options, 0, 1)?;
    let (mut zero, mut one) = (log.writer(0, 0), log.writer(1, 0));
    write(&mut one, media, (1, 1), &[])?;
    // More than a block of them, the later ones of versions that others will not have reached. All fall with the first one: were
    // they to rest on the same, that would cut them again when they pass for another session's.
    write(&mut zero, media, (1000, 1000), &[(1, NEVER)])?;
    for version in 1001..1006 {
        write(&mut zero, media, (version, version), &[])?;
    }
    Ok(LogAgain { media, trace: recorder.finish(), exact: None })
}

fn synced() -> Result<LogAgain, LogError> {
    let media = MediaKind::Block;
    let options = options(media, STORE_ID);
    let device = SimBlock::from_image(vec![0; area_bytes(media)]);
    let log = Log::create(on_block(device.clone()), options)?;
    let (mut zero, mut one) = (log.writer(0, 0), log.writer(1, 0));
    write(&mut one, media, (1, 100), &[])?;
    for version in 1..4 {
        write(&mut zero, media, (version, 1), &[])?;
    }
    write(&mut zero, media, (4, 100), &[])?;
    log.sync()?;
    // The first block of session 0 goes: its second one counts only because it is known that the first was safe.
    log.reclaim(1, 0)?;
    log.sync()?;
    // All blocks that know it, the freed one among them, follow a group that rests on nothing.
    for version in 2..9 {
        write(&mut one, media, (version, 100), &[(0, NEVER)])?;
    }
    log.sync()?;
    drop((zero, one, log));
    let exact = found(&Log::open(on_block(SimBlock::from_image(device.to_bytes())), options, 0, 1)?.1)?;
    let recorder = Recorder::new();
    set_actor(OPENER);
    drop(Log::open(on_block(recorder.block(device.to_bytes())), options, 0, 1)?);
    Ok(LogAgain { media, trace: recorder.finish(), exact: Some(Arc::new(exact)) })
}

impl LogAgain {
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(super) fn crash(&self, crashes: Crashes) -> Outcome {
        crash(&self.trace, crashes, |_, image| self.check_image(image))
    }

    fn check_image(&self, image: &CrashImage) -> Result<(), String> {
        let checked = match self.media {
            MediaKind::Byte | MediaKind::Tiered => self.check(|| on_region(image.region(0))),
            MediaKind::Block => self.check(|| on_block(image.block(0))),
        };
        checked.map_err(|error| format!("opening: {error}"))?
    }

    fn check<D: LogDevice>(&self, make: impl Fn() -> D) -> Result<Result<(), String>, LogError> {
        let options = options(self.media, STORE_ID);
        let (log, replay) = Log::open(make(), options, 0, 1)?;
        let mut expected = found(&replay)?;
        if let Some(exact) = &self.exact {
            let (got, was) = (expected.len(), exact.len());
            return Ok(if expected == **exact {
                Ok(())
            } else {
                Err(format!("{got} entries where an earlier opening found {was}"))
            });
        }
        let positions = replay.positions();
        drop(replay);
        let from = |slot| positions.get(&slot).copied().unwrap_or(0);
        let (mut zero, mut one) = (log.writer(0, from(0)), log.writer(1, from(1)));
        let size = third(self.media);
        // As before, but the other session comes to the block that was dropped, and stops behind its first group.
        for (slot, count) in [(1, 1), (0, 1), (1, 3)] {
            let writer = if slot == 0 { &mut zero } else { &mut one };
            for _ in 0..count {
                let version = writer.last_written() + 1;
                write(writer, self.media, (version, version), &[])?;
                expected.push((slot, version, vec![version as u8; size]));
            }
        }
        drop((zero, one, log));
        let mut got = found(&Log::open(make(), options, 0, 1)?.1)?;
        expected.sort_unstable();
        got.sort_unstable();
        let (all, were) = (got.len(), expected.len());
        Ok(if got == expected { Ok(()) } else { Err(format!("{all} entries where {were} were written")) })
    }
}
