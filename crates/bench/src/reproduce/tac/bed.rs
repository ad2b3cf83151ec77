//! A store of three tiers under a trace.
//!
//! ```text
//!   load N records --> warm accesses --> measured accesses --> the hot set moves --> until DRAM's hits are back
//!                                        hits by tier, moves,                        windows of N / 20
//!                                        reads and writes, time
//! ```
//!
//! What is *counted* has one client, which waits for each answer and lets background work be done in between, in a store in
//! memory whose clock the accesses move ([`memory`](super::memory)): a run gives the same anywhere. DRAM keeps slots free; what the
//! tiers held is counted, therefore, and the simulator is given as much. The accesses are those that the trace simulator draws.
//!
//! What is *timed* has one client with batches, one background thread, emulated PMem and the SSD under temporary files.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Progress, Reply, Session, Stats, Store};
use terrace::{OpenStore, Options, Place, Tier};
use terrace_space_slab::Choices;

use super::super::{Settings, shared_memory};
use super::memory::{self, InMemory};
use crate::Distribution;
use crate::content::Content;
use crate::trace::Shares;
use crate::trace::accesses::{AccessTo, Trace};

/// Bytes of a key and of a value: with its head such a record fills four granules of PMem.
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 952;
/// What a record takes in DRAM and in PMem, about; what was held is counted.
const IN_DRAM: f64 = 1040.0;
const IN_PMEM: f64 = 1024.0;
/// DRAM that a store on media has at least, and some more.
const DRAM_MIN: f64 = 2.4e6;
/// Of the memory so much is its log; and an SSD has room for all that data and for as much again.
const LOG_SHARE: f64 = 0.25;
const SSD_DATA: f64 = 3.0;
/// Accesses between two times that background work is done.
const ACCESSES_A_TURN: usize = 8;
/// Background steps at such a time, at most.
const STEPS_A_TURN: usize = 8;
/// After the hot set has moved it is looked so often in N accesses.
const WINDOWS: usize = 20;
/// Accesses that are timed together.
const BATCH: usize = 16;
/// The device that is emulated where time counts.
pub(super) const PROFILE: &str = "optane-200";

/// How a store is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drive {
    /// One access after the other, background work in between; all in memory.
    Counted,
    /// Batches, background work on a thread of its own; PMem is emulated.
    Timed,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub drive: Drive,
    pub choices: Choices,
    pub distribution: Distribution,
    pub records: u32,
    pub shares: Shares,
    pub sets_percent: f64,
    /// Lengths in numbers of records, as of [`trace::Options`](crate::trace::Options).
    pub warm: f64,
    pub measured: f64,
    pub shifted: f64,
    pub seed: u64,
    /// Where it is timed.
    pub background_threads: usize,
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Percent of gets.
    pub dram_hits: f64,
    pub pmem_hits: f64,
    /// Records that changed tiers, an access.
    pub moves: f64,
    /// Records that came up with a buf, an access.
    pub along: f64,
    /// Reads of the SSD, bytes read from it, and bytes written to PMem (its log, too) and SSD, an access.
    pub ssd_reads: f64,
    pub ssd_read: f64,
    pub pmem_written: f64,
    pub ssd_written: f64,
    /// Accesses a second.
    pub rate: f64,
    /// Background steps that found another one under way, and waits for one to land a page, an access.
    pub steps_refused: f64,
    pub landings_delayed: f64,
    /// Background steps of another partition beside one, and slots that a session took from another one than its own, an access.
    pub steps_aside: f64,
    pub slots_stolen: f64,
    /// The time of those waits, percent of all.
    pub waited: f64,
    /// What the tiers held when the measured accesses began, as shares of all records.
    pub held: Shares,
    /// Of PMem's records, in percent, those that are homes of records in DRAM: copies of what is there.
    pub lent: f64,
    /// Accesses, in numbers of records, until DRAM's hits were back at 95% after the hot set moved.
    pub back_after: Option<f64>,
}

/// So many records, scaled.
///
/// # Errors
/// Why no store of them can be made here.
pub(super) fn records(
    settings: &Settings,
    at_scale_1: u32,
    (drive, shares): (Drive, Shares),
) -> Result<u32, String> {
    let records = settings.records(at_scale_1);
    let least = match drive {
        Drive::Counted => memory::DRAM_MIN as f64,
        Drive::Timed => DRAM_MIN,
    } / IN_DRAM
        / (shares.dram / 100.0);
    if f64::from(records) < least {
        let scale = (100.0 * least / f64::from(at_scale_1)).ceil() / 100.0;
        return Err(format!(
            "not measured: of {records} records DRAM's share is less than a store has at least; use --scale {scale}"
        ));
    }
    if let Some(reason) = shared_memory::missing().filter(|_| drive == Drive::Timed) {
        return Err(format!("not measured: {reason}"));
    }
    Ok(records)
}

/// Where a store is.
enum Home {
    Memory(InMemory),
    Media(OpenStore, [TempDir; 2]),
}

impl Home {
    fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(memory) => memory.store(),
            Self::Media(store, _) => &**store,
        }
    }
    fn new(plan: &Plan) -> anyhow::Result<Self> {
        let of = |share: f64, bytes: f64| share / 100.0 * f64::from(plan.records) * bytes;
        let dram = of(plan.shares.dram, IN_DRAM) as u64;
        let (pmem, ssd) = (of(plan.shares.pmem, IN_PMEM), of(100.0, IN_PMEM) * SSD_DATA);
        if plan.drive == Drive::Counted {
            let sizes = [dram, pmem as u64, ssd as u64];
            return Ok(Self::Memory(InMemory::new(plan.choices, sizes, plan.records, plan.seed)?));
        }
        let dir = |within: &Path| {
            let made = tempfile::Builder::new().prefix("terrace-reproduce-").tempdir_in(within);
            made.with_context(|| format!("can't make a directory in {}", within.display()))
        };
        let dirs = [dir(&std::env::temp_dir())?, dir(Path::new(shared_memory::PATH))?];
        let place: PathBuf = dirs[1].path().to_owned();
        let Choices { placement, eviction, swap, partitions } = plan.choices;
        let whole = |bytes: f64| bytes as u64 / 4096 * 4096;
        let store = terrace::open(Options {
            engine: "tac".into(),
            placement: Some(placement),
            policy: Some(eviction),
            swap: Some(swap),
            partitions: (partitions > 0).then_some(partitions),
            dir: Some(dirs[0].path().join("store")),
            dram_records: Some(dram),
            pmem: Some(Tier { bytes: whole(pmem / (1.0 - LOG_SHARE)), place: Some(Place::Path(place)) }),
            ssd: Some(Tier { bytes: whole(ssd), place: None }),
            profile: Some(PROFILE.into()),
            durability: Durability::default(),
            background_threads: plan.background_threads,
            ..Options::default()
        })?;
        Ok(Self::Media(store, dirs))
    }
}

struct Bed {
    home: Home,
    session: Box<dyn Session>,
    content: Content,
    drive: Drive,
    batch: Batch,
    pushed: Vec<AccessTo>,
    key: Vec<u8>,
    value: Vec<u8>,
    turns: usize,
}

impl Bed {
    fn new(plan: &Plan) -> anyhow::Result<Self> {
        let home = Home::new(plan)?;
        Ok(Self {
            session: home.store().session()?,
            home,
            content: Content::new(KEY_BYTES, VALUE_BYTES, false, plan.seed),
            drive: plan.drive,
            batch: Batch::new(),
            pushed: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            turns: 0,
        })
    }

    fn push(&mut self, access: AccessTo) {
        let record = u64::from(access.record);
        self.content.key(record, &mut self.key);
        let kind = if access.is_set {
            let nonce = (self.turns * BATCH + self.pushed.len()) as u64;
            self.content.value(record, nonce, &mut self.value);
            let value = self.batch.bytes(&self.value);
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false }
        } else {
            OpKind::Get { value: true }
        };
        self.batch.push(0, &self.key, kind);
        self.pushed.push(access);
    }

    /// Has the batch executed, and each answer looked at.
    fn answer(&mut self) -> anyhow::Result<()> {
        self.session.execute(&mut self.batch);
        let settled = self.session.wait(&mut self.batch);
        for (number, access) in self.pushed.iter().enumerate() {
            match self.batch.reply(number, &settled) {
                Reply::Stored { .. } if access.is_set => {}
                Reply::Hit { value: Some(value), .. }
                    if self.content.is_value(u64::from(access.record), self.batch.output(value)) => {}
                other => bail!("record {} was answered by {other:?}", access.record),
            }
        }
        self.batch.clear();
        self.pushed.clear();
        self.turns += 1;
        Ok(())
    }

    fn all(&mut self, accesses: impl Iterator<Item = AccessTo>) -> anyhow::Result<()> {
        let batch = if self.drive == Drive::Timed { BATCH } else { 1 };
        for access in accesses {
            self.push(access);
            if self.pushed.len() >= batch {
                self.answer()?;
                self.help();
            }
        }
        if self.pushed.is_empty() { Ok(()) } else { self.answer() }
    }

    /// Background work, where no thread does it.
    fn help(&mut self) {
        let Home::Memory(memory) = &self.home else { return };
        memory.pass(1);
        if self.turns.is_multiple_of(ACCESSES_A_TURN) {
            let mut steps = 0..STEPS_A_TURN;
            while steps.next().is_some() && memory.store().step() == Progress::Worked {}
        }
    }
}

/// Gets answered so far: in all, and by DRAM and PMem.
#[derive(Clone, Copy)]
struct Hits([u64; 3]);

impl Hits {
    fn of(stats: &Stats) -> Self {
        let tier = |name| stats.tiers.iter().find(|tier| tier.tier == name).map_or(0, |tier| tier.hits);
        Self([stats.tiers.iter().map(|tier| tier.hits).sum(), tier("dram"), tier("pmem")])
    }
    /// Percent of the gets since then that a tier answered.
    fn percent(self, since: Self, tier: usize) -> f64 {
        100.0 * (self.0[tier] - since.0[tier]) as f64 / (self.0[0] - since.0[0]).max(1) as f64
    }
}

fn moves(stats: &Stats) -> u64 {
    const MOVES: [&str; 5] = [
        "records_promoted",
        "records_from_ssd_to_pmem",
        "records_evicted",
        "records_evicted_clean",
        "records_from_pmem_to_ssd",
    ];
    let counted = stats.engine_details.iter().filter(|(name, _)| MOVES.contains(name));
    counted.map(|(_, count)| count).sum()
}

fn detail(stats: &Stats, name: &str) -> u64 {
    stats.engine_details.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
}

/// Runs it.
///
/// # Errors
/// If the store can't be opened, or answers what it should not.
pub(super) fn run(plan: &Plan) -> anyhow::Result<Counted> {
    let records = plan.records;
    let lengths = |lengths: f64| (lengths * f64::from(records)) as usize;
    let (warm, steady) = (lengths(plan.warm), lengths(plan.warm) + lengths(plan.measured));
    let trace =
        Trace::draw(plan.distribution, records, plan.sets_percent, steady, lengths(plan.shifted), plan.seed);
    let mut bed = Bed::new(plan)?;
    bed.all((0..records).map(|record| AccessTo { record, is_set: true }))?;
    bed.all(trace.iter().take(warm))?;
    let before = bed.home.store().stats();
    let start = Instant::now();
    bed.all(trace.iter().take(steady).skip(warm))?;
    let took = start.elapsed();
    let after = bed.home.store().stats();
    let (from, to) = (Hits::of(&before), Hits::of(&after));
    ensure!(to.0[0] > from.0[0], "no get was counted");
    let held = |name: &str| {
        let tier = before.tiers.iter().find(|tier| tier.tier == name);
        100.0 * tier.map_or(0, |tier| tier.records) as f64 / f64::from(records)
    };
    let accesses = (steady - warm).max(1) as f64;
    let media = |name: &str| {
        let of = |stats: &Stats| stats.tiers.iter().find(|tier| tier.tier == name).map(|tier| tier.media);
        of(&after).zip(of(&before)).map(|(after, before)| after - before).unwrap_or_default()
    };
    let told = |name: &str| (detail(&after, name) - detail(&before, name)) as f64 / accesses;
    let mut counted = Counted {
        dram_hits: to.percent(from, 1),
        pmem_hits: to.percent(from, 2),
        moves: (moves(&after) - moves(&before)) as f64 / accesses,
        along: told("records_fetched_along"),
        ssd_reads: media("ssd").reads as f64 / accesses,
        ssd_read: media("ssd").read_bytes as f64 / accesses,
        pmem_written: media("pmem").write_bytes as f64 / accesses,
        ssd_written: media("ssd").write_bytes as f64 / accesses,
        rate: accesses / took.as_secs_f64(),
        steps_refused: told("steps_refused"),
        landings_delayed: told("landings_delayed"),
        steps_aside: told("steps_aside"),
        slots_stolen: told("slots_stolen"),
        waited: told("landings_delayed_us") * accesses / took.as_micros().max(1) as f64 * 100.0,
        held: Shares { dram: held("dram"), pmem: held("pmem") },
        lent: {
            let slots = before.tiers.iter().find(|tier| tier.tier == "pmem").map_or(0, |tier| tier.records);
            100.0 * detail(&before, "pmem_slots_lent") as f64 / slots.max(1) as f64
        },
        back_after: None,
    };
    let window = (records as usize / WINDOWS).max(1);
    let mut last = to;
    let mut shifted = trace.iter().skip(steady);
    for number in 1.. {
        if shifted.len() < window {
            break;
        }
        bed.all(shifted.by_ref().take(window))?;
        let now = Hits::of(&bed.home.store().stats());
        if now.percent(last, 1) >= 0.95 * counted.dram_hits {
            counted.back_after = Some((number * window) as f64 / f64::from(records));
            break;
        }
        last = now;
    }
    let Bed { home, session, .. } = bed;
    drop(session);
    if let Home::Media(store, _dirs) = home {
        store.kill();
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use terrace::{Placement, Swap};

    use super::*;

    #[test]
    fn a_trace_is_counted_tier_by_tier_and_the_same_the_second_time() {
        let settings = Settings { scale: 1.0, runs: 1, seed: 1, threads: 1 };
        let shares = Shares { dram: 8.0, pmem: 64.0 };
        let error = records(&settings, 1000, (Drive::Counted, shares)).unwrap_err();
        assert!(error.contains("--scale 1.97"), "{error}");
        let run = |choices: Choices| {
            let (drive, distribution) = (Drive::Counted, Distribution::Ycsb);
            let (warm, measured, shifted) = (1.0, 1.0, 0.0);
            let (records, sets_percent, seed) = (6000, 5.0, 1);
            let plan = Plan {
                drive,
                choices,
                distribution,
                records,
                shares,
                sets_percent,
                warm,
                measured,
                shifted,
                seed,
                background_threads: 0,
            };
            run(&plan).unwrap()
        };
        let (tac, anti_2, buf) =
            (run(Placement::Tac.into()), run(Placement::Anti2.into()), run(Swap::Buf.into()));
        for counted in [tac, anti_2, buf] {
            assert!((5.0..9.0).contains(&counted.held.dram), "{counted:?}");
            assert!((50.0..66.0).contains(&counted.held.pmem), "{counted:?}");
            assert!(counted.pmem_hits > 20.0 && counted.ssd_reads > 0.02, "{counted:?}");
        }
        assert!(tac.dram_hits > 2.0 * anti_2.dram_hits, "{tac:?} {anti_2:?}");
        let a_read = |counted: Counted| counted.ssd_read / counted.ssd_reads;
        assert!(a_read(buf) > 2.5 * a_read(tac), "{buf:?} {tac:?}");
        assert_eq!(
            format!("{:?}", Counted { rate: tac.rate, ..run(Placement::Tac.into()) }),
            format!("{tac:?}")
        );
    }
}
