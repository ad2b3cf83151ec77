//! Runs histories on one medium in one mode and crashes each without each site that nobody has caught yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{anyhow, bail};
use terrace_engine::Durability;
use terrace_media_sim::{SiteId, SiteKind, Trace};
use terrace_testkit::sweep::without::{Bench, Crashes, History, Outcome};
use terrace_testkit::sweep::{MediaKind, SweepOptions};

use super::census::Call;
use super::log_again::{self, LogAgain};
use super::log_bench::{self, LogHistory};
use super::reasons::{REASONS, Reason};
use super::space_again::{self, SpaceAgain};
use crate::subjects;

/// A medium, and whole stores in a mode, or the log alone.
pub type Setting = (MediaKind, Option<Durability>);

/// Where sites are looked for. The log alone is first on each medium: its histories are the shortest, and what they catch
/// is looked for only a little in those of whole stores.
pub(super) const SETTINGS: [Setting; 11] = [
    (MediaKind::Byte, None),
    (MediaKind::Byte, Some(Durability::Sync)),
    (MediaKind::Byte, Some(Durability::Batch(Duration::from_millis(100)))),
    (MediaKind::Byte, Some(Durability::None)),
    (MediaKind::Block, None),
    (MediaKind::Block, Some(Durability::Sync)),
    (MediaKind::Block, Some(Durability::Batch(Duration::from_millis(100)))),
    (MediaKind::Block, Some(Durability::None)),
    (MediaKind::Tiered, Some(Durability::Sync)),
    (MediaKind::Tiered, Some(Durability::Batch(Duration::from_millis(100)))),
    (MediaKind::Tiered, Some(Durability::None)),
];

/// Where sites are looked for that stores have only whose tiers change their sizes.
pub(super) const RESIZED: [Setting; 6] = [
    (MediaKind::Byte, Some(Durability::Sync)),
    (MediaKind::Byte, Some(Durability::None)),
    (MediaKind::Block, Some(Durability::Sync)),
    (MediaKind::Block, Some(Durability::None)),
    (MediaKind::Tiered, Some(Durability::Sync)),
    (MediaKind::Tiered, Some(Durability::None)),
];

/// Files and functions whose sites these are. Records of a heap move in others, too, but seldom; and in a store that was just
/// made, headers of pages are read and made safe once more before anything is kept there.
const RESIZING: [&str; 6] = [
    "blocks/size.rs ",
    "pmem-slots/grow.rs ",
    "pmem-slots/medium.rs resize ",
    "space-heap/resize.rs ",
    "space-heap/background.rs move_record ",
    "space-heap/format.rs blank ",
];

/// Whether a site is one of those.
pub(super) fn needs_resizing(name: &str) -> bool {
    RESIZING.iter().any(|place| name.starts_with(place))
}

/// A setting's mode, for people.
pub(super) fn mode(setting: Setting) -> String {
    setting.1.map_or_else(|| "the log alone".into(), |durability| durability.to_string())
}

/// A history of either kind.
enum Recorded<'a, 'b> {
    Store(&'a Bench<'b>, History),
    Log(LogHistory),
    Again(LogAgain),
    Space(SpaceAgain),
}

impl Recorded<'_, '_> {
    fn trace(&self) -> &Trace {
        match self {
            Self::Store(_, history) => history.trace(),
            Self::Log(history) => history.trace(),
            Self::Again(history) => history.trace(),
            Self::Space(history) => history.trace(),
        }
    }
    fn crash(&self, crashes: Crashes) -> Outcome {
        match self {
            Self::Store(bench, history) => bench.crash(history, crashes),
            Self::Log(history) => history.crash(crashes),
            Self::Again(history) => history.crash(crashes),
            Self::Space(history) => history.crash(crashes),
        }
    }
}

/// Histories that are run even if all sites found so far are caught: others may appear.
const HISTORIES_MIN: u64 = 24;
/// Histories without a site that has a reason.
const HISTORIES_EXPLAINED: u64 = 8;
/// Histories without a site that was caught on the same media in another mode.
const HISTORIES_KNOWN: u64 = 2;
/// Histories that begin with the recovery from a crash, of each, and as many that begin with the death of the process.
const SECOND: usize = 4;
/// Images of one history near a site's executions, and anywhere.
const NEAR_IMAGES: u64 = 400;
const FAR_IMAGES: u64 = 100;

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The first history's seed.
    pub seed: u64,
    /// Histories at most.
    pub histories: u64,
    /// Steps of a history that begins with a recovery.
    pub second_steps: usize,
}

/// What became of one site in one setting.
#[derive(Clone, Debug)]
pub struct Row {
    /// The site's name.
    pub name: String,
    /// What it does.
    pub kind: SiteKind,
    /// Where it did it.
    pub setting: Setting,
    /// How often, in all histories up to the one that caught it.
    pub executed: u64,
    /// Images judged without it.
    pub images: u64,
    /// What the image that caught it showed.
    pub caught: Option<String>,
}

impl Row {
    /// Whether there is a reason why it need not be caught.
    fn explained(&self, engine: &str) -> bool {
        let explains = |reason: &Reason| reason.explains(&self.name, self.kind, self.setting.0);
        REASONS.iter().any(|reason| reason.is_of(engine) && explains(reason))
    }
}

/// A site's name, and what it does.
pub(super) type Key = (String, SiteKind);

struct Probe<'a> {
    engine: &'a str,
    calls: &'a [Call],
    setting: Setting,
    /// Caught on these media in another mode.
    caught: BTreeSet<Key>,
    /// On both media together: what either of them reaches alone, and shows there.
    elsewhere: BTreeSet<Key>,
    /// Only these are left out; `None`: all.
    wanted: Option<&'a BTreeSet<Key>>,
    rows: BTreeMap<Key, Row>,
}

/// Looks for the sites of tiers that change their sizes in one setting.
pub(super) fn probe_resizing(
    engine: &str,
    setting: Setting,
    effort: Effort,
    calls: &[Call],
    before: &[Row],
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Row>> {
    let kinds = [SiteKind::Write, SiteKind::Sync, SiteKind::Stream, SiteKind::Flush, SiteKind::Fence];
    let names = calls.iter().map(|call| &call.name).filter(|name| needs_resizing(name));
    let wanted = names.flat_map(|name| kinds.map(|kind| (name.clone(), kind))).collect();
    let mut rows = probe(engine, setting, effort, (calls, before, Some(&wanted)), progress)?;
    rows.retain(|row| needs_resizing(&row.name));
    Ok(rows)
}

/// Looks for every site in one setting, or for those that are `wanted`.
pub(super) fn probe(
    engine: &str,
    setting: Setting,
    effort: Effort,
    (calls, before, wanted): (&[Call], &[Row], Option<&BTreeSet<Key>>),
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Row>> {
    let (media, durability) = setting;
    let subject = subjects::by_name(engine).map_err(anyhow::Error::msg)?;
    let options = SweepOptions {
        media,
        durability: durability.unwrap_or_default(),
        histories: 1,
        images: 1,
        seed: effort.seed,
        threads: 1,
        reduce: false,
        failures_max: 1,
    };
    let bench = Bench::new(subject, &options)?;
    let known = before.iter().filter(|row| row.setting.0 == media && row.caught.is_some());
    let caught = known.map(|row| (row.name.clone(), row.kind)).collect();
    let elsewhere = before.iter().filter(|row| media == MediaKind::Tiered && row.setting.0 != media);
    let elsewhere = elsewhere.map(|row| (row.name.clone(), row.kind)).collect();
    let mut probe = Probe { engine, calls, setting, caught, elsewhere, wanted, rows: BTreeMap::new() };
    for number in 0..effort.histories {
        let seed = effort.seed + number;
        let failed = |error: String| anyhow!("{media} media, {}, seed {seed}: {error}", mode(setting));
        let histories: Vec<Recorded> = match durability {
            Some(_) => {
                let histories = bench.record(seed, SECOND, effort.second_steps).map_err(failed)?.into_iter();
                let scripted = number == 0 && media == MediaKind::Byte && subjects::has_blocks(engine);
                let again = if scripted { space_again::record().map_err(failed)? } else { Vec::new() };
                let histories = histories.map(|history| Recorded::Store(&bench, history));
                histories.chain(again.into_iter().map(Recorded::Space)).collect()
            }
            None => {
                let histories = log_bench::record(media, seed, SECOND).map_err(failed)?.into_iter();
                let again = if number == 0 { log_again::record(media).map_err(failed)? } else { Vec::new() };
                histories.map(Recorded::Log).chain(again.into_iter().map(Recorded::Again)).collect()
            }
        };
        for history in histories {
            probe.look(&history, seed, number).map_err(|error| failed(error.to_string()))?;
        }
        let open = match wanted {
            Some(wanted) => {
                wanted.iter().filter(|key| probe.rows.get(key).is_none_or(|row| row.caught.is_none())).count()
            }
            None => probe.rows.values().filter(|row| row.caught.is_none() && !probe.settled(row)).count(),
        };
        progress(&format!(
            "{media} media, {}: {} histories, {} sites, {open} not caught yet",
            mode(setting),
            number + 1,
            probe.rows.len()
        ));
        if open == 0 && (wanted.is_some() || number + 1 >= HISTORIES_MIN) {
            break;
        }
    }
    Ok(probe.rows.into_values().collect())
}

impl Probe<'_> {
    /// Whether it may be given up early.
    fn settled(&self, row: &Row) -> bool {
        row.explained(self.engine) || self.caught.contains(&(row.name.clone(), row.kind))
    }

    fn look(&mut self, history: &Recorded<'_, '_>, seed: u64, number: u64) -> anyhow::Result<()> {
        let trace = history.trace();
        for site in trace.sites() {
            let Some(key) = self.key(trace, site)? else { continue };
            if self.elsewhere.contains(&key) {
                continue;
            }
            let (setting, known) = (self.setting, self.caught.contains(&key));
            let row = self.rows.entry(key.clone()).or_insert_with(|| Row {
                name: key.0.clone(),
                kind: key.1,
                setting,
                executed: 0,
                images: 0,
                caught: None,
            });
            // What is explained is looked for a little, in case that the reason is wrong.
            let enough = if self.wanted.is_some() {
                u64::MAX
            } else if known {
                HISTORIES_KNOWN
            } else if row.explained(self.engine) {
                HISTORIES_EXPLAINED
            } else {
                u64::MAX
            };
            let asked = self.wanted.is_none_or(|wanted| wanted.contains(&key));
            if row.caught.is_some() || number >= enough || !asked {
                continue;
            }
            row.executed += trace.executions(site).len() as u64;
            for (near, images) in [(Some(site), NEAR_IMAGES), (None, FAR_IMAGES)] {
                let crashes = Crashes { without: Some(site), near, images, seed };
                let outcome = history.crash(crashes);
                row.images += outcome.images;
                let Some(wrong) = outcome.wrong else { continue };
                // With the site in its place nothing may be wrong, or the site has not been caught but something else.
                let control = history.crash(Crashes { without: None, images: images * 4, ..crashes });
                if let Some(wrong) = control.wrong {
                    bail!("with every site in its place: {wrong}");
                }
                row.caught = Some(wrong);
                break;
            }
        }
        Ok(())
    }

    /// The site's name in the census; none if the driver itself made something durable, by the log's own call for it.
    fn key(&self, trace: &Trace, site: SiteId) -> anyhow::Result<Option<Key>> {
        let (at, kind) = trace.site(site);
        if [log_bench::FILE, log_again::FILE, space_again::FILE].contains(&at.file()) {
            return Ok(None);
        }
        let same =
            |call: &&Call| call.file == at.file() && (call.line, call.column) == (at.line(), at.column());
        match self.calls.iter().find(same) {
            Some(call) => Ok(Some((call.name.clone(), kind))),
            None => bail!("{at} makes something durable, and the census of sites does not know it"),
        }
    }
}
