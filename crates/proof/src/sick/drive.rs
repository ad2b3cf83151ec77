//! A store under a history, its answers judged as they come.

use std::sync::Arc;

use terrace_engine::{Batch, Condition, Durability, Expiry, OpError, OpKind, Session, Store, StoreError};
use terrace_testkit::sweep::{Media, Opening, Subject};

use super::book::{Book, Verdict, expire_at};
use super::clock::FuseClock;
use super::kept::Kept;
use super::plan::{Cmd, CmdKind, KEYS, SESSIONS, Step, key_bytes, value_bytes};

/// Background steps after which an answer that still waits never comes.
const STEPS_MAX: u32 = 3_000;
/// Steps until a store that nobody uses has nothing to do.
const QUIET_STEPS: u32 = 200;

/// Why a history ends.
#[derive(Debug)]
pub(super) enum Stop {
    /// The store said that it can't go on: opening or closing it failed.
    Down(StoreError),
    /// Something is wrong.
    Wrong(String),
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub acknowledged: u64,
    pub answered: u64,
    pub io: u64,
    pub full: u64,
    pub poisoned: u64,
    pub log_failed: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.answered += other.answered;
        self.io += other.io;
        self.full += other.full;
        self.poisoned += other.poisoned;
        self.log_failed += other.log_failed;
    }
}

struct Flight {
    batch: Kept<Batch>,
    cmds: Vec<Cmd>,
    /// Whether the log had failed before it was executed.
    late: bool,
}

struct Lane {
    session: Kept<Box<dyn Session>>,
    flights: Vec<Flight>,
}

/// An open store.
pub(super) struct Driver<'a> {
    subject: &'a dyn Subject,
    media: &'a Media,
    durability: Durability,
    pub clock: Arc<FuseClock>,
    store: Kept<Box<dyn Store>>,
    lanes: Vec<Lane>,
    pub book: Book,
    pub tally: Tally,
    log_failed: bool,
}

impl<'a> Driver<'a> {
    /// Opens the store.
    pub fn open(
        subject: &'a dyn Subject,
        media: &'a Media,
        durability: Durability,
        clock_us: u64,
        book: Book,
        fresh: bool,
    ) -> Result<Self, Stop> {
        let clock = Arc::new(FuseClock::new(clock_us));
        let opening = Opening { durability, clock: clock.clone(), fresh, evict: false, variant: 0 };
        let store = subject.open(media, opening).map_err(Stop::Down)?;
        let (tally, log_failed) = (Tally::default(), false);
        let store = Kept::new(store);
        let mut driver =
            Self { subject, media, durability, clock, store, lanes: Vec::new(), book, tally, log_failed };
        driver.open_lanes()?;
        Ok(driver)
    }

    fn open_lanes(&mut self) -> Result<(), Stop> {
        for _ in 0..SESSIONS {
            let session = Kept::new(self.store.session().map_err(Stop::Down)?);
            self.lanes.push(Lane { session, flights: Vec::new() });
        }
        Ok(())
    }

    /// Runs the steps; what was not answered when it stops is left open in the book.
    pub fn run(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let result = steps.iter().try_for_each(|step| {
            self.clock.progress();
            self.step(step)
        });
        for lane in &mut self.lanes {
            for flight in lane.flights.drain(..) {
                flight.cmds.iter().for_each(|cmd| self.book.leave_open(cmd));
            }
        }
        result
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Batch { session, atomic, wait, cmds } => self.batch(*session, *atomic, *wait, cmds),
            Step::Background(count) => {
                (0..*count).for_each(|_| self.background());
                Ok(())
            }
            Step::Settle => self.settle(),
            Step::Tick { us } => {
                self.clock.advance_us(*us);
                self.book.pass(self.clock.us() / 1000);
                Ok(())
            }
            Step::Restart => {
                self.settle()?;
                self.close()?;
                self.open_again()
            }
            Step::Kill => {
                self.settle()?;
                self.lanes.clear();
                self.open_again()
            }
        }
    }

    pub fn background(&mut self) {
        self.store.step();
        self.clock.progress();
    }

    fn batch(&mut self, number: usize, atomic: bool, wait: bool, cmds: &[Cmd]) -> Result<(), Stop> {
        let flush = |cmds: &[Cmd]| cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Flush));
        let meets = |flight: &Flight| {
            flush(cmds)
                || flush(&flight.cmds)
                || flight.cmds.iter().any(|mine| cmds.iter().any(|cmd| cmd.key == mine.key))
        };
        for other in 0..self.lanes.len() {
            while self.lanes[other].flights.iter().any(meets) {
                self.finish_one(other)?;
            }
        }
        let mut batch = Kept::new(Batch::new());
        fill(&mut batch, atomic, cmds);
        self.lanes[number].session.execute(&mut batch);
        self.clock.progress();
        let flight = Flight { batch, cmds: cmds.to_vec(), late: self.log_failed };
        self.lanes[number].flights.push(flight);
        if wait { self.finish(number) } else { Ok(()) }
    }

    fn finish(&mut self, number: usize) -> Result<(), Stop> {
        while !self.lanes[number].flights.is_empty() {
            self.finish_one(number)?;
        }
        Ok(())
    }

    /// Waits for the oldest answer of a session.
    fn finish_one(&mut self, number: usize) -> Result<(), Stop> {
        for _ in 0..STEPS_MAX {
            let Lane { session, flights } = &mut self.lanes[number];
            let Some(flight) = flights.first_mut() else { return Ok(()) };
            if session.poll(&mut flight.batch)
                && let Some(proof) = session.settled(&flight.batch)
            {
                let flight = flights.remove(0);
                for (at, cmd) in flight.cmds.iter().enumerate() {
                    let verdict = self.book.judge(cmd, &flight.batch, at, &proof).map_err(Stop::Wrong)?;
                    self.note(verdict, cmd, flight.late)?;
                }
                return Ok(());
            }
            self.background();
        }
        Err(Stop::Wrong("an answer never comes, although background work goes on".into()))
    }

    fn note(&mut self, verdict: Verdict, cmd: &Cmd, late: bool) -> Result<(), Stop> {
        let tally = &mut self.tally;
        match verdict {
            Verdict::Acknowledged | Verdict::Answered if late => {
                return Err(Stop::Wrong(format!("{cmd:?} was answered after the log had failed")));
            }
            Verdict::Acknowledged => tally.acknowledged += 1,
            Verdict::Answered => tally.answered += 1,
            Verdict::Refused(OpError::Io) => tally.io += 1,
            Verdict::Refused(OpError::Full) => tally.full += 1,
            Verdict::Refused(OpError::Poisoned) => tally.poisoned += 1,
            Verdict::Refused(_) => {
                tally.log_failed += 1;
                self.log_failed = true;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Stop> {
        (0..self.lanes.len()).try_for_each(|number| self.finish(number))
    }

    fn open_again(&mut self) -> Result<(), Stop> {
        self.store.end();
        let (durability, clock) = (self.durability, self.clock.clone());
        let opening = Opening { durability, clock, fresh: false, evict: false, variant: 0 };
        self.store = Kept::new(self.subject.open(self.media, opening).map_err(Stop::Down)?);
        self.log_failed = false;
        self.open_lanes()
    }

    /// Closes the store; nothing may wait for an answer.
    pub fn close(&mut self) -> Result<(), Stop> {
        self.lanes.clear();
        self.store.close().map_err(Stop::Down)
    }

    /// Reads every key.
    pub fn read_all(&mut self) -> Result<(), Stop> {
        (0..KEYS).try_for_each(|key| self.batch(0, false, true, &[Cmd { key, kind: CmdKind::Get }]))
    }

    /// Whether the store's count of keys is right once it is quiet.
    pub fn count(&mut self) -> Result<(), Stop> {
        let Some(live) = self.book.live() else { return Ok(()) };
        for _ in 0..QUIET_STEPS {
            if self.store.len(0) == live as u64 {
                return Ok(());
            }
            self.background();
        }
        Err(Stop::Wrong(format!("the store counts {} keys, {live} are there", self.store.len(0))))
    }
}

fn fill(batch: &mut Batch, atomic: bool, cmds: &[Cmd]) {
    if atomic {
        batch.begin_atomic();
    }
    for cmd in cmds {
        let kind = match cmd.kind {
            CmdKind::Set { len, stamp, expire_s } => OpKind::Set {
                value: batch.bytes(&value_bytes(len, stamp)),
                condition: Condition::Always,
                expiry: if expire_s == 0 { Expiry::Clear } else { Expiry::At(expire_at(expire_s)) },
                flags: Some(0),
                old_value: false,
            },
            CmdKind::Append { len, stamp } => {
                let value = batch.bytes(&value_bytes(len, stamp));
                OpKind::Append {
                    value,
                    front: false,
                    create: true,
                    condition: Condition::Always,
                    value_bytes_max: u32::MAX,
                }
            }
            CmdKind::Delete => OpKind::Delete { condition: Condition::Always, old_value: false },
            CmdKind::Get => OpKind::Get { value: true },
            CmdKind::Flush => OpKind::Flush { db: None },
        };
        let key = if matches!(cmd.kind, CmdKind::Flush) { Vec::new() } else { key_bytes(cmd.key) };
        batch.push(0, &key, kind);
    }
    if atomic {
        batch.end_atomic();
    }
}
