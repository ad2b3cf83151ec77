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
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::trace::{Position, SiteId, Trace};
use terrace_media_sim::{Recorder, Rng};

use super::judge::{Judge, empty};
use super::lane::Stop;
use super::media::{Bytes, Media, SweepClock};
use super::plan::plan;
use super::run::{Run, Start, drive};
use super::{START_US, Setup, Subject, SweepOptions};

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
    seed: u64,
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
        let shape = subject.shape(options.media);
        let mut setup = Setup { subject, options, shape, template: Bytes(Vec::new()) };
        let media = Media::recorded(options.media, &setup.blank(), &Recorder::new());
        drop(setup.open(&media, &std::sync::Arc::new(SweepClock::new(START_US)), true)?);
        setup.template = media.to_bytes();
        Ok(Self { setup })
    }

    /// Runs the history of a seed, and up to `second` that begin with the recovery from a power loss in it. None if a full
    /// store refused what later steps built on.
    ///
    /// # Errors
    /// What is wrong without any crash.
    pub fn record(&self, seed: u64, second: usize) -> Result<Vec<History>, String> {
        let logged = self.setup.options.durability != terrace_engine::Durability::None;
        let steps = plan(seed, &self.setup.shape, logged, logged);
        let run = match self.setup.drive(seed, &steps) {
            Ok(run) => run,
            Err(Stop::Void) => return Ok(Vec::new()),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let mut histories = vec![];
        if second > 0 {
            histories = self.after_crashes(&run, seed, second)?;
        }
        histories.insert(0, History { run, seed });
        Ok(histories)
    }

    fn after_crashes(&self, run: &Run, seed: u64, count: usize) -> Result<Vec<History>, String> {
        let kind = self.setup.options.media;
        let logged = self.setup.options.durability != terrace_engine::Durability::None;
        let histories = RefCell::new(Vec::new());
        let explored = RefCell::new(empty());
        let judge = Judge::new(&self.setup, run, seed, 1, &explored);
        let sample = (run.trace.len() / count / 2).max(1) as u64;
        let explored = Explorer::new(seed)
            .only(Crash::Power)
            .images_per_point(3)
            .point_sample(sample)
            .store_sample(0)
            .minimise(false)
            .explore(&run.trace, |point, image| {
                if point.position < run.created || histories.borrow().len() >= count {
                    return Ok(());
                }
                let clock_us = run.clock_us(point.position);
                let (recorder, copy) = image.recording();
                let (store, initial) = judge.recover(&Media::of(kind, image), clock_us)?;
                drop(store);
                let start =
                    Start { recorder, media: Media::of(kind, &copy), fresh: false, clock_us, initial };
                let seed = Rng::new(seed ^ point.position as u64).bits();
                let mut steps = plan(seed, &self.setup.shape, logged, logged);
                steps.truncate(SECOND_STEPS);
                match drive(&self.setup, seed, start, &steps) {
                    Ok(run) => histories.borrow_mut().push(History { run, seed }),
                    Err(Stop::Void) => {}
                    Err(Stop::Failed(error)) => return Err(format!("after the recovery: {error}")),
                }
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
        let explored = RefCell::new(empty());
        let mut judge = Judge::new(&self.setup, run, history.seed, 1, &explored);
        let judged = Cell::new(0);
        // Where only a few points are near, each of them counts.
        let points = if crashes.near.is_some() { 0 } else { run.trace.len() as u64 * 2 };
        let mut explorer = Explorer::new(crashes.seed)
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
