//! A store on an image and what is asked of it: one operation at a time, each waited for.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use terrace_engine::clock::Clock;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Session, Store, StoreError,
};
use terrace_testkit::sweep::{Media, Opening};

use super::image::Engine;

/// When everything happens, in microseconds since the Unix epoch.
const NOW_US: u64 = 1_800_000_000_000_000;
/// So many looks at the clock without an answer mean that the store waits for ever.
const LOOKS_MAX: u64 = 100_000;

/// Time that goes on by a microsecond a look, and a fuse against stores that hang.
#[derive(Debug, Default)]
pub(super) struct Fuse {
    looks: AtomicU64,
    us: AtomicU64,
}

impl Clock for Fuse {
    fn now_us(&self) -> u64 {
        let looks = self.looks.fetch_add(1, Relaxed);
        assert!(
            looks < LOOKS_MAX || std::thread::panicking(),
            "the store hangs: it waits, and nothing changes"
        );
        NOW_US + self.us.fetch_add(1, Relaxed)
    }
}

/// What a key is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Value(Vec<u8>),
    Miss,
    Error(OpError),
    Done,
}

/// An open store with one session. It is not dropped by a panic: a store that hangs would hang again in its destructor.
pub(super) struct Open {
    store: ManuallyDrop<Box<dyn Store>>,
    session: ManuallyDrop<Box<dyn Session>>,
    fuse: Arc<Fuse>,
}

impl Open {
    pub fn new(engine: Engine, media: &Media, fresh: bool) -> Result<Self, StoreError> {
        let fuse = Arc::new(Fuse::default());
        let how =
            Opening { durability: Durability::Sync, clock: fuse.clone(), fresh, evict: false, variant: 0 };
        let store = ManuallyDrop::new(engine.subject().open(media, how)?);
        let session = ManuallyDrop::new(store.session()?);
        Ok(Self { store, session, fuse })
    }

    fn run(&mut self, key: &[u8], kind: impl FnOnce(&mut Batch) -> OpKind) -> Answer {
        let mut batch = ManuallyDrop::new(Batch::new());
        let kind = kind(&mut batch);
        batch.push(0, key, kind);
        self.fuse.looks.store(0, Relaxed);
        self.session.execute(&mut batch);
        let proof = self.session.wait(&mut batch);
        let answer = match batch.reply(0, &proof) {
            Reply::Hit { value: Some(span), .. } => Answer::Value(batch.output(span).to_vec()),
            Reply::Miss => Answer::Miss,
            Reply::Error(error) => Answer::Error(error),
            _ => Answer::Done,
        };
        drop(ManuallyDrop::into_inner(batch));
        answer
    }
    pub fn get(&mut self, key: &[u8]) -> Answer {
        self.run(key, |_| OpKind::Get { value: true })
    }
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Answer {
        self.run(key, |batch| OpKind::Set {
            value: batch.bytes(value),
            condition: Condition::Always,
            expiry: Expiry::Clear,
            flags: None,
            old_value: false,
        })
    }
    pub fn delete(&mut self, key: &[u8]) -> Answer {
        self.run(key, |_| OpKind::Delete { condition: Condition::Always, old_value: false })
    }
    /// Background work.
    pub fn steps(&mut self, count: u32) {
        for _ in 0..count {
            self.fuse.looks.store(0, Relaxed);
            self.store.step();
        }
    }
    /// The process dies.
    pub fn kill(self) {
        drop(ManuallyDrop::into_inner(self.session));
        drop(ManuallyDrop::into_inner(self.store));
    }
    /// A clean stop.
    pub fn close(self) -> Result<(), StoreError> {
        self.fuse.looks.store(0, Relaxed);
        drop(ManuallyDrop::into_inner(self.session));
        let store = ManuallyDrop::into_inner(self.store);
        store.close()
    }
}
