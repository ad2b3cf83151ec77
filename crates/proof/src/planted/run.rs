//! Runs the detectors on the copy's program, one process each, and says who was caught.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::Arguments;
use super::copy::Copy;
use super::library::{Bug, Detector};
use super::product_test::{self, ProductTests};

/// What a detector said.
enum Verdict {
    Passed,
    /// How, in a few words, and after how many images.
    Caught(String, String),
    /// It did not end in time.
    Late,
}

/// What a detector may take at least, on a machine that does much else.
const LEAST_PATIENCE: Duration = Duration::from_secs(20);

/// Runs everything; whether no detector cried wolf and all bugs were caught.
pub(super) fn run(
    copy: &Copy,
    tests: &ProductTests,
    bugs: &[Bug],
    arguments: &Arguments,
) -> anyhow::Result<bool> {
    // No bug first: a detector that finds something then finds nothing.
    let names: BTreeSet<&str> =
        bugs.iter().flat_map(|bug| &bug.detectors).map(|detector| detector.name.as_str()).collect();
    let detectors: Vec<Detector> = names.into_iter().map(|name| Detector::usual(name.into())).collect();
    let mut work: Vec<(Option<&Bug>, &Detector)> =
        detectors.iter().map(|detector| (None, detector)).collect();
    work.extend(bugs.iter().flat_map(|bug| bug.detectors.iter().map(move |detector| (Some(bug), detector))));
    let bar = ProgressBar::new(work.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let usual: Mutex<BTreeMap<&str, Duration>> = Mutex::new(BTreeMap::new());
    let jobs = match arguments.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((bug, detector)) = work.get(next.fetch_add(1, Relaxed)) {
                    let started = Instant::now();
                    let number = bug.map_or(0, |bug| bug.number);
                    let command = tests.command(detector).unwrap_or_else(|| sweep(copy, detector, arguments));
                    let without = bug.and_then(|_| usual.lock().get(detector.name.as_str()).copied());
                    let patience = patience(without, detector, arguments);
                    let verdict = detect(command, number, detector, patience);
                    if bug.is_none() && matches!(verdict, Ok(Verdict::Passed)) {
                        usual.lock().insert(&detector.name, started.elapsed());
                    }
                    bar.set_message(bug.map_or(detector.name.clone(), |bug| bug.name.clone()));
                    bar.inc(1);
                    results.lock().push((*bug, *detector, patience, verdict));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut results = results.into_inner();
    results.sort_by_key(|(bug, detector, ..)| (bug.map_or(0, |bug| bug.number), (*detector).clone()));
    let (mut missed, mut cried_wolf) = (BTreeSet::new(), false);
    let usual = usual.into_inner();
    for (bug, detector, patience, verdict) in results {
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                missed.extend(bug.map(|bug| bug.number));
                cried_wolf |= bug.is_none();
                println!("{}: {error}", bug.map_or("nothing planted", |bug| bug.name.as_str()));
                continue;
            }
        };
        match (bug, verdict) {
            (None, Verdict::Passed) => {}
            (None, Verdict::Late) => {
                cried_wolf = true;
                println!("{} does not end in {} s with nothing planted", detector.name, patience.as_secs());
            }
            (None, Verdict::Caught(how, _)) => {
                cried_wolf = true;
                println!("{} finds fault with nothing planted: {how}", detector.name);
            }
            (Some(bug), Verdict::Passed) => {
                missed.insert(bug.number);
                println!("{}: {}: SURVIVES {} ({})", bug.class, bug.name, detector.name, bug.why);
            }
            (Some(bug), Verdict::Late) => {
                // Only what ends much sooner otherwise hangs.
                let without = usual.get(detector.name.as_str()).copied();
                let without = without.unwrap_or(Duration::MAX / 4096) * detector.share();
                let hangs = without * 3 < patience;
                if !hangs {
                    missed.insert(bug.number);
                }
                let verdict = if hangs { "hangs" } else { "TOO SLOW TO TELL" };
                println!("{}: {}: {}: {verdict}", bug.class, bug.name, detector.name);
            }
            (Some(bug), Verdict::Caught(how, images)) => {
                println!("{}: {}: {}, {images}: {how}", bug.class, bug.name, detector.name);
            }
        }
    }
    // Again at the end: among so many lines nobody finds them.
    for bug in bugs.iter().filter(|bug| missed.contains(&bug.number)) {
        println!("NOT CAUGHT: {}: {}", bug.class, bug.name);
    }
    println!("{} planted, {} caught", bugs.len(), bugs.len() - missed.len());
    Ok(missed.is_empty() && !cried_wolf)
}

/// What runs a detector of the copy's program.
fn sweep(copy: &Copy, detector: &Detector, arguments: &Arguments) -> Command {
    let mut command = Command::new(copy.program());
    command
        .arg("planted-detector")
        .args(["--detector", &detector.name])
        .args(["--histories", &detector.histories.to_string()])
        .args(["--seed", &(detector.seed + arguments.seed).to_string()]);
    command
}

/// How long a detector may take: some times what it takes with nothing planted, where that is known.
fn patience(without: Option<Duration>, detector: &Detector, arguments: &Arguments) -> Duration {
    let most = Duration::from_secs(arguments.seconds);
    without.map_or(most, |without| (without * detector.share() * 8).clamp(LEAST_PATIENCE.min(most), most))
}

fn detect(
    mut command: Command,
    number: u32,
    detector: &Detector,
    patience: Duration,
) -> anyhow::Result<Verdict> {
    let mut child = command
        .env("TERRACE_PLANTED", number.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let mut stdout = child.stdout.take().context("the detector's output")?;
    let (send, output) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = send.send(text);
    });
    let text = output.recv_timeout(patience);
    if text.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let _ = reader.join();
    let Ok(text) = text else {
        return Ok(Verdict::Late);
    };
    if product_test::is_test(detector) {
        ensure!(product_test::ran_one(&text), "{}: that is not one test: {text}", detector.name);
    }
    if status.success() {
        return Ok(Verdict::Passed);
    }
    if product_test::is_test(detector) {
        let how = product_test::complaint(&text).unwrap_or_else(|| format!("the process died: {status}"));
        return Ok(Verdict::Caught(how, "one test".into()));
    }
    // The detector's last two lines: what was wrong, and after how much.
    let mut lines = text.lines().rev();
    let images = lines.next().unwrap_or("no image").to_string();
    let how = lines.next().unwrap_or("the process died").to_string();
    Ok(Verdict::Caught(how, images))
}
