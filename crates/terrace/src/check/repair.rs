//! Making a store openable that recovery refuses: what is whole is kept, the rest is given up and told.

use terrace_blocks::Lower;
use terrace_engine::manifest::Manifest;
use terrace_log::LogDevice;

use super::{CheckError, Parts, Report};

/// Says what a repair leaves, and what can be done about it.
pub(super) fn tell_limits(report: &mut Report) {
    let (damaged, large) = (report.counts.damaged, report.large_fail);
    let found = [
        (report.no_manifest, "the manifest: what it said of the blocks stands nowhere else; put both copies back from a copy of the store".to_owned()),
        (report.log_fails, "the log's superblock: without it no log is there; put the log back from a copy of the store".into()),
        (report.middle_fails, "the middle tier: its slabs are not made anew; put the memory back from a copy of the store".into()),
        (
            damaged > 0,
            format!(
                "{damaged} damaged records: their bytes are nowhere else; keys whose newest version is among them answer an error until \
                 SET or DEL"
            ),
        ),
        (
            large > 0,
            format!("{large} damaged large values: their bytes are nowhere else; their keys answer an error until SET or DEL"),
        ),
    ];
    report.beyond.extend(found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text));
    let told = report.beyond.len();
    if told == 0 && !report.is_clean() {
        report.beyond.push("what is listed above: the store opens, or does not, as it says there".into());
    }
}

/// Blocks whose header, footer or trailer is damaged: they are made anew from the records that are whole.
pub(super) fn blocks<L: Lower, F>(
    parts: &Parts<L, F>,
    slots: &[u32],
    done: &mut Vec<String>,
) -> Result<(), CheckError> {
    for &slot in slots {
        let failed = |source| CheckError::Io { what: format!("repairing block {slot}"), source };
        let image = parts.inspector.read(slot).map_err(failed)?;
        let rebuilt = if image.blank { None } else { image.rebuild(parts.store_id, parts.hasher) };
        match rebuilt {
            Some(rebuilt) => {
                parts.inspector.write(&image, &rebuilt).map_err(failed)?;
                done.push(format!(
                    "block {slot}: header, footer and trailer were made anew from its {} records; {}",
                    rebuilt.records,
                    if rebuilt.complete { "none is missing" } else { LOST }
                ));
            }
            None => {
                parts.inspector.give_up(&image).map_err(failed)?;
                done.push(format!("block {slot}: no record in it is whole; it was given up, and {LOST}"));
            }
        }
    }
    Ok(())
}

/// What the last stop saved is not used any more: it tells of blocks as they are before the repair.
pub(super) fn snapshot<L: Lower, F>(
    parts: &Parts<L, F>,
    manifest: &Manifest,
    done: &mut Vec<String>,
) -> Result<(), CheckError> {
    let Some(slot) = manifest.snapshot.filter(|&slot| slot < parts.inspector.blocks()) else { return Ok(()) };
    let failed = |source| CheckError::Io { what: "giving the snapshot of the last stop up".into(), source };
    if parts.inspector.give_up_snapshot(slot).map_err(failed)? {
        done.push("the snapshot of the last stop was given up: opening scans".into());
    }
    Ok(())
}

const LOST: &str = "records may be missing that can't be identified: their keys answer with an older version, if one is left";

/// A damaged log is cut where it is damaged.
pub(super) fn log<L: Lower, D: LogDevice>(
    parts: &Parts<L, impl Fn() -> D>,
    floor: u64,
    done: &mut Vec<String>,
) -> Result<(), CheckError> {
    let cut = terrace_log::cut_damage(&(parts.log)(), parts.log_options, floor);
    let (sessions, blocks) = cut.map_err(|error| CheckError::Io {
        what: "cutting the log".into(),
        source: std::io::Error::other(error),
    })?;
    done.push(format!(
        "log: cut where it is damaged, {sessions} sessions and {blocks} blocks; writes behind that which were in the log only are lost"
    ));
    Ok(())
}
