//! Real DAX: a virtual machine with emulated NVDIMMs, built from Debian's packages, whose power can be cut.
//!
//! ```text
//!   packages   tools and a kernel, by apt          job       the guest's shell: namespaces, file systems, one program
//!      |                                            |
//!   image  <-- cpio, cargo's programs            topology    what memory the machine has
//!      |                                            |
//!      '------------------> machine <---------------'        QEMU, its console, the cut
//!                           /      \
//!                     product      cuts                      terrace-proof dax-guest is their other half
//! ```
//!
//! `docs/real-dax.md` says what this shows and what it doesn't.

mod cargo;
mod cpio;
mod cuts;
mod image;
mod job;
mod machine;
mod packages;
mod product;
mod random;
mod topology;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use cuts::{Cuts, Tally};
use image::Image;
use job::Fs;
use machine::Runner;
use packages::Missing;
use topology::{Memory, Topology};

/// Boots a virtual machine with emulated NVDIMMs and tests the product on real DAX.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// QEMU's accelerator.
    #[arg(long, global = true, default_value = "tcg,thread=multi")]
    accel: String,
    /// The profile that the guest's programs are built with: release or dev.
    #[arg(long, global = true, default_value = "release")]
    cargo_profile: String,
}

#[derive(clap::Subcommand)]
enum What {
    /// Install what is missing (needs root), fetch a kernel, build the image.
    Build,
    /// What the product makes of DAX files, devices, NUMA nodes and what only looks like them.
    Test {
        /// The machines.
        #[arg(long, default_value = "all")]
        topology: Topology,
    },
    /// Cut the power again and again, and check after each cut.
    PowerCuts {
        /// What is on the NVDIMM.
        #[arg(long, default_value = "all")]
        fs: Fs,
        /// The store's engine, one that has persistent memory alone.
        #[arg(long, default_value = "hetermm")]
        engine: String,
        /// Cuts on each.
        #[arg(long, default_value_t = 50)]
        cuts: u64,
        /// Chooses what is written and when the power goes.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Put the device back to where it was before the last cut, to see that it is noticed: the command succeeds if it is.
        #[arg(long)]
        plant_old_image: bool,
    },
    /// A short run of both.
    Quick {
        /// Without the packages: say so, and succeed.
        #[arg(long)]
        if_available: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// If something is missing, or a machine can't be run.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runner = Runner::new(arguments.accel.clone());
    let missing = Missing::detect();
    let cache = cargo::target()?.join("dax-vm");
    std::fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
    match &arguments.what {
        What::Build => missing.install()?,
        What::Quick { if_available: true } => {
            let kernel = if missing.is_empty() { packages::Kernel::get(&cache).map(drop) } else { Ok(()) };
            let why = match kernel {
                Err(error) => Some(format!("{error:#}")),
                Ok(()) => (!missing.is_empty()).then(|| missing.advice()),
            };
            if let Some(why) = why {
                println!("dax-vm: NOTICE, nothing was tested on real DAX: {why}");
                return Ok(ExitCode::SUCCESS);
            }
        }
        _ => anyhow::ensure!(missing.is_empty(), "{}, or: cargo xtask dax-vm build", missing.advice()),
    }
    let tests = match arguments.what {
        What::Test { .. } => cargo::media_tests(&arguments.cargo_profile)?,
        _ => Vec::new(),
    };
    let names: Vec<_> = tests.iter().map(|test| test.name.clone()).collect();
    let mut programs = cargo::programs(&arguments.cargo_profile)?;
    programs.extend(tests);
    let image = Image::build(&cache, &programs)?;
    match &arguments.what {
        What::Build => {
            println!(
                "dax-vm: an image of {} MiB is ready, with {}",
                image.len() >> 20,
                image.kernel.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        What::Test { topology } => Ok(told(&test(&runner, &image, &cache, *topology, &names)?)),
        What::PowerCuts { fs, engine, cuts, seed, plant_old_image } => {
            let on = |fs: &Fs| {
                let state = tempfile::tempdir_in(&cache)?;
                let run = Cuts::new(&runner, &image, *fs, engine.clone(), *seed, state.path().to_path_buf());
                if *plant_old_image { plant(run) } else { power_cuts(&runner, run, state, *cuts) }
            };
            let results: anyhow::Result<Vec<_>> = fs.each().iter().map(on).collect();
            Ok(told(&results?))
        }
        What::Quick { .. } => {
            let from = Instant::now();
            let mut all = test(&runner, &image, &cache, Topology::Pmem, &names)?;
            for fs in Fs::All.each() {
                let state = tempfile::tempdir_in(&cache)?;
                let run = Cuts::new(&runner, &image, *fs, "hetermm".into(), 1, state.path().to_path_buf());
                all.push(power_cuts(&runner, run, state, 1)?);
            }
            all.push((format!("dax-vm: in {:.0} s", from.elapsed().as_secs_f64()), true));
            Ok(told(&all))
        }
    }
}

/// A line about what was shown, and whether it is as it should be.
type Outcome = (String, bool);

fn told(outcomes: &[Outcome]) -> ExitCode {
    outcomes.iter().for_each(|(line, _)| println!("{line}"));
    if outcomes.iter().all(|(_, right)| *right) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test(
    runner: &Runner,
    image: &Image,
    cache: &Path,
    topology: Topology,
    tests: &[String],
) -> anyhow::Result<Vec<Outcome>> {
    let bar = ProgressBar::new_spinner();
    // Where nobody watches there is no bar, and lines that pass above one would vanish.
    let say = |line: &str| if bar.is_hidden() { println!("{line}") } else { bar.println(line) };
    let (passed, failed) = product::run(runner, image, cache, topology, tests, &say)?;
    bar.finish_and_clear();
    let mut outcomes: Vec<_> = failed.iter().map(|wrong| (format!("FAILED {wrong}"), false)).collect();
    outcomes.push((format!("dax-vm test: {passed} checks passed, {} lines of failures", failed.len()), true));
    Ok(outcomes)
}

fn power_cuts(runner: &Runner, mut run: Cuts<'_>, state: TempDir, cuts: u64) -> anyhow::Result<Outcome> {
    let bar = ProgressBar::new(cuts);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} cuts, {msg}, {eta} left")?);
    let hung = runner.hung();
    run.load_only = cuts == 1;
    let mut attempt = || -> anyhow::Result<()> {
        while run.tally.cuts() < cuts {
            bar.set_message(format!("{run}, {} writes acknowledged", run.acknowledged()));
            bar.tick();
            run.cut()?;
            bar.set_position(run.tally.cuts());
        }
        run.check()
    };
    let result = attempt();
    bar.finish_and_clear();
    let Tally { opening, load, stopping, stopped, checks } = run.tally;
    let summary = format!(
        "dax-vm power-cuts, {run}: {} cuts ({opening} while opening, {load} under load, {stopping} while stopping; {stopped} orderly stops besides; {} boots hung before the kernel was up and were repeated), {checks} checks, {} writes acknowledged",
        opening + load + stopping,
        runner.hung() - hung,
        run.acknowledged()
    );
    match result {
        Ok(()) => Ok((format!("{summary}, none lost"), true)),
        Err(error) => {
            let kept = state.keep();
            Ok((
                format!("{summary}\nFAILED {error:#}\nthe machine's files are kept in {}", kept.display()),
                false,
            ))
        }
    }
}

/// Takes the device back to an earlier state behind everybody's back: acknowledged writes are gone, and that must be told.
fn plant(mut run: Cuts<'_>) -> anyhow::Result<Outcome> {
    let files = Memory::Nvdimm.files(run.state());
    let copies: Vec<PathBuf> = files.iter().map(|file| file.with_extension("old")).collect();
    let copy = |from: &[PathBuf], to: &[PathBuf]| -> anyhow::Result<()> {
        for (from, to) in from.iter().zip(to) {
            packages::output(std::process::Command::new("cp").arg("--sparse=always").args([from, to]))?;
        }
        Ok(())
    };
    // A store with something in it, then more.
    while run.acknowledged() == 0 {
        run.cut()?;
    }
    copy(&files, &copies)?;
    let before = run.acknowledged();
    while run.acknowledged() < before + 200 {
        run.cut()?;
    }
    copy(&copies, &files)?;
    Ok(match run.check() {
        Ok(()) => (
            format!("FAILED {run}: a device {} writes old was not noticed", run.acknowledged() - before),
            false,
        ),
        Err(error) => {
            (format!("dax-vm power-cuts, {run}: the planted old image was noticed: {error:#}"), true)
        }
    })
}
