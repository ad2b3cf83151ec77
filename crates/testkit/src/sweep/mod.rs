//! The crash sweep: seeded histories of two sessions and background steps, crashed everywhere, each image recovered and
//! judged.
//!
//! ```text
//!   seed -> plan: steps --> run: store on recording media --> trace, ledger
//!                                                               |       |
//!                              crash images <-- Explorer -------'       v
//!                                   |                                 oracle
//!                                   '--> judge: open, read all, count ---+--> fine, or seed and shortest history
//!                                          |-> recover again: the same?
//!                                          '-> record the recovery, go on a little, crash that too
//! ```
//!
//! Everything runs on one thread a history and depends on its seed alone. The engine comes in as a [`Subject`]: what opens
//! it lives in its own tests.

mod coverage;
mod judge;
mod lane;
mod ledger;
mod media;
mod plan;
mod run;
mod summary;
pub mod without;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use terrace_engine::clock::Clock;
use terrace_engine::{Durability, Progress, Store, StoreError};
use terrace_media_sim::Recorder;
use terrace_media_sim::shrink::shortest;

pub use coverage::Coverage;
pub use media::{Media, MediaKind};
pub use summary::{Summary, SweepFailure};

use lane::Stop;
use media::{Bytes, SweepClock};
use plan::{Step, plan};
use run::{Run, Start, drive};

/// When histories begin, in microseconds since the Unix epoch.
const START_US: u64 = 1_800_000_000_000_000;
/// One history in so many begins with making the store.
const FRESH: u64 = 8;
/// Background steps until a store that nobody uses has nothing to do.
const QUIET_STEPS: u32 = 2_000;
/// So many without work in a row mean that there is none.
const IDLE_STEPS: u32 = 16;

/// What to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The kind of media.
    pub media: MediaKind,
    /// The mode whose promise is checked.
    pub durability: Durability,
    /// Histories.
    pub histories: u64,
    /// Crash images in all, about.
    pub images: u64,
    /// The first history's seed; the others follow.
    pub seed: u64,
    /// OS threads; each runs whole histories.
    pub threads: usize,
    /// Reduce failing histories to the steps that matter.
    pub reduce: bool,
    /// Stop after so many failures.
    pub failures_max: usize,
}

/// What histories may do to a subject, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the region, or of the data device.
    pub data_bytes: usize,
    /// Bytes of the log device, where that is another.
    pub log_bytes: usize,
    /// The longest value of an ordinary record.
    pub inline_bytes: usize,
    /// The longest value to write.
    pub large_bytes: usize,
}

/// An engine under the sweep.
pub trait Subject: Sync {
    /// A tiny store's shape.
    fn shape(&self, media: MediaKind) -> Shape;
    /// Opens a store with room for three sessions; `fresh` makes one on blank media.
    ///
    /// # Errors
    /// The engine's.
    fn open(
        &self,
        media: &Media,
        durability: Durability,
        clock: Arc<dyn Clock>,
        fresh: bool,
    ) -> Result<Box<dyn Store>, StoreError>;
}

struct Setup<'a> {
    subject: &'a dyn Subject,
    options: &'a SweepOptions,
    shape: Shape,
    /// An empty store.
    template: Bytes,
}

impl Setup<'_> {
    fn open(
        &self,
        media: &Media,
        clock: &Arc<SweepClock>,
        fresh: bool,
    ) -> Result<Box<dyn Store>, StoreError> {
        self.subject.open(media, self.options.durability, clock.clone(), fresh)
    }

    /// The count is exact once the store is quiet.
    fn count(&self, store: &dyn Store, live: usize) -> Result<(), String> {
        let (mut steps, mut idle) = (0, 0);
        while store.len(0) != live as u64 {
            idle = if store.step() == Progress::Worked { 0 } else { idle + 1 };
            steps += 1;
            if idle > IDLE_STEPS || steps > QUIET_STEPS {
                return Err(format!("the store counts {} keys, {live} are there", store.len(0)));
            }
        }
        Ok(())
    }

    fn blank(&self) -> Bytes {
        let Shape { data_bytes, log_bytes, .. } = self.shape;
        Bytes(match self.options.media {
            MediaKind::Byte => vec![vec![0; data_bytes]],
            MediaKind::Block => vec![vec![0; log_bytes], vec![0; data_bytes]],
        })
    }

    /// Runs the steps; a panic is a failure.
    fn drive(&self, seed: u64, steps: &[Step]) -> Result<Run, Stop> {
        let fresh = seed.is_multiple_of(FRESH);
        let recorder = Recorder::new();
        let blank;
        let bytes = if fresh {
            blank = self.blank();
            &blank
        } else {
            &self.template
        };
        let media = Media::recorded(self.options.media, bytes, &recorder);
        let start = Start { recorder, media, fresh, clock_us: START_US, initial: BTreeMap::new() };
        match catch_unwind(AssertUnwindSafe(|| drive(self, seed, start, steps))) {
            Ok(run) => run,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(Stop::Failed(format!("without any crash: a panic: {}", text.unwrap_or("(no message)"))))
            }
        }
    }

    /// Runs and explores one history; what failed, if anything.
    fn history(&self, seed: u64, steps: &[Step], summary: &mut Summary) -> Result<(), String> {
        let run = match self.drive(seed, steps) {
            Ok(run) => run,
            Err(Stop::Void) => {
                summary.void += 1;
                return Ok(());
            }
            Err(Stop::Failed(error)) => return Err(error),
        };
        let images = self.options.images / self.options.histories.max(1);
        summary.sites.extend(run.trace.sites().into_iter().map(|site| run.trace.site_name(site)));
        let explored = judge::explore(self, &run, seed, images, 0).map_err(|failure| {
            summary.statistics += failure.statistics;
            failure.to_string()
        })?;
        summary.statistics += explored.statistics;
        summary.nested += explored.nested;
        summary.coverage.merge(&run.coverage);
        summary.coverage.merge(&explored.coverage);
        Ok(())
    }

    fn one(&self, seed: u64, summary: &mut Summary) {
        let logged = self.options.durability != Durability::None;
        let steps = plan(seed, &self.shape, logged, logged);
        let Err(error) = self.history(seed, &steps, summary) else { return };
        let mut failure = SweepFailure { seed, error, steps: Vec::new() };
        if self.options.reduce {
            let first = class(&failure.error);
            let run = |steps: &[Step]| match self.history(seed, steps, &mut Summary::default()) {
                // Another failure is another story.
                Err(error) if class(&error) != first => Ok(()),
                result => result,
            };
            if let Some((steps, error)) = shortest(&steps, run) {
                failure.error = error;
                failure.steps = steps.iter().map(|step| format!("{step:?}")).collect();
            }
        }
        summary.failures.push(failure);
    }
}

/// Which kind of failure this is, so that its reduction doesn't end in another.
fn class(error: &str) -> Option<usize> {
    let kinds =
        ["hangs", "never settle", "Poisoned", "counts", "must be there", "half there", "opening", "panic"];
    kinds.iter().position(|kind| error.contains(kind))
}

/// Sweeps. `progress` is called after each history with what was found so far.
///
/// # Errors
/// If not even an empty store can be made.
pub fn sweep(
    subject: &dyn Subject,
    options: &SweepOptions,
    progress: &(dyn Fn(&Summary) + Sync),
) -> Result<Summary, StoreError> {
    let shape = subject.shape(options.media);
    let mut setup = Setup { subject, options, shape, template: Bytes(Vec::new()) };
    let media = Media::recorded(options.media, &setup.blank(), &Recorder::new());
    drop(setup.open(&media, &Arc::new(SweepClock::new(START_US)), true)?);
    setup.template = media.to_bytes();
    let total = Mutex::new(Summary::default());
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let work = || {
        while !stop.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= options.histories {
                return;
            }
            let mut mine = Summary::default();
            setup.one(options.seed + number, &mut mine);
            let mut total = total.lock();
            total.merge(mine);
            stop.fetch_or(total.failures.len() >= options.failures_max.max(1), Relaxed);
            progress(&total);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut total = total.into_inner();
    total.failures.sort_by_key(|failure| failure.seed);
    Ok(total)
}
