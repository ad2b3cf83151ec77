//! One history that somebody else chooses: a fuzzer's bytes say what is done, where it crashes and what survives.
//!
//! ```text
//!   the first 64 bytes --> crash points, what survives ----+
//!   the others --> seed, steps of the plan --> run --------+--> the sweep's judge --> fine, or what is wrong
//! ```
//!
//! Behind the last byte everything is zero: no step more, and a crash at the end that takes the most.

use std::cell::RefCell;

use terrace_media_sim::Rng;
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::point::Statistics;
use terrace_media_sim::trace::{SiteId, Trace};

use super::judge::{Explored, Judge};
use super::plan::Plan;
use super::{Setup, Subject, SweepOptions};

/// Steps of a history at most: one input should take milliseconds.
const STEPS: u64 = 80;
/// Crash images of a history at most, beside those inside of recoveries.
const IMAGES: u64 = 12;
/// Bytes at the beginning that choose crashes.
const CRASH_BYTES: usize = 64;
/// One store in so many is a crash point.
const STORE_SAMPLE: u64 = 4;

/// Which flush, fence or sync of a trace is left out.
pub type Without<'a> = &'a dyn Fn(&Trace) -> Option<SiteId>;

/// Runs the history of these bytes and crashes it where they say. Of `options` the media and the promise count alone. What the
/// media lose beyond what they may is `without`'s: a planted bug.
///
/// # Errors
/// What is wrong, with or without a crash; the text ends with the history's steps.
pub fn run(
    subject: &dyn Subject,
    options: &SweepOptions,
    bytes: &[u8],
    without: Option<Without<'_>>,
) -> Result<Statistics, String> {
    let setup = Setup::new(subject, options).map_err(|error| format!("an empty store: {error}"))?;
    let (crashes, steps) = bytes.split_at(bytes.len().min(CRASH_BYTES));
    let (mut crashes, mut steps) = (Rng::from_bytes(crashes), Rng::from_bytes(steps));
    let seed = steps.below(1 << 16);
    let plan = Plan::draw(seed, steps, STEPS, &setup);
    let told = |error: String| format!("{error}\n  {:?}, steps {:?}", plan.manner, plan.steps);
    let run = setup.drive(&plan).map_err(told)?;
    let explored = RefCell::new(Explored::default());
    let mut judge = Judge::new(&setup, &plan, &run, 0, &explored);
    let mut explorer = Explorer::new(seed).model(plan.manner.model).store_sample(STORE_SAMPLE);
    if let Some(site) = without.and_then(|without| without(&run.trace)) {
        explorer = explorer.without_site(site);
    }
    let drawn =
        explorer.explore_drawn(&run.trace, &mut crashes, IMAGES, |point, image| judge.check(point, image));
    drawn.map_err(|failure| told(failure.to_string()))
}
