//! The suite: random batches against a store and the model, through restarts. A mismatch names the seed and the step, and
//! the same seed repeats it.

use std::collections::BTreeSet;
use std::time::Instant;

use terrace_engine::{Batch, OpError, Progress, Session, Settled, Store};

use crate::case::{Action, Case, Observed};
use crate::clocks::Passed;
use crate::edits::Rule;
use crate::model::{Group, Model};
use crate::random::{Generator, Limits, TICK_MS};
use crate::rng::Rng;

/// What a restart left of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarted {
    /// Every answered operation.
    KeptAll,
    /// Nothing; the engine keeps nothing across a restart.
    LostAll,
}

/// An engine under test. Its clock is injected and shows whole ticks ([`TICK_MS`]), or it is the system's and the limits
/// exclude near expiries. Background work is done by [`Store::step`] calls of the suite, or by threads as well.
pub trait Harness {
    /// The open store.
    fn store(&mut self) -> &dyn Store;
    /// Ends the store and opens it again: closed in order (`clean`), or as after the death of the process. No session is open.
    fn restart(&mut self, clean: bool) -> Restarted;
    /// Moves the injected clock on by a multiple of [`TICK_MS`]; does nothing if it is the system's.
    fn advance_clock(&mut self, ms: u64);
    /// The store's time now, in milliseconds, as the injected clocks have it.
    fn now_ms(&self) -> u64;
    /// What the store takes.
    fn limits(&self) -> Limits {
        Limits::default()
    }
    /// Something happens to the clocks while the store is open: time goes on as before.
    fn set_wall_clock(&mut self, _rng: &mut Rng) {}
    /// Something happens to the clocks while the store is closed; [`restart`](Self::restart) is called next.
    fn disturb_clocks(&mut self, _rng: &mut Rng) -> Passed {
        Passed::Exactly(0)
    }
}

/// What a run did, to be printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Operations compared.
    pub operations: u64,
    /// Restarts in order.
    pub clean_restarts: u64,
    /// Restarts as after the death of the process.
    pub kills: u64,
    /// Whole iterations compared.
    pub scans: u64,
    /// Ranges compared.
    pub ranges: u64,
    /// Transactions that a guard ended.
    pub aborted: u64,
    /// Exchanges of databases.
    pub swaps: u64,
}

/// Sessions used in turn; so a key's versions come from several logs.
const SESSIONS: usize = 3;
/// A running store keeps at least this often what time it has seen.
const MARKED_MS: u64 = 5000;
/// Background steps that must be enough to settle a small store.
const STEPS_MAX: usize = 100_000;

/// How the operations of a batch belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    No,
    Group,
    Transaction,
}

struct Run<'a> {
    harness: &'a mut dyn Harness,
    generator: Generator,
    model: Model,
    sessions: Vec<Box<dyn Session>>,
    batch: Batch,
    seed: u64,
    step: usize,
    report: Report,
    /// How far time went on since a step of the background is sure to have come.
    unmarked_ms: u64,
    /// The operations of the last batch, for the message of a failure.
    last: Vec<(Case, Observed)>,
}

/// Compares `steps` random batches, with background work, the passage of time and restarts between them.
///
/// # Panics
/// At the first mismatch: with seed, step, operation, what was expected and what was answered.
pub fn random_model_test(harness: &mut dyn Harness, seed: u64, steps: usize) -> Report {
    let generator = Generator::new(seed, harness.limits());
    let model = Model::new(harness.now_ms());
    let (sessions, batch, report) = (Vec::new(), Batch::new(), Report::default());
    let mut run = Run {
        harness,
        generator,
        model,
        sessions,
        batch,
        seed,
        step: 0,
        report,
        unmarked_ms: 0,
        last: Vec::new(),
    };
    run.open_sessions();
    for step in 0..steps {
        run.step = step;
        match run.generator.rng().below(100) {
            0..66 => run.batch(Together::No),
            66..70 => run.batch(Together::Group),
            70..78 => run.batch(Together::Transaction),
            78..86 => run.background(),
            86..92 => run.time(),
            92..95 => run.iterate(),
            95 => run.swap(),
            96..98 => run.settle(),
            98 => run.restart(true),
            _ => run.restart(false),
        }
    }
    run.settle();
    run.iterate();
    run.read_everything();
    run.report
}

impl Run<'_> {
    fn fail(&self, what: &str) -> ! {
        panic!("seed {}, step {}: {what}\nthe last batch: {:#?}", self.seed, self.step, self.last)
    }

    fn open_sessions(&mut self) {
        for _ in 0..SESSIONS {
            match self.harness.store().session() {
                Ok(session) => self.sessions.push(session),
                Err(error) => self.fail(&format!("no session: {error}")),
            }
        }
    }

    /// Runs operations and waits for their answers, in one of the ways in which callers may.
    fn execute(&mut self, cases: &[Case], together: Together) -> Vec<Observed> {
        let session = self.generator.rng().below(SESSIONS as u64) as usize;
        let blocking = self.generator.rng().percent(25);
        self.batch.clear();
        match together {
            Together::No => {}
            Together::Group => self.batch.begin_atomic(),
            Together::Transaction => self.batch.begin_transaction(),
        }
        for case in cases {
            case.push(&mut self.batch);
        }
        self.batch.end_atomic();
        let session = &mut self.sessions[session];
        session.execute(&mut self.batch);
        let proof = if blocking {
            session.wait(&mut self.batch)
        } else {
            poll(session.as_mut(), &mut self.batch, self.harness.store())
        };
        (0..cases.len()).map(|i| Observed::of(&self.batch, i, &proof)).collect()
    }

    fn batch(&mut self, together: Together) {
        self.model.set_now_ms(self.harness.now_ms());
        let mut cases = match together {
            Together::No => self.generator.batch(&self.model),
            Together::Group => self.generator.group(),
            Together::Transaction => self.generator.transaction(&self.model),
        };
        // A scan or a range that has to read from a device may see later operations of its own batch: let there be none.
        cases.sort_by_key(|case| matches!(case.action, Action::Scan { .. } | Action::Range { .. }));
        let observed = self.execute(&cases, together);
        self.last = cases.iter().cloned().zip(observed.iter().cloned()).collect();
        if together == Together::Transaction && self.did_nothing(&cases, &observed) {
            return;
        }
        self.model.begin_group();
        let group = together != Together::No;
        let mut written = BTreeSet::new();
        for (i, (case, observed)) in cases.iter().zip(&observed).enumerate() {
            let in_group = match (group, written.insert((case.db, &case.key))) {
                (false, _) => Group::None,
                (true, true) => Group::First,
                (true, false) => Group::Again,
            };
            if let Err(expected) = self.model.check_in_group(case, observed, in_group) {
                let before: Vec<String> = cases[..i]
                    .iter()
                    .filter(|c| (c.db, &c.key) == (case.db, &case.key))
                    .map(|c| format!("{c:?}"))
                    .collect();
                self.fail(&format!(
                    "operation {i} of {}{}: {case:?}\n  expected {expected}\n  got      {observed:?}\n  \
                     before it in the batch, on the same key: {before:#?}",
                    cases.len(),
                    if group { " (atomic)" } else { "" },
                ));
            }
            if together == Together::Transaction {
                let failed = matches!(observed, Observed::Error(_));
                self.model.within_group(&(case.db, case.key.clone()), failed);
            } else if !group {
                self.model.begin_group();
            }
        }
        self.report.operations += cases.len() as u64;
        let ranges = cases.iter().filter(|case| matches!(case.action, Action::Range { .. }));
        self.report.ranges += ranges.count() as u64;
        self.compare_lengths();
    }

    /// Whether a transaction as a whole was not done, and rightly so.
    fn did_nothing(&mut self, cases: &[Case], observed: &[Observed]) -> bool {
        let guarded = match &cases[0] {
            Case { db, key, action: Action::Edit { rule: Rule::Guard, .. } } => {
                self.model.get(&(*db, key.clone())).is_some()
            }
            _ => false,
        };
        let aborted = observed.iter().filter(|one| **one == Observed::Aborted).count();
        let all_or_none = if guarded { observed.len() } else { 0 };
        if aborted != all_or_none {
            self.fail(&format!(
                "a guard that {}: {cases:#?} answered {observed:#?}",
                if guarded { "holds" } else { "does not" }
            ));
        }
        let too_long = observed.iter().all(|one| matches!(one, Observed::Error(OpError::GroupTooLong(_))));
        let bytes: usize = cases.iter().map(|case| self.bytes_at_most(case)).sum();
        if too_long && bytes <= self.generator.limits().group_bytes_max {
            self.fail(&format!("a transaction of {bytes} bytes at most is too long: {cases:#?}"));
        }
        self.report.aborted += u64::from(guarded);
        guarded || too_long
    }

    /// What an operation may write at most, key and header included.
    fn bytes_at_most(&self, case: &Case) -> usize {
        let old = self.model.get(&(case.db, case.key.clone())).map_or(0, |record| record.value.len());
        let new = match &case.action {
            Action::Set { value, .. } | Action::Append { value, .. } => value.len(),
            Action::Edit { argument, .. } => argument.len(),
            _ => 0,
        };
        // What is handed on may be any value of the group; the old one counts for its own key and for that.
        case.key.len() + 2 * (old + new) + 128
    }

    /// Exchanges two databases, which may be the same one, among operations that all name databases as they lay before.
    fn swap(&mut self) {
        self.model.set_now_ms(self.harness.now_ms());
        let databases: Vec<u8> = self.generator.limits().databases.clone();
        let (db, with) = (*self.generator.rng().pick(&databases), *self.generator.rng().pick(&databases));
        let mut cases = self.generator.batch(&self.model);
        cases.retain(|case| !matches!(case.action, Action::Scan { .. } | Action::Range { .. }));
        let at = self.generator.rng().below(cases.len() as u64 + 1) as usize;
        cases.insert(at, Case { db, key: Vec::new(), action: Action::Swap(with) });
        let observed = self.execute(&cases, Together::No);
        self.last = cases.iter().cloned().zip(observed.iter().cloned()).collect();
        for (i, (case, observed)) in cases.iter().zip(&observed).enumerate() {
            let case = if i > at { case.after_swap(db, with) } else { case.clone() };
            self.model.begin_group();
            if let Err(expected) = self.model.check(&case, observed) {
                self.fail(&format!(
                    "operation {i}, a swap being number {at}: {case:?}: expected {expected}, got {observed:?}"
                ));
            }
        }
        self.report.operations += cases.len() as u64;
        self.report.swaps += 1;
        self.compare_lengths();
    }

    fn background(&mut self) {
        for _ in 0..self.generator.rng().between(1, 50) {
            if self.harness.store().step() == Progress::Idle {
                break;
            }
        }
        self.compare_lengths();
    }

    fn time(&mut self) {
        if self.generator.rng().percent(20) {
            let harness = &mut self.harness;
            harness.set_wall_clock(self.generator.rng());
            // Whoever serves clients asks each turn, and the next step keeps what was seen.
            harness.store().time();
            harness.store().step();
        }
        let ticks = *self.generator.rng().pick(&[1, 10, 100, 1000, 5000]);
        self.advance(ticks * TICK_MS);
        // What has expired meanwhile is still there: the next batch may ask for it.
        self.unmarked_ms += ticks * TICK_MS;
    }

    /// No store runs for long without a step of the background, which keeps the time that was seen.
    fn mark_time(&mut self) {
        if std::mem::take(&mut self.unmarked_ms) >= MARKED_MS {
            self.harness.store().time();
            self.harness.store().step();
        }
    }

    fn advance(&mut self, ms: u64) {
        self.harness.advance_clock(ms);
        self.model.set_now_ms(self.harness.now_ms());
    }

    /// The count may still include records that have expired since, and nothing else; and it may lack keys that a set took for
    /// others', as long as the store says that nobody has looked yet.
    fn compare_lengths(&mut self) {
        let stats = self.harness.store().stats();
        let is_unsettled = |(name, _): &&(&str, u64)| *name == "sets_unsettled";
        let unsettled = stats.engine_details.iter().find(is_unsettled).map_or(0, |(_, n)| *n);
        for db in self.generator.limits().databases.clone() {
            let (low, high) = self.model.len_range(db);
            let len = self.harness.store().len(db);
            if len < low.saturating_sub(unsettled) || len > high {
                self.fail(&format!("len({db}) is {len}, expected {low} to {high}"));
            }
        }
    }

    /// Expired records leave the count in bounded time.
    fn settle(&mut self) {
        let databases = self.generator.limits().databases.clone();
        for _ in 0..STEPS_MAX {
            let store = self.harness.store();
            let counted = |db: u8| (store.len(db), store.expiring(db));
            let exact = databases
                .iter()
                .all(|db| counted(*db) == (self.model.len_range(*db).0, self.model.expiring(*db)));
            if exact {
                self.model.forget_expired();
                return;
            }
            if self.harness.store().step() == Progress::Idle {
                // Due work may be bound to the clock.
                self.advance(100 * TICK_MS);
            }
        }
        let lengths: Vec<_> = databases
            .iter()
            .map(|db| {
                let store = self.harness.store();
                let live = (self.model.len_range(*db).0, self.model.expiring(*db));
                (*db, (store.len(*db), store.expiring(*db)), live)
            })
            .collect();
        self.fail(&format!("expired records stay in the count: (database, counted and those with an expiry, live) {lengths:?}"));
    }

    /// A whole iteration sees every key, and nothing else.
    fn iterate(&mut self) {
        for db in self.generator.limits().databases.clone() {
            let mut seen = BTreeSet::new();
            let mut cursor = 0;
            let count = self.generator.rng().between(1, 30) as u32;
            loop {
                let case = Case { db, key: Vec::new(), action: Action::Scan { cursor, count } };
                let Some(Observed::Scanned(next, keys)) =
                    self.execute(std::slice::from_ref(&case), Together::No).pop()
                else {
                    self.fail(&format!("{case:?} must be answered by Scanned"));
                };
                seen.extend(keys);
                if next == 0 {
                    break;
                }
                cursor = next;
            }
            let expected = self.model.keys(db);
            let show = |keys: BTreeSet<&Vec<u8>>| {
                keys.into_iter().map(|key| crate::case::show(key)).collect::<Vec<_>>()
            };
            if seen != expected {
                let missing = show(expected.difference(&seen).collect());
                let surplus = show(seen.difference(&expected).collect());
                self.fail(&format!("iterating over database {db}: missing {missing:?}, surplus {surplus:?}"));
            }
        }
        self.report.scans += 1;
    }

    fn restart(&mut self, clean: bool) {
        self.mark_time();
        self.sessions.clear();
        self.batch = Batch::new();
        let began = Instant::now();
        let before = self.harness.store().time();
        let passed = self.harness.disturb_clocks(self.generator.rng());
        let lost = self.harness.restart(clean);
        match lost {
            Restarted::KeptAll => {}
            Restarted::LostAll => self.model.lose_everything(),
        }
        *(if clean { &mut self.report.clean_restarts } else { &mut self.report.kills }) += 1;
        let after = self.harness.store().time();
        let went = after.now_ms.wrapping_sub(before.now_ms);
        let real_ms = began.elapsed().as_millis() as u64;
        if lost == Restarted::KeptAll && !passed.allows(went, real_ms) {
            self.fail(&format!(
                "over a restart (clean: {clean}) time went on by {went} ms, and {passed:?} passed"
            ));
        }
        self.advance(0);
        self.open_sessions();
        self.compare_lengths();
        self.read_everything();
    }

    fn read_everything(&mut self) {
        for db in self.generator.limits().databases.clone() {
            let keys: Vec<Case> = self
                .model
                .keys(db)
                .into_iter()
                .map(|key| Case { db, key, action: Action::Get { value: true } })
                .collect();
            for cases in keys.chunks(16) {
                let observed = self.execute(cases, Together::No);
                for (case, observed) in cases.iter().zip(&observed) {
                    if let Err(expected) = self.model.check(case, observed) {
                        self.fail(&format!(
                            "reading all: {case:?}\n  expected {expected}\n  got      {observed:?}"
                        ));
                    }
                }
                self.report.operations += cases.len() as u64;
            }
        }
    }
}

/// Waits as an event loop does, with the background work in between.
fn poll(session: &mut dyn Session, batch: &mut Batch, store: &dyn Store) -> Settled {
    loop {
        session.poll(batch);
        if let Some(proof) = session.settled(batch) {
            return proof;
        }
        store.step();
    }
}
