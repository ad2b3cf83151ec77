//! A client that writes and reads until its server dies, and keeps account of what it was promised.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::check::Found;
use super::leases::{BRIEF_MS, LONG_MS, Leases};
use super::ledger::{Ledger, State};
use super::wire::{Answer, Request, Wire};
use crate::client::RespClient;
use crate::linearize::{self, Action, Entry, Outcome};
use crate::random::filler;
use crate::rng::Rng;

/// Keys of each writer alone.
const OWN_KEYS: u64 = 300;
/// Values that are longer lie in pieces, which a change in part writes alone.
const LARGE: usize = 16 << 10;
/// Values that are longer are not appended to any more.
const LONG: usize = 400_000;
/// Keys that all writers share; what they see of them must be linearizable.
pub const SHARED_KEYS: u64 = 8;

/// What the coming crash may take of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losable {
    /// Nothing.
    Nothing,
    /// What was acknowledged within this time before the end: power loss under `batch:MS`.
    Within(Duration),
}

/// What all clients of a run share.
pub struct Shared {
    /// Stamps calls and returns.
    pub clock: AtomicU64,
    /// Acknowledged operations of this round.
    pub acknowledged: AtomicU64,
    /// When to tell that the round has gone on for long enough.
    pub target: u64,
    losable: Losable,
    epoch: Instant,
    /// When the last write was sent that has an answer, in microseconds.
    answered_sent_us: AtomicU64,
}

impl Shared {
    /// For a round that starts now. `clock` is greater than that of any round before.
    pub fn new(clock: u64, target: u64, losable: Losable) -> Self {
        Self {
            clock: AtomicU64::new(clock),
            acknowledged: AtomicU64::new(0),
            target,
            losable,
            epoch: Instant::now(),
            answered_sent_us: AtomicU64::new(0),
        }
    }
    /// Microseconds since the round's start, never 0.
    pub fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64 + 1
    }
    /// What was acknowledged at this time or before can't be lost.
    ///
    /// A store that answers a write says that everything older than the window is safe ("if syncing falls behind, answers
    /// wait"). The write was sent before it was answered, and so the window counts from there: however late this process or
    /// the store was scheduled, nothing is asked for that was not promised.
    pub fn safe_us(&self) -> u64 {
        match self.losable {
            Losable::Nothing => u64::MAX,
            Losable::Within(window) => {
                self.answered_sent_us.load(SeqCst).saturating_sub(window.as_micros() as u64)
            }
        }
    }
    fn answered_write(&self, sent_us: u64) {
        self.answered_sent_us.fetch_max(sent_us, SeqCst);
    }
}

/// What a writer asked of a shared key.
#[derive(Clone, Debug)]
pub struct SharedCall {
    /// The call, as the checker takes it.
    pub entry: Entry,
    /// The pipeline that it was part of.
    pub stage: u64,
    /// When it was answered, in microseconds.
    pub answered_us: Option<u64>,
}

/// One writer; it outlives its connections.
pub struct Writer {
    name: String,
    client: u32,
    memcached: bool,
    rng: Rng,
    written: u64,
    /// The writer's own keys.
    pub ledger: Ledger,
    /// What it asked of the shared keys since the last restart.
    pub history: Vec<SharedCall>,
    /// The time that it gave some of its keys, if it does.
    leases: Option<Leases>,
}

/// A request on its way.
struct Call {
    request: Request,
    /// The answer it must get (of a key of its own), or what to note of it (of a shared one).
    expected: Expected,
}

enum Expected {
    /// A key of its own: only one answer is right.
    Exactly(Answer),
    /// A shared key: the checker will tell.
    Shared { key: u64, action: Action, invoke: u64 },
}

impl Writer {
    /// A writer that speaks one of the protocols. Writers of one store differ in `client`.
    pub fn new(client: u32, memcached: bool, seed: u64) -> Self {
        let name = format!("{}{client}", if memcached { "memcached" } else { "redis" });
        let rng = Rng::new(seed ^ (u64::from(client) << 40));
        let ledger = Ledger::default();
        Self { name, client, memcached, rng, written: 0, ledger, history: Vec::new(), leases: None }
    }

    /// Gives some of its keys a time to live from now on.
    pub fn lease(&mut self) {
        self.leases.get_or_insert_default();
    }

    /// Runs until the connection fails: then the server is dead. Calls `reached` at the round's target.
    ///
    /// Returns how many requests are left without an answer.
    ///
    /// # Errors
    /// If an answer was wrong.
    pub fn run(&mut self, mut wire: Wire, shared: &Shared, reached: &dyn Fn()) -> Result<usize, String> {
        loop {
            self.ledger.next_stage();
            let sent_us = shared.now_us();
            let calls = self.pipeline(shared);
            for call in &calls {
                wire.queue(&call.request);
            }
            let mut unanswered = calls.into_iter();
            let died = wire.flush().err();
            while died.is_none()
                && let Some(call) = unanswered.next()
            {
                match wire.receive(&call.request) {
                    Ok(answer) => self.note(call, answer, shared, sent_us)?,
                    // The others mean that the server is dead.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::InvalidData | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                        ) =>
                    {
                        return Err(format!("{}: {error}", self.name));
                    }
                    Err(_) => {
                        return Ok(self.lose(std::iter::once(call).chain(unanswered)));
                    }
                }
                if shared.acknowledged.fetch_add(1, SeqCst) + 1 == shared.target {
                    reached();
                }
            }
            if died.is_some() {
                return Ok(self.lose(unanswered));
            }
        }
    }

    /// The crash that ended the calls without an answer happened before this time.
    pub fn crashed(&mut self, clock: &AtomicU64) {
        self.leases.iter_mut().for_each(Leases::crashed);
        for SharedCall { entry, .. } in &mut self.history {
            if entry.outcome == Outcome::Lost(u64::MAX) {
                entry.outcome = Outcome::Lost(clock.fetch_add(1, SeqCst));
            }
        }
    }

    fn lose(&mut self, calls: impl Iterator<Item = Call>) -> usize {
        let mut lost = 0;
        for call in calls {
            lost += 1;
            if let Expected::Shared { key, action, invoke } = call.expected {
                let outcome = Outcome::Lost(u64::MAX);
                let entry = Entry { key, client: self.client, invoke, outcome, action };
                let stage = self.ledger.stage();
                self.history.push(SharedCall { entry, stage, answered_us: None });
            }
        }
        lost
    }

    fn note(&mut self, call: Call, answer: Answer, shared: &Shared, sent_us: u64) -> Result<(), String> {
        let now_us = shared.now_us();
        if !matches!(call.request, Request::Get(_)) {
            shared.answered_write(sent_us);
        }
        match call.expected {
            Expected::Exactly(expected) => {
                if answer != expected {
                    let mut text = format!("{}: {:?}", self.name, call.request);
                    text.truncate(100);
                    return Err(format!("{text}: expected {expected:.100?}, got {answer:.100?}"));
                }
                let safe_us = shared.safe_us();
                match &call.request {
                    Request::Get(_) => {}
                    Request::SetAll(writes) => {
                        writes.iter().for_each(|(key, _)| self.ledger.acknowledge(key, now_us, safe_us))
                    }
                    Request::Set(key, _)
                    | Request::Delete(key)
                    | Request::Incr(key)
                    | Request::Append(key, _)
                    | Request::Overwrite(key, ..) => {
                        self.ledger.acknowledge(key, now_us, safe_us);
                    }
                    Request::SetFor(key, value, _) => {
                        self.ledger.acknowledge(key, now_us, safe_us);
                        self.leases.iter_mut().for_each(|leases| leases.answered(value));
                    }
                }
            }
            Expected::Shared { key, action, invoke } => {
                let answer = match answer {
                    Answer::Value(value) => {
                        linearize::Answer::Value(value.map(|value| number(&value)).transpose()?)
                    }
                    Answer::Stored => linearize::Answer::Stored,
                    Answer::Deleted(deleted) => linearize::Answer::Deleted(deleted),
                    Answer::Number(number) => linearize::Answer::Number(number),
                };
                let outcome = Outcome::Answered(shared.clock.fetch_add(1, SeqCst), answer);
                let entry = Entry { key, client: self.client, invoke, outcome, action };
                let stage = self.ledger.stage();
                self.history.push(SharedCall { entry, stage, answered_us: Some(now_us) });
            }
        }
        Ok(())
    }

    /// The next requests to send together.
    fn pipeline(&mut self, shared: &Shared) -> Vec<Call> {
        let count = *self.rng.pick(&[1, 1, 2, 8, 16]);
        let mut calls: Vec<Call> = (0..count).map(|_| self.own()).collect();
        if self.rng.percent(40) {
            // One shared key a pipeline keeps the calls that overlap on a key few.
            calls.push(self.shared(shared));
        }
        calls
    }

    fn shared(&mut self, shared: &Shared) -> Call {
        let key = self.rng.below(SHARED_KEYS);
        let name = shared_key(key);
        self.written += 1;
        let unique = (i64::from(self.client) + 1) << 48 | (self.written as i64) << 8;
        let (action, request) = match self.rng.below(10) {
            0..5 => (Action::Get, Request::Get(name)),
            5..8 => (Action::Set(unique), Request::Set(name, unique.to_string().into_bytes())),
            // memcached's incr differs for absent keys.
            8 if !self.memcached => (Action::Incr(1), Request::Incr(name)),
            _ => (Action::Delete, Request::Delete(name)),
        };
        Call {
            request,
            expected: Expected::Shared { key, action, invoke: shared.clock.fetch_add(1, SeqCst) },
        }
    }

    fn own(&mut self) -> Call {
        let i = self.rng.below(OWN_KEYS);
        let key = self.key(i);
        let before = self.ledger.latest(&key);
        match i % 8 {
            0 => self.own_counter(key, before),
            4 if self.leases.is_some() => self.own_leased(key, before),
            _ => self.own_value(key, before),
        }
    }

    /// A value for ever, for long, or for so short that the key is gone after a crash; not what was there before it.
    fn own_leased(&mut self, key: Vec<u8>, before: State) -> Call {
        let is_known = self.leases.as_ref().is_some_and(|leases| !leases.is_brief(&key));
        let ms = match self.rng.below(10) {
            0..2 if is_known => return call(Request::Get(key), Answer::Value(before)),
            2 if is_known => return self.delete(key, before),
            3..5 if !self.memcached => Some(self.rng.between(1, BRIEF_MS)),
            5..7 => None,
            _ => Some(LONG_MS),
        };
        let value = self.value(1500);
        self.leases.iter_mut().for_each(|leases| leases.give(&key, &value, ms));
        match ms {
            None => self.set(key, value),
            Some(ms) => {
                self.ledger.attempt(&key, (ms == LONG_MS).then(|| value.clone()));
                call(Request::SetFor(key, value, ms), Answer::Stored)
            }
        }
    }

    /// Keys that may count though nobody finds them any more, until the store has noticed: since this was asked last they had a value
    /// whose time was over soon.
    pub fn take_were_brief(&mut self) -> usize {
        self.leases.as_mut().map_or(0, Leases::take_were_brief)
    }

    /// Waits until keys are gone that were given little time before the crash.
    pub fn wait_for_brief(&self) {
        self.leases.iter().for_each(Leases::wait_for_brief);
    }

    /// Compares what is left of the time that keys were given with what must be; `found` is what they hold after a restart.
    ///
    /// # Errors
    /// What is wrong, in words, or what the connection said.
    pub fn check_leases(&mut self, client: &mut RespClient, found: &Found) -> Result<(), String> {
        self.leases.iter_mut().try_for_each(|leases| leases.check(client, found))
    }

    fn own_counter(&mut self, key: Vec<u8>, before: State) -> Call {
        let was = before.as_deref().map_or(0, |value| number(value).unwrap_or_default());
        match self.rng.below(10) {
            0 => self.delete(key, before),
            1 => call(Request::Get(key), Answer::Value(before)),
            _ if self.memcached && before.is_none() => self.set(key, b"1".to_vec()),
            _ => {
                self.ledger.attempt(&key, Some((was + 1).to_string().into_bytes()));
                call(Request::Incr(key), Answer::Number(was + 1))
            }
        }
    }

    fn own_value(&mut self, key: Vec<u8>, before: State) -> Call {
        match self.rng.below(20) {
            0..3 => self.delete(key, before),
            3..8 => call(Request::Get(key), Answer::Value(before)),
            8..10 if before.as_ref().is_some_and(|value| is_appended_to(value.len())) => {
                let more = self.value(200);
                let after = [before.unwrap_or_default(), more.clone()].concat();
                self.ledger.attempt(&key, Some(after));
                call(Request::Append(key, more), Answer::Stored)
            }
            11..14 if !self.memcached && before.as_ref().is_some_and(|value| value.len() > LARGE) => {
                let (mut value, part) = (before.unwrap_or_default(), self.value(2000));
                let at = self.rng.below((value.len() - part.len()) as u64) as usize;
                value[at..at + part.len()].copy_from_slice(&part);
                self.ledger.attempt(&key, Some(value));
                call(Request::Overwrite(key, at, part), Answer::Stored)
            }
            10 if !self.memcached => {
                let other = self.rng.below(OWN_KEYS / 8) * 8 + 1;
                let mut writes = vec![(key, self.value(2000))];
                let other = self.key(other);
                if other != writes[0].0 {
                    writes.push((other, self.value(2000)));
                }
                let states: Vec<_> =
                    writes.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
                self.ledger.attempt_group(&states);
                call(Request::SetAll(writes), Answer::Stored)
            }
            _ => {
                let value = match self.rng.below(200) {
                    0 => self.value(300_000),
                    1..10 => self.value(40_000),
                    _ => self.value(1500),
                };
                self.set(key, value)
            }
        }
    }

    fn set(&mut self, key: Vec<u8>, value: Vec<u8>) -> Call {
        self.ledger.attempt(&key, Some(value.clone()));
        call(Request::Set(key, value), Answer::Stored)
    }

    fn delete(&mut self, key: Vec<u8>, before: State) -> Call {
        self.ledger.attempt(&key, None);
        call(Request::Delete(key), Answer::Deleted(before.is_some()))
    }

    fn key(&self, i: u64) -> Vec<u8> {
        format!("{}:{i}", self.name).into_bytes()
    }

    fn value(&mut self, bytes_max: u64) -> Vec<u8> {
        self.written += 1;
        // Long enough to differ.
        filler(self.rng.between(16, bytes_max) as usize, u64::from(self.client) << 40 | self.written)
    }
}

fn is_appended_to(bytes: usize) -> bool {
    bytes < 10_000 || (LARGE..LONG).contains(&bytes)
}

fn call(request: Request, answer: Answer) -> Call {
    Call { request, expected: Expected::Exactly(answer) }
}

/// The name of a shared key.
pub fn shared_key(key: u64) -> Vec<u8> {
    format!("shared:{key}").into_bytes()
}

/// A number from its text.
///
/// # Errors
/// If it is none.
pub fn number(text: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("a number was expected, not {}", crate::case::show(text)))
}
