//! The porting study's schedules, one test each: what its design loses or brings back in a crash, and this one doesn't.

use terrace_engine::{Batch, Condition, Expiry, OpKind, Reply, Session, Store};
use terrace_media_sim::trace::Position;
use terrace_media_sim::{Explorer, Recorder, SimRegion};

use super::{ALL, Kind, store};

const HEAP_BYTES: usize = 40 << 10;
pub(super) const PAGE_BYTES: usize = 2048;

/// What a key is to be: a value, or gone.
pub(super) type State = Option<Vec<u8>>;

fn write(batch: &mut Batch, key: &str, state: &State) {
    let (condition, old_value) = (Condition::Always, false);
    let kind = match state {
        Some(value) => {
            let value = batch.bytes(value);
            OpKind::Set { value, condition, expiry: Expiry::Clear, flags: Some(0), old_value }
        }
        None => OpKind::Delete { condition, old_value },
    };
    batch.push(0, key.as_bytes(), kind);
}

pub(super) fn read(session: &mut dyn Session, key: &str) -> State {
    let mut batch = Batch::new();
    batch.push(0, key.as_bytes(), OpKind::Get { value: true });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
        Reply::Miss => None,
        other => panic!("{key}: {other:?}"),
    }
}

/// A store whose crashes are to be tried, and what it promised when.
pub(super) struct Life {
    pub(super) recorder: Recorder,
    kind: Kind,
    pub(super) store: Box<dyn Store>,
    /// Steps in their order: what each makes of which keys, and when that was answered.
    steps: Vec<(Vec<(&'static str, State)>, Position)>,
}

impl Life {
    pub(super) fn new(kind: Kind) -> Self {
        let blank = SimRegion::from_image(vec![0; HEAP_BYTES]);
        store(blank.clone(), (PAGE_BYTES, kind), true).close().unwrap();
        let recorder = Recorder::new();
        let store = store(recorder.region(blank.to_bytes()), (PAGE_BYTES, kind), false);
        Self { recorder, kind, store, steps: Vec::new() }
    }
    /// Does something to some keys in one step, and is answered.
    pub(super) fn step(&mut self, keys: &[(&'static str, State)]) {
        let mut session = self.store.session().unwrap();
        self.step_of(&mut *session, keys);
        drop(session);
        while self.store.step() == terrace_engine::Progress::Worked {}
    }
    /// The same of a session that goes on, and nothing in the background.
    pub(super) fn step_of(&mut self, session: &mut dyn Session, keys: &[(&'static str, State)]) {
        let mut batch = Batch::new();
        if keys.len() > 1 {
            batch.begin_atomic();
        }
        keys.iter().for_each(|(key, state)| write(&mut batch, key, state));
        if keys.len() > 1 {
            batch.end_atomic();
        }
        session.execute(&mut batch);
        let _proof = session.wait(&mut batch);
        let answered = self.recorder.acknowledged(self.steps.len() as u64);
        self.steps.push((keys.to_vec(), answered));
    }
    /// Crashes everywhere, and opens what is left: all steps up to the last one that was answered are there, and the next one whole or
    /// not at all. `also` is asked about each store, with the number of steps that are there.
    fn crash_everywhere(self, also: impl Fn(&dyn Store, usize)) {
        drop(self.store);
        let (steps, kind) = (self.steps, self.kind);
        let explored = Explorer::new(1).explore(&self.recorder.finish(), |point, image| {
            let store = store(image.region(0), (PAGE_BYTES, kind), false);
            let mut session = store.session().unwrap();
            let answered = steps.iter().filter(|(_, answered)| *answered <= point.position).count();
            let is_after = |count: usize, session: &mut dyn Session| {
                let keys = steps.iter().flat_map(|(keys, _)| keys.iter().map(|(key, _)| *key));
                let state = |key: &str| {
                    let mut all = steps[..count].iter().flat_map(|(keys, _)| keys);
                    all.rfind(|(of, _)| *of == key).and_then(|(_, state)| state.clone())
                };
                keys.into_iter().all(|key| read(session, key) == state(key))
            };
            let there = [answered, answered + 1]
                .into_iter()
                .find(|count| *count <= steps.len() && is_after(*count, &mut *session));
            let Some(there) = there else { return Err(format!("neither {answered} steps nor one more")) };
            drop(session);
            also(&*store, there);
            Ok(())
        });
        let statistics = explored.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(statistics.images > 100, "{statistics:?}");
    }
}

pub(super) fn value(text: &str) -> State {
    Some(text.as_bytes().to_vec())
}

/// Free lists are volatile and recovery reads every item: deleted and overwritten ones must not return.
#[test]
fn schedule_1_deleted_and_overwritten_items_do_not_return() {
    for kind in ALL {
        let mut life = Life::new(kind);
        life.step(&[("a", value("first"))]);
        life.step(&[("a", value("second, and longer than the first"))]);
        life.step(&[("b", value("there"))]);
        life.step(&[("b", None)]);
        life.step(&[("a", value("third"))]);
        life.step(&[("a", None)]);
        life.step(&[("c", value("takes a chunk that was free"))]);
        life.crash_everywhere(|_, _| {});
    }
}

/// Transactions don't isolate: what a reader saw must not be rolled back, nor two steps persist in another order than they were seen in.
#[test]
fn schedule_2_what_a_reader_saw_stays_and_steps_keep_their_order() {
    for kind in ALL {
        let mut life = Life::new(kind);
        life.step(&[("a", value("1")), ("b", value("1"))]);
        // A reader's answer is a promise as good as a writer's: what it saw was answered before.
        assert_eq!(read(&mut *life.store.session().unwrap(), "b"), value("1"));
        life.step(&[("b", value("2")), ("c", value("2"))]);
        life.step(&[("a", None), ("c", value("3"))]);
        life.step(&[("c", None), ("b", None)]);
        life.crash_everywhere(|_, _| {});
    }
}

/// Key and value are separate allocations: neither is there without the other, and none is left that nobody knows of.
#[test]
fn schedule_3_a_value_is_whole_or_not_there_and_no_part_of_one_is_left_over() {
    for kind in ALL {
        let large = |byte: u8| Some((0..3000u32).map(|at| at as u8 ^ byte).collect::<Vec<u8>>());
        let mut life = Life::new(kind);
        life.step(&[("a", large(1))]);
        life.step(&[("a", large(2))]);
        life.step(&[("a", value("short"))]);
        life.step(&[("a", large(3))]);
        life.step(&[("a", None)]);
        life.crash_everywhere(|store, there| {
            // Chunks that were taken for lines of the index, in case they are needed.
            let spare = if kind.1.is_some() { 24 * 64 } else { 0 };
            while kind.1.is_some() && store.step() == terrace_engine::Progress::Worked {}
            let used = store.stats().tiers[0].used_bytes.saturating_sub(spare);
            let most = [0, 4096, 4096, 64, 4096, 0][there];
            assert!(used <= most, "after {there} steps {used} bytes are taken");
            assert!(
                (used == 0) == (most == 0) || kind.1.is_some(),
                "after {there} steps {used} bytes are taken"
            );
        });
    }
}
