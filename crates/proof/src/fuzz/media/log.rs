//! The log alone: scan, judge, replay, the offline reading, a cut, and a writer that goes on.

use std::sync::Arc;

use terrace_log::{BlockLog, ByteLog, Log, LogDevice, LogError, LogOptions, cut_damage, verify};
use terrace_media_sim::{SimBlock, SimRegion};
use terrace_testkit::sweep::MediaKind;

use super::mangle::mangle;
use super::targets::HETERMM;
use crate::fuzz::Target;

/// On byte-addressable media.
pub(in crate::fuzz) static LOG_BYTE: Target = Target {
    name: "log-byte",
    corpus: "log-byte",
    about: "a mangled operation log on byte-addressable media",
    bytes_max: 200,
    words: &[],
    run: |input| {
        let mut mangled = mangle(HETERMM, MediaKind::Byte, input);
        let area = mangled.layout.log(&mut mangled.media).to_vec();
        let options = LogOptions {
            block_bytes: mangled.layout.sizes.log_block_bytes,
            store_id: mangled.layout.sizes.store_id,
        };
        let region = || Arc::new(SimRegion::from_image(area.clone()));
        let log = |region: &Arc<SimRegion>| ByteLog::new(region.clone(), 0, area.len() as u64);
        run(region, log, options)
    },
};

/// On block media.
pub(in crate::fuzz) static LOG_BLOCK: Target = Target {
    name: "log-block",
    corpus: "log-block",
    about: "a mangled operation log on block media",
    bytes_max: 200,
    words: &[],
    run: |input| {
        let mut mangled = mangle(HETERMM, MediaKind::Block, input);
        let area = mangled.layout.log(&mut mangled.media).to_vec();
        let options = LogOptions {
            block_bytes: mangled.layout.sizes.log_block_bytes,
            store_id: mangled.layout.sizes.store_id,
        };
        let device = || Arc::new(SimBlock::from_image(area.clone()));
        let log = |device: &Arc<SimBlock>| BlockLog::new(device.clone(), 0, area.len() as u64);
        run(device, log, options)
    },
};

/// Slot, version and bytes.
type Entry = (u16, u64, Vec<u8>);

fn run<M, D: LogDevice>(
    medium: impl Fn() -> M,
    log: impl Fn(&M) -> D,
    options: LogOptions,
) -> Result<(), String> {
    for floor in [0, u64::MAX >> 1] {
        let mut verified: Vec<Entry> = Vec::new();
        let verdict = verify(log(&medium()), options, floor, |entry| {
            verified.push((entry.slot, entry.version, entry.bytes.to_vec()));
        });
        let on = medium();
        let opened = open(log(&on), options, floor);
        match (&verdict, &opened) {
            (Ok(_), Ok(found)) if *found == verified => {}
            (Err(_), Err(_)) => {}
            _ => {
                return Err(format!(
                    "the check finds {verdict:?}, opening finds {:?}",
                    opened.map(|list| list.len())
                ));
            }
        }
        if let Ok(found) = opened {
            let again = open(log(&on), options, floor)
                .map_err(|error| format!("opened once, and not again: {error}"))?;
            // The writer of the first opening added one.
            if !again.starts_with(&found[..0]) || again.len() < found.len() {
                return Err(format!("{} entries at first, {} when opened again", found.len(), again.len()));
            }
        } else {
            let on = medium();
            if cut_damage(&log(&on), options, floor).is_ok() {
                open(log(&on), options, floor).map_err(|error| format!("cut, and still refused: {error}"))?;
            }
        }
    }
    Ok(())
}

/// Opens, reads everything, and writes an entry.
fn open<D: LogDevice>(device: D, options: LogOptions, floor: u64) -> Result<Vec<Entry>, LogError> {
    let (log, replay) = Log::open(device, options, floor, 1)?;
    let mut found = Vec::new();
    replay.for_each(|entry| found.push((entry.slot, entry.version, entry.bytes.to_vec())))?;
    let (last, position) = (replay.max_version(), replay.positions().get(&5).copied());
    let mut writer = log.writer(5, position.unwrap_or(last));
    if let Some(version) = position.unwrap_or(last).checked_add(1) {
        writer.entry(version, 1, &[b"after"]);
        match writer.write(0, &[]) {
            Ok(_) | Err(LogError::Full) => {}
            Err(error) => return Err(error),
        }
    }
    log.sync()?;
    Ok(found)
}
