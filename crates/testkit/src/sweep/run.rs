//! Drives a store through a history on recording media, and tells the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{Durability, Store};
use terrace_media_sim::oracle::Oracle;
use terrace_media_sim::trace::Trace;
use terrace_media_sim::{Recorder, set_actor};

use super::coverage::Coverage;
use super::lane::{Flight, Held, Lane, Stop};
use super::ledger::{Expected, Ledger, Prediction, Record};
use super::media::{Media, MediaKind, SweepClock};
use super::plan::{Cmd, CmdKind, JUMP_US, KEYS, SESSIONS, Step};
use super::{START_US, Setup};

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
    /// A new store on blank media.
    pub fresh: bool,
    pub clock_us: u64,
    /// What the store holds.
    pub initial: BTreeMap<u8, Record>,
}

/// A history that has run.
pub(super) struct Run {
    pub trace: Trace,
    oracles: Vec<(usize, Oracle<u8, Record>)>,
    /// From here on the store exists.
    pub created: usize,
    /// From which position on the clock showed what.
    times: Vec<(usize, u64)>,
    /// Where clean closes were complete.
    closes: Vec<usize>,
    pub coverage: Coverage,
}

impl Run {
    pub fn clock_us(&self, position: usize) -> u64 {
        self.times.iter().rev().find(|(from, _)| *from <= position).map_or(START_US, |(_, us)| *us)
    }
    /// What judges a crash there.
    pub fn oracle(&self, position: usize) -> &Oracle<u8, Record> {
        let last = self.oracles.iter().rposition(|(from, _)| *from <= position);
        &self.oracles[last.unwrap_or(0)].1
    }
    pub fn last_close(&self, position: usize) -> usize {
        self.closes.iter().rev().find(|close| **close <= position).copied().unwrap_or(0)
    }
}

struct Driver<'a> {
    setup: &'a Setup<'a>,
    recorder: Recorder,
    media: Media,
    clock: Arc<SweepClock>,
    store: Held<Box<dyn Store>>,
    lanes: Vec<Lane>,
    ledger: Ledger,
    tags: u32,
    times: Vec<(usize, u64)>,
    closes: Vec<usize>,
    coverage: Coverage,
}

/// Runs the steps.
pub(super) fn drive(setup: &Setup<'_>, seed: u64, start: Start, steps: &[Step]) -> Result<Run, Stop> {
    let Start { recorder, media, fresh, clock_us, initial } = start;
    let clock = Arc::new(SweepClock::new(clock_us));
    set_actor(0);
    let store =
        setup.open(&media, &clock, fresh).map_err(|error| Stop::Failed(format!("opening: {error}")))?;
    let mut driver = Driver {
        setup,
        media,
        clock,
        store: Held::new(store),
        lanes: Vec::new(),
        ledger: Ledger::new(START_US, (clock_us - START_US) / JUMP_US, initial),
        tags: 0,
        times: vec![(0, clock_us)],
        closes: Vec::new(),
        coverage: Coverage::default(),
        recorder,
    };
    let created = if fresh { driver.recorder.position() } else { 0 };
    driver.open_lanes()?;
    for step in steps {
        driver.clock.progress();
        driver.step(step)?;
        driver.answer_all()?;
    }
    driver.finish()?;
    let Driver { recorder, store, lanes, ledger, times, closes, mut coverage, .. } = driver;
    // What happens from here on is no part of the history.
    let trace = recorder.finish();
    drop(lanes);
    coverage.take(&store.stats());
    drop(store);
    Ok(Run { trace, oracles: ledger.oracles(seed), created, times, closes, coverage })
}

impl Driver<'_> {
    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    fn open_lanes(&mut self) -> Result<(), Stop> {
        for _ in 0..SESSIONS {
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
                self.clock.advance_us(*us);
                self.note_time();
                Ok(())
            }
            Step::Jump => {
                self.complete_all();
                self.clock.advance_us(JUMP_US);
                self.note_time();
                let position = self.recorder.position();
                let tags = &mut self.tags;
                let gone = self.ledger.jump(position, &mut || {
                    *tags += 1;
                    *tags
                });
                self.coverage.add("keys expired", gone);
                Ok(())
            }
            Step::Restart { clean } => self.restart(*clean),
        }
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
        if log_used(&**self.store) < before {
            self.coverage.add("log reclaims", 1);
        }
    }

    fn execute(&mut self, number: usize, atomic: bool, cmds: &[Cmd]) -> Result<(), Stop> {
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
        let atomic = atomic && self.setup.options.durability != Durability::None;
        let mut flight = Flight::new(&self.ledger, cmds, atomic, self.recorder.position());
        set_actor(number as u32);
        let lane = &mut self.lanes[number];
        lane.session.execute(&mut flight.batch);
        self.clock.progress();
        lane.flights.push(flight);
        self.coverage.add("operations", cmds.len() as u64);
        self.coverage.add("atomic groups", u64::from(atomic));
        let linger = (usize::from(cmds.first().map_or(0, |cmd| cmd.key)) + number).is_multiple_of(3);
        if self.setup.options.media == MediaKind::Byte || !linger {
            self.poll(number);
        }
        Ok(())
    }

    /// Goes on with what is pending; predicts the answers once nothing is.
    fn poll(&mut self, number: usize) {
        set_actor(number as u32);
        let unordered = self.setup.options.media == MediaKind::Block;
        let lane = &mut self.lanes[number];
        for flight in lane.flights.iter_mut().filter(|flight| flight.predictions.is_none()) {
            if !lane.session.poll(&mut flight.batch) {
                self.coverage.add("pending polls", 1);
                continue;
            }
            let mut tag = lane.tag;
            let mut predictions = Vec::new();
            if flight.atomic {
                let id = self.ledger.run_group(tag, flight.issued, &flight.cmds);
                let stored = || Prediction { expected: Expected::Stored, wrote: Some(id), saw: None };
                predictions.extend(flight.cmds.iter().map(|_| stored()));
            } else {
                for cmd in &flight.cmds {
                    if unordered && flight.cmds.len() > 1 {
                        // Some were pending and others not: among them only each key's order is known.
                        self.tags += 1;
                        tag = self.tags;
                    }
                    predictions.push(self.ledger.run(tag, flight.issued, cmd));
                }
            }
            flight.predictions = Some(predictions);
        }
    }

    fn complete(&mut self, number: usize) {
        while self.lanes[number].flights.iter().any(|flight| flight.predictions.is_none()) {
            self.poll(number);
        }
    }
    fn complete_all(&mut self) {
        (0..self.lanes.len()).for_each(|number| self.complete(number));
    }

    /// Gives the answers that may be given.
    fn answer_all(&mut self) -> Result<(), Stop> {
        for number in 0..self.lanes.len() {
            set_actor(number as u32);
            let lane = &mut self.lanes[number];
            let flights = std::mem::take(&mut lane.flights);
            let mut answered = Vec::new();
            for flight in flights {
                let proof =
                    flight.predictions.is_some().then(|| lane.session.settled(&flight.batch)).flatten();
                match proof {
                    Some(proof) => answered.push((flight, proof)),
                    None => lane.flights.push(flight),
                }
            }
            for (flight, proof) in answered {
                let position = self.recorder.acknowledged(flight.issued as u64);
                let Some(predictions) = &flight.predictions else { continue };
                for (i, prediction) in predictions.iter().enumerate() {
                    match flight.compare(i, &prediction.expected, &proof) {
                        Ok(()) => {
                            for id in prediction.wrote.into_iter().chain(prediction.saw) {
                                self.ledger.acknowledge(id, position);
                            }
                        }
                        Err(None) => self.refused(&flight, prediction)?,
                        Err(Some(wrong)) => return Err(Stop::Failed(wrong)),
                    }
                }
            }
        }
        Ok(())
    }

    fn refused(&mut self, flight: &Flight, prediction: &Prediction) -> Result<(), Stop> {
        self.coverage.add("refused", 1);
        let alone = flight.cmds.len() == 1 && self.lanes.iter().all(|lane| lane.flights.is_empty());
        match prediction.wrote {
            Some(id) if alone && self.ledger.refuse(id) => Ok(()),
            None if alone => Ok(()),
            _ => Err(Stop::Void),
        }
    }

    /// Waits for every answer.
    fn settle(&mut self) -> Result<(), Stop> {
        for _ in 0..STEPS_MAX {
            self.complete_all();
            self.answer_all()?;
            if self.lanes.iter().all(|lane| lane.flights.is_empty()) {
                return Ok(());
            }
            self.background();
        }
        Err(Stop::Failed("answers never settle although background work goes on".into()))
    }

    fn restart(&mut self, clean: bool) -> Result<(), Stop> {
        self.complete_all();
        if clean {
            self.settle()?;
        } else {
            self.answer_all()?;
        }
        self.lanes.clear();
        self.coverage.take(&self.store.stats());
        set_actor(BACKGROUND);
        if clean {
            self.store.close().map_err(|error| Stop::Failed(format!("closing: {error}")))?;
            self.closes.push(self.recorder.position());
            self.coverage.add("clean stops", 1);
        } else {
            self.coverage.add("kills", 1);
        }
        set_actor(0);
        let store = self.setup.open(&self.media, &self.clock, false);
        let store = store.map_err(|error| Stop::Failed(format!("opening again, clean {clean}: {error}")))?;
        self.store = Held::new(store);
        self.open_lanes()
    }

    /// Without a crash everything is there, and the count is right.
    fn finish(&mut self) -> Result<(), Stop> {
        self.settle()?;
        for key in 0..KEYS {
            self.execute(0, false, &[Cmd { key, kind: CmdKind::Get }])?;
            self.settle()?;
        }
        set_actor(BACKGROUND);
        self.setup.count(&**self.store, self.ledger.live().len()).map_err(Stop::Failed)
    }
}
