//! Power cuts on the real server: `cargo xtask torture --help`.
//!
//! ```text
//!   clients (threads, both protocols) ----> torture-server: the real server, threads, sockets, recovery
//!      |  what was acknowledged                |  maps or writes          |  fences, syncs
//!      |                                       v                          v
//!      |                                    the store's files          their shadows
//!      |                                       '--- SIGKILL, merge -------'
//!      |                                                |
//!      '--> check <-- start <-- (SIGKILL in recovery) <-- image
//! ```
//!
//! The server runs on media that do everything twice (`media_sim::shadow`): once in the file that it maps or writes, and,
//! of what a fence or a sync made durable, in a second file. When it is cut off, each aligned word (on block media each
//! sector) in which the two differ is taken from either, by seed; it starts again on that image, and must answer as it
//! promised. The cuts come under load, in recovery, in mid-flush, in an orderly stop and while a store is made: by SIGKILL
//! at a random time, or by the media themselves at a chosen fence or sync, where a kill from outside would rarely fall.
//!
//! Under `sync` everything acknowledged must be there. Under `batch:MS` what was lost may be no older than the window, and
//! what is left must be a past: `terrace_testkit::load` says what that is. In every mode: no value torn or never written, no
//! deleted or replaced one back, atomic writes whole, shared keys linearizable, `DBSIZE` right, and now and then the
//! offline check finds no damage. Two of three stores give keys a time to live, and nothing may take of it: their machine
//! starts anew at each cut, or somebody sets its wall clock all the time.
//!
//! A seed fixes loads, sizes, moments and choices; threads and timing are real, so that a failure may take several runs to
//! come back. Its directory is kept, with the image that recovery started from.

mod child;
mod clock;
pub(crate) mod cut;
mod life;
mod media;
mod plan;
mod server;
mod tally;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use terrace_engine::Durability;
use terrace_media_sim::shadow::Sabotage;
use terrace_testkit::sweep::MediaKind;

use crate::subjects;
use life::{Life, Places, Setting};
use tally::Totals;

pub use child::{Arguments as ServerArguments, run as run_server};

/// Characters of what [`find`] says.
const WORDS_MAX: usize = 300;
/// Cuts that a store goes through before the next one is made.
const LIFE: u64 = 25;

/// Cuts the power of the real server, and compares what is left with what was acknowledged.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine, or `heap-object`: engine heap-hybrid with `--heap object`.
    #[arg(long, default_value = "hetermm")]
    engine: String,
    /// Power cuts in all.
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// The kind of media: byte, block, tiered (both together), or all that the engine takes.
    #[arg(long, default_value = "all")]
    media: String,
    /// The promises that are checked: sync or batch:MS; several are taken in turn.
    #[arg(long, default_values = ["sync", "batch:20"])]
    durability: Vec<Durability>,
    /// The first store's seed; the others follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stores at a time.
    #[arg(long, default_value_t = 3)]
    jobs: usize,
    /// Cuts that a store goes through before the next one is made.
    #[arg(long, default_value_t = LIFE)]
    life: u64,
    /// Stop after so many stores that failed.
    #[arg(long, default_value_t = 1)]
    failures: u64,
    /// A directory on an ordinary file system for block media.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A directory in memory for shadows and for what stands in for byte-addressable media.
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// Leave out one flush, fence or sync in N (`flush:N`, `fence:N`, `sync:N`): then this must fail.
    #[arg(long)]
    sabotage: Option<Sabotage>,
}

/// Runs the command.
///
/// # Errors
/// If the engine is unknown, or there is no place for the files.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subject = subjects::by_name(&arguments.engine).map_err(anyhow::Error::msg)?;
    let mut media = match arguments.media.as_str() {
        "all" => vec![MediaKind::Byte, MediaKind::Block, MediaKind::Tiered],
        one => vec![one.parse().map_err(anyhow::Error::msg)?],
    };
    media.retain(|kind| subject.takes(*kind));
    anyhow::ensure!(!media.is_empty(), "engine {} takes no such media", arguments.engine);
    anyhow::ensure!(
        !arguments.durability.contains(&Durability::None),
        "--durability none promises nothing about power loss"
    );
    let settings: Vec<Setting> = (arguments.durability.iter())
        .flat_map(|durability| media.iter().map(move |media| (*durability, *media)))
        .map(|(durability, media)| Setting {
            engine: arguments.engine.clone(),
            media,
            durability,
            sabotage: arguments.sabotage.as_ref().map(ToString::to_string),
        })
        .collect();
    let bar = ProgressBar::new(arguments.rounds);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} power cuts, {msg}, {eta} left")?);
    let totals = Totals::default();
    let show = || {
        bar.set_position(totals.cuts());
        bar.set_message(format!("{} failures", totals.failures()));
    };
    let failed = |failure: Failure<'_>| bar.suspend(|| println!("{failure}"));
    torment(arguments, &settings, &totals, &show, &failed);
    bar.finish_and_clear();
    let modes: Vec<_> = arguments.durability.iter().map(ToString::to_string).collect();
    println!("{}, {} media, durability {}: {totals}", arguments.engine, arguments.media, modes.join(" and "));
    Ok(if totals.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Cuts the power of one kind of store `rounds` times, until something is wrong: what, if anything, and what was done. Nothing
/// is kept of a failure.
///
/// # Errors
/// If there is no place for the files.
pub fn find(
    engine: &str,
    media: MediaKind,
    durability: Durability,
    rounds: u64,
    seed: u64,
) -> anyhow::Result<(Option<String>, String)> {
    let disk = tempfile::tempdir()?;
    let memory = tempfile::tempdir_in("/dev/shm").context("making a directory in memory")?;
    let arguments = Arguments {
        engine: engine.into(),
        rounds,
        media: media.to_string(),
        durability: vec![durability],
        seed,
        jobs: 1,
        life: LIFE,
        failures: 1,
        dir: Some(disk.path().into()),
        memory: memory.path().into(),
        sabotage: None,
    };
    let setting = Setting { engine: arguments.engine.clone(), media, durability, sabotage: None };
    let (totals, wrong) = (Totals::default(), Mutex::new(None));
    let failed = |failure: Failure<'_>| {
        if let Ok(mut wrong) = wrong.lock() {
            // The server's own words stand behind the first line.
            let words = failure.error.root_cause().to_string();
            let words: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            *wrong = Some(words.join(" ").chars().take(WORDS_MAX).collect());
        }
    };
    torment(&arguments, &[setting], &totals, &|| {}, &failed);
    let tried = format!("{} power cuts", totals.cuts());
    Ok((wrong.into_inner().unwrap_or_else(|poison| poison.into_inner()), tried))
}

/// What was wrong with a store, and which it was.
struct Failure<'a> {
    error: anyhow::Error,
    setting: &'a Setting,
    seed: u64,
    cuts: u64,
}

impl std::fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { error, setting, seed, cuts } = self;
        write!(
            f,
            "{error:#}\n  again: cargo xtask torture --engine {} --media {} --durability {} --seed {seed} --rounds {cuts} \
             --life {cuts} --jobs 1{}",
            setting.engine,
            setting.media,
            setting.durability,
            setting.sabotage.as_ref().map_or(String::new(), |what| format!(" --sabotage {what}"))
        )
    }
}

/// Lives, several at a time, until the rounds are over or too many failed.
fn torment(
    arguments: &Arguments,
    settings: &[Setting],
    totals: &Totals,
    show: &(dyn Fn() + Sync),
    failed: &(dyn Fn(Failure<'_>) + Sync),
) {
    // Lives are as many as are needed for each setting to get its share.
    let life = arguments.life.min(arguments.rounds.div_ceil(settings.len() as u64)).max(1);
    let lives = arguments.rounds.div_ceil(life);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    if i >= lives || totals.failures() >= arguments.failures {
                        break;
                    }
                    let setting = &settings[i as usize % settings.len()];
                    let cuts = life.min(arguments.rounds - i * life);
                    let seed = arguments.seed.wrapping_add(i);
                    if let Err(error) = live(arguments, setting, seed, cuts, totals, show) {
                        totals.failed();
                        failed(Failure { error, setting, seed, cuts });
                    }
                }
            });
        }
    });
}

/// One store's life; its directories stay if it failed.
fn live(
    arguments: &Arguments,
    setting: &Setting,
    seed: u64,
    cuts: u64,
    totals: &Totals,
    show: &(dyn Fn() + Sync),
) -> anyhow::Result<()> {
    let disk = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let memory = arguments.memory.clone();
    let base = match setting.media {
        MediaKind::Byte => memory.clone(),
        MediaKind::Block | MediaKind::Tiered => disk,
    };
    let temporary = |base: &Path| {
        tempfile::Builder::new()
            .prefix("terrace-torture-")
            .tempdir_in(base)
            .with_context(|| format!("making a directory in {}", base.display()))
    };
    let (store, copies) = (temporary(&base)?, temporary(&memory)?);
    let places = Places {
        dir: store.path().join("store"),
        memory: copies.path().join("memory"),
        shadows: copies.path().join("shadows"),
        images: copies.path().join("images"),
        output: store.path().into(),
    };
    for dir in [&places.dir, &places.memory, &places.shadows, &places.images] {
        std::fs::create_dir(dir)?;
    }
    let lived = Life::new(setting, &places, seed).run(cuts, &totals.tally(show));
    lived.map_err(|failure| {
        let (store, copies) = (store.keep(), copies.keep());
        failure.context(format!(
            "{} media, durability {}, seed {seed}: kept {} and {}",
            setting.media,
            setting.durability,
            store.display(),
            copies.display()
        ))
    })
}
