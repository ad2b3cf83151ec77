//! The sweep does not know how a write was answered that a kill left unanswered, and predicts it all the same: a store that
//! loses just these is caught.
//!
//! ```text
//!   sweep --> Losing: Subject --> its sessions note what is written and not answered when they are dropped
//!                   |
//!                   '-- opened again: deletes that --> a get misses what was predicted
//! ```

use std::collections::BTreeSet;
use std::mem::take;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use terrace_engine::clock::Time;
use terrace_engine::{
    Batch, Condition, Durability, OpKind, Progress, Session, Settled, Stats, Store, StoreError,
};
use terrace_proof::subjects::Hetermm;
use terrace_testkit::sweep::{Media, MediaKind, Opening, Shape, Subject, SweepOptions, sweep};

type Keys = BTreeSet<(u8, Vec<u8>)>;
/// What died with the sessions of a store.
type Unanswered = Arc<Mutex<Keys>>;

#[derive(Default)]
struct Losing {
    /// Of the store opened last, while it is there: the sweep opens the next one over it only where the process dies.
    last: Mutex<Weak<Mutex<Keys>>>,
}

struct LosingStore {
    store: Box<dyn Store>,
    unanswered: Unanswered,
}

struct LosingSession {
    session: Box<dyn Session>,
    open: Keys,
    unanswered: Unanswered,
}

impl Subject for Losing {
    fn shape(&self, media: MediaKind) -> Shape {
        Hetermm.shape(media)
    }
    fn open(&self, media: &Media, opening: Opening) -> Result<Box<dyn Store>, StoreError> {
        let store = Hetermm.open(media, opening)?;
        let unanswered = Unanswered::default();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = last
            .upgrade()
            .map(|keys| take(&mut *keys.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default();
        *last = Arc::downgrade(&unanswered);
        let mut batch = Batch::new();
        for (db, key) in &lost {
            batch.push(*db, key, OpKind::Delete { condition: Condition::Always, old_value: false });
        }
        if !batch.is_empty() {
            let mut session = store.session()?;
            session.execute(&mut batch);
            let _ = session.wait(&mut batch);
        }
        Ok(Box::new(LosingStore { store, unanswered }))
    }
}

impl Store for LosingStore {
    fn session(&self) -> Result<Box<dyn Session>, StoreError> {
        let (session, unanswered) = (self.store.session()?, self.unanswered.clone());
        Ok(Box::new(LosingSession { session, open: Keys::new(), unanswered }))
    }
    fn expiring(&self, db: u8) -> u64 {
        self.store.expiring(db)
    }
    fn len(&self, db: u8) -> u64 {
        self.store.len(db)
    }
    fn time(&self) -> Time {
        self.store.time()
    }
    fn stats(&self) -> Stats {
        self.store.stats()
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.store.resize_dram(bytes)
    }
    fn read_cache(&self) -> Option<terrace_engine::ReadCache> {
        self.store.read_cache()
    }
    fn set_read_cache(&self, cache: terrace_engine::ReadCache) -> Result<(), StoreError> {
        self.store.set_read_cache(cache)
    }
    fn resize_tier(&self, tier: &str, bytes: u64) -> Result<(), StoreError> {
        self.store.resize_tier(tier, bytes)
    }
    fn step(&self) -> Progress {
        self.store.step()
    }
    fn wait_for_work(&self, timeout: Duration) {
        self.store.wait_for_work(timeout);
    }
    fn close(&self) -> Result<(), StoreError> {
        self.store.close()
    }
}

fn sets(batch: &Batch) -> impl Iterator<Item = (u8, Vec<u8>)> {
    let ops = (0..batch.len()).map(|i| batch.op(i)).filter(|op| matches!(op.kind, OpKind::Set { .. }));
    ops.map(|op| (op.db, batch.input(op.key).to_vec()))
}

impl Session for LosingSession {
    fn execute(&mut self, batch: &mut Batch) {
        self.open.extend(sets(batch));
        self.session.execute(batch);
    }
    fn poll(&mut self, batch: &mut Batch) -> bool {
        self.session.poll(batch)
    }
    fn settled(&mut self, batch: &Batch) -> Option<Settled> {
        let settled = self.session.settled(batch)?;
        self.open.retain(|key| sets(batch).all(|other| other != *key));
        Some(settled)
    }
    fn wait(&mut self, batch: &mut Batch) -> Settled {
        let settled = self.session.wait(batch);
        self.open.retain(|key| sets(batch).all(|other| other != *key));
        settled
    }
    fn event_fds(&mut self) -> Vec<RawFd> {
        self.session.event_fds()
    }
}

impl Drop for LosingSession {
    fn drop(&mut self) {
        if let Ok(mut unanswered) = self.unanswered.lock() {
            unanswered.append(&mut self.open);
        }
    }
}

#[test]
fn a_write_lost_by_a_kill_before_its_answer_is_caught() {
    let options = SweepOptions {
        media: MediaKind::Block,
        durability: Durability::Sync,
        histories: 400,
        images: 400,
        seed: 1,
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let summary = sweep(&Losing::default(), &options, &|_| {}).unwrap();
    let failure = summary.failures.first().expect("nothing was wrong with a store that loses writes");
    println!("after {} histories: {failure}", summary.histories());
    assert!(failure.error.contains("without any crash"), "{failure}");
    assert!(failure.steps.iter().any(|step| step.contains("Restart { clean: false }")), "{failure}");
}
