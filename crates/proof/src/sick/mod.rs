//! Sick devices: `cargo xtask sick --help`.
//!
//! ```text
//!   plan: a seeded history --> trial: device that fails or lies at its Nth access --> answers judged against the book
//!                                                    |
//!                                             heal, open again --> all that was acknowledged, and nothing else
//!   flips: an image of a store, one byte at a time --> an error, a poisoned record, a repair, or the right answer
//! ```

mod book;
mod clock;
mod drive;
mod flips;
mod kept;
mod plan;
mod trial;

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use terrace_engine::Durability;
use terrace_media_sim::{Access, FaultKind};
use terrace_testkit::sweep::{MediaKind, Subject};

use crate::subjects;
pub use trial::Part;
use trial::{Bench, Outcome, Sickness};

/// Makes each access of seeded histories fail or lie, in each way, once and for ever, and flips the bytes of small images.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine.
    #[arg(long, default_value = "hetermm")]
    engine: String,
    /// The kind of media: byte, block or tiered; all that the engine takes if not said.
    #[arg(long)]
    media: Option<MediaKind>,
    /// The promise that is checked: sync or batch:MS.
    #[arg(long, default_value = "sync")]
    durability: Durability,
    /// Histories.
    #[arg(long, default_value_t = 20)]
    histories: u64,
    /// The first history's seed; the others follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Histories whose images rot, closed and not, on each kind of media.
    #[arg(long, default_value_t = 1)]
    images: u64,
    /// Of the bytes of an image only one in so many is changed.
    #[arg(long, default_value_t = 1)]
    sample: u64,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
}

/// What trials showed.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Histories that ran.
    pub histories: u64,
    /// Trials in which the fault was reached.
    pub trials: u64,
    /// Trials in which the store went down, and said why.
    pub down: u64,
    /// Trials in which the log failed while the store ran.
    pub log_failed: u64,
    /// Operations that were refused with an error.
    pub refused: u64,
    /// Operations answered right.
    pub answered: u64,
    /// Keys that were poisoned when the device was well again.
    pub poisoned: u64,
    /// Trials in which a write was lost or went astray, the device said that it was synced, and a key came back in an earlier
    /// state.
    pub older: u64,
    /// What is wrong, each with its seed.
    pub failures: Vec<String>,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { histories, trials, down, log_failed, refused, answered, poisoned, older, failures } = self;
        write!(
            f,
            "{histories} histories, {trials} trials, {answered} operations answered right and {refused} refused, \
             {down} times down, {log_failed} times the log failed, {poisoned} keys poisoned, \
             {older} times older after a write that was lost, {} failures",
            failures.len()
        )
    }
}

impl Summary {
    fn note(&mut self, outcome: &Outcome) {
        let Outcome { fired, tally, down, poisoned, older } = outcome;
        self.trials += u64::from(*fired);
        self.down += u64::from(*down);
        self.log_failed += u64::from(tally.log_failed > 0);
        self.refused += tally.io + tally.full + tally.poisoned + tally.log_failed;
        self.answered += tally.acknowledged + tally.answered;
        self.poisoned += poisoned;
        self.older += u64::from(*older);
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The promise.
    pub durability: Durability,
    /// Histories.
    pub histories: u64,
    /// The first one's seed.
    pub seed: u64,
    /// Of all trials of a history only one in so many; 1 for all.
    pub sample: u64,
    /// The devices that are sick in turn.
    pub parts: &'static [Part],
    /// The accesses that are.
    pub accesses: &'static [Access],
    /// Stop after so many failures.
    pub failures_max: usize,
}

/// Both devices.
pub const BOTH: &[Part] = &[Part::Log, Part::Data];
/// Every access.
pub const ALL: &[Access] = &[Access::Read, Access::Write, Access::Sync];

/// Each way in which an access may fail or lie; whether once and for ever differ.
fn kinds(access: Access) -> &'static [(FaultKind, bool)] {
    use FaultKind::*;
    match access {
        Access::Read => &[
            (Io, true),
            (Partial { sectors: 1 }, false),
            (Flip { byte: 0, mask: 0x10 }, false),
            (Flip { byte: 100, mask: 1 }, false),
            (Flip { byte: 4090, mask: 0x80 }, false),
            (Stale, false),
            (Misdirected { pages: 2 }, false),
            (Misdirected { pages: 7 }, false),
        ],
        Access::Write => &[
            (Io, true),
            (NoSpace, true),
            (Partial { sectors: 1 }, false),
            (Partial { sectors: 9 }, false),
            (Lost, false),
            (Misdirected { pages: 2 }, false),
            (Misdirected { pages: 7 }, false),
        ],
        Access::Sync => &[(Io, false)],
    }
}

/// Tries sick devices: both of block media, or the one beside the memory.
///
/// # Errors
/// If not even a store on a device that is well works.
pub fn devices(
    subject: &dyn Subject,
    media: MediaKind,
    options: &Options,
    progress: &dyn Fn(&Summary),
) -> Result<Summary, String> {
    let bench = Bench::new(subject, media, options.durability)?;
    let shape = subject.shape(media);
    let mut summary = Summary::default();
    let mut turn = options.seed;
    for seed in options.seed..options.seed + options.histories {
        let steps = plan::plan(seed, &shape);
        let count =
            |steps: &[plan::Step]| bench.count(steps).map_err(|text| format!("history {seed}: {text}"));
        let counts = count(&steps)?;
        // What a lost write took away is looked at when the device is well again, not half-way.
        let mut unbroken = steps.clone();
        unbroken.retain(|step| !matches!(step, plan::Step::Restart | plan::Step::Kill));
        let unbroken_counts = count(&unbroken)?;
        for ((part, counts), (_, unbroken_counts)) in counts.into_iter().zip(unbroken_counts) {
            for (access, count) in ALL.iter().copied().zip(counts) {
                if !options.parts.contains(&part) || !options.accesses.contains(&access) {
                    continue;
                }
                for &(kind, twice) in kinds(access) {
                    let loses = access == Access::Write
                        && matches!(kind, FaultKind::Lost | FaultKind::Misdirected { .. });
                    let (steps, count) =
                        if loses { (&unbroken, unbroken_counts[1]) } else { (&steps, count) };
                    for forever in [false, true].into_iter().take(1 + usize::from(twice)) {
                        for after in 0..count {
                            turn += 1;
                            if !turn.is_multiple_of(options.sample) {
                                continue;
                            }
                            let power = (turn / options.sample).is_multiple_of(2);
                            let sickness = Sickness { part, access, kind, after, forever, power };
                            match bench.trial(steps, &sickness, turn) {
                                Ok(outcome) => summary.note(&outcome),
                                Err(text) => {
                                    summary.failures.push(format!("history {seed}, {sickness:?}: {text}"));
                                    if summary.failures.len() >= options.failures_max {
                                        return Ok(summary);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        summary.histories += 1;
        progress(&summary);
    }
    Ok(summary)
}

/// What rotten images showed.
#[derive(Clone, Debug, Default)]
pub struct Rotten {
    /// Images, and the changes that were tried.
    pub images: u64,
    /// Bytes flipped, stretches zeroed and swapped.
    pub tried: u64,
    /// The store did not open.
    pub refused: u64,
    /// Some key answered an error.
    pub poisoned: u64,
    /// Every answer was right.
    pub right: u64,
    /// A whole block of the log vanished, and some key was as it had been earlier.
    pub older: u64,
    /// What is wrong.
    pub failures: Vec<String>,
}

impl std::fmt::Display for Rotten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { images, tried, refused, poisoned, right, older, failures } = self;
        write!(
            f,
            "{images} images, {tried} changes: {refused} refused, {poisoned} with a poisoned key, {right} answered all right, \
             {older} older for want of a whole block of the log, {} failures",
            failures.len()
        )
    }
}

/// Tries rotten images, closed ones and ones with a live log.
///
/// # Errors
/// If not even a store on a device that is well works.
pub fn images(
    subject: &dyn Subject,
    media: MediaKind,
    options: &Options,
    progress: &dyn Fn(&Rotten),
) -> Result<Rotten, String> {
    try_rots(subject, media, options, progress, &|image, seed| {
        flips::rots(image, options.sample as usize, seed)
    })
}

/// Tries images in which a block of a device's pages vanishes, or changes places with another.
///
/// # Errors
/// If not even a store on a device that is well works.
pub fn vanished_blocks(subject: &dyn Subject, media: MediaKind, options: &Options) -> Result<Rotten, String> {
    try_rots(subject, media, options, &|_| {}, &|image, _| flips::block_rots(image))
}

fn try_rots(
    subject: &dyn Subject,
    media: MediaKind,
    options: &Options,
    progress: &dyn Fn(&Rotten),
    rots: &dyn Fn(&flips::Image, u64) -> Vec<flips::Rot>,
) -> Result<Rotten, String> {
    let mut rotten = Rotten::default();
    for seed in options.seed..options.seed + options.histories {
        for closed in [true, false] {
            let image = flips::Image::new(subject, media, options.durability, seed, closed)?;
            let mut log_tails = 0;
            for (i, rot) in rots(&image, seed).into_iter().enumerate() {
                rotten.tried += 1;
                match image.rot(subject, rot, i.is_multiple_of(8)) {
                    Ok(flips::Fate::Refused) => rotten.refused += 1,
                    Ok(flips::Fate::Poisoned) => rotten.poisoned += 1,
                    Ok(flips::Fate::Right) => rotten.right += 1,
                    Ok(flips::Fate::Older) => {
                        rotten.older += 1;
                        log_tails += usize::from(matches!(rot, flips::Rot::Zero { device: 0, .. }));
                    }
                    Err(text) => {
                        rotten.failures.push(format!("image {seed}, closed {closed}, {rot:?}: {text}"));
                        if rotten.failures.len() >= options.failures_max {
                            return Ok(rotten);
                        }
                    }
                }
                if i.is_multiple_of(1000) {
                    progress(&rotten);
                }
            }
            rotten.images += 1;
            let ends = if closed { 0 } else { 2 * plan::SESSIONS };
            if log_tails > ends {
                let text = format!(
                    "{log_tails} blocks of the log vanish and nobody notices; {ends} can be the last"
                );
                rotten.failures.push(format!("image {seed}, closed {closed}: {text}"));
            }
        }
    }
    Ok(rotten)
}

/// Runs the command.
///
/// # Errors
/// If the engine is unknown, or a store on a device that is well does not work.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subject = subjects::by_name(&arguments.engine).map_err(anyhow::Error::msg)?;
    let bar = ProgressBar::new(arguments.histories);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} histories, {msg}, {eta} left")?);
    let options = Options {
        durability: arguments.durability,
        histories: arguments.histories,
        seed: arguments.seed,
        sample: 1,
        parts: BOTH,
        accesses: ALL,
        failures_max: arguments.failures,
    };
    let mut failed = false;
    let mut kinds = vec![MediaKind::Byte, MediaKind::Block, MediaKind::Tiered];
    kinds.retain(|media| subject.takes(*media) && arguments.media.is_none_or(|asked| asked == *media));
    anyhow::ensure!(!kinds.is_empty(), "engine {} takes no such media", arguments.engine);
    for media in kinds.iter().copied().filter(|media| media.is_read_late()) {
        let summary = devices(subject, media, &options, &|summary| {
            bar.set_position(summary.histories);
            bar.set_message(format!("{} trials, {} failures", summary.trials, summary.failures.len()));
        });
        let summary = summary.map_err(anyhow::Error::msg)?;
        bar.finish_and_clear();
        summary.failures.iter().for_each(|failure| println!("{failure}"));
        println!(
            "{}, sick devices of {media} media, durability {}: {summary}",
            arguments.engine, arguments.durability
        );
        failed |= !summary.failures.is_empty();
    }
    for media in kinds {
        let options = Options { histories: arguments.images, sample: arguments.sample.max(1), ..options };
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}")?);
        let rotten = images(subject, media, &options, &|rotten| {
            bar.set_message(format!("{media} media: {rotten}"));
            bar.tick();
        });
        let rotten = rotten.map_err(anyhow::Error::msg)?;
        bar.finish_and_clear();
        rotten.failures.iter().for_each(|failure| println!("{failure}"));
        println!("{}, rotten {media} media: {rotten}", arguments.engine);
        failed |= !rotten.failures.is_empty();
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
