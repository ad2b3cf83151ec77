//! A store that is killed again and again, and whoever remembers all that it answered.
//!
//! ```text
//!   load --> kill --> open, timed --> check every record --> write, a batch is under way --> kill --> open ...
//! ```
//!
//! A kill is [`OpenStore::kill`] in this process: nothing more is written from there on. What the kernel would do to a
//! process (SIGKILL, at any instruction) the tests of the `terrace` command do.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Reply, Session};
use terrace::{OpenStore, Options, Place, Tier};

use super::super::shared_memory;
use super::{KEY_BYTES, VALUE_BYTES, dram_bytes, pmem_bytes};
use crate::content::Content;

/// Operations of a batch.
const BATCH: usize = 16;
/// Memory as fast as it is.
pub(super) const PROFILE: &str = "dram";

/// What is stored of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    /// The value that was answered last; the first one is 1.
    answered: u64,
    /// The value of a batch that was under way at the kill, which may be there or not; 0: none.
    under_way: u64,
}

/// See the module.
pub(super) struct Kept {
    dir: TempDir,
    records: u64,
    writes: u64,
    content: Content,
    last: Vec<Last>,
    nonce: u64,
}

/// An open store, and its one session.
struct Opened {
    // Before the store: it is a part of that.
    session: Box<dyn Session>,
    store: OpenStore,
}

impl Kept {
    /// No store yet, with memory for so many records and so many more writes.
    pub fn new(records: u64, writes: u64, seed: u64) -> anyhow::Result<Self> {
        let last = vec![Last { answered: 0, under_way: 0 }; usize::try_from(records)?];
        let content = Content::new(KEY_BYTES, VALUE_BYTES, false, seed);
        Ok(Self { dir: shared_memory::directory()?, records, writes, content, last, nonce: 0 })
    }

    fn open(&self, recovery_threads: usize) -> anyhow::Result<Opened> {
        let place = Some(Place::Path(self.dir.path().to_owned()));
        let store = terrace::open(Options {
            engine: "hetermm".into(),
            dir: Some(self.dir.path().join("store")),
            dram_records: Some(dram_bytes(self.records)),
            pmem: Some(Tier { bytes: pmem_bytes(self.records + self.writes), place }),
            profile: Some(PROFILE.into()),
            durability: Durability::Sync,
            recovery_threads,
            ..Options::default()
        })?;
        Ok(Opened { session: store.session()?, store })
    }

    /// Opens the store, looks at every record, writes these and kills it: how long the opening took, and how many
    /// records were not as they were answered.
    pub fn round(
        &mut self,
        recovery_threads: usize,
        writes: impl Iterator<Item = u64>,
    ) -> anyhow::Result<(Duration, u64)> {
        let start = Instant::now();
        let mut opened = self.open(recovery_threads)?;
        let took = start.elapsed();
        let lost = self.check(&mut *opened.session)?;
        self.write(&mut *opened.session, writes, false)?;
        let Opened { session, store } = opened;
        drop(session);
        store.kill();
        Ok((took, lost))
    }

    /// Loads a new store and kills it.
    pub fn load(&mut self) -> anyhow::Result<()> {
        let Opened { mut session, store } = self.open(1)?;
        ensure!(store.len_all() == 0, "the store is not new");
        self.write(&mut *session, 0..self.records, true)?;
        drop(session);
        store.kill();
        Ok(())
    }

    /// Writes these; for the last of them it waits or not.
    fn write(
        &mut self,
        session: &mut dyn Session,
        records: impl Iterator<Item = u64>,
        waits_for_last: bool,
    ) -> anyhow::Result<()> {
        let mut records = records.peekable();
        let mut batch = Batch::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while records.peek().is_some() {
            batch.clear();
            let together: Vec<u64> = records.by_ref().take(BATCH).collect();
            let first = self.nonce + 1;
            for (record, nonce) in together.iter().zip(first..) {
                self.content.key(*record, &mut key);
                self.content.value(*record, nonce, &mut value);
                let value = batch.bytes(&value);
                let (condition, expiry) = (Condition::Always, Expiry::Clear);
                let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
                batch.push(0, &key, kind);
            }
            self.nonce += together.len() as u64;
            session.execute(&mut batch);
            let waits = waits_for_last || records.peek().is_some();
            let settled = waits.then(|| session.wait(&mut batch));
            for ((answer, record), nonce) in together.iter().enumerate().zip(first..) {
                let last = self.last.get_mut(*record as usize).context("no such record")?;
                match &settled {
                    None => last.under_way = nonce,
                    Some(settled) => match batch.reply(answer, settled) {
                        Reply::Stored { .. } => *last = Last { answered: nonce, under_way: 0 },
                        other => bail!("record {record} was answered by {other:?}"),
                    },
                }
            }
        }
        Ok(())
    }

    /// Reads every record: how many are neither as they were answered last nor as a batch under way had them. What is
    /// found is what counts from here on.
    fn check(&mut self, session: &mut dyn Session) -> anyhow::Result<u64> {
        let mut batch = Batch::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut lost = 0;
        for first in (0..self.records).step_by(BATCH) {
            batch.clear();
            let together = first..(first + BATCH as u64).min(self.records);
            for record in together.clone() {
                self.content.key(record, &mut key);
                batch.push(0, &key, OpKind::Get { value: true });
            }
            session.execute(&mut batch);
            let settled = session.wait(&mut batch);
            for (answer, record) in together.enumerate() {
                let last = self.last.get_mut(record as usize).context("no such record")?;
                let found = match batch.reply(answer, &settled) {
                    Reply::Miss => None,
                    Reply::Hit { value: Some(span), .. } => Some(batch.output(span)),
                    other => bail!("record {record} was answered by {other:?}"),
                };
                let is = |nonce: u64, value: &mut Vec<u8>| {
                    self.content.value(record, nonce, value);
                    nonce > 0 && found == Some(&value[..])
                };
                if last.under_way > 0 && is(last.under_way, &mut value) {
                    last.answered = last.under_way;
                } else if !is(last.answered, &mut value) {
                    lost += 1;
                }
                last.under_way = 0;
            }
        }
        Ok(lost)
    }
}
