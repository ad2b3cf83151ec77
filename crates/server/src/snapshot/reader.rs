//! Reads keys into the spill, with a session of its own, some at a time.

use std::io;

use terrace_engine::{Batch, OpError, OpKind, Reply, Session};

use super::spill::Spill;

/// Keys read in one batch.
const KEYS: u32 = 256;
/// Answers of a batch that take more are written before the rest is read.
const ANSWER_BYTES: usize = 4 << 20;

/// See the module.
pub(super) struct Reader {
    session: Box<dyn Session>,
    scan: Batch,
    batch: Batch,
    pub spill: Spill,
    /// Records that can't be read because they were damaged on their medium.
    pub damaged: u64,
}

impl Reader {
    pub fn new(session: Box<dyn Session>, spill: Spill) -> Self {
        Self { session, scan: Batch::new(), batch: Batch::new(), spill, damaged: 0 }
    }

    /// Reads the keys of one step of an iteration over a database; where to go on, 0 at the end.
    pub fn step(&mut self, db: u8, cursor: u64) -> io::Result<u64> {
        self.scan.clear();
        let op = self.scan.push(db, b"", OpKind::Scan { cursor, count: KEYS });
        self.session.execute(&mut self.scan);
        let proof = self.session.wait(&mut self.scan);
        let next = match self.scan.reply(op, &proof) {
            Reply::Scanned { cursor } => cursor,
            Reply::Error(error) => return Err(io::Error::other(error.to_string())),
            other => return Err(io::Error::other(format!("an iteration answered {other:?}"))),
        };
        for key in self.scan.scanned(op) {
            self.batch.push(db, key, OpKind::Get { value: true });
        }
        self.run()?;
        Ok(next)
    }

    /// Reads these keys, as they are now.
    pub fn read(&mut self, keys: impl IntoIterator<Item = (u8, Box<[u8]>)>) -> io::Result<()> {
        for (db, key) in keys {
            self.batch.push(db, &key, OpKind::Get { value: true });
            if self.batch.len() >= KEYS as usize {
                self.run()?;
            }
        }
        self.run()
    }

    /// Waits until all that was done before is safe from power loss, as far as the store can promise that: who saves wants the store to
    /// keep it, too.
    pub fn sync(&mut self) -> io::Result<()> {
        self.batch.sync();
        self.batch.peek();
        let op = self.batch.push(0, b"", OpKind::Get { value: false });
        self.session.execute(&mut self.batch);
        let proof = self.session.wait(&mut self.batch);
        let reply = self.batch.reply(op, &proof);
        self.batch.clear();
        match reply {
            Reply::Error(error @ OpError::LogFailed(_)) => Err(io::Error::other(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Reads what stands in the batch.
    fn run(&mut self) -> io::Result<()> {
        self.batch.bound(ANSWER_BYTES, usize::MAX);
        // Cold records stay where they are.
        self.batch.peek();
        let mut from = 0;
        while from < self.batch.len() {
            self.session.execute(&mut self.batch);
            let proof = self.session.wait(&mut self.batch);
            for i in from..self.batch.executed() {
                let op = self.batch.op(i);
                let key = self.batch.input(op.key);
                match self.batch.reply(i, &proof) {
                    Reply::Hit { meta, value: Some(value) } => {
                        self.spill.put(op.db, key, self.batch.output(value), meta.expire_at)?;
                    }
                    Reply::Miss => self.spill.gone(op.db, key)?,
                    Reply::Error(OpError::Poisoned) => {
                        self.damaged += 1;
                        self.spill.gone(op.db, key)?;
                    }
                    Reply::Error(error) => return Err(io::Error::other(error.to_string())),
                    other => return Err(io::Error::other(format!("a read answered {other:?}"))),
                }
            }
            from = self.batch.executed();
            if !self.batch.is_whole() {
                self.batch.forget_answers();
            }
        }
        self.batch.clear();
        Ok(())
    }
}
