//! What counts after a crash: each slot's chain of blocks, then the cut by dependencies.
//!
//! # The rules
//! 1. A slot's blocks are freed oldest first, so those that are left have consecutive chain numbers, and each one's base
//!    version is the last version of the one before. Where either doesn't hold, something in between was lost, and
//!    everything behind it is dropped. A torn end of a block is no loss if the next block's base agrees: an earlier
//!    opening cut there and the slot went on in a new block.
//! 2. The oldest block that is left may lack its predecessor only if it was begun without one, or if blocks up to its
//!    generation are known to have been safe from power loss: only then is a predecessor ever freed.
//! 3. A group counts only if each version that it depends on is at most the floor, or at most the position of its slot.
//!    Cutting until nothing changes leaves the largest set of groups in which all dependencies are met.
//! 4. A group counts only if the step that it leaves open goes on in the slot's next group, and that one counts. A block that was
//!    begun for the next group and holds none is dropped with it.
//! 5. A slot whose position ends up below a durable position that one of its own valid groups claims has lost what was
//!    safe: that is damage, not a crash.
//!
//! # Why what was cut stays cut
//! Opening erases the header of each cut group's start (the first cut group of a slot) and of all blocks dropped. Let G be
//! the set of groups that count. The cut is the largest set closed under "my predecessors in my slot and my dependencies
//! are here, and so is the rest of my step", and it grows with the set that it is taken from. A crash in the middle leaves a set between G and what
//! was there before, whichever of the erasures arrived; its cut contains G, since G is closed, and is contained in the cut
//! of the larger set, which is G. So opening again finds G again, however often it is interrupted. Nothing is appended
//! before the erasures are safe, and from then on the first cut group fails its checksum, and what is behind it in its
//! block is never reached; later blocks can't follow, for the base version of the slot's next one is G's last version.

use std::collections::BTreeMap;

use crate::block_format::HEADER_BYTES;
use crate::error::LogError;
use crate::log::LogOptions;
use crate::scan::{BlockScan, Cut, Extent};

/// What to do about bytes that were whole once and are not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// An error: rule 5.
    Refuse,
    /// Cut there, as if a crash had: whoever asks for that accepts the loss.
    Cut,
}

/// What is left of one slot.
#[derive(Debug, Default)]
pub(crate) struct SlotScan {
    /// Oldest first; nothing of these is dropped but what is behind `end` in the last one.
    pub kept: Vec<BlockScan>,
    /// The last kept block holds a cut group at `end`, which must be erased.
    pub cut: bool,
    /// Blocks whose header must be erased.
    pub dropped: Vec<u32>,
    /// How the last kept block and all that were dropped were found, before any cut by dependencies.
    pub ends: Vec<Extent>,
    /// The highest durable position claimed.
    claim: u64,
}

impl SlotScan {
    /// Follows the chain (rules 1 and 2), up to a step that has no end (rule 4). `blocks` come in any order; those up to `freed` are dead.
    pub fn new(
        mut blocks: Vec<BlockScan>,
        freed: Option<u64>,
        synced: u64,
        damage: Damage,
    ) -> Result<Self, LogError> {
        blocks.sort_by_key(|scan| scan.header.chain);
        let mut slot = Self::default();
        let (mut broken, mut last) = (false, None);
        for scan in blocks {
            let extent = scan.extent();
            if freed.is_some_and(|freed| scan.header.chain <= freed) {
                slot.dropped.push(scan.block);
                slot.ends.push(extent);
                continue;
            }
            let header = &scan.header;
            let follows = match slot.kept.last() {
                None => header.first || header.generation <= synced,
                Some(last) => {
                    header.chain == last.header.chain + 1 && header.base_version == last.last_version
                }
            };
            broken |= !follows;
            slot.claim = slot.claim.max(scan.claim);
            if !broken {
                slot.kept.push(scan);
                last = Some(extent);
                continue;
            }
            let was_durable = scan.claim >= header.base_version && scan.claim > 0;
            if slot.kept.is_empty() && was_durable && damage == Damage::Refuse {
                let (slot, block, offset) = (Some(header.slot), scan.block, 0);
                let reason = "the block before it is missing, and was durable";
                return Err(LogError::Corrupt { slot, block, offset, reason });
            }
            slot.dropped.push(scan.block);
            slot.ends.push(extent);
        }
        slot.ends.extend(last);
        slot.cut_open();
        Ok(slot)
    }

    /// Cuts at the start of the step that the last group leaves open (rule 4).
    fn cut_open(&mut self) {
        while let [before @ .., last] = &mut self.kept[..] {
            let goes_on = before.last().is_some_and(|before| before.open.is_some());
            let is_empty = last.end == HEADER_BYTES;
            let start = last.open.map(|start| start.at);
            if goes_on && (is_empty || start == Some(HEADER_BYTES)) {
                self.dropped.extend(self.kept.pop().map(|scan| scan.block));
                continue;
            }
            let Some(start) = last.open.take() else { return };
            last.cut(start);
            self.cut = true;
            return;
        }
    }

    /// The last version that counts; `None` if no block of the slot does.
    pub fn position(&self) -> Option<u64> {
        self.kept.last().map(|scan| scan.last_version)
    }

    /// Cuts at the first group with an unmet dependency (rule 3); returns whether there was one.
    fn cut_unmet(&mut self, met: impl Fn(u16, u64) -> bool) -> bool {
        for i in 0..self.kept.len() {
            let scan = &mut self.kept[i];
            let unmet = |group: &crate::scan::Linked| {
                !scan.dependencies[group.from..group.to].iter().all(|&(slot, version)| met(slot, version))
            };
            let Some(first) = scan.linked.iter().find(|group| unmet(group)) else { continue };
            scan.cut(first.start);
            self.cut = true;
            self.dropped.extend(self.kept.drain(i + 1..).map(|scan| scan.block));
            self.cut_open();
            return true;
        }
        false
    }

    /// Whether a claim of its own says that more than what is left was durable.
    pub fn lost_durable(&self) -> bool {
        self.claim > self.position().unwrap_or(0)
    }

    /// Rule 5.
    fn check_claim(&self, number: u16, options: &LogOptions, area: u64) -> Result<(), LogError> {
        match self.kept.last() {
            Some(last) if self.claim > last.last_version => Err(LogError::Corrupt {
                slot: Some(number),
                block: last.block,
                offset: area + last.block as u64 * options.block_bytes as u64 + last.end as u64,
                reason: "a later group says that what stood here was durable",
            }),
            _ => Ok(()),
        }
    }
}

impl BlockScan {
    /// Leaves what stands before this place, at which no step is under way that began in this block.
    fn cut(&mut self, start: Cut) {
        (self.end, self.last_version, self.open) = (start.at, start.before, None);
        self.linked.retain(|group| group.start.at < start.at);
    }
}

/// Cuts every slot by dependencies and checks what is left. `area` is the offset of block 0.
pub(crate) fn cut(
    slots: &mut BTreeMap<u16, SlotScan>,
    floor: u64,
    options: &LogOptions,
    area: u64,
    damage: Damage,
) -> Result<(), LogError> {
    let mut positions: BTreeMap<u16, u64> =
        slots.iter().filter_map(|(&number, slot)| Some((number, slot.position()?))).collect();
    loop {
        let mut changed = false;
        for (&number, slot) in slots.iter_mut() {
            let met = |other: u16, version: u64| {
                version <= floor || positions.get(&other).is_some_and(|position| version <= *position)
            };
            if slot.cut_unmet(met) {
                changed = true;
                positions.extend(slot.position().map(|position| (number, position)));
            }
        }
        if !changed {
            break;
        }
    }
    if damage == Damage::Cut {
        return Ok(());
    }
    slots.iter().try_for_each(|(&number, slot)| slot.check_claim(number, options, area))
}
