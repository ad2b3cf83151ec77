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
//! offline check finds no damage.
//!
//! A seed fixes loads, sizes, moments and choices; threads and timing are real, so that a failure may take several runs to
//! come back. Its directory is kept, with the image that recovery started from.

mod child;
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

/// Cuts the power of the real server, and compares what is left with what was acknowledged.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine.
    #[arg(long, default_value = "hetermm")]
    engine: String,
    /// Power cuts in all.
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// The kind of media: byte, block or all.
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
    #[arg(long, default_value_t = 25)]
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
    subjects::by_name(&arguments.engine).map_err(anyhow::Error::msg)?;
    let media = match arguments.media.as_str() {
        "all" => vec![MediaKind::Byte, MediaKind::Block],
        one => vec![one.parse().map_err(anyhow::Error::msg)?],
    };
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
    let (totals, failures) = (Totals::default(), Mutex::new(Vec::new()));
    let show = || {
        bar.set_position(totals.cuts());
        bar.set_message(format!("{} failures", totals.failures()));
    };
    // Lives are as many as are needed for each setting to get its share.
    let life = arguments.life.max(1).min(arguments.rounds.div_ceil(settings.len() as u64));
    let lives = arguments.rounds.div_ceil(life.max(1));
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
                    if let Err(failure) = live(arguments, setting, seed, cuts, &totals, &show) {
                        totals.failed();
                        let failure = format!(
                            "{failure:#}\n  again: cargo xtask torture --engine {} --media {} --durability {} --seed {seed} \
                             --rounds {cuts} --life {cuts} --jobs 1{}",
                            setting.engine,
                            setting.media,
                            setting.durability,
                            setting.sabotage.as_ref().map_or(String::new(), |what| format!(" --sabotage {what}"))
                        );
                        bar.suspend(|| println!("{failure}"));
                        if let Ok(mut failures) = failures.lock() {
                            failures.push(failure);
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let modes: Vec<_> = arguments.durability.iter().map(ToString::to_string).collect();
    println!("{}, {} media, durability {}: {totals}", arguments.engine, arguments.media, modes.join(" and "));
    Ok(if totals.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
        MediaKind::Block => disk,
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
        shadows: copies.path().join("shadows"),
        images: copies.path().join("images"),
        output: store.path().into(),
    };
    for dir in [&places.dir, &places.shadows, &places.images] {
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
