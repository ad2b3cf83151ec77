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
use std::ops::Range;
use std::rc::Rc;

use terrace_engine::StoreError;
use terrace_media_sim::Rng;
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::point::CrashPoint;
use terrace_media_sim::snapshot::{Crash, Model};
use terrace_media_sim::trace::{Position, SiteId, SiteKind, Trace};

use super::judge::{After, Explored, Judge};
use super::media::Media;
use super::plan::Plan;
use super::run::{Run, Start, drive};
use super::{Setup, Subject, SweepOptions};

/// Positions at each end of the time in which the absence of a site may show, and in between.
const ENDS: usize = 8;
const BETWEEN: usize = 16;
/// Flushes, fences and syncs that had something to do, and before which a crash is tried.
const STEPS: usize = 24;
/// Executions of a site that are looked at in one history.
const EXECUTIONS: usize = 6;
const IMAGES_A_POINT: u64 = 8;

/// Records histories of one subject and crashes them.
pub struct Bench<'a> {
    setup: Setup<'a>,
}

/// A history that ran.
pub struct History {
    run: Rc<Run>,
    plan: Plan,
    /// The death of the process in another history that this one begins with: until the store is open, power loss may still take
    /// what that process had not made safe, and that history judges.
    after: Option<(Rc<Run>, CrashPoint)>,
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

/// Lines keep their stores in order on some processors and not on others.
pub fn model(seed: u64) -> Model {
    if seed.is_multiple_of(3) { Model::Strict } else { Model::Prefix }
}

/// Where the absence of a site may show in a trace: the neighbourhood of some of its executions.
pub fn near(trace: &Trace, site: SiteId, seed: u64) -> Vec<Range<Position>> {
    let mut rng = Rng::new(seed);
    let useful = trace.useful();
    let mut executions = trace.executions(site);
    // What had nothing to do, is not missed.
    if executions.iter().any(|at| useful[*at]) {
        executions.retain(|at| useful[*at]);
    }
    while executions.len() > EXECUTIONS {
        executions.remove(rng.below(executions.len() as u64) as usize);
    }
    let mut ranges = Vec::new();
    for at in executions {
        let effect = trace.effect(at);
        if effect.len() <= 2 * ENDS + BETWEEN {
            ranges.push(effect);
            continue;
        }
        ranges.extend([effect.start..effect.start + ENDS, effect.end - ENDS..effect.end]);
        let steps = effect.clone().filter(|at| useful.get(*at) == Some(&true));
        ranges.extend(steps.take(STEPS).map(|at| at..at + 1));
        for _ in 0..BETWEEN {
            let position = effect.start + rng.below(effect.len() as u64) as usize;
            ranges.push(position..position + 1);
        }
    }
    ranges
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

    /// Runs the history of a seed, and up to `second` that begin with the recovery from a crash in it, and as many from the death
    /// of the process before something was made safe; they go on for so many `steps`.
    ///
    /// # Errors
    /// What is wrong without any crash.
    pub fn record(&self, seed: u64, second: usize, steps: usize) -> Result<Vec<History>, String> {
        let plan = Plan::new(seed, &self.setup);
        let run = Rc::new(self.setup.drive(&plan)?);
        let mut histories = vec![];
        if second > 0 {
            histories = self.after_crashes(&plan, &run, second, steps, false)?;
            histories.extend(self.after_crashes(&plan, &run, second, steps, true)?);
        }
        histories.insert(0, History { run, plan, after: None });
        Ok(histories)
    }

    /// Each begins with a crash right before a fence or sync took effect, at another site if there are enough: where `deaths`, the
    /// death of the process where that would have made something safe.
    fn after_crashes(
        &self,
        plan: &Plan,
        run: &Rc<Run>,
        count: usize,
        steps: usize,
        deaths: bool,
    ) -> Result<Vec<History>, String> {
        let kind = self.setup.options.media;
        let mut rng = Rng::new(plan.seed);
        let useful = if deaths { run.trace.useful() } else { Vec::new() };
        let mut sites = run.trace.sites();
        sites.retain(|site| matches!(run.trace.site(*site).1, SiteKind::Fence | SiteKind::Sync));
        let mut histories = Vec::new();
        while histories.len() < count && !sites.is_empty() {
            let mut executions =
                run.trace.executions(sites.swap_remove(rng.below(sites.len() as u64) as usize));
            executions.retain(|at| *at > run.created && (!deaths || useful[*at]));
            if executions.is_empty() {
                continue;
            }
            let at = executions[rng.below(executions.len() as u64) as usize];
            let explored = RefCell::new(Explored::default());
            let judge = Judge::new(&self.setup, plan, run, usize::MAX, &explored);
            // After a power loss not the first choice, which is that everything is lost. The death of the process leaves one
            // image, whose unflushed lines a later power loss may still take.
            let power = !deaths && !rng.one_in(3);
            let mut turn = if power { rng.below(6) } else { 6 };
            let explored = Explorer::new(rng.bits())
                .only(if power { Crash::Power } else { Crash::Process })
                .within(std::iter::once(at..at + 2).collect())
                .images_per_point(8)
                .store_sample(1)
                .minimise(false)
                .explore(&run.trace, |point, image| -> Result<(), String> {
                    turn += 1;
                    if turn != 7 {
                        return Ok(());
                    }
                    let clock_us = run.clock_us(point.position);
                    let (recorder, copy) = image.recording(point.crash);
                    let (store, initial) = judge.recover(&Media::of(kind, image), clock_us)?;
                    drop(store);
                    let media = Media::of(kind, &copy);
                    let start = Start { recorder, media, clock_us, initial };
                    let seed = Rng::new(plan.seed ^ point.position as u64).bits();
                    let plan = plan.after_crash(seed, &self.setup, steps);
                    let first = run;
                    let run = drive(&self.setup, start, &plan)
                        .map_err(|error| format!("after the recovery: {error}"))?;
                    let after = (!power).then(|| (first.clone(), *point));
                    histories.push(History { run: Rc::new(run), plan, after });
                    Ok(())
                });
            explored.map_err(|failure| failure.to_string())?;
        }
        Ok(histories)
    }

    /// Crashes a history.
    pub fn crash(&self, history: &History, crashes: Crashes) -> Outcome {
        let run = &history.run;
        let explored = RefCell::new(Explored::default());
        let mut judge = Judge::new(&self.setup, &history.plan, run, usize::MAX, &explored);
        judge.after =
            history.after.as_ref().map(|(run, point)| After { run, point: *point, since: run.created });
        let judged = Cell::new(0);
        // Where only a few points are near, each of them counts.
        let points = if crashes.near.is_some() { 0 } else { run.trace.len() as u64 };
        // The death of the process alone takes nothing back, flushed or not.
        let mut explorer = Explorer::new(crashes.seed)
            .only(Crash::Power)
            .model(history.plan.manner.model)
            .images_per_point(IMAGES_A_POINT)
            .point_sample((points * IMAGES_A_POINT / crashes.images.max(1)).max(1))
            .store_sample(4)
            .minimise(false);
        if let Some(site) = crashes.near {
            explorer = explorer.within(near(&run.trace, site, crashes.seed));
        }
        if let Some(site) = crashes.without {
            explorer = explorer.without_site(site);
        }
        let result = explorer.explore(&run.trace, |point, image| {
            if judged.get() >= crashes.images {
                return Ok(());
            }
            judged.set(judged.get() + 1);
            judge.check(point, image)
        });
        Outcome { images: judged.get(), wrong: result.err().map(|failure| failure.message) }
    }
}
