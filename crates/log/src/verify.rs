//! Reading a log that nobody uses: the same judgement as opening it, without writing; and the cut where it is damaged.

use std::collections::HashMap;

use crate::block_format::COUNTER_BITS;
use crate::device::LogDevice;
use crate::error::LogError;
use crate::judge::Damage;
use crate::log::{Log, LogOptions, block_offset, write_super};
use crate::open::{Judged, erase, judge};
use crate::replay::{Replay, ReplayEntry, Segment};
use crate::table::Table;

/// What a log that nobody uses holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Blocks in the area.
    pub blocks: u64,
    /// Blocks whose groups count.
    pub used_blocks: u64,
    /// Blocks with a torn header, and blocks behind a gap or a cut: the next opening erases them.
    pub dropped_blocks: u64,
    /// Session slots whose last group that counts is followed by one that rests on something missing.
    pub cut_slots: u64,
    /// Session slots with groups that count.
    pub slots: u64,
    /// Entries that count.
    pub entries: u64,
    /// The highest version that counts, 0 if there is none.
    pub max_version: u64,
}

/// Verifies a log area and visits every entry that counts, slot by slot, each slot's in ascending versions. Nothing is
/// written; `options` and `floor` are as for [`Log::open`].
///
/// # Errors
/// What [`Log::open`] and [`Replay::for_each`] would say.
pub fn verify<D: LogDevice>(
    device: D,
    options: LogOptions,
    floor: u64,
    mut visit: impl FnMut(ReplayEntry<'_>),
) -> Result<LogReport, LogError> {
    let found = judge(&device, &options, floor, 1, Damage::Refuse)?;
    let mut report = report(&found);
    let segments = found.slots.iter().filter(|(_, slot)| !slot.kept.is_empty());
    let segments = segments.map(|(&number, slot)| (number, slot.kept.iter().map(Segment::of).collect()));
    let replay = Replay::new(idle(device, options, &found), segments.collect());
    replay.for_each(|entry| {
        report.entries += 1;
        visit(entry);
    })?;
    Ok(report)
}

/// Cuts a damaged log at its bad places, so that it opens: what follows them in their sessions is lost, and so is what
/// rests on that; where a session's oldest block is the damaged one, that block alone. Answers how many session slots lost something that was durable, and how many blocks were erased. An
/// interrupted call is repeated.
///
/// # Errors
/// [`LogError::Mismatch`] if this is not the log of these options, [`LogError::Io`].
pub fn cut_damage<D: LogDevice>(device: &D, options: LogOptions, floor: u64) -> Result<(u64, u64), LogError> {
    let found = judge(device, &options, floor, 1, Damage::Cut)?;
    write_super(device, found.copy, &found.next)?;
    // Groups behind the bad place may claim that it was durable, so the rest of its block goes too. It goes before the
    // blocks behind it do: a claim without its blocks would be the same error again, and would be cut again.
    let unit = device.page_bytes() as u64;
    let mut lost = 0;
    for slot in found.slots.values().filter(|slot| slot.lost_durable()) {
        lost += 1;
        let Some(last) = slot.kept.last() else { continue };
        let start = block_offset(device, &options, last.block);
        let end = start + options.block_bytes as u64;
        let mut at = start + last.end as u64;
        while at < end {
            let next = ((at / unit + 1) * unit).min(end);
            device.overwrite(at, &vec![0; (next - at) as usize])?;
            at = next;
        }
    }
    device.sync()?;
    erase(device, &options, &found.slots, &found.torn)?;
    let dropped: usize = found.slots.values().map(|slot| slot.dropped.len()).sum();
    Ok((lost, (dropped + found.torn.len()) as u64))
}

fn report(found: &Judged) -> LogReport {
    let dropped: usize = found.slots.values().map(|slot| slot.dropped.len()).sum();
    LogReport {
        blocks: found.next.blocks,
        used_blocks: found.slots.values().map(|slot| slot.kept.len() as u64).sum(),
        dropped_blocks: (dropped + found.torn.len()) as u64,
        cut_slots: found.slots.values().filter(|slot| slot.cut).count() as u64,
        slots: found.slots.values().filter(|slot| !slot.kept.is_empty()).count() as u64,
        entries: 0,
        max_version: found.slots.values().filter_map(|slot| slot.position()).max().unwrap_or(0),
    }
}

/// A log that is only read: nobody gets a writer of it.
fn idle<D: LogDevice>(device: D, options: LogOptions, found: &Judged) -> Log<D> {
    let table = Table {
        slots: HashMap::new(),
        free: Vec::new(),
        erased: Vec::new(),
        wanted: 0,
        erasing: Vec::new(),
        near: None,
        opening: Vec::new(),
        next_generation: found.next.epoch << COUNTER_BITS,
    };
    Log::assemble(device, options, found.next.blocks as u32, table)
}
