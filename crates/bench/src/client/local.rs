//! A store in this process: one session, one reused batch.

use std::time::{Duration, Instant};

use terrace::engine::{Batch, Condition, Direction, Expiry, OpKind, RangeStart, Reply, Session, Settled};

use super::{Client, Work};
use crate::latency::Tally;
use crate::plan::Planned;
use crate::workload::Kind;

/// A session of an open store.
pub struct Local {
    session: Box<dyn Session>,
    batch: Batch,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Local {
    /// A client of this session.
    pub fn new(session: Box<dyn Session>) -> Self {
        Self { session, batch: Batch::new(), key: Vec::new(), value: Vec::new() }
    }

    fn fill(&mut self, work: &Work<'_>) {
        self.batch.clear();
        for (planned, nonce) in work.operations.iter().zip(work.nonce..) {
            work.content.key(planned.record(), &mut self.key);
            if planned.kind().reads() {
                self.batch.push(0, &self.key, OpKind::Get { value: true });
            }
            if planned.kind() == Kind::Scan {
                let (from, direction) = (RangeStart::At, Direction::Forward);
                let count = planned.length() as u32;
                self.batch.push(0, &self.key, OpKind::Range { from, direction, count, values: true });
            }
            if planned.kind().writes() {
                work.content.value(planned.record(), nonce, &mut self.value);
                let value = self.batch.bytes(&self.value);
                let set = OpKind::Set {
                    value,
                    condition: Condition::Always,
                    expiry: Expiry::Clear,
                    flags: None,
                    old_value: false,
                };
                self.batch.push(0, &self.key, set);
            }
        }
    }

    /// Counts the records of a scan. One that is compared must begin with its own record, and be in order.
    fn scanned(
        &mut self,
        work: &Work<'_>,
        planned: Planned,
        answer: usize,
        settled: &Settled,
        tally: &mut Tally,
    ) {
        let mut rows = self.batch.ranged(answer, settled);
        let Some(first) = rows.next() else {
            return work.read(planned.record(), None, tally);
        };
        let compare = work.verify.wants(tally.gets);
        work.content.key(planned.record(), &mut self.key);
        let own = self.batch.output(first.key) == self.key;
        work.read(planned.record(), first.value.filter(|_| own).map(|v| self.batch.output(v)), tally);
        let mut last = first.key;
        let mut in_order = true;
        for row in rows {
            tally.gets += 1;
            if compare {
                in_order &= self.batch.output(last) < self.batch.output(row.key);
                in_order &= row.value.is_some_and(|value| value.len() == work.content.value_bytes());
                last = row.key;
            }
        }
        tally.wrong += u64::from(!in_order);
    }
}

impl Client for Local {
    fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<Duration> {
        self.fill(work);
        let start = Instant::now();
        self.session.execute(&mut self.batch);
        let settled = self.session.wait(&mut self.batch);
        let took = start.elapsed();

        let mut answer = 0;
        for planned in work.operations {
            if planned.kind().reads() {
                match self.batch.reply(answer, &settled) {
                    Reply::Hit { value: Some(value), .. } => {
                        work.read(planned.record(), Some(self.batch.output(value)), tally);
                    }
                    Reply::Miss => work.read(planned.record(), None, tally),
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a get was answered by {other:?}"),
                }
                answer += 1;
            }
            if planned.kind() == Kind::Scan {
                match self.batch.reply(answer, &settled) {
                    Reply::Ranged { .. } => self.scanned(work, *planned, answer, &settled, tally),
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a range was answered by {other:?}"),
                }
                answer += 1;
            }
            if planned.kind().writes() {
                match self.batch.reply(answer, &settled) {
                    Reply::Stored { .. } => tally.sets += 1,
                    Reply::Error(error) => tally.error(error.to_string()),
                    other => anyhow::bail!("a set was answered by {other:?}"),
                }
                answer += 1;
            }
        }
        Ok(took)
    }
}
