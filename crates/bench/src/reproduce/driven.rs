//! A store that is loaded, driven and looked at: what is timed of it.
//!
//! ```text
//!   load N records --> operations that were drawn before, timed --> a sample is read, and must be what was written
//! ```

use std::time::Duration;

use anyhow::ensure;

use crate::Verify;
use crate::client::Client;
use crate::content::Content;
use crate::driver::{Lane, Phase};
use crate::latency::Tally;
use crate::plan::{Planned, share};
use crate::workload::Kind;

/// Records that are read at the end, at least, if there are so many.
const SAMPLE: u64 = 1000;

/// A store, by its clients, and its records.
pub struct Driven<'a> {
    /// Gives another client.
    pub connect: &'a dyn Fn() -> anyhow::Result<Box<dyn Client>>,
    /// Makes keys and values.
    pub content: &'a Content,
    /// How many records it is loaded with.
    pub records: u64,
}

impl Driven<'_> {
    fn phase(&self, name: &'static str, operations: u64, batch: usize) -> Phase<'_> {
        Phase {
            name,
            operations,
            batch,
            content: self.content,
            verify: Verify::All,
            nonce: 0,
            rate: None,
            stop_on_error: true,
        }
    }

    /// Inserts all records, so many together, on so many threads.
    ///
    /// # Errors
    /// If one is refused.
    pub fn load(&self, batch: usize, threads: usize) -> anyhow::Result<Duration> {
        let plan =
            |thread| share(self.records, threads, thread).map(|record| Planned::new(Kind::Insert, record));
        let mut lanes = (0..threads)
            .map(|thread| Ok(Lane { client: (self.connect)()?, plan: Box::new(plan(thread)) }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (tally, took) = self.phase("load", self.records, batch).run(&mut lanes)?;
        ensure!(tally.sets == self.records, "{} of {} inserts were answered", tally.sets, self.records);
        Ok(took)
    }

    /// Runs each thread's operations, which were drawn before.
    ///
    /// # Errors
    /// If one is refused, or a record that is looked for is missing or wrong.
    pub fn run(
        &self,
        name: &'static str,
        batch: usize,
        verify: Verify,
        plans: Vec<Vec<Planned>>,
    ) -> anyhow::Result<(Tally, Duration)> {
        let operations: usize = plans.iter().map(Vec::len).sum();
        let mut lanes = plans
            .into_iter()
            .map(|plan| Ok(Lane { client: (self.connect)()?, plan: Box::new(plan.into_iter()) }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let phase = Phase { nonce: 1 << 63, verify, ..self.phase(name, operations as u64, batch) };
        let (tally, took) = phase.run(&mut lanes)?;
        let Tally { gets, misses, wrong, .. } = tally;
        ensure!(misses + wrong == 0, "{name}: of {gets} records {misses} are missing and {wrong} are wrong");
        Ok((tally, took))
    }

    /// Reads a sample of the records, which must be there.
    ///
    /// # Errors
    /// If one is missing or wrong.
    pub fn check(&self, batch: usize) -> anyhow::Result<()> {
        let step = (self.records / SAMPLE).max(1) as usize;
        let sample = (0..self.records).step_by(step).map(|record| Planned::new(Kind::Get, record));
        let (found, _) = self.run("read", batch, Verify::All, vec![sample.collect()])?;
        ensure!(found.gets > 0, "no record was read");
        Ok(())
    }
}
