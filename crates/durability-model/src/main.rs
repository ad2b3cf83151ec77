//! `terrace-durability-model`: explores the model; the command behind `cargo xtask model`.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use terrace_durability_model::{
    Action, Bounds, Bug, Explore, Limits, Media, Mode, Outcome, Protocol, explore,
};

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
    /// Rounds (slab).
    #[arg(long)]
    rounds: Option<u8>,
    /// Slots of the middle tier (slab), at most 2.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=2))]
    warm: Option<u8>,
    /// With blind sets (slab).
    #[arg(long)]
    blind: bool,
    /// With two keys of the same hash (slab).
    #[arg(long)]
    collide: bool,
    /// With whole-database flushes, where the part has none.
    #[arg(long, conflicts_with = "no_flushes")]
    flushes: bool,
    /// Without pages that go bad at rest.
    #[arg(long)]
    no_rot: bool,
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
    /// The tiers of engine `tac`.
    Slab,
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
    let bars = MultiProgress::new();
    let (next, sums) = (AtomicUsize::new(0), Mutex::new((0, 0, 0)));
    let worker = || {
        while let Some((bounds, bug)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (outcome, report) = one(&Protocol { bounds: *bounds, bug: *bug }, limits, &bars);
            // What a poisoned sum holds is right: nothing panics half way through an addition.
            let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (states, failures, cut) = &mut *sums;
            *states += outcome.states;
            *failures += usize::from(outcome.counterexample.is_some() != arguments.planted);
            *cut += usize::from(!outcome.exhaustive && outcome.counterexample.is_none());
            bars.suspend(|| print!("{report}"));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let (states, failures, cut) = sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
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
            Part::Slab => Bounds::slab(media, mode),
        };
        for (bound, given) in [
            (&mut bounds.sessions, self.sessions),
            (&mut bounds.keys, self.keys),
            (&mut bounds.writes, self.writes),
            (&mut bounds.reads, self.reads),
            (&mut bounds.crashes, self.crashes),
            (&mut bounds.pages, self.pages),
            (&mut bounds.rounds, self.rounds),
            (&mut bounds.warm, self.warm),
        ] {
            *bound = given.unwrap_or(*bound);
        }
        bounds.deletes &= !self.no_deletes;
        bounds.atomic &= !self.no_atomic;
        bounds.flushes = (bounds.flushes || self.flushes) && !self.no_flushes;
        bounds.blind |= self.blind;
        bounds.collide |= self.collide;
        bounds.rot &= !self.no_rot;
        vec![(bounds, self.bug)]
    }
}

/// Explores one setting, and says what came out.
fn one(protocol: &Protocol, limits: Limits, bars: &MultiProgress) -> (Outcome<Action>, String) {
    let started = Instant::now();
    let bar = bars.add(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let outcome = explore(protocol, limits, &mut |states, depth| {
        bar.set_message(format!("{}: {states} states, depth {depth}", protocol.bounds));
        bar.tick();
    });
    bar.finish_and_clear();
    let planted = protocol.bug.map_or(String::new(), |bug| format!("; planted: {bug:?}"));
    let end = match (outcome.exhaustive, &outcome.counterexample) {
        (true, _) => "exhaustive",
        (false, None) => "NOT exhaustive: a limit was reached",
        (false, Some(_)) => "a promise is broken",
    };
    let mut report = format!(
        "{}{planted}\n  {} states, depth {}, {end}, {:.1} s\n",
        protocol.bounds,
        outcome.states,
        outcome.depth,
        started.elapsed().as_secs_f64()
    );
    if let Some(trace) = &outcome.counterexample {
        let mut state = protocol.start();
        for action in trace {
            state = protocol.apply(&state, *action);
            // Writing to a string does not fail.
            let _ = writeln!(report, "    {action:?}");
        }
        let _ = writeln!(report, "  -> {:?}", state.broken);
    }
    (outcome, report)
}
