//! The crash sweep, as long as one likes: `cargo xtask crash-sweep --help`.

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use terrace_engine::Durability;
use terrace_testkit::sweep::{MediaKind, SweepOptions, sweep};

use crate::subjects;

/// Crashes seeded histories everywhere and judges what recovery finds.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine.
    #[arg(long, default_value = "hetermm")]
    engine: String,
    /// The kind of media: byte or block.
    #[arg(long, default_value = "byte")]
    media: MediaKind,
    /// The promise that is checked: sync, batch:MS or none.
    #[arg(long, default_value = "sync")]
    durability: Durability,
    /// Crash images in all, about.
    #[arg(long, default_value_t = 100_000)]
    images: u64,
    /// Histories.
    #[arg(long, default_value_t = 1_000)]
    histories: u64,
    /// The first history's seed; the others follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// OS threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Leave failing histories as long as they are.
    #[arg(long)]
    no_reduce: bool,
}

/// Runs the command.
///
/// # Errors
/// If the engine is unknown, or not even an empty store can be made.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subject = subjects::by_name(&arguments.engine).map_err(anyhow::Error::msg)?;
    let bar = ProgressBar::new(arguments.histories);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} histories, {msg}, {eta} left")?);
    let options = SweepOptions {
        media: arguments.media,
        durability: arguments.durability,
        histories: arguments.histories,
        images: arguments.images,
        seed: arguments.seed,
        threads: arguments.threads,
        reduce: !arguments.no_reduce,
        failures_max: arguments.failures,
    };
    let summary = sweep(subject, &options, &|summary| {
        bar.set_position(summary.histories());
        bar.set_message(format!("{} images, {} failures", summary.images(), summary.failures.len()));
    })?;
    bar.finish_and_clear();
    for failure in &summary.failures {
        println!("{failure}");
    }
    println!(
        "{}, {} media, durability {}: {summary}",
        arguments.engine, arguments.media, arguments.durability
    );
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
