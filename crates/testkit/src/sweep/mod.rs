//! The crash sweep: seeded histories of up to three sessions and background steps, crashed everywhere, each image recovered and
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
pub mod drawn;
mod judge;
mod lane;
mod ledger;
mod media;
mod plan;
mod run;
mod summary;
pub mod without;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use terrace_engine::clock::Clock;
use terrace_engine::{Durability, Progress, Store, StoreError};
use terrace_media_sim::Recorder;
use terrace_media_sim::shrink::shortest;

pub use coverage::{ASKED, Coverage};
pub use media::{Media, MediaKind};
pub use summary::{Summary, SweepFailure};

use ledger::Content;
use media::{Bytes, SweepClock};
use plan::{Manner, Plan, Step, db_of};
use run::{Run, Start, drive};

/// When histories begin, in microseconds since the Unix epoch.
const START_US: u64 = 1_800_000_000_000_000;
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
    /// Bytes of the log device or the region, where that is another.
    pub log_bytes: usize,
    /// The longest value of an ordinary record.
    pub inline_bytes: usize,
    /// The longest value to write.
    pub large_bytes: usize,
}

/// A tier that histories resize.
#[derive(Clone, Copy, Debug)]
pub struct Resized {
    /// Its name in statistics.
    pub tier: &'static str,
    /// The most that there is room for.
    pub bytes: u64,
    /// Of these sixteenths of it, it is to have so many at least.
    pub least: u64,
}

/// An engine under the sweep.
pub trait Subject: Sync {
    /// Whether it runs on this kind of media.
    fn takes(&self, media: MediaKind) -> bool {
        media != MediaKind::Tiered
    }
    /// Tiers that histories resize, too.
    fn resizes(&self, _media: MediaKind) -> Vec<Resized> {
        Vec::new()
    }
    /// Whether all sets keep the flags that there are, so that they must read what they replace.
    fn sets_read(&self) -> bool {
        false
    }
    /// With what half of the keys begin.
    fn stem(&self) -> &'static str {
        ""
    }
    /// Whether such histories are of large values for the most part and resize often, so that blocks of those move, and then move
    /// again.
    fn moves_large(&self) -> bool {
        false
    }
    /// A tiny store's shape.
    fn shape(&self, media: MediaKind) -> Shape;
    /// Opens a store with room for three sessions.
    ///
    /// # Errors
    /// The engine's.
    fn open(&self, media: &Media, opening: Opening) -> Result<Box<dyn Store>, StoreError>;
}

/// How to open a store.
pub struct Opening {
    /// The mode whose promise is checked.
    pub durability: Durability,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes a store on blank media.
    pub fresh: bool,
    /// What is full evicts instead of refusing.
    pub evict: bool,
    /// A number that a subject with variants chooses one by: it follows from the history's seed.
    pub variant: u64,
}

struct Setup<'a> {
    subject: &'a dyn Subject,
    options: &'a SweepOptions,
    shape: Shape,
    /// An empty store.
    template: Bytes,
}

impl<'a> Setup<'a> {
    /// # Errors
    /// If not even an empty store can be made.
    fn new(subject: &'a dyn Subject, options: &'a SweepOptions) -> Result<Self, StoreError> {
        let shape = subject.shape(options.media);
        let mut setup = Self { subject, options, shape, template: Bytes(Vec::new()) };
        let media = Media::recorded(options.media, &setup.blank(), &Recorder::new());
        let clock = Arc::new(SweepClock::new(START_US));
        let opening =
            Opening { durability: options.durability, clock, fresh: true, evict: false, variant: 0 };
        drop(subject.open(&media, opening)?);
        setup.template = media.to_bytes();
        Ok(setup)
    }

    fn open(
        &self,
        media: &Media,
        clock: &Arc<SweepClock>,
        manner: &Manner,
        fresh: bool,
    ) -> Result<Box<dyn Store>, StoreError> {
        let durability = self.options.durability;
        let Manner { evict, variant, .. } = *manner;
        let opening = Opening { durability, clock: clock.clone(), fresh, evict, variant };
        self.subject.open(media, opening)
    }

    /// The count is exact once the store is quiet; of a cache it is at most that.
    fn count<'k>(
        &self,
        store: &dyn Store,
        live: impl Iterator<Item = &'k u8>,
        manner: &Manner,
    ) -> Result<(), String> {
        let mut expected = [0; 3];
        live.for_each(|key| expected[usize::from(db_of(*key))] += 1);
        let right = || {
            let counted = [store.len(0), store.len(1), store.len(2)];
            let fewer = || counted.iter().zip(&expected).all(|(counted, live)| counted <= live);
            counted == expected || manner.evict && fewer()
        };
        let (mut steps, mut idle) = (0, 0);
        while !right() {
            idle = if store.step() == Progress::Worked { 0 } else { idle + 1 };
            steps += 1;
            if idle > IDLE_STEPS || steps > QUIET_STEPS {
                let counted = [store.len(0), store.len(1), store.len(2)];
                return Err(format!(
                    "the store counts {counted:?} keys in its databases, {expected:?} are there"
                ));
            }
        }
        Ok(())
    }

    fn blank(&self) -> Bytes {
        let Shape { data_bytes, log_bytes, .. } = self.shape;
        Bytes(match self.options.media {
            MediaKind::Byte => vec![vec![0; data_bytes]],
            MediaKind::Block | MediaKind::Tiered => vec![vec![0; log_bytes], vec![0; data_bytes]],
        })
    }

    /// Runs the steps; a panic is a failure.
    fn drive(&self, plan: &Plan) -> Result<Run, String> {
        let recorder = Recorder::new();
        let blank;
        let bytes = if plan.manner.fresh {
            blank = self.blank();
            &blank
        } else {
            &self.template
        };
        let media = Media::recorded(self.options.media, bytes, &recorder);
        let start = Start { recorder, media, clock_us: START_US, initial: Content::default() };
        match catch_unwind(AssertUnwindSafe(|| drive(self, start, plan))) {
            Ok(run) => run,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(format!("without any crash: a panic: {}", text.unwrap_or("(no message)")))
            }
        }
    }

    /// Runs and explores one history; what failed, if anything.
    fn history(&self, plan: &Plan, summary: &mut Summary) -> Result<(), String> {
        let run = self.drive(plan).inspect_err(|_| summary.statistics.histories += 1)?;
        let images = self.options.images_each();
        for (site, used) in run.trace.site_uses() {
            *summary.sites.entry(run.trace.site_name(site)).or_default() += used;
        }
        let explored = judge::explore(self, plan, &run, images).map_err(|failure| {
            summary.statistics += failure.statistics;
            failure.to_string()
        })?;
        summary.statistics += explored.statistics;
        summary.nested += explored.nested;
        summary.coverage.manner(&plan.manner);
        summary.coverage.merge(&run.coverage);
        summary.coverage.merge(&explored.coverage);
        Ok(())
    }

    fn one(&self, seed: u64, summary: &mut Summary) {
        let plan = Plan::new(seed, self);
        let Err(error) = self.history(&plan, summary) else { return };
        let mut failure = SweepFailure { seed, error, steps: Vec::new() };
        if self.options.reduce {
            let first = class(&failure.error);
            let run = |steps: &[Step]| match self.history(&plan.with_steps(steps), &mut Summary::default()) {
                // Another failure is another story.
                Err(error) if class(&error) != first => Ok(()),
                result => result,
            };
            if let Some((steps, error)) = shortest(&plan.steps, run) {
                failure.error = error;
                failure.steps = std::iter::once(format!("{:?}", plan.manner))
                    .chain(steps.iter().map(|step| format!("{step:?}")))
                    .collect();
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

impl SweepOptions {
    /// Images of each history, about.
    pub fn images_each(&self) -> u64 {
        (self.images / self.histories.max(1)).max(1)
    }
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
    let setup = Setup::new(subject, options)?;
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
