//! The driver that needs nothing but the compiler: seeded mutations of the corpus, as many as one likes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Against, Meter, Mutator, TARGETS, Target, by_name, commands, execute, inputs, minimise};

/// An input that takes this long hangs.
const HANGS: Duration = Duration::from_secs(60);
/// Runs spent on making a failing input smaller.
const MINIMISE_RUNS: u32 = 3_000;

/// Feeds parsers, decoders and recovery with mangled bytes.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "fuzz")]
pub struct Arguments {
    /// A target, or all of them; `list` tells which there are.
    #[arg(default_value = "all")]
    target: String,
    /// Inputs for each target.
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// Stop a target after so many seconds, whatever the runs.
    #[arg(long)]
    seconds: Option<u64>,
    /// The seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this input alone, as it is.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Feed the original with the same inputs, which proves the model: the one that `TERRACE_REDIS_ORIGINAL` or
    /// `TERRACE_MEMCACHED_ORIGINAL` names.
    #[arg(long)]
    original: bool,
    /// Where failing inputs are written.
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If a target is unknown, or the corpus or an input can't be read or written.
pub fn run(arguments: &Arguments, meter: Meter) -> anyhow::Result<ExitCode> {
    if arguments.target == "list" {
        for target in TARGETS {
            println!("{:<16} {}", target.name, target.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.input {
        let target = by_name(&arguments.target).map_err(anyhow::Error::msg)?;
        return repeat(target, path, meter);
    }
    let targets = match arguments.target.as_str() {
        "all" => TARGETS.to_vec(),
        name => vec![by_name(name).map_err(anyhow::Error::msg)?],
    };
    std::fs::create_dir_all(&arguments.out).with_context(|| format!("making {}", arguments.out.display()))?;
    if arguments.original {
        let target = by_name(&arguments.target).map_err(anyhow::Error::msg)?;
        return original(target, arguments);
    }
    let (mut total, mut failures) = (0, 0);
    for target in &targets {
        let (runs, failed) = fuzz(target, arguments, meter)?;
        total += runs;
        failures += u32::from(failed);
    }
    println!("fuzz: {} targets, {total} inputs, seed {}, {failures} failures", targets.len(), arguments.seed);
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn repeat(target: &Target, path: &Path, meter: Meter) -> anyhow::Result<ExitCode> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(match execute(target, &bytes, meter) {
        Ok(()) => {
            println!("{}: fine with {} bytes", target.name, bytes.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{}: {error}", target.name);
            ExitCode::FAILURE
        }
    })
}

/// Fuzzes one target until it fails or time or runs are over: how many inputs, and whether one failed.
fn fuzz(target: &'static Target, arguments: &Arguments, meter: Meter) -> anyhow::Result<(u64, bool)> {
    let corpus = inputs(target).with_context(|| format!("the corpus of {}", target.name))?;
    let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|input| input.bytes).collect();
    let bar = ProgressBar::new(arguments.runs);
    bar.set_style(ProgressStyle::with_template(
        "{prefix:16} {bar:30} {pos}/{len} inputs, {per_sec}, {eta} left",
    )?);
    bar.set_prefix(target.name);
    let watch = watch(target, arguments.out.clone());
    let mut mutator = Mutator::new(arguments.seed, target, &corpus);
    let deadline = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let before = commands();
    let mut runs = 0;
    let mut kept = corpus.iter().cloned();
    while runs < arguments.runs && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let input = kept.next().unwrap_or_else(|| mutator.input());
        let _ended = watch.send(Some(input.clone()));
        let outcome = execute(target, &input, meter);
        let _ended = watch.send(None);
        runs += 1;
        bar.inc(1);
        if let Err(error) = outcome {
            bar.finish_and_clear();
            tell(target, &input, &error, &arguments.out, meter)?;
            return Ok((runs, true));
        }
    }
    bar.finish_and_clear();
    let commands = match commands() - before {
        0 => String::new(),
        commands => format!(", {commands} commands"),
    };
    println!("{:<16} {runs} inputs from {} of the corpus{commands}", target.name, corpus.len());
    Ok((runs, false))
}

/// Holds a model against the original.
fn original(target: &'static Target, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let against = Against::start(target.name).map_err(anyhow::Error::msg)?;
    let against = against.with_context(|| {
        format!(
            "{} has no model, or no environment variable names the original: see docs/fuzzing.md",
            target.name
        )
    })?;
    let corpus = inputs(target).with_context(|| format!("the corpus of {}", target.name))?;
    let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|input| input.bytes).collect();
    let mut mutator = Mutator::new(arguments.seed, target, &corpus);
    let mut commands = 0;
    let mut kept = corpus.iter().cloned();
    for _ in 0..arguments.runs {
        let input = kept.next().unwrap_or_else(|| mutator.input());
        match against.run(&input) {
            Ok(more) => commands += more,
            Err(error) => {
                let kind = kind(&error);
                let smallest = minimise(&input, MINIMISE_RUNS, |candidate| {
                    against.run(candidate).is_err_and(|error| self::kind(&error) == kind)
                });
                let error = against.run(&smallest).err().unwrap_or(error);
                let path = write(target, &smallest, &arguments.out)?;
                println!("{}: the original: {error}\n  with {}", target.name, path.display());
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!(
        "{}: the original answers {commands} commands of {} inputs as the model does",
        target.name, arguments.runs
    );
    Ok(ExitCode::SUCCESS)
}

/// Minimises a failing input, writes it out, and says how to run it again.
fn tell(target: &Target, input: &[u8], error: &str, out: &Path, meter: Meter) -> anyhow::Result<()> {
    let kind = kind(error);
    let smallest = minimise(input, MINIMISE_RUNS, |candidate| {
        execute(target, candidate, meter).is_err_and(|error| self::kind(&error) == kind)
    });
    let error = execute(target, &smallest, meter).err().unwrap_or_else(|| error.to_owned());
    let path = write(target, &smallest, out)?;
    println!("{}: {error}", target.name);
    println!("  {} of {} bytes are enough; to run them again:", smallest.len(), input.len());
    println!("  cargo xtask fuzz {} --input {}", target.name, path.display());
    Ok(())
}

/// What stays the same while an input shrinks: a panic's place, an error's first word.
fn kind(error: &str) -> String {
    match error.strip_prefix("a panic: ") {
        Some(panic) => panic.lines().next().unwrap_or_default().to_owned(),
        None => error.split([':', ' ']).next().unwrap_or_default().to_owned(),
    }
}

fn write(target: &Target, input: &[u8], out: &Path) -> anyhow::Result<PathBuf> {
    let path = out.join(format!("{}-{:08x}", target.name, crc32c::crc32c(input)));
    std::fs::write(&path, input).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Ends the process if an input takes for ever: nothing else could. `Some` begins an input, `None` ends it.
fn watch(target: &'static Target, out: PathBuf) -> Sender<Option<Vec<u8>>> {
    let (sender, receiver) = channel::<Option<Vec<u8>>>();
    std::thread::spawn(move || {
        let mut running = None;
        loop {
            match receiver.recv_timeout(HANGS) {
                Ok(next) => running = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let Some(input) = &running else { continue };
                    match write(target, input, &out) {
                        Ok(path) => println!("{}: hangs with {}", target.name, path.display()),
                        Err(error) => println!("{}: hangs, and {error:#}", target.name),
                    }
                    std::process::exit(1);
                }
            }
        }
    });
    sender
}
