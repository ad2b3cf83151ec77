//! The operation log: what opening would replay.

use std::collections::HashMap;

use terrace_blocks::Lower;
use terrace_blocks::inspect::footer_entry;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::RecordView;
use terrace_log::{LogDevice, LogError, ReplayEntry};

use super::keys::Place;
use super::{Keys, Parts, Report};

/// Word 1 of an entry that is no record, but empties databases; word 2 is their bit mask.
const EMPTIES: u64 = u64::MAX;

/// Reads the log; `false` if it is damaged, so that the store does not open.
pub(super) fn read<L: Lower, D: LogDevice>(
    parts: &Parts<L, impl Fn() -> D>,
    manifest: &Manifest,
    keys: &mut Keys,
    report: &mut Report,
) -> bool {
    let mut last: HashMap<u16, u64> = HashMap::new();
    let mut problems = Vec::new();
    let mut needed = 0;
    let outcome = terrace_log::verify((parts.log)(), parts.log_options, manifest.log_floor, |entry| {
        let before = last.insert(entry.slot, entry.version);
        if before.is_some_and(|before| before >= entry.version) {
            problems.push(format!("log, session {}: version {} after {before:?}", entry.slot, entry.version));
        }
        match read_entry(parts, manifest.log_floor, &entry, keys) {
            Ok(counts) => needed += u64::from(counts),
            Err(what) => {
                problems.push(format!("log, session {}, version {}: {what}", entry.slot, entry.version))
            }
        }
    });
    report.problems.append(&mut problems);
    report.counts.log_needed = needed;
    match outcome {
        Ok(found) => {
            report.counts.log_entries = found.entries;
            report.about.push(format!(
                "log area {} blocks, {} in use by {} sessions",
                found.blocks, found.used_blocks, found.slots
            ));
            if found.dropped_blocks + found.cut_slots > 0 {
                report.notes.push(format!(
                    "log: opening cuts {} sessions and drops {} blocks, as after a crash",
                    found.cut_slots, found.dropped_blocks
                ));
            }
            true
        }
        Err(error) => {
            report.problems.push(format!(
                "{error}; the store does not open, and what only the log holds is not counted here"
            ));
            let is_cut = matches!(error, LogError::Corrupt { .. });
            report.log_fails = !is_cut;
            !is_cut
        }
    }
}

/// Whether opening will replay it.
fn read_entry<L: Lower, F>(
    parts: &Parts<L, F>,
    floor: u64,
    entry: &ReplayEntry<'_>,
    keys: &mut Keys,
) -> Result<bool, &'static str> {
    let word = |i: usize| -> Option<u64> {
        Some(u64::from_le_bytes(entry.bytes.get(i * 8..i * 8 + 8)?.try_into().ok()?))
    };
    if word(1) == Some(EMPTIES) {
        let mask = word(2).ok_or("an entry that empties databases without saying which")?;
        for db in (0..16).filter(|db| mask >> db & 1 == 1) {
            keys.flushed(db, entry.version);
        }
        return Ok(true);
    }
    let view = RecordView::decode(entry.bytes).ok_or("an entry that is no record")?;
    // An older one is a copy, of when the log was compressed.
    if view.head.version > entry.version {
        return Err("its record is of a newer version");
    }
    if view.head.version <= floor {
        return Ok(false);
    }
    keys.offer(&footer_entry(&view, 0, parts.hasher), Some(&view), Place::Log);
    Ok(true)
}
