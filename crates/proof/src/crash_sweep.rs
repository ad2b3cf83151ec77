//! The crash sweep, as long as one likes: `cargo xtask crash-sweep --help`.

use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use terrace_engine::Durability;
use terrace_testkit::sweep::{MediaKind, Subject, Summary, SweepFailure, SweepOptions, sweep};

use crate::subjects::{self, SUBJECTS};

/// Crashes seeded histories everywhere and judges what recovery finds.
///
/// Prints what was reached, a line a label, then one line that sums up; failures come first, each with the command that
/// runs it again.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine, or all.
    #[arg(long, default_value = "all")]
    engine: String,
    /// The kind of media: byte, block, tiered (both; tac alone) or all.
    #[arg(long, default_value = "all", value_parser = all_or::<MediaKind>)]
    media: AllOr<MediaKind>,
    /// The promise that is checked: sync, batch:MS, none or all (of batch, 100 ms).
    #[arg(long, default_value = "all", value_parser = all_or::<Durability>)]
    durability: AllOr<Durability>,
    /// Crash images in all, about.
    #[arg(long, default_value_t = 100_000)]
    images: u64,
    /// Histories in all.
    #[arg(long, default_value_t = 1_000)]
    histories: u64,
    /// The first history's seed; the others follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs one history again: the same as `--histories 1 --seed SEED`.
    #[arg(long, conflicts_with_all = ["histories", "seed"])]
    history: Option<u64>,
    /// OS threads; by default as many as there are cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Leave failing histories as long as they are.
    #[arg(long)]
    no_reduce: bool,
    /// List every site with how often it ran, and how often it had nothing to do.
    #[arg(long)]
    sites: bool,
}

/// One of a kind, or all there are.
#[derive(Clone, Copy, Debug)]
enum AllOr<T> {
    All,
    One(T),
}

fn all_or<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<AllOr<T>, String> {
    match text {
        "all" => Ok(AllOr::All),
        one => one.parse().map(AllOr::One).map_err(|error: T::Err| error.to_string()),
    }
}

/// What is swept together.
struct Combination {
    engine: &'static str,
    subject: &'static (dyn Subject + Sync),
    media: MediaKind,
    durability: Durability,
}

/// Runs the command.
///
/// # Errors
/// If the engine is unknown, or not even an empty store can be made.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let combinations = combinations(arguments)?;
    let share = combinations.len() as u64;
    let (seed, histories) = match arguments.history {
        Some(seed) => (seed, 1),
        None => (arguments.seed, arguments.histories.div_ceil(share)),
    };
    let started = Instant::now();
    // A panic is a failure like any other, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let bar = ProgressBar::new(histories * share);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} histories, {msg}, {eta} left")?);
    let mut total = Summary::default();
    // Each combination has seeds of its own: no history is counted twice.
    for (number, combination) in (0..).zip(&combinations) {
        let options = SweepOptions {
            media: combination.media,
            durability: combination.durability,
            histories,
            images: arguments.images.div_ceil(share),
            seed: seed + number * histories,
            threads: arguments.threads.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get)),
            reduce: !arguments.no_reduce,
            failures_max: arguments.failures.saturating_sub(total.failures.len()),
        };
        let summary = sweep(combination.subject, &options, &|summary| {
            bar.set_position(total.histories() + summary.histories());
            let (images, failures) = (total.images() + summary.images(), summary.failures.len());
            bar.set_message(format!("{images} images, {failures} failures"));
        })?;
        bar.suspend(|| {
            for failure in &summary.failures {
                println!("{failure}    {}\n", combination.replay(failure, &options));
            }
            if share > 1 {
                println!("{}: {summary}", combination.name());
            }
        });
        total.merge(summary);
        if total.failures.len() >= arguments.failures.max(1) {
            break;
        }
    }
    bar.finish_and_clear();
    report(arguments, &combinations, &total, started.elapsed());
    Ok(if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn combinations(arguments: &Arguments) -> anyhow::Result<Vec<Combination>> {
    let engines: Vec<_> = match &*arguments.engine {
        "all" => SUBJECTS.to_vec(),
        name => vec![subjects::named(name).map_err(anyhow::Error::msg)?],
    };
    let media = match arguments.media {
        AllOr::All => vec![MediaKind::Byte, MediaKind::Block, MediaKind::Tiered],
        AllOr::One(media) => vec![media],
    };
    let durabilities = match arguments.durability {
        AllOr::All => {
            vec![Durability::Sync, Durability::Batch(Duration::from_millis(100)), Durability::None]
        }
        AllOr::One(durability) => vec![durability],
    };
    let mut all = Vec::new();
    for (engine, subject) in engines {
        for media in media.iter().filter(|media| subject.takes(**media)) {
            let with = |durability: &Durability| Combination {
                engine,
                subject,
                media: *media,
                durability: *durability,
            };
            all.extend(durabilities.iter().map(with));
        }
    }
    anyhow::ensure!(!all.is_empty(), "engine {} does not run on these media", arguments.engine);
    Ok(all)
}

impl Combination {
    fn name(&self) -> String {
        format!("{}, {} media, durability {}", self.engine, self.media, self.durability)
    }

    /// The command that runs a failing history again.
    fn replay(&self, failure: &SweepFailure, options: &SweepOptions) -> String {
        format!(
            "cargo xtask crash-sweep --engine {} --media {} --durability {} --history {} --images {}",
            self.engine,
            self.media,
            self.durability,
            failure.seed,
            options.images_each(),
        )
    }
}

fn report(arguments: &Arguments, combinations: &[Combination], total: &Summary, took: Duration) {
    println!("reached:\n{}", total.coverage);
    for (site, used) in &total.sites {
        if arguments.sites || used.redundant == used.runs {
            println!("site {site}: ran {} times, {} times with nothing to do", used.runs, used.redundant);
        }
    }
    let what = match combinations {
        [one] => one.name(),
        many => format!("{} combinations of engine, media and durability", many.len()),
    };
    println!("{what}: {total}, in {:.1} s", took.as_secs_f64());
}
