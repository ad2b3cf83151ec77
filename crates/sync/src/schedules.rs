//! Exploring the schedules of a test.
//!
//! `SHUTTLE_ITERATIONS` sets how many a test gets, half of them random and half by priorities (PCT); `SHUTTLE_RANDOM_SEED`
//! which. The seed is fixed otherwise, so that a failure comes again; it prints its schedule too.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner, thread};

/// For what a test adds to the product: with these a thread can sleep, and be seen to sleep for ever.
pub use shuttle::sync::{Condvar, Mutex};

const SEED: u64 = 0x7e44_ace5;
/// Schedules of a test unless the environment says otherwise.
const ITERATIONS: usize = 2000;
/// Schedules in which a planted bug must show: fixed, so that finding it does not depend on the environment.
const PLANTED_ITERATIONS: usize = 60_000;
/// Changes of priority in one schedule: a bug that takes so many switches in the right places is found often.
const DEPTH: usize = 4;
/// Steps of one schedule. A test that takes more has a thread that waits for ever.
const STEPS_MAX: usize = 100_000;
/// Shuttle's own 32 KiB are too few for a whole engine in a development build.
const STACK_BYTES: usize = 256 << 10;

/// Explores `test`. Panics, with the schedule, where one fails.
pub fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    let iterations = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok());
    run(test, iterations.unwrap_or(ITERATIONS));
}

/// Explores a test with a bug planted in it, which should panic: the test around it says `should_panic`.
pub fn explore_planted(test: impl Fn() + Send + Sync + Clone + 'static) {
    run(test, PLANTED_ITERATIONS);
}

fn run(test: impl Fn() + Send + Sync + Clone + 'static, iterations: usize) {
    let each = iterations.div_ceil(2);
    run_with(RandomScheduler::new_from_seed(SEED, each), test.clone());
    run_with(PctScheduler::new_from_seed(SEED, DEPTH, each), test);
}

fn run_with(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config).run(test);
}

/// What one thread of a test does.
pub type Thread = Box<dyn FnOnce() + Send>;

/// Runs these at once and waits for all.
pub fn at_once(threads: Vec<Thread>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for thread in threads {
        // A panic ends the whole exploration before this is reached.
        drop(thread.join());
    }
}
