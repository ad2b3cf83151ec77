//! Mutation: a history that ran once is crashed again as if one of its flushes, fences or syncs were missing in the source.
//!
//! ```text
//!   record(seed) --> the history, and some that begin with the recovery from a crash of it
//!                       |
//!   crash(history, without a site, near its executions) --> images judged, and what the first wrong one showed
//! ```
//!
//! The recorded run went on after the place that is left out as it would have: only what survives a crash changes.

use std::cell::{Cell, RefCell};

use terrace_engine::StoreError;
use terrace_media_sim::Rng;
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::trace::{Position, SiteId, Trace};

use super::judge::{Explored, Judge};
use super::media::Media;
use super::plan::Plan;
use super::run::{Run, Start, drive};
use super::{Setup, Subject, SweepOptions};

/// Steps after the recovery that a history begins with.
const SECOND_STEPS: usize = 12;
/// Events after an execution of a site in which its absence shows, unless much later.
const NEAR: Position = 24;
/// Executions of a site that are looked at in one history.
const EXECUTIONS: usize = 6;
const IMAGES_A_POINT: u64 = 12;

/// Records histories of one subject and crashes them.
pub struct Bench<'a> {
    setup: Setup<'a>,
}

/// A history that ran.
pub struct History {
    run: Run,
    plan: Plan,
}

/// How to crash a history.
#[derive(Clone, Copy, Debug)]
pub struct Crashes {
    /// The site that is left out; `None` to see that nothing is wrong with it in place.
    pub without: Option<SiteId>,
    /// Crash in the neighbourhood of this site's executions alone.
    pub near: Option<SiteId>,
    /// Images to judge at most.
    pub images: u64,
    /// Chooses among them.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Images judged.
    pub images: u64,
    /// What is wrong with the last of them, if anything.
    pub wrong: Option<String>,
}

impl History {
    /// Everything it did to its media.
    pub fn trace(&self) -> &Trace {
        &self.run.trace
    }
}

impl<'a> Bench<'a> {
    /// A bench for the media and the promise of these options; their counts and seeds are not used.
    ///
    /// # Errors
    /// If not even an empty store can be made.
    pub fn new(subject: &'a dyn Subject, options: &'a SweepOptions) -> Result<Self, StoreError> {
        Ok(Self { setup: Setup::new(subject, options)? })
    }

    /// Runs the history of a seed, and up to `second` that begin with the recovery from a power loss in it.
    ///
    /// # Errors
    /// What is wrong without any crash.
    pub fn record(&self, seed: u64, second: usize) -> Result<Vec<History>, String> {
        let plan = Plan::new(seed, &self.setup);
        let run = self.setup.drive(&plan)?;
        let mut histories = vec![];
        if second > 0 {
            histories = self.after_crashes(&plan, &run, second)?;
        }
        histories.insert(0, History { run, plan });
        Ok(histories)
    }

    fn after_crashes(&self, plan: &Plan, run: &Run, count: usize) -> Result<Vec<History>, String> {
        let kind = self.setup.options.media;
        let histories = RefCell::new(Vec::new());
        let explored = RefCell::new(Explored::default());
        let judge = Judge::new(&self.setup, plan, run, usize::MAX, &explored);
        let sample = (run.trace.len() / count / 2).max(1) as u64;
        let explored = Explorer::new(plan.seed)
            .only(Crash::Power)
            .images_per_point(3)
            .point_sample(sample)
            .store_sample(0)
            .minimise(false)
            .explore(&run.trace, |point, image| -> Result<(), String> {
                if point.position < run.created || histories.borrow().len() >= count {
                    return Ok(());
                }
                let clock_us = run.clock_us(point.position);
                let (recorder, copy) = image.recording(point.crash);
                let (store, initial) = judge.recover(&Media::of(kind, image), clock_us)?;
                drop(store);
                let start = Start { recorder, media: Media::of(kind, &copy), clock_us, initial };
                let seed = Rng::new(plan.seed ^ point.position as u64).bits();
                let plan = plan.after_crash(seed, &self.setup, SECOND_STEPS);
                let run = drive(&self.setup, start, &plan)
                    .map_err(|error| format!("after the recovery: {error}"))?;
                histories.borrow_mut().push(History { run, plan });
                Ok(())
            });
        explored.map_err(|failure| failure.to_string())?;
        Ok(histories.into_inner())
    }

    /// Crashes a history.
    pub fn crash(&self, history: &History, crashes: Crashes) -> Outcome {
        let run = &history.run;
        let mut executions = crashes.near.map(|site| run.trace.executions(site)).unwrap_or_default();
        let mut rng = Rng::new(crashes.seed);
        while executions.len() > EXECUTIONS {
            executions.remove(rng.below(executions.len() as u64) as usize);
        }
        let is_near = |position: Position| {
            crashes.near.is_none() || executions.iter().any(|at| (at + 1..at + 1 + NEAR).contains(&position))
        };
        let explored = RefCell::new(Explored::default());
        let mut judge = Judge::new(&self.setup, &history.plan, run, usize::MAX, &explored);
        let judged = Cell::new(0);
        // Where only a few points are near, each of them counts.
        let points = if crashes.near.is_some() { 0 } else { run.trace.len() as u64 * 2 };
        let mut explorer = Explorer::new(crashes.seed)
            .model(history.plan.manner.model)
            .images_per_point(IMAGES_A_POINT)
            .point_sample((points * IMAGES_A_POINT / crashes.images.max(1)).max(1))
            .store_sample(8)
            .minimise(false);
        if let Some(site) = crashes.without {
            explorer = explorer.without_site(site);
        }
        let result = explorer.explore(&run.trace, |point, image| {
            if !is_near(point.position) || judged.get() >= crashes.images {
                return Ok(());
            }
            judged.set(judged.get() + 1);
            judge.check(point, image)
        });
        Outcome { images: judged.get(), wrong: result.err().map(|failure| failure.message) }
    }
}
