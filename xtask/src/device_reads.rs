//! Terrace's reads of an SSD beside fio's, of the same file, in turns.
//!
//! ```text
//!   terrace bench, read only, uniform, DRAM for a tenth  --- runs | stopped | runs | stopped ...
//!   fio randread, io_uring, O_DIRECT, the same file      ---      | runs    |      | runs    ...
//!                                                         reads and mean depth: the disk's own counters
//! ```
//!
//! What other processes read meanwhile counts, too: nothing else should run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::disk::Disk;

/// Measures how close reads of records on the SSD come to what fio reads of the same file.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records, of 1000 bytes each.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Batches of 16 gets that each of terrace's two threads keeps submitted.
    #[arg(long, default_value_t = 4)]
    in_flight: u64,
    /// Reads that each of fio's two jobs keeps under way: compare the depths that are printed.
    #[arg(long, default_value_t = 28)]
    depth: u64,
    /// Turns.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Seconds of a turn of either.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Where the store lies: on the disk that is to be measured.
    #[arg(long, default_value = "target/device-reads")]
    dir: PathBuf,
    /// A terrace that is built already.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// The bench, stopped or running; ended when it is dropped.
struct Bench(Child);

impl Bench {
    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let done = Command::new("kill").args([signal, &self.0.id().to_string()]).status()?;
        anyhow::ensure!(
            done.success(),
            "the bench ended by itself: give it more --records, or fewer --rounds"
        );
        Ok(())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn look(dir: &Path) -> anyhow::Result<Disk> {
    Disk::under(dir).context("the kernel doesn't tell what this disk does")
}

/// Reads a second, and how many were under way, while something runs.
fn rate(dir: &Path, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<(f64, f64)> {
    let (before, begun) = (look(dir)?, Instant::now());
    run()?;
    let (after, seconds) = (look(dir)?, begun.elapsed().as_secs_f64());
    let depth = (after.reading_ms - before.reading_ms) as f64 / 1000.0 / seconds;
    Ok(((after.reads - before.reads) as f64 / seconds, depth))
}

/// Runs both in turns and prints each.
///
/// # Errors
/// If terrace or fio can't be run, or the disk has no counters.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let terrace = crate::built::or_build(arguments.program.as_deref())?;
    if arguments.dir.exists() {
        std::fs::remove_dir_all(&arguments.dir)?;
    }
    std::fs::create_dir_all(&arguments.dir)?;
    let dir = arguments.dir.canonicalize()?;
    // More than is read: it is ended.
    let operations = arguments.rounds * (arguments.seconds + 2) * 400_000;
    let words = ["bench", "--engine", "tac", "--workload", "ro", "--distribution", "uniform"];
    let bench = Command::new(terrace)
        .args(words)
        .args(["--records", &arguments.records.to_string(), "--operations", &operations.to_string()])
        .args(["--value-bytes", "1000", "--threads", "2", "--batch", "16"])
        .args(["--in-flight", &arguments.in_flight.to_string(), "--dram-records", "10%", "--ssd", "200%"])
        .args(["--dir", &dir.display().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let bench = Bench(bench);
    let reads = || look(&dir).map(|disk| disk.reads);
    // The load reads little.
    let begun = Instant::now();
    loop {
        let before = reads()?;
        std::thread::sleep(Duration::from_secs(1));
        if reads()? - before > 2000 && begun.elapsed() > Duration::from_secs(3) {
            break;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            bail!("the bench didn't begin to read within two minutes");
        }
    }
    std::thread::sleep(Duration::from_secs(3));
    let mut ratios = Vec::new();
    println!("| terrace, reads/s | depth | fio, reads/s | depth | terrace / fio |\n|---|---|---|---|---|");
    for _ in 0..arguments.rounds {
        let ours = rate(&dir, || {
            std::thread::sleep(Duration::from_secs(arguments.seconds));
            Ok(())
        })?;
        bench.signal("-STOP")?;
        std::thread::sleep(Duration::from_millis(300));
        let theirs = rate(&dir, || fio(arguments, &dir));
        bench.signal("-CONT")?;
        std::thread::sleep(Duration::from_millis(500));
        let theirs = theirs?;
        ratios.push(ours.0 / theirs.0);
        println!(
            "| {:.0} | {:.0} | {:.0} | {:.0} | {:.2} |",
            ours.0,
            ours.1,
            theirs.0,
            theirs.1,
            ours.0 / theirs.0
        );
    }
    drop(bench);
    std::fs::remove_dir_all(&dir)?;
    ratios.sort_by(f64::total_cmp);
    println!("median {:.2}", ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN));
    Ok(ExitCode::SUCCESS)
}

/// Reads of one page or two, as records of this length lie, of the part of the file that holds any.
fn fio(arguments: &Arguments, dir: &Path) -> anyhow::Result<()> {
    let output = Command::new("fio")
        .args(["--name=reads", "--readonly", "--rw=randread", "--bssplit=4k/73:8k/27", "--blockalign=4k"])
        .args(["--direct=1", "--ioengine=io_uring", "--numjobs=2", "--time_based"])
        .args([
            format!("--iodepth={}", arguments.depth),
            format!("--filename={}", dir.join("data").display()),
            format!("--size={}", arguments.records * 1000),
            format!("--runtime={}", arguments.seconds),
        ])
        .output()
        .context("running fio, which is Debian's package of that name")?;
    anyhow::ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
