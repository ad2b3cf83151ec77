//! A store in this process: one session, and batches that are used again and again.

use std::collections::VecDeque;
use std::time::Instant;

use terrace::engine::{Batch, Condition, Direction, Expiry, OpKind, RangeStart, Reply, Session, Settled};

use super::{Client, Work};
use crate::Verify;
use crate::content::Content;
use crate::latency::Tally;
use crate::plan::Planned;
use crate::workload::Kind;

/// A session of an open store.
pub struct Local {
    session: Box<dyn Session>,
    /// Submitted, oldest first. Its answers are taken in this order, and a batch's time ends when its turn has come.
    flying: VecDeque<Flight>,
    /// Not in use.
    landed: Vec<Flight>,
    in_flight: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A batch, and what it is about.
struct Flight {
    batch: Batch,
    operations: Vec<Planned>,
    start: Instant,
}

impl Local {
    /// A client of this session that keeps up to so many batches in flight.
    pub fn new(session: Box<dyn Session>, in_flight: usize) -> Self {
        let flight = || Flight { batch: Batch::new(), operations: Vec::new(), start: Instant::now() };
        let landed = (0..in_flight.max(1)).map(|_| flight()).collect();
        let flying = VecDeque::new();
        Self { session, flying, landed, in_flight, key: Vec::new(), value: Vec::new() }
    }

    fn fill(&mut self, work: &Work<'_>, flight: &mut Flight) {
        flight.operations.clear();
        flight.operations.extend_from_slice(work.operations);
        let batch = &mut flight.batch;
        batch.clear();
        for (planned, nonce) in work.operations.iter().zip(work.nonce..) {
            work.content.key(planned.record(), &mut self.key);
            if planned.kind().reads() {
                batch.push(0, &self.key, OpKind::Get { value: true });
            }
            if planned.kind() == Kind::Scan {
                let (from, direction) = (RangeStart::At, Direction::Forward);
                let count = planned.length() as u32;
                batch.push(0, &self.key, OpKind::Range { from, direction, count, values: true });
            }
            if planned.kind().writes() {
                work.content.value(planned.record(), nonce, &mut self.value);
                let value = batch.bytes(&self.value);
                let set = OpKind::Set {
                    value,
                    condition: Condition::Always,
                    expiry: Expiry::Clear,
                    flags: Some(0),
                    old_value: false,
                };
                batch.push(0, &self.key, set);
            }
        }
    }

    /// Waits for the oldest batch and counts its answers.
    fn land(&mut self, content: &Content, verify: Verify, tally: &mut Tally) -> anyhow::Result<()> {
        let Some(mut flight) = self.flying.pop_front() else { return Ok(()) };
        let settled = self.session.wait(&mut flight.batch);
        tally.record_batch(&flight.operations, flight.start.elapsed());
        let work = Work { operations: &flight.operations, content, verify, nonce: 0, due: None };
        self.count(&work, &flight.batch, &settled, tally)?;
        self.landed.push(flight);
        Ok(())
    }

    fn count(
        &mut self,
        work: &Work<'_>,
        batch: &Batch,
        settled: &Settled,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut answer = 0;
        for planned in work.operations {
            if planned.kind().reads() {
                match batch.reply(answer, settled) {
                    Reply::Hit { value: Some(value), .. } => {
                        work.read(planned.record(), Some(batch.output(value)), tally);
                    }
                    Reply::Miss => work.read(planned.record(), None, tally),
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a get was answered by {other:?}"),
                }
                answer += 1;
            }
            if planned.kind() == Kind::Scan {
                match batch.reply(answer, settled) {
                    Reply::Ranged { .. } => self.scanned(work, *planned, (batch, answer, settled), tally),
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a range was answered by {other:?}"),
                }
                answer += 1;
            }
            if planned.kind().writes() {
                match batch.reply(answer, settled) {
                    Reply::Stored { .. } => tally.sets += 1,
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a set was answered by {other:?}"),
                }
                answer += 1;
            }
        }
        Ok(())
    }

    /// Counts the records of a scan. One that is compared must begin with its own record, and be in order.
    fn scanned(
        &mut self,
        work: &Work<'_>,
        planned: Planned,
        (batch, answer, settled): (&Batch, usize, &Settled),
        tally: &mut Tally,
    ) {
        let mut rows = batch.ranged(answer, settled);
        let Some(first) = rows.next() else {
            return work.read(planned.record(), None, tally);
        };
        let compare = work.verify.wants(tally.gets);
        work.content.key(planned.record(), &mut self.key);
        let own = batch.output(first.key) == self.key;
        work.read(planned.record(), first.value.filter(|_| own).map(|v| batch.output(v)), tally);
        let mut last = first.key;
        let mut in_order = true;
        for row in rows {
            tally.gets += 1;
            if compare {
                in_order &= batch.output(last) < batch.output(row.key);
                in_order &= row.value.is_some_and(|value| value.len() == work.content.value_bytes());
                last = row.key;
            }
        }
        tally.wrong += u64::from(!in_order);
    }
}

impl Client for Local {
    fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        while self.flying.len() >= self.in_flight {
            self.land(work.content, work.verify, tally)?;
        }
        let Some(mut flight) = self.landed.pop() else { anyhow::bail!("a batch was lost") };
        self.fill(work, &mut flight);
        flight.start = work.due.unwrap_or_else(Instant::now);
        self.session.execute(&mut flight.batch);
        self.flying.push_back(flight);
        if self.in_flight == 1 { self.land(work.content, work.verify, tally) } else { Ok(()) }
    }

    fn finish(&mut self, content: &Content, verify: Verify, tally: &mut Tally) -> anyhow::Result<()> {
        while !self.flying.is_empty() {
            self.land(content, verify, tally)?;
        }
        Ok(())
    }
}
