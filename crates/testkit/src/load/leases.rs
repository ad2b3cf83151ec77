//! Time that values were given, and what is left of it after a restart: neither that nor whoever sets the wall clock takes any.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::ledger::State;
use crate::case::show;
use crate::client::{RespClient, Value};

/// What a value is given that is to outlive the test.
pub const LONG_MS: u64 = 3_600_000;
/// What others are given at most: whoever reads them after a crash waits until it is over.
pub const BRIEF_MS: u64 = 20;
/// Clocks are read in whole milliseconds, and one on the wall that is off by less than 100 was not set.
const SLACK: Duration = Duration::from_millis(120);
/// Deadlines are whole milliseconds.
const MILLISECOND: Duration = Duration::from_millis(1);

/// When a value was given its time.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// Not before it was sent.
    sent: Instant,
    /// And not after its answer, or after the server's end.
    by: Option<Instant>,
}

/// The time that one writer's values were given. No two of its values are the same.
#[derive(Debug, Default)]
pub(super) struct Leases {
    long: BTreeMap<Vec<u8>, Given>,
    /// Keys whose last value goes at some moment of this round: nobody knows what a read would find.
    brief: BTreeSet<Vec<u8>>,
    /// All keys that had such a value in this round.
    were_brief: BTreeSet<Vec<u8>>,
    /// When the time of all of them is over, as of the last crash.
    brief_over: Option<Instant>,
}

impl Leases {
    /// Whether the last value of a key goes by itself before long.
    pub fn is_brief(&self, key: &[u8]) -> bool {
        self.brief.contains(key)
    }
    /// A value is about to be sent for a key: for so long, or for ever.
    pub fn give(&mut self, key: &[u8], value: &[u8], ms: Option<u64>) {
        self.brief.remove(key);
        match ms {
            Some(LONG_MS) => {
                self.long.insert(value.to_vec(), Given { sent: Instant::now(), by: None });
            }
            Some(_) => {
                self.brief.insert(key.to_vec());
                self.were_brief.insert(key.to_vec());
            }
            None => {}
        }
    }
    /// It was answered.
    pub fn answered(&mut self, value: &[u8]) {
        if let Some(given) = self.long.get_mut(value) {
            given.by = Some(Instant::now());
        }
    }
    /// The server is dead.
    pub fn crashed(&mut self) {
        let now = Instant::now();
        self.long.values_mut().for_each(|given| given.by = given.by.or(Some(now)));
        self.brief.clear();
        self.brief_over = Some(now + Duration::from_millis(BRIEF_MS) + MILLISECOND);
    }
    /// Waits until no value is left of those that were given little time before the crash: a server is back sooner than that.
    pub fn wait_for_brief(&self) {
        let left = self.brief_over.map(|over| over.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.unwrap_or_default());
    }
    /// Keys that may count though nobody finds them any more, until the store has noticed, since this was asked last.
    pub fn take_were_brief(&mut self) -> usize {
        std::mem::take(&mut self.were_brief).len()
    }
    /// Compares what is left with what must be. What is not among `found` is gone for good.
    ///
    /// # Errors
    /// What is wrong, in words, or what the connection said.
    pub fn check(&mut self, client: &mut RespClient, found: &BTreeMap<Vec<u8>, State>) -> Result<(), String> {
        let mut left = BTreeMap::new();
        for (key, value) in found.iter().filter_map(|(key, state)| Some((key, state.as_ref()?))) {
            let before = Instant::now();
            let answer = client.command(&[b"PTTL", key]).map_err(|error| error.to_string())?;
            let after = Instant::now();
            let given = self.long.get(value).copied();
            let is_right = match (&answer, given) {
                (Value::Integer(-1), None) => true,
                (Value::Integer(ms @ 1..), Some(Given { sent, by })) => {
                    let left = Duration::from_millis(*ms as u64);
                    let all = Duration::from_millis(LONG_MS);
                    let passed = before.saturating_duration_since(by.unwrap_or(before));
                    left + (after - sent) + SLACK >= all && left + passed <= all + SLACK
                }
                _ => false,
            };
            if !is_right {
                let given = given.map(|given| format!("{LONG_MS} ms {:?} ago", given.sent.elapsed()));
                let given = given.unwrap_or_else(|| "no time".into());
                return Err(format!("{} was given {given}, and PTTL answers {answer:?}", show(key)));
            }
            left.extend(given.map(|given| (value.clone(), given)));
        }
        self.long = left;
        Ok(())
    }
}
