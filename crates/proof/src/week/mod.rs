//! A week of real use in small: `cargo xtask week --help`.
//!
//! ```text
//!   workloads.toml (published sizes, times to live, popularity)      setting (engine, tiers, sizes)
//!            |                                                          |
//!            '------> life: fill, churn, restarts, resizes, deletes, a nearly full tier ------> the real terrace
//!                       |  every answer against expected (the account of each key)                 |
//!                       '--> economy: bytes below for a byte of the client's, memory, refusals, stalls --> table, bounds
//! ```
//!
//! The client is alone with its server, so that it knows what each key must hold, deadlines included; memory is
//! what the system counts of the process. Traffic is what the server counts where it writes: what the system counts stands beside
//! it, and counts a folio of the page cache for each part of one. A probe reads the disk beside the store (`disk`): time in which the
//! disk answered nobody is told beside a stall, and no fault of the store's. A seed fixes the operations of each day but not how many of them
//! fit into it.

mod client;
mod disk;
mod economy;
mod expected;
mod life;
mod random;
mod server;
mod setting;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use economy::Economy;
use life::{Place, directory, live};

/// Lives a week of real use in small, on every setting under every workload, and says what it costs.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The program [default of `cargo xtask week`: built in release mode].
    #[arg(long)]
    terrace: PathBuf,
    /// Minutes in all, shared among the weeks; what fills and restarts comes on top.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Only so many weeks, drawn by the seed.
    #[arg(long)]
    weeks: Option<usize>,
    /// Only settings whose name contains this: tac-ssd, tac-both, hetermm, dram, memcached.
    #[arg(long, default_value = "")]
    setting: String,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "")]
    workload: String,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest that an answer to a pipeline may take, in milliseconds, beside what the disk answered nobody in.
    #[arg(long, default_value_t = 100)]
    stall_ms: u64,
    /// A directory on the file system to test.
    #[arg(long, default_value = "target/week")]
    dir: PathBuf,
    /// A directory in memory, for what stands in for persistent memory.
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Runs the command. The exit code says whether all bounds held.
///
/// # Errors
/// If no week fits the names, or there is no place for the files.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let workloads = workload::all()?;
    let mut weeks = Vec::new();
    for setting in setting::ALL.iter().filter(|setting| setting.name.contains(&arguments.setting)) {
        for workload in workloads.iter().filter(|workload| workload.name.contains(&arguments.workload)) {
            weeks.push((setting, workload));
        }
    }
    let mut random = random::Random::new(arguments.seed);
    if let Some(most) = arguments.weeks {
        while weeks.len() > most {
            weeks.swap_remove(random.below(weeks.len() as u64) as usize);
        }
    }
    anyhow::ensure!(!weeks.is_empty(), "no setting and workload has such a name (see --help)");
    let length = Duration::from_secs_f64(arguments.minutes * 60.0 / weeks.len() as f64);
    println!(
        "{} weeks of {} s, seed {}; emulated: PMem of tac-both and of heaps",
        weeks.len(),
        length.as_secs(),
        arguments.seed
    );
    println!("{}", Economy::head());
    let mut failed = 0;
    for (at, (setting, workload)) in weeks.iter().enumerate() {
        let (dir, memory) = (directory(&arguments.dir)?, directory(&arguments.memory)?);
        let place = Place {
            terrace: arguments.terrace.canonicalize()?,
            dir: dir.path().to_path_buf(),
            memory: memory.path().to_path_buf(),
            seed: arguments.seed + at as u64,
            length,
        };
        match live(&place, setting, workload) {
            Ok(economy) => {
                println!("{}", economy.line(setting, &workload.name));
                let broken = economy.broken(setting, arguments.stall_ms);
                failed += usize::from(!broken.is_empty());
                broken.iter().for_each(|text| println!("    FAIL {text}"));
            }
            Err(error) => {
                failed += 1;
                println!("{:<10} {:<12} FAIL {error:#}", setting.name, workload.name);
            }
        }
    }
    println!("{} passed, {failed} failed", weeks.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
