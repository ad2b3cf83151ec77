//! Opens a store on a crash image and says what is wrong with it, if anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{Batch, Durability, OpKind, Reply, Store};
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::oracle::Promise;
use terrace_media_sim::point::{CrashPoint, Failure, Statistics};
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::{CrashImage, Rng};

use super::coverage::Coverage;
use super::lane::{Held, Stop};
use super::ledger::Record;
use super::media::{Media, MediaKind, SweepClock};
use super::plan::{KEYS, key_bytes, plan};
use super::run::{Run, Start, drive};
use super::{START_US, Setup};

/// One image in so many is recovered a second time.
const AGAIN: u64 = 4;
/// One image in so many crashes again, inside its recovery or soon after.
const NESTED: u64 = 48;
/// Steps after such a recovery.
const NESTED_STEPS: usize = 10;
/// Images of such a second crash.
const NESTED_IMAGES: u64 = 24;
/// Events a crash point, about; it decides how many points are left out.
const EVENTS_A_POINT: u64 = 2;
const IMAGES_A_POINT: u64 = 4;

/// What an exploration found.
pub(super) struct Explored {
    pub statistics: Statistics,
    /// Of second crashes.
    pub nested: Statistics,
    pub coverage: Coverage,
}

pub(super) struct Judge<'a> {
    setup: &'a Setup<'a>,
    run: &'a Run,
    seed: u64,
    depth: u32,
    turn: u64,
    explored: &'a RefCell<Explored>,
}

pub(super) fn empty() -> Explored {
    Explored {
        statistics: Statistics::default(),
        nested: Statistics::default(),
        coverage: Coverage::default(),
    }
}

/// Crashes the history everywhere, about `images` times.
pub(super) fn explore(
    setup: &Setup<'_>,
    run: &Run,
    seed: u64,
    images: u64,
    depth: u32,
) -> Result<Explored, Box<Failure>> {
    let explored = RefCell::new(empty());
    let mut judge = Judge::new(setup, run, seed, depth, &explored);
    let points = run.trace.len() as u64 / EVENTS_A_POINT * 2;
    let sample = (points * IMAGES_A_POINT / images.max(1)).max(1);
    let statistics = Explorer::new(seed)
        .images_per_point(IMAGES_A_POINT)
        .point_sample(sample)
        .store_sample(8)
        .explore(&run.trace, |point, image| judge.check(point, image))?;
    let mut explored = explored.into_inner();
    explored.statistics = statistics;
    Ok(explored)
}

/// A store opened on an image, and the records read from it.
pub(super) type Recovered = (Held<Box<dyn Store>>, BTreeMap<u8, Record>);

impl<'a> Judge<'a> {
    pub(super) fn new(
        setup: &'a Setup<'a>,
        run: &'a Run,
        seed: u64,
        depth: u32,
        explored: &'a RefCell<Explored>,
    ) -> Self {
        Self { setup, run, seed, depth, turn: seed, explored }
    }
}

impl Judge<'_> {
    pub(super) fn check(&mut self, point: &CrashPoint, image: &CrashImage) -> Result<(), String> {
        let kind = self.setup.options.media;
        let clock_us = self.run.clock_us(point.position);
        self.turn += 1;
        let mut rng = Rng::new(self.seed ^ self.turn);
        let nested = self.depth == 0 && point.position >= self.run.created && rng.one_in(NESTED);
        // Before the first recovery changes the image.
        let copy = nested.then(|| image.recording());
        let media = Media::of(kind, image);
        let opened = self.recover(&media, clock_us);
        if point.position < self.run.created {
            return match opened {
                Ok((_, found)) if !found.is_empty() => Err(format!("a store half made holds {found:?}")),
                _ => Ok(()),
            };
        }
        let (store, found) = opened?;
        self.explored.borrow_mut().coverage.add("crash recoveries", 1);
        let promise = self.promise(point);
        let oracle = self.run.oracle(point.position);
        oracle.verify(point.position, &promise, &found).map_err(|violation| violation.to_string())?;
        self.setup.count(&**store, found.len())?;
        drop(store);
        if rng.one_in(AGAIN) {
            let (_, again) =
                self.recover(&media, clock_us).map_err(|error| format!("the second recovery: {error}"))?;
            if again != found {
                return Err(format!("a second recovery found {again:?} where the first found {found:?}"));
            }
            self.explored.borrow_mut().coverage.add("second recoveries", 1);
        }
        if let Some((recorder, copy)) = copy {
            let media = Media::of(kind, &copy);
            let start = Start { recorder, media, fresh: false, clock_us, initial: found };
            self.crash_again(start, rng.bits())?;
        }
        Ok(())
    }

    /// Recovers with a recorder, goes on a little, and crashes all that.
    fn crash_again(&self, start: Start, seed: u64) -> Result<(), String> {
        let durability = self.setup.options.durability;
        let mut steps =
            plan(seed, &self.setup.shape, durability != Durability::None, durability != Durability::None);
        steps.truncate(NESTED_STEPS);
        let run = match drive(self.setup, seed, start, &steps) {
            Ok(run) => run,
            Err(Stop::Void) => return Ok(()),
            Err(Stop::Failed(error)) => return Err(format!("after the recovery: {error}; steps {steps:?}")),
        };
        let explored = explore(self.setup, &run, seed, NESTED_IMAGES, self.depth + 1);
        let explored = explored.map_err(|failure| format!("a second crash: {failure}\n  steps {steps:?}"))?;
        let mut mine = self.explored.borrow_mut();
        mine.nested += explored.statistics;
        mine.coverage.merge(&run.coverage);
        mine.coverage.merge(&explored.coverage);
        Ok(())
    }

    fn promise(&self, point: &CrashPoint) -> Promise {
        let options = &self.setup.options;
        match options.durability {
            Durability::None => {
                let kept_before = self.run.last_close(point.position);
                Promise { kept_before, session_prefix: false, causal: false }
            }
            Durability::Batch(_) if options.media == MediaKind::Block && point.crash == Crash::Power => {
                Promise::batch(self.run.trace.last_sync(0, point.position))
            }
            Durability::Batch(_) | Durability::Sync => Promise::sync(point.position),
        }
    }

    /// Opens the store and reads everything.
    pub(super) fn recover(&self, media: &Media, clock_us: u64) -> Result<Recovered, String> {
        debug_assert!(clock_us >= START_US);
        let clock = Arc::new(SweepClock::new(clock_us));
        let store = self.setup.open(media, &clock, false).map_err(|error| format!("opening: {error}"))?;
        let store = Held::new(store);
        let mut session = Held::new(store.session().map_err(|error| error.to_string())?);
        let mut batch = Held::new(Batch::new());
        for key in 0..KEYS {
            batch.push(0, &key_bytes(key), OpKind::Get { value: true });
        }
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            match batch.reply(usize::from(key), &proof) {
                Reply::Miss => {}
                Reply::Hit { meta, value: Some(span) } => {
                    let record = Record { value: batch.output(span).to_vec(), expire_at: meta.expire_at };
                    if record.expire_at != 0 && record.expire_at * 1000 <= clock_us {
                        return Err(format!("key {key} = {record:?} had expired"));
                    }
                    found.insert(key, record);
                }
                other => return Err(format!("get of key {key} was answered {other:?}")),
            }
        }
        drop(session);
        Ok((store, found))
    }
}
