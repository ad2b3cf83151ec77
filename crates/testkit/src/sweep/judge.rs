//! Opens a store on a crash image and says what is wrong with it, if anything.

use std::cell::RefCell;
use std::sync::Arc;

use terrace_engine::{Batch, DATABASES, OpKind, Reply, SnapshotUse, Store};
use terrace_media_sim::explorer::Explorer;
use terrace_media_sim::point::{CrashPoint, Failure, Statistics};
use terrace_media_sim::trace::Position;
use terrace_media_sim::{Crash, CrashImage, QueueOrder, Rng};

use super::coverage::Coverage;
use super::lane::Held;
use super::ledger::{Content, Record};
use super::media::{Media, SweepClock};
use super::plan::{KEYS, Plan, db_of, key_bytes};
use super::run::{Run, Start, drive};
use super::{START_US, Setup};

/// One image in so many is recovered a second time.
const AGAIN: u64 = 4;
/// One image in so many crashes again, inside its recovery or soon after; by depth. Deeper ones don't.
const NESTED: [u64; 2] = [48, 64];
/// Steps after such a recovery.
const NESTED_STEPS: usize = 10;
/// Images of such a second crash.
const NESTED_IMAGES: u64 = 24;
/// Images of one point at most, and on average: the death of a process leaves one or two.
const IMAGES_A_POINT: u64 = 4;
const MEAN_IMAGES: u64 = 2;
const STORE_SAMPLE: u64 = 8;

/// What an exploration found.
#[derive(Default)]
pub(super) struct Explored {
    pub statistics: Statistics,
    /// Of second crashes.
    pub nested: Statistics,
    pub coverage: Coverage,
}

pub(super) struct Judge<'a> {
    setup: &'a Setup<'a>,
    plan: &'a Plan,
    run: &'a Run,
    /// The crash that this history begins with.
    pub(super) after: Option<After<'a>>,
    depth: usize,
    turn: u64,
    explored: &'a RefCell<Explored>,
}

/// The crash of another history. Until the store was open again only what that one had been promised may not be lost: what
/// the death of a process left in caches could still go.
#[derive(Clone, Copy)]
pub(super) struct After<'a> {
    pub run: &'a Run,
    pub point: CrashPoint,
    /// From here on that history alone judges a crash of it.
    pub since: Position,
}

/// Crashes the history everywhere, about `images` times.
pub(super) fn explore(
    setup: &Setup<'_>,
    plan: &Plan,
    run: &Run,
    images: u64,
) -> Result<Explored, Box<Failure>> {
    explore_after(setup, plan, run, images, None, 0)
}

fn explore_after(
    setup: &Setup<'_>,
    plan: &Plan,
    run: &Run,
    images: u64,
    after: Option<After<'_>>,
    depth: usize,
) -> Result<Explored, Box<Failure>> {
    let explored = RefCell::new(Explored::default());
    let mut judge = Judge { after, ..Judge::new(setup, plan, run, depth, &explored) };
    let explorer = Explorer::new(plan.seed)
        .model(plan.manner.model)
        .images_per_point(IMAGES_A_POINT)
        .store_sample(STORE_SAMPLE);
    let points = explorer.points(&run.trace);
    let sample = (points * MEAN_IMAGES / images.max(1)).max(1);
    let explorer = explorer.point_sample(sample);
    let statistics = explorer.explore(&run.trace, |point, image| judge.check(point, image))?;
    let mut explored = explored.into_inner();
    explored.statistics = statistics;
    Ok(explored)
}

/// A store opened on an image, and what was read from it.
pub(super) type Recovered = (Held<Box<dyn Store>>, Content);

impl<'a> Judge<'a> {
    pub(super) fn new(
        setup: &'a Setup<'a>,
        plan: &'a Plan,
        run: &'a Run,
        depth: usize,
        explored: &'a RefCell<Explored>,
    ) -> Self {
        Self { setup, plan, run, after: None, depth, turn: 0, explored }
    }
}

impl Judge<'_> {
    pub(super) fn check(&mut self, point: &CrashPoint, image: &CrashImage) -> Result<(), String> {
        let kind = self.setup.options.media;
        let clock_us = self.run.clock_us(point.position);
        self.turn += 1;
        let mut rng = Rng::new(Rng::new(self.plan.seed).bits() ^ self.turn);
        let often = NESTED.get(self.depth).copied().unwrap_or(0);
        let nested = rng.one_in(often) && point.position >= self.run.created;
        // Before the first recovery changes the image.
        let copy = nested.then(|| image.recording(point.crash));
        let media = Media::of(kind, image);
        if rng.one_in(2) {
            media.set_queue_order(QueueOrder::Shuffled { seed: self.turn });
        }
        // Time does not run backwards, whatever the clock shows after a crash.
        let made = point.position >= self.run.created;
        let steady = made && self.run.steady && point.crash == Crash::Process;
        let opened = if steady && rng.one_in(3) {
            let by_us = rng.bits() as i64 >> 19;
            // Nor does it run ahead, where the machine goes on.
            let elapsed_us = self.run.clock_latest_us(point.position);
            self.recover_at(&media, SweepClock::set(elapsed_us, by_us), clock_us, Some(elapsed_us))
        } else {
            let shown_us = if rng.one_in(2) { self.run.clock_back_us(point.position) } else { clock_us };
            self.recover(&media, shown_us)
        };
        if point.position < self.run.created {
            return match opened {
                Ok((_, found)) if !found.records.is_empty() => {
                    Err(format!("a store half made holds {:?}", found.records))
                }
                _ => Ok(()),
            };
        }
        let (store, found) = opened?;
        self.explored.borrow_mut().coverage.add("recoveries from crashes", 1);
        // Before it was open, what the crash before this one promised; that one's own first crash is too long ago.
        let after = self
            .after
            .filter(|after| point.position < self.run.opened && after.point.crash == Crash::Process);
        if after.is_some_and(|after| after.point.position < after.since) {
            return Ok(());
        }
        let (run, position) =
            after.map_or((self.run, point.position), |after| (after.run, after.point.position));
        let crash = if after.is_some() { Crash::Power } else { point.crash };
        let promise = run.promise(self.setup, position, crash);
        let verdict = run.oracle(position).verify(position, &promise, &found.records);
        verdict.map_err(|violation| violation.to_string())?;
        self.setup.count(&**store, found.records.keys(), &self.plan.manner)?;
        drop(store);
        if rng.one_in(AGAIN) {
            let (_, again) =
                self.recover(&media, clock_us).map_err(|error| format!("the second recovery: {error}"))?;
            if !self.same(&found, &again) {
                return Err(format!("a second recovery found {again:?} where the first found {found:?}"));
            }
            self.explored.borrow_mut().coverage.add("recoveries repeated", 1);
        }
        if let Some((recorder, copy)) = copy {
            // A machine goes on later than anything that it did.
            let clock_us = self.run.clock_latest_us(point.position);
            let start = Start { recorder, media: Media::of(kind, &copy), clock_us, initial: found };
            self.crash_again(start, point, rng.bits())?;
        }
        Ok(())
    }

    /// The second recovery found what the first one did; in a cache it may have evicted since.
    fn same(&self, first: &Content, second: &Content) -> bool {
        if !self.plan.manner.evict {
            return first == second;
        }
        let kept = |(key, record): (&u8, &Record)| first.records.get(key) == Some(record);
        second.records.iter().all(kept)
    }

    /// Recovers with a recorder, goes on a little, and crashes all that.
    fn crash_again(&self, start: Start, point: &CrashPoint, seed: u64) -> Result<(), String> {
        let plan = self.plan.after_crash(seed, self.setup, NESTED_STEPS);
        let run = drive(self.setup, start, &plan)
            .map_err(|error| format!("after the recovery: {error}; steps {:?}", plan.steps))?;
        let after = Some(After { run: self.run, point: *point, since: self.run.opened });
        let explored = explore_after(self.setup, &plan, &run, NESTED_IMAGES, after, self.depth + 1);
        let explored =
            explored.map_err(|failure| format!("a second crash: {failure}\n  steps {:?}", plan.steps))?;
        let mut mine = self.explored.borrow_mut();
        let label = ["recoveries crashed", "recoveries crashed two deep"][self.depth];
        mine.coverage.add(label, explored.statistics.images);
        mine.nested += explored.statistics;
        mine.nested += explored.nested;
        mine.coverage.merge(&run.coverage);
        mine.coverage.merge(&explored.coverage);
        Ok(())
    }

    /// Opens the store and reads everything.
    pub(super) fn recover(&self, media: &Media, clock_us: u64) -> Result<Recovered, String> {
        debug_assert!(clock_us >= START_US);
        self.recover_at(media, SweepClock::new(clock_us), clock_us, None)
    }

    /// The same; what had expired at `clock_us` is not there, and if a time is `exact` the store's is no other.
    fn recover_at(
        &self,
        media: &Media,
        clock: SweepClock,
        clock_us: u64,
        exact: Option<u64>,
    ) -> Result<Recovered, String> {
        let clock = Arc::new(clock);
        let store = self.setup.open(media, &clock, &self.plan.manner, false);
        let store = Held::new(store.map_err(|error| format!("opening: {error}"))?);
        let (now_ms, most_ms) = (store.time().now_ms, clock.us() / 1000);
        if let Some(least) = exact.map(|us| us / 1000)
            && !(least..=most_ms).contains(&now_ms)
        {
            return Err(format!("the store's time is {now_ms} ms, and {least} to {most_ms} ms have elapsed"));
        }
        let made = store.stats().recovery.map_or(SnapshotUse::None, |recovery| recovery.snapshot);
        self.explored.borrow_mut().coverage.snapshot(made);
        if made == SnapshotUse::Refused {
            return Err("a snapshot is refused, though a crash damages nothing that was durable".into());
        }
        let found = read_all(&**store, clock_us, self.setup.subject.stem())?;
        // Those that have expired may be counted still, as both.
        let counted =
            (0..DATABASES as u8).map(|db| store.len(db) - store.expiring(db).min(store.len(db))).sum::<u64>();
        let lasting = found.records.values().filter(|record| record.expire_at == 0).count() as u64;
        if counted != lasting {
            return Err(format!("{counted} keys without an expiry are counted, and {lasting} are there"));
        }
        Ok((store, found))
    }
}

/// Every key of the store, and its version.
pub(super) fn read_all(store: &dyn Store, clock_us: u64, stem: &str) -> Result<Content, String> {
    let mut session = Held::new(store.session().map_err(|error| error.to_string())?);
    let mut batch = Held::new(Batch::new());
    for key in 0..KEYS {
        batch.push(db_of(key), &key_bytes(key, stem), OpKind::Get { value: true });
    }
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    let mut found = Content::default();
    for key in 0..KEYS {
        match batch.reply(usize::from(key), &proof) {
            Reply::Miss => {}
            Reply::Hit { meta, value: Some(span) } => {
                let record = Record { value: batch.output(span).to_vec(), expire_at: meta.expire_at };
                if record.expire_at != 0 && record.expire_at * 1000 <= clock_us {
                    return Err(format!("key {key} = {record:?} had expired"));
                }
                found.records.insert(key, record);
                found.versions.insert(key, meta.version);
            }
            other => return Err(format!("get of key {key} was answered {other:?}")),
        }
    }
    Ok(found)
}
