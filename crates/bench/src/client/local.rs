//! A store in this process: one session, one reused batch.

use std::time::{Duration, Instant};

use terrace::engine::{Batch, Condition, Expiry, OpKind, Reply, Session};

use super::{Client, Work};
use crate::latency::Tally;

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
