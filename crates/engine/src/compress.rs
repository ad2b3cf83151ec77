//! Log compression (HeterMM section 5.3.1): the log's oldest blocks are freed without a flush where little of them is still needed.
//!
//! Updates in place fill the log and take no page, so that no page is flushed. Nearly all of the oldest entries have newer ones of their
//! keys then. The few that are still needed stand for records in pages: those are copied to the log's end, and the blocks are free.
//!
//! ```text
//!   choose ----> settle ------> walk ---------------> copy --------> leave ------> pass -------> free
//!   the oldest   all that was   pages that are not    to our own     an epoch      all issued    blocks
//!   blocks       issued is      flushed, for records  session's log  goes by       by now is
//!                durable        as old as the blocks                               durable
//! ```
//!
//! # Invariants
//! * A copy is the record as it is, with its version, in an entry of a newer version: so recovery tells it from what its session wrote,
//!   and lets it win and lose as the record itself. Whether it is skipped below the log's floor is its record's version's matter, too.
//! * What is copied was settled before: a copy never outlives, at a crash, what its record rests on.
//! * What is not copied has something newer in its place, which has been issued when the epoch has gone by, and is durable before
//!   anything is freed; or its page has been flushed, and the stored manifest trusts it before anything is freed.
//! * Nothing is written if the copies take more than a part of what they free: then pages are flushed, as ever.
//! * Copies change no record: nobody sees them, no cas token changes.
//!
//! # Thread safety
//! `Compression` is behind a lock that is only tried. It comes before all others.

use std::sync::Arc;

use terrace_index::{AnyIndex, Index};
use terrace_log::{Log, LogDevice, Oldest};

use crate::commit::Barrier;
use crate::machine::Machine;
use crate::session::Progress;
use crate::space::{Context, Space};
use crate::version::Version;

/// What is freed at once: a part of the blocks in use, and so many bytes at most, of which DRAM holds copies meanwhile.
const CHOSEN_PART: usize = 4;
const CHOSEN_BYTES: u64 = 32 << 20;
/// Copies take so small a part of what they free, and of what flushing would write to free as much.
const COPIES_PART: u64 = 4;
/// It begins once no more of the log is free for each byte in use, before pages are flushed for the log.
const FREE_PART: usize = 3;
/// Pages are flushed meanwhile if even less is free.
const FREE_LEAST_PART: usize = 8;
/// After one in vain, so large a part of the log is written before the next.
const REST_PART: u64 = 8;
/// What an entry takes beside its record.
const AROUND_BYTES: u64 = 16;

/// Records to be copied: the sequence number of a record's page, its version and where it ends.
#[derive(Default)]
pub(crate) struct Copies {
    pub entries: Vec<(u64, u64, usize)>,
    pub bytes: Vec<u8>,
}

impl Copies {
    fn add(&mut self, seq: u64, version: u64, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.entries.push((seq, version, self.bytes.len()));
    }
    fn log_bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.entries.len() as u64 * AROUND_BYTES
    }
}

/// What is under way, if anything is.
#[derive(Default)]
pub(crate) struct Compression {
    round: Option<Round>,
    /// No other begins before the log has begun so many blocks.
    rests_until: u64,
}

struct Round {
    oldest: Oldest,
    /// All that had been issued when the blocks were chosen.
    settled: Barrier,
    stage: Stage,
}

enum Stage {
    Settle,
    Walk { after: u64, copies: Copies },
    Copy(Copies),
    Leave { epoch: u64 },
    Pass { barrier: Barrier, flushed: u64 },
}

enum Turn {
    Next(Stage),
    /// Nothing can be done now.
    Wait(Stage),
    /// So many blocks were freed.
    Over(u64),
}

impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    /// Whether the log's blocks may soon be free without a flush.
    pub(crate) fn is_compressing(&self, free: usize, used: usize) -> bool {
        let under_way = || self.compression.try_lock().is_none_or(|compression| compression.round.is_some());
        S::COMPRESSES && free * FREE_LEAST_PART >= used && under_way()
    }

    /// A part of a round, or the beginning of one if the log is getting full.
    pub(crate) fn compress_step(self: &Arc<Self>) -> Progress {
        if !S::COMPRESSES {
            return Progress::Idle;
        }
        let Some(log) = self.log.keeper() else { return Progress::Idle };
        let Some(mut compression) = self.compression.try_lock() else { return Progress::Idle };
        let Some(mut round) = compression.round.take() else {
            if log.free_blocks() * FREE_PART >= log.used_blocks()
                || log.begun_blocks() < compression.rests_until
                || self.is_recovering()
            {
                return Progress::Idle;
            }
            let Some(oldest) = log.oldest(CHOSEN_PART, CHOSEN_BYTES) else { return Progress::Idle };
            // Taken after the choice: it covers all that is in the blocks.
            let settled = self.shared.commit.barrier();
            compression.round = Some(Round { oldest, settled, stage: Stage::Settle });
            return Progress::Worked;
        };
        let (stage, progress) = match self.turn(log, &round.oldest, &round.settled, round.stage) {
            Turn::Next(stage) => (stage, Progress::Worked),
            Turn::Wait(stage) => (stage, Progress::Blocked),
            Turn::Over(freed) => {
                if freed == 0 {
                    let all = (log.free_blocks() + log.used_blocks()) as u64;
                    compression.rests_until = log.begun_blocks() + (all / REST_PART).max(1);
                }
                return Progress::Worked;
            }
        };
        round.stage = stage;
        compression.round = Some(round);
        progress
    }

    /// Bytes of copies that it is worth to free these blocks for. Once all pages of now are flushed, all of the log is free: that
    /// is the price of it.
    fn copies_most(&self, log: &Log<D>, oldest: &Oldest) -> u64 {
        let flushed = u128::from(oldest.bytes) * u128::from(self.space.unflushed_bytes());
        let flushed = (flushed / u128::from(log.used_bytes().max(1))) as u64;
        flushed.min(oldest.bytes) / COPIES_PART
    }

    fn turn(self: &Arc<Self>, log: &Log<D>, oldest: &Oldest, settled: &Barrier, stage: Stage) -> Turn {
        match stage {
            Stage::Settle if !self.barrier_passed(settled) => Turn::Wait(stage),
            Stage::Settle => Turn::Next(Stage::Walk { after: 0, copies: Copies::default() }),
            Stage::Walk { after, mut copies } => {
                let is_old = |version: u64| {
                    let position = settled.positions().get(Version(version).slot());
                    version <= oldest.upto && position.is_none_or(|&position| version <= position)
                };
                let most = self.copies_most(log, oldest);
                let index = AnyIndex::of(&self.index);
                let next =
                    self.space.walk_unflushed(index, &**self, after, &is_old, &mut |seq, version, record| {
                        // What comes after the bound is of no use any more.
                        if copies.log_bytes() <= most {
                            copies.add(seq, version, record);
                        }
                    });
                match next {
                    _ if copies.log_bytes() > most => Turn::Over(0),
                    Some(same) if same == after => Turn::Wait(Stage::Walk { after, copies }),
                    Some(after) => Turn::Next(Stage::Walk { after, copies }),
                    None => Turn::Next(Stage::Copy(copies)),
                }
            }
            Stage::Copy(copies) => {
                let mut written = None;
                self.with_background(|core| {
                    written = Some(core.log_copies(&copies, oldest.upto));
                    Progress::Worked
                });
                match written {
                    None => Turn::Wait(Stage::Copy(copies)),
                    Some(false) => Turn::Over(0),
                    Some(true) => Turn::Next(Stage::Leave { epoch: self.shared.epochs.advance() }),
                }
            }
            // What the walk saw in the place of a record, its writer may not have issued before it leaves.
            Stage::Leave { epoch } if !self.shared.epochs.passed(epoch) => Turn::Wait(stage),
            Stage::Leave { .. } => {
                let (barrier, flushed) = (self.shared.commit.barrier(), self.space.sealed_seq());
                Turn::Next(Stage::Pass { barrier, flushed })
            }
            Stage::Pass { barrier, flushed } => {
                // Pages that were flushed before the walk came to them must be trusted.
                if !self.barrier_passed(&barrier) || !self.trusts(flushed) {
                    return Turn::Wait(Stage::Pass { barrier, flushed });
                }
                let before = log.superseded_blocks();
                log.supersede(oldest);
                self.free_log(log);
                Turn::Over(log.superseded_blocks() - before)
            }
        }
    }
}
