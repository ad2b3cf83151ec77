//! `terrace-durability-model`: explores the model; the command behind `cargo xtask model`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use terrace_durability_model::{Bounds, Bug, Explore, Limits, Media, Mode, Outcome, Protocol, explore};

/// Explores the durability protocol in every order of its steps, and shows the shortest way to a broken promise.
///
/// Without bounds: the set that CI explores. The order of the steps is not chosen but exhausted, so there is no seed.
#[derive(Parser)]
#[command(name = "model")]
struct Arguments {
    /// Only with this part, media and mode; the following options change its bounds.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// The medium.
    #[arg(long, value_enum, default_value = "block")]
    media: MediaName,
    /// The durability mode.
    #[arg(long, value_enum, default_value = "sync")]
    mode: ModeName,
    /// Sessions, at most 3.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    sessions: Option<u8>,
    /// Keys, at most 2.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    keys: Option<u8>,
    /// Writes, at most 6.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=6))]
    writes: Option<u8>,
    /// Reads.
    #[arg(long)]
    reads: Option<u8>,
    /// Crashes, those inside an opening counted.
    #[arg(long)]
    crashes: Option<u8>,
    /// Pages begun.
    #[arg(long)]
    pages: Option<u8>,
    /// Without deletes.
    #[arg(long)]
    no_deletes: bool,
    /// Without atomic writes of both keys.
    #[arg(long)]
    no_atomic: bool,
    /// Without whole-database flushes.
    #[arg(long)]
    no_flushes: bool,
    /// Stop at this many steps.
    #[arg(long, default_value_t = usize::MAX)]
    depth: usize,
    /// Stop at this many states (one takes some 30 bytes, and those of the last depth half a kilobyte more).
    #[arg(long, default_value_t = u32::MAX as usize)]
    states: usize,
    /// Plant a bug.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    /// Plant every bug in turn and show how each is found.
    #[arg(long, conflicts_with_all = ["part", "bug"])]
    planted: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Sessions and the log.
    Log,
    /// Pages, blocks, manifest and reclamation too.
    Tier,
    /// One session and one key, more writes.
    Reuse,
}

#[derive(Clone, Copy, ValueEnum)]
enum MediaName {
    Block,
    Byte,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    Sync,
    Batch,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let limits = Limits { depth: arguments.depth, states: arguments.states };
    let started = Instant::now();
    let runs = arguments.runs();
    let (mut states, mut failures, mut cut) = (0, 0, 0);
    for (bounds, bug) in &runs {
        let outcome = one(&Protocol { bounds: *bounds, bug: *bug }, limits);
        let expected = arguments.planted;
        failures += usize::from(outcome.counterexample.is_some() != expected);
        cut += usize::from(!outcome.exhaustive && outcome.counterexample.is_none());
        states += outcome.states;
    }
    println!(
        "model: {} runs, {states} states, {} cut off by a limit, {failures} failures, {:.1} s",
        runs.len(),
        cut,
        started.elapsed().as_secs_f64()
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Arguments {
    fn runs(&self) -> Vec<(Bounds, Option<Bug>)> {
        if self.planted {
            return Bug::value_variants().iter().map(|bug| (bug.bounds(), Some(*bug))).collect();
        }
        let Some(part) = self.part else {
            return Bounds::for_ci().into_iter().map(|bounds| (bounds, self.bug)).collect();
        };
        let media = match self.media {
            MediaName::Block => Media::Block,
            MediaName::Byte => Media::Byte,
        };
        let mode = match self.mode {
            ModeName::Sync => Mode::Sync,
            ModeName::Batch => Mode::Batch,
        };
        let mut bounds = match part {
            Part::Log => Bounds::log(media, mode),
            Part::Tier => Bounds::tier(media, mode),
            Part::Reuse => Bounds::reuse(media, mode),
        };
        for (bound, given) in [
            (&mut bounds.sessions, self.sessions),
            (&mut bounds.keys, self.keys),
            (&mut bounds.writes, self.writes),
            (&mut bounds.reads, self.reads),
            (&mut bounds.crashes, self.crashes),
            (&mut bounds.pages, self.pages),
        ] {
            *bound = given.unwrap_or(*bound);
        }
        bounds.deletes &= !self.no_deletes;
        bounds.atomic &= !self.no_atomic;
        bounds.flushes &= !self.no_flushes;
        vec![(bounds, self.bug)]
    }
}

fn one(protocol: &Protocol, limits: Limits) -> Outcome<terrace_durability_model::Action> {
    let started = Instant::now();
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let outcome = explore(protocol, limits, &mut |states, depth| {
        bar.set_message(format!("{}: {states} states, depth {depth}", protocol.bounds));
        bar.tick();
    });
    bar.finish_and_clear();
    println!(
        "{}{}",
        protocol.bounds,
        protocol.bug.map_or(String::new(), |bug| format!("; planted: {bug:?}"))
    );
    println!(
        "  {} states, depth {}, {}, {:.1} s",
        outcome.states,
        outcome.depth,
        match (outcome.exhaustive, &outcome.counterexample) {
            (true, _) => "exhaustive",
            (false, None) => "NOT exhaustive: a limit was reached",
            (false, Some(_)) => "a promise is broken",
        },
        started.elapsed().as_secs_f64()
    );
    if let Some(trace) = &outcome.counterexample {
        let mut state = protocol.start();
        for action in trace {
            state = protocol.apply(&state, *action);
            println!("    {action:?}");
        }
        println!("  -> {:?}", state.broken);
    }
    outcome
}
