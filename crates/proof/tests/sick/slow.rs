//! A read that does not complete for long holds up nothing else, but who in its session wants the same sectors of the
//! device: they wait for that read (`blocks/src/reads.rs`).
//!
//! Time is logical: a late read completes after so many looks of its queue at the device, and everything else happens
//! before.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::os::fd::RawFd;
use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::{Batch, Condition, Durability, Expiry, OpKind, Reply, Session, Settled, Store};
use terrace_media::BlockDevice;
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};
use terrace_proof::subjects::WITH_BLOCKS;
use terrace_testkit::sweep::{Media, MediaKind, Opening, Subject};

/// Keys that are written first, and so lie on the device alone.
const COLD: usize = 8;
/// Keys of over 300 bytes written behind the first cold one.
const FILLERS: usize = 40;
/// Keys that are written behind those, twice: more of them than DRAM holds.
const WARM: usize = 120;
/// Keys that are written while the read is late: no less.
const HOT: usize = 100;
/// Looks at the device until the late read completes: more than the test takes for all the rest.
const LATE: u32 = 100_000;
/// Background steps until an operation that needs no late read is answered.
const STEPS: usize = 200;

/// As long as any other, so that each presses on all in a store that keeps records by their size.
fn value(key: &str, round: usize) -> Vec<u8> {
    format!("{key}, round {round}, ").bytes().cycle().take(330).collect()
}

fn get(key: &str) -> Box<Batch> {
    let mut batch = Box::new(Batch::new());
    batch.push(0, key.as_bytes(), OpKind::Get { value: true });
    batch
}

fn set(key: &str, round: usize) -> Box<Batch> {
    let mut batch = Box::new(Batch::new());
    let value = batch.bytes(&value(key, round));
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key.as_bytes(), OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    batch
}

fn look(session: &mut dyn Session, batch: &mut Batch) -> Option<Settled> {
    if session.poll(batch) { session.settled(batch) } else { None }
}

fn found(batch: &Batch, proof: &Settled) -> Option<Vec<u8>> {
    match batch.reply(0, proof) {
        Reply::Hit { value: Some(span), .. } => Some(batch.output(span).to_vec()),
        _ => None,
    }
}

/// Executes a batch and waits for its answer.
fn ask(store: &dyn Store, session: &mut dyn Session, batch: &mut Batch) -> Result<Settled, String> {
    session.execute(batch);
    for _ in 0..STEPS {
        if let Some(proof) = look(session, batch) {
            return Ok(proof);
        }
        store.step();
    }
    Err(format!("{:?} is held up", batch.op(0)))
}

fn store(subject: &dyn Subject) -> (Box<dyn Store>, SimBlock) {
    let shape = subject.shape(MediaKind::Block);
    let log = SimBlock::from_image(vec![0; shape.log_bytes]);
    let data = SimBlock::from_image(vec![0; shape.data_bytes]);
    let media = Media::Block { log, data: data.clone() };
    let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
    let opening = Opening { durability: Durability::Sync, clock, fresh: true, evict: false, variant: 0 };
    (subject.open(&media, opening).unwrap(), data)
}

/// Reads a cold key that comes late in the first session; what happens in the sessions meanwhile, then the late read.
fn late_read(store: &dyn Store, data: &SimBlock, sessions: &mut [Box<dyn Session>; 2]) -> Result<(), String> {
    for i in 0..COLD {
        let key = format!("cold{i}");
        let _answered = ask(store, &mut *sessions[0], &mut set(&key, 0))?;
        // Between the key that comes late and the others lie more than the two sectors that its read may touch.
        for filler in 0..if i == 0 { FILLERS } else { 0 } {
            let _answered = ask(store, &mut *sessions[0], &mut set(&format!("filler{filler}"), 0))?;
        }
    }
    for i in 0..2 * WARM {
        let _answered = ask(store, &mut *sessions[i % 2], &mut set(&format!("warm{}", i % WARM), i))?;
        store.step();
    }
    data.inject(Fault::new(Access::Read, FaultKind::Late { reaps: LATE }));
    let mut late = get("cold0");
    sessions[0].execute(&mut late);
    if data.faults_fired() != 1 || look(&mut *sessions[0], &mut late).is_some() {
        return Err("the key was not read from the device".into());
    }
    let read_before = data.counters().snapshot().reads;
    let writes_before = data.counters().snapshot().writes;
    for i in 0..300 {
        let session = &mut *sessions[i % 2];
        let key = format!("hot{}", i % HOT);
        let _answered = ask(store, session, &mut set(&key, i))?;
        let cold = format!("cold{}", 1 + i % (COLD - 1));
        let warm = format!("warm{}", i * 7 % WARM);
        for (key, round) in [(&key, i), (&cold, 0), (&warm, WARM + i * 7 % WARM)] {
            let right = value(key, round);
            let mut batch = get(key);
            let proof = ask(store, session, &mut batch)?;
            if found(&batch, &proof) != Some(right) {
                return Err(format!("{key} is wrong"));
            }
        }
        if look(&mut *sessions[0], &mut late).is_some() {
            return Err("the late read was answered early".into());
        }
    }
    let counters = data.counters().snapshot();
    if counters.reads - read_before < 100 || counters.writes - writes_before < 10 {
        return Err("nothing else was read or flushed meanwhile".into());
    }
    for _ in 0..LATE {
        if let Some(proof) = look(&mut *sessions[0], &mut late) {
            return if found(&late, &proof) == Some(value("cold0", 0)) {
                Ok(())
            } else {
                Err("the late read brought a wrong value".into())
            };
        }
    }
    Err("the late read is never answered".into())
}

#[test]
fn a_late_read_holds_up_neither_its_session_nor_another() {
    for (engine, subject) in WITH_BLOCKS {
        let (store, data) = store(*subject);
        let mut sessions = [store.session().unwrap(), store.session().unwrap()];
        late_read(&*store, &data, &mut sessions).unwrap_or_else(|error| panic!("{engine}: {error}"));
        drop(sessions);
        store.close().unwrap();
    }
}

/// A session that answers its batches in the order in which they came; a batch is known by its address.
struct InOrder {
    inner: Box<dyn Session>,
    waiting: Vec<usize>,
}

impl Session for InOrder {
    fn execute(&mut self, batch: &mut Batch) {
        self.waiting.push(std::ptr::from_ref(batch).addr());
        self.inner.execute(batch);
    }
    fn poll(&mut self, batch: &mut Batch) -> bool {
        self.inner.poll(batch)
    }
    fn settled(&mut self, batch: &Batch) -> Option<Settled> {
        if self.waiting.first() != Some(&std::ptr::from_ref(batch).addr()) {
            return None;
        }
        let settled = self.inner.settled(batch);
        if settled.is_some() {
            self.waiting.remove(0);
        }
        settled
    }
    fn wait(&mut self, batch: &mut Batch) -> Settled {
        self.inner.wait(batch)
    }
    fn event_fds(&mut self) -> Vec<RawFd> {
        self.inner.event_fds()
    }
}

#[test]
fn a_session_that_answers_in_order_is_caught() {
    let (store, data) = store(WITH_BLOCKS[0].1);
    let in_order = || InOrder { inner: store.session().unwrap(), waiting: Vec::new() };
    let mut sessions: [Box<dyn Session>; 2] = [Box::new(in_order()), Box::new(in_order())];
    let error = late_read(&*store, &data, &mut sessions).unwrap_err();
    assert!(error.contains("held up"), "{error}");
}
