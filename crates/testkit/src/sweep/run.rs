//! Drives a store through a history on recording media, and tells the ledger.

use std::sync::Arc;

use terrace_engine::{Durability, Store, StoreError};
use terrace_media_sim::oracle::{Oracle, Promise};
use terrace_media_sim::trace::Trace;
use terrace_media_sim::{Crash, Recorder, Rng, set_actor};

use super::coverage::Coverage;
use super::lane::{Flight, Held, Lane};
use super::ledger::{By, Content, Ledger, Record};
use super::media::{Media, SweepClock};
use super::plan::{Cmd, CmdKind, JUMP_US, KEYS, Manner, Plan, SESSIONS, Step};
use super::{START_US, Setup};

mod answers;
mod restart;

/// The actor of background steps.
const BACKGROUND: u32 = SESSIONS as u32;
/// Batches of a session that may wait for their answers.
const FLIGHTS: usize = 6;
/// Background steps after which a store that still works, or an answer that still waits, is stuck.
const STEPS_MAX: u32 = 5_000;

/// Where a history begins.
pub(super) struct Start {
    pub recorder: Recorder,
    pub media: Media,
    pub clock_us: u64,
    /// What the store holds.
    pub initial: Content,
}

/// A history that has run.
pub(super) struct Run {
    pub trace: Trace,
    oracles: Vec<(usize, Oracle<u8, Record>)>,
    /// From here on the store exists.
    pub created: usize,
    /// From here on it was open, and what it held may not be lost any more.
    pub opened: usize,
    /// From which position on the clock showed what.
    times: Vec<(usize, u64)>,
    /// Where clean closes were complete.
    closes: Vec<usize>,
    /// After which positions the store had had the chance to note that the clock showed this.
    marks: Vec<(usize, u64)>,
    /// Whether the store's time was what the clock showed, all the time: an opening that could not know goes on from a mark ahead.
    pub steady: bool,
    pub coverage: Coverage,
}

impl Run {
    /// What the clock may be set back to after a crash there, without the store's time running backwards: a jump that a
    /// background step saw must not be forgotten.
    pub fn clock_back_us(&self, position: usize) -> u64 {
        let now = self.clock_us(position);
        let mark = self.marks.iter().rev().find(|(from, _)| *from <= position);
        if mark.is_some_and(|(_, us)| *us == now) { START_US } else { now }
    }
    /// No later time was used before a crash there: those who wait move the clock on, too.
    pub fn clock_latest_us(&self, position: usize) -> u64 {
        let next = self.times.iter().find(|(from, _)| *from > position);
        next.map_or_else(|| self.clock_us(position), |(_, us)| *us)
    }
    /// What it showed when the last step before that had ended.
    pub fn clock_us(&self, position: usize) -> u64 {
        self.times.iter().rev().find(|(from, _)| *from <= position).map_or(START_US, |(_, us)| *us)
    }
    /// What judges a crash there.
    pub fn oracle(&self, position: usize) -> &Oracle<u8, Record> {
        let last = self.oracles.iter().rposition(|(from, _)| *from <= position);
        &self.oracles[last.unwrap_or(0)].1
    }
    /// What a crash there may not take.
    pub fn promise(&self, setup: &Setup<'_>, position: usize, crash: Crash) -> Promise {
        let options = &setup.options;
        match options.durability {
            Durability::None => nothing_after(&self.closes, position),
            Durability::Batch(_) if options.media.log_is_synced() && crash == Crash::Power => {
                Promise::batch(self.trace.last_sync(0, position))
            }
            Durability::Batch(_) | Durability::Sync => Promise::sync(position),
        }
    }
}

/// Without a log: what was there at the last clean close.
fn nothing_after(closes: &[usize], position: usize) -> Promise {
    let kept_before = closes.iter().rev().find(|close| **close <= position).copied().unwrap_or(0);
    Promise { kept_before, session_prefix: false, causal: false }
}

/// Why a history ends early.
#[derive(Debug)]
enum Stop {
    /// A full store refused something that others had built on: what follows this position can't be predicted.
    Cut(usize),
    /// Something is wrong, without any crash.
    Failed(String),
}

struct Driver<'a> {
    setup: &'a Setup<'a>,
    manner: Manner,
    seed: u64,
    recorder: Recorder,
    media: Media,
    clock: Arc<SweepClock>,
    store: Held<Box<dyn Store>>,
    lanes: Vec<Lane>,
    ledger: Ledger,
    tags: u32,
    /// Batches that took effect.
    rank: u64,
    /// Says where a background step slips in.
    slips: Rng,
    times: Vec<(usize, u64)>,
    closes: Vec<usize>,
    marks: Vec<(usize, u64)>,
    steady: bool,
    coverage: Coverage,
}

/// Runs a history.
///
/// # Errors
/// What is wrong without any crash.
pub(super) fn drive(setup: &Setup<'_>, start: Start, plan: &Plan) -> Result<Run, String> {
    let Start { recorder, media, clock_us, initial } = start;
    let clock = Arc::new(SweepClock::new(clock_us));
    let manner = plan.manner;
    media.set_queue_order(manner.order);
    set_actor(0);
    let store =
        setup.open(&media, &clock, &manner, manner.fresh).map_err(|error| format!("opening: {error}"))?;
    let mut driver = Driver {
        setup,
        manner,
        seed: plan.seed,
        media,
        clock,
        store: Held::new(store),
        lanes: Vec::new(),
        ledger: Ledger::new(START_US, (clock_us - START_US) / JUMP_US, initial, manner.evict),
        tags: 0,
        rank: 0,
        slips: Rng::new(plan.seed),
        times: vec![(0, clock_us)],
        closes: Vec::new(),
        marks: Vec::new(),
        steady: true,
        coverage: Coverage::default(),
        recorder,
    };
    driver.note_steadiness();
    let opened = driver.recorder.position();
    let created = if manner.fresh { opened } else { 0 };
    let cut = match driver.run(&plan.steps) {
        Ok(()) => None,
        Err(Stop::Cut(position)) => Some(position),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let Driver { recorder, store, lanes, ledger, times, closes, marks, steady, mut coverage, .. } = driver;
    // What happens from here on is no part of the history.
    let mut trace = recorder.finish();
    drop(lanes);
    coverage.take(&store.stats());
    drop(store);
    if let Some(stray) = trace.strays().first() {
        return Err(format!("without any crash: {stray}"));
    }
    if let Some(position) = cut {
        trace.truncate(position);
        coverage.add("histories cut short by a refusal", 1);
    }
    Ok(Run {
        trace,
        oracles: ledger.oracles(plan.seed),
        created,
        opened,
        times,
        closes,
        marks,
        steady,
        coverage,
    })
}

impl Driver<'_> {
    fn run(&mut self, steps: &[Step]) -> Result<(), Stop> {
        self.open_lanes()?;
        for step in steps {
            self.clock.progress();
            self.step(step)?;
            self.answer_all()?;
            self.note_time();
        }
        let finished = self.finish();
        self.note_time();
        finished
    }

    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    fn open_lanes(&mut self) -> Result<(), Stop> {
        for _ in 0..self.manner.sessions {
            let session = self.store.session().map_err(|error| Stop::Failed(error.to_string()))?;
            let tag = self.tag();
            self.lanes.push(Lane { session: Held::new(session), tag, flights: Vec::new() });
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Batch { session, atomic, cmds } => self.execute(*session, *atomic, cmds),
            Step::Poll { session } => {
                self.poll(*session);
                Ok(())
            }
            Step::Background(count) => {
                (0..*count).for_each(|_| self.background());
                Ok(())
            }
            Step::Settle => self.settle(),
            Step::Tick { us } => {
                self.note_time();
                self.clock.advance_us(*us);
                self.note_time();
                Ok(())
            }
            Step::Jump => {
                self.complete_all();
                // What was refused must be known to have been: what it would have replaced may expire now.
                self.answer_all()?;
                self.note_time();
                self.clock.advance_us(JUMP_US);
                self.note_time();
                let position = self.recorder.position();
                let tags = &mut self.tags;
                let gone = self.ledger.jump(position, &mut || {
                    *tags += 1;
                    *tags
                });
                self.coverage.add("expired keys", gone);
                Ok(())
            }
            Step::Resize { tier, bytes } => self.resize(tier, *bytes),
            Step::Restart { clean } => self.restart(*clean),
        }
    }

    /// A size that can't be is refused, and changes nothing.
    fn resize(&mut self, tier: &str, bytes: u64) -> Result<(), Stop> {
        set_actor(BACKGROUND);
        match self.store.resize_tier(tier, bytes) {
            Ok(()) => self.coverage.add("resizes asked for", 1),
            Err(StoreError::Options(_)) => self.coverage.add("resizes refused", 1),
            Err(error) => return Err(Stop::Failed(format!("resizing: {error}"))),
        }
        Ok(())
    }

    /// The store was opened.
    pub(super) fn note_steadiness(&mut self) {
        self.steady &= self.store.time().now_ms <= self.clock.us() / 1000;
    }

    fn note_time(&mut self) {
        self.times.push((self.recorder.position(), self.clock.us()));
    }

    fn background(&mut self) {
        set_actor(BACKGROUND);
        let log_used = |store: &dyn Store| store.stats().log.map_or(0, |log| log.used_bytes);
        let before = log_used(&**self.store);
        self.store.step();
        self.clock.progress();
        let us = self.clock.us();
        if self.marks.last().is_none_or(|(_, marked)| *marked != us) {
            self.marks.push((self.recorder.position(), us));
        }
        if log_used(&**self.store) < before {
            self.coverage.add("log reclaims", 1);
        }
    }

    /// A place where another thread could be scheduled.
    fn slip(&mut self) {
        if self.slips.one_in(self.manner.slip) {
            self.background();
        }
    }

    fn execute(&mut self, session: usize, atomic: bool, cmds: &[Cmd]) -> Result<(), Stop> {
        let number = session % self.lanes.len();
        // A session goes on only when nothing of it is pending; so do others where the order would matter.
        for other in 0..self.lanes.len() {
            let waits =
                |flight: &Flight| flight.predictions.is_none() && (other == number || flight.meets(cmds));
            if self.lanes[other].flights.iter().any(waits) {
                self.complete(other);
            }
        }
        if self.lanes[number].flights.len() >= FLIGHTS {
            self.settle()?;
        }
        if cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Swap)) {
            // What waits for a device ends in the database where it began.
            self.settle()?;
            self.coverage.add("exchanges of databases", 1);
        }
        let atomic = atomic && self.setup.options.durability != Durability::None;
        let mut flight =
            Flight::new(&self.ledger, cmds, atomic, self.recorder.position(), self.setup.subject);
        set_actor(number as u32);
        let lane = &mut self.lanes[number];
        lane.session.execute(&mut flight.batch);
        self.clock.progress();
        lane.flights.push(flight);
        self.coverage.add("operations", cmds.len() as u64);
        self.coverage.add("multi-key groups", u64::from(atomic));
        self.slip();
        let linger = (usize::from(cmds.first().map_or(0, |cmd| cmd.key)) + number).is_multiple_of(3);
        if !self.setup.options.media.is_read_late() || !linger {
            self.poll(number);
            self.slip();
        }
        Ok(())
    }

    /// Goes on with what is pending; predicts the answers once nothing is.
    fn poll(&mut self, session: usize) {
        let number = session % self.lanes.len();
        set_actor(number as u32);
        // Some were pending and others not: among them only each key's order is known.
        let unordered = self.setup.options.media.is_read_late();
        let lane = &mut self.lanes[number];
        for flight in lane.flights.iter_mut().filter(|flight| flight.predictions.is_none()) {
            if !lane.session.poll(&mut flight.batch) {
                self.coverage.add("polls of pending batches", 1);
                continue;
            }
            self.rank += 1;
            let mut by = By { session: lane.tag, rank: self.rank, issued: flight.issued };
            let mut predictions = Vec::new();
            if flight.atomic {
                predictions = self.ledger.run_group(by, &flight.cmds);
            } else {
                for (cmd, token) in flight.cmds.iter().zip(&flight.tokens) {
                    if !unordered {
                        self.rank += 1;
                        by.rank = self.rank;
                    }
                    predictions.push(self.ledger.run(by, cmd, *token));
                }
            }
            flight.predictions = Some(predictions);
        }
    }

    fn complete(&mut self, number: usize) {
        while self.lanes[number].flights.iter().any(|flight| flight.predictions.is_none()) {
            self.poll(number);
            self.slip();
        }
    }
    fn complete_all(&mut self) {
        (0..self.lanes.len()).for_each(|number| self.complete(number));
    }

    /// Without a crash everything is there, and the count is right.
    fn finish(&mut self) -> Result<(), Stop> {
        self.settle()?;
        for key in 0..KEYS {
            self.execute(0, false, &[Cmd { key, kind: CmdKind::Get }])?;
            self.settle()?;
        }
        set_actor(BACKGROUND);
        let keys = self.ledger.live().keys();
        self.setup.count(&**self.store, keys, &self.manner).map_err(Stop::Failed)
    }
}
