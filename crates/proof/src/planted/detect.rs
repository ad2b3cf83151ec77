//! The detectors, each in a process of its own: `terrace-proof planted-detector` of the copy runs one of them.
//!
//! | name | what it does |
//! |---|---|
//! | `sweep MEDIA MODE` | the crash sweep, with kills and clean stops without any crash in it |
//! | `log MEDIA` | crashes of the log alone, with dependencies between sessions and openings that go on |
//! | `damage MEDIA` | bytes of a stored image flipped, one at a time |
//! | `damage superblock` | the same for a superblock |
//! | `sick block` | a device whose writes and syncs begin to fail |
//! | `litmus NAME` | a short script for one rule, crashed everywhere: see `litmus` |
//! | `torture MEDIA MODE` | power cuts on the real server, which has the bug: each history is a cut |
//! | `test CRATE TARGET NAME` | a test of the product, see `product_test` |
//! | `schedules CRATE TARGET NAME` | a test of the product that explores schedules, likewise |
//! | `space MEDIA` | a small set of keys written again and again, with restarts: the store never fills up |
//!
//! Behind the first word of `sweep`, `damage`, `sick`, `litmus`, `torture` and `space` an engine may stand; without one it is the first.

use std::process::ExitCode;

use anyhow::{Context, bail};
use terrace_engine::Durability;
use terrace_testkit::sweep::without::Crashes;
use terrace_testkit::sweep::{MediaKind, Subject, SweepOptions, sweep};

use super::{directed, litmus};
use crate::sites::log_bench;
use crate::subjects::{self, SUBJECTS};
use crate::torture;

/// Runs one detector of planted bugs. Exits with failure if it finds something, and says what in its last two lines.
#[derive(Clone, Debug, clap::Args)]
pub struct DetectArguments {
    /// Its name and what it runs on.
    #[arg(long)]
    detector: String,
    /// Histories at most.
    #[arg(long)]
    histories: u64,
    /// The first one's seed.
    #[arg(long)]
    seed: u64,
}

/// What was found, if anything, and how much was tried.
pub(super) struct Finding {
    pub wrong: Option<String>,
    pub tried: String,
}

const IMAGES_A_HISTORY: u64 = 100;

/// Runs the command.
///
/// # Errors
/// If there is no such detector.
pub fn detect(arguments: &DetectArguments) -> anyhow::Result<ExitCode> {
    let mut words: Vec<&str> = arguments.detector.split(' ').collect();
    let media = |word: &str| word.parse::<MediaKind>().map_err(anyhow::Error::msg);
    let named = words.get(1).and_then(|word| subjects::named(word).ok());
    let (engine, subject) = named.unwrap_or(SUBJECTS[0]);
    if named.is_some() {
        words.remove(1);
    }
    let finding = match words.as_slice() {
        ["sweep", kind, mode] => {
            let mode = mode.parse::<Durability>().map_err(anyhow::Error::msg)?;
            crash_sweep(subject, media(kind)?, mode, arguments)?
        }
        ["torture", kind, mode] => {
            let mode = mode.parse::<Durability>().map_err(anyhow::Error::msg)?;
            let (wrong, tried) =
                torture::find(engine, media(kind)?, mode, arguments.histories, arguments.seed)?;
            Finding { wrong, tried }
        }
        ["litmus", name] => litmus::run(subject, name)?,
        ["log", kind] => log_crashes(media(kind)?, arguments),
        ["damage", "superblock"] => directed::damaged_superblock(),
        ["damage", kind] => directed::damage(subject, media(kind)?)?,
        ["sick", "block"] => directed::sick(subject)?,
        ["space", kind] => directed::space(subject, media(kind)?)?,
        _ => bail!("no detector {:?}", arguments.detector),
    };
    let Some(wrong) = finding.wrong else {
        println!("{}", finding.tried);
        return Ok(ExitCode::SUCCESS);
    };
    println!("{}", wrong.lines().next().context("a finding without words")?);
    println!("{}", finding.tried);
    Ok(ExitCode::FAILURE)
}

fn crash_sweep(
    subject: &(dyn Subject + Sync),
    media: MediaKind,
    durability: Durability,
    arguments: &DetectArguments,
) -> anyhow::Result<Finding> {
    let options = SweepOptions {
        media,
        durability,
        histories: arguments.histories,
        images: arguments.histories * IMAGES_A_HISTORY,
        seed: arguments.seed,
        threads: 1,
        reduce: false,
        failures_max: 1,
    };
    let tried = |images, histories| format!("{images} images of {histories} histories");
    Ok(match sweep(subject, &options, &|_| {}) {
        Ok(summary) => Finding {
            wrong: summary.failures.first().map(|failure| failure.error.clone()),
            tried: tried(summary.images(), summary.histories()),
        },
        Err(error) => Finding { wrong: Some(format!("making a store: {error}")), tried: tried(0, 0) },
    })
}

fn log_crashes(media: MediaKind, arguments: &DetectArguments) -> Finding {
    let mut images = 0;
    for seed in arguments.seed..arguments.seed + arguments.histories {
        let tried = |images| format!("{images} images of {} histories", seed - arguments.seed + 1);
        let histories = match log_bench::record(media, seed, 4) {
            Ok(histories) => histories,
            Err(wrong) => return Finding { wrong: Some(wrong), tried: tried(images) },
        };
        for history in histories {
            let crashes = Crashes { without: None, near: None, images: IMAGES_A_HISTORY, seed };
            let outcome = history.crash(crashes);
            images += outcome.images;
            if outcome.wrong.is_some() {
                return Finding { wrong: outcome.wrong, tried: tried(images) };
            }
        }
    }
    Finding { wrong: None, tried: format!("{images} images") }
}
