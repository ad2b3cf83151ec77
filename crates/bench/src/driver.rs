//! Runs one phase: every thread its operations, batch by batch, all starting together.
//!
//! *Thread safety*: threads share the content (read only), the barrier and the progress counters; each has a client, a plan
//! and a tally of its own. *Invariants*: the phase's clock starts when the first thread leaves the barrier, which
//! all reach with their plans ready, and ends when the last thread has its last answer.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::client::{Client, Work};
use crate::content::Content;
use crate::latency::Tally;
use crate::plan::Planned;
use crate::progress::{Done, watch};
use crate::{Verify, interrupt};

/// What one thread brings to a phase.
pub struct Lane {
    /// Its way to the store.
    pub client: Box<dyn Client>,
    /// Its operations.
    pub plan: Box<dyn Plan>,
}

/// Operations in order. Lazy for a load, whose plan is a range; drawn before for a measured phase.
pub trait Plan: Iterator<Item = Planned> + Send {}
impl<T: Iterator<Item = Planned> + Send> Plan for T {}

/// A phase for all threads.
pub struct Phase<'a> {
    /// The name on the progress bar.
    pub name: &'static str,
    /// Operations of all threads.
    pub operations: u64,
    /// Operations submitted together.
    pub batch: usize,
    /// Makes keys and values.
    pub content: &'a Content,
    /// Which reads to compare.
    pub verify: Verify,
    /// Makes this phase's values differ from those of others.
    pub nonce: u64,
    /// Operations a second of all threads; `None`: as many as the store takes.
    pub rate: Option<u64>,
    /// End at the first refused operation: a load that lacks records makes what follows meaningless.
    pub stop_on_error: bool,
}

/// When a thread's batches are due. Who is late submits at once, and later ones are due when they were: what a slow answer holds
/// up counts in the times of those behind it.
struct Pace {
    next: Instant,
    gap: Duration,
}

impl Pace {
    /// Waits until the next batch is due, and says when that was.
    fn wait(&mut self) -> Instant {
        let due = self.next;
        self.next += self.gap;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

impl Phase<'_> {
    /// Runs it; returns the sum of the threads' tallies, and how long it took.
    ///
    /// # Errors
    /// If a client fails, an operation is refused and that is not to be counted, or the run is interrupted.
    pub fn run(&self, lanes: &mut [Lane]) -> anyhow::Result<(Tally, Duration)> {
        let start_line = Barrier::new(lanes.len() + 1);
        let done = Done::new(lanes.len());
        let observer = std::thread::current();
        let count = lanes.len();
        std::thread::scope(|scope| {
            let workers: Vec<_> = lanes
                .iter_mut()
                .enumerate()
                .map(|(thread, lane)| {
                    let (start_line, done, observer) = (&start_line, &done, &observer);
                    scope.spawn(move || {
                        start_line.wait();
                        let start = Instant::now();
                        let tally = self.lane(thread, lane, self.pace(count, start), done);
                        let end = Instant::now();
                        observer.unpark();
                        tally.map(|tally| (tally, start, end))
                    })
                })
                .collect();
            start_line.wait();
            watch(self.name, self.operations, &done, || workers.iter().all(|worker| worker.is_finished()));
            let mut sum = Tally::new()?;
            let mut span: Option<(Instant, Instant)> = None;
            for worker in workers {
                let (tally, start, end) =
                    worker.join().map_err(|_| anyhow::anyhow!("a benchmark thread panicked"))??;
                span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
                sum.add(tally)?;
            }
            Ok((sum, span.map_or(Duration::ZERO, |(first, last)| last - first)))
        })
    }

    fn pace(&self, lanes: usize, start: Instant) -> Option<Pace> {
        let batches_a_second = self.rate? as f64 / (self.batch * lanes) as f64;
        Some(Pace { next: start, gap: Duration::from_secs_f64(1.0 / batches_a_second) })
    }

    fn lane(
        &self,
        thread: usize,
        lane: &mut Lane,
        mut pace: Option<Pace>,
        done: &Done,
    ) -> anyhow::Result<Tally> {
        let mut tally = Tally::new()?;
        let mut operations = Vec::with_capacity(self.batch);
        let mut nonce = self.nonce.wrapping_add((thread as u64) << 40);
        loop {
            operations.clear();
            operations.extend(lane.plan.by_ref().take(self.batch));
            interrupt::check()?;
            if operations.is_empty() {
                lane.client.finish(self.content, self.verify, &mut tally)?;
                self.check(&tally)?;
                return Ok(tally);
            }
            let due = pace.as_mut().map(Pace::wait);
            let work =
                Work { operations: &operations, content: self.content, verify: self.verify, nonce, due };
            lane.client.run(&work, &mut tally)?;
            nonce = nonce.wrapping_add(operations.len() as u64);
            done.add(thread, operations.len() as u64);
            self.check(&tally)?;
        }
    }

    fn check(&self, tally: &Tally) -> anyhow::Result<()> {
        match tally.errors.keys().next() {
            Some(reason) if self.stop_on_error => anyhow::bail!("{} failed: {reason}", self.name),
            _ => Ok(()),
        }
    }
}
