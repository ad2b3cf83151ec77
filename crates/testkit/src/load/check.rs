//! What is there after a restart, compared with what must be.

use std::collections::BTreeMap;
use std::io;

use super::ledger::{Settled, State};
use super::wire::{Answer, Request, Wire};
use super::writer::{SHARED_KEYS, SharedCall, number, shared_key};
use crate::linearize::{self, Action, Entry, Outcome};

/// The client number of the reads between two rounds.
const OBSERVER: u32 = 999;
/// Requests that are read together.
const PIPELINE: usize = 64;
/// Writes of one key that may or may not have survived, up to which all ways are tried.
const UNCERTAIN_MAX: usize = 12;

/// What keys hold.
pub type Found = BTreeMap<Vec<u8>, State>;

/// Reads keys.
///
/// # Errors
/// If the connection fails, or an answer is none to a read.
pub fn read_all(mut wire: Wire, keys: &[Vec<u8>]) -> io::Result<Found> {
    let mut found = BTreeMap::new();
    for keys in keys.chunks(PIPELINE) {
        let requests: Vec<_> = keys.iter().cloned().map(Request::Get).collect();
        requests.iter().for_each(|request| wire.queue(request));
        wire.flush()?;
        for (key, request) in keys.iter().zip(&requests) {
            match wire.receive(request)? {
                Answer::Value(value) => found.insert(key.clone(), value),
                other => return Err(io::Error::other(format!("{other:?} is no answer to a get"))),
            };
        }
    }
    Ok(found)
}

/// The names of the shared keys.
pub fn shared_keys() -> Vec<Vec<u8>> {
    (0..SHARED_KEYS).map(shared_key).collect()
}

/// What the shared keys hold, of what was read.
///
/// # Errors
/// If a value is none that anybody wrote.
///
/// # Panics
/// If `found` lacks one.
pub fn shared_values(found: &Found) -> Result<BTreeMap<u64, i64>, String> {
    let mut values = BTreeMap::new();
    for key in 0..SHARED_KEYS {
        if let Some(text) = &found[&shared_key(key)] {
            values.insert(key, number(text)?);
        }
    }
    Ok(values)
}

/// Checks what all writers saw of the shared keys, and what is there now.
///
/// `before` and `now` are what the keys held at the start and hold after the restart; `clock` is greater than every time in the
/// histories. With each writer's history comes what its own keys settled; nothing was lost that was acknowledged at `safe_us`
/// or before.
///
/// # Errors
/// What is wrong, in words.
pub fn check_shared(
    writers: &[(Vec<SharedCall>, Settled)],
    before: &BTreeMap<u64, i64>,
    now: &BTreeMap<u64, i64>,
    clock: u64,
    safe_us: u64,
) -> Result<(), String> {
    let mut reads = Vec::new();
    for (key, at) in (0..SHARED_KEYS).zip((clock..).step_by(2)) {
        let answer = linearize::Answer::Value(now.get(&key).copied());
        let outcome = Outcome::Answered(at + 1, answer);
        reads.push(Entry { key, client: OBSERVER, invoke: at, outcome, action: Action::Get });
    }
    let initial = |key| before.get(&key).copied();
    let mut seen: Vec<Entry> = writers.iter().flat_map(|(calls, _)| calls.iter().map(|c| c.entry)).collect();
    if safe_us == u64::MAX {
        seen.append(&mut reads);
        return linearize::check(&seen, initial).map(drop).map_err(|violation| violation.to_string());
    }
    linearize::check(&seen, initial).map_err(|violation| format!("before the crash: {violation}"))?;
    let mut survived = Vec::new();
    for (calls, settled) in writers {
        survive(calls, settled, safe_us, clock, &mut survived)?;
    }
    for key in 0..SHARED_KEYS {
        let uncertain = |entry: &&Entry| entry.key == key && matches!(entry.outcome, Outcome::Lost(_));
        if survived.iter().filter(uncertain).count() > UNCERTAIN_MAX {
            survived.retain(|entry| entry.key != key);
            reads.retain(|entry| entry.key != key);
        }
    }
    survived.append(&mut reads);
    linearize::check(&survived, initial)
        .map(drop)
        .map_err(|violation| format!("after the power cut: {violation}"))
}

/// What is left of a writer's calls: those before its last pipeline that survived in part as they were; that one's writes may
/// be there or not; of later ones nothing is.
fn survive(
    calls: &[SharedCall],
    settled: &Settled,
    safe_us: u64,
    clock: u64,
    out: &mut Vec<Entry>,
) -> Result<(), String> {
    let (mut first, last) = settled.last_stage;
    let safe = |call: &&SharedCall| {
        call.entry.action != Action::Get && call.answered_us.is_some_and(|at| at <= safe_us)
    };
    first = first.max(calls.iter().filter(safe).map(|call| call.stage).max().unwrap_or(0));
    if first > last {
        return Err(format!(
            "a writer's pipeline {first} changed a shared key and is older than the window, and nothing of its own keys is \
             there from after pipeline {last}"
        ));
    }
    for call in calls {
        let mut entry = call.entry;
        if call.stage < first || safe(&call) {
            out.push(entry);
        } else if call.stage <= last && entry.action != Action::Get {
            entry.outcome = Outcome::Lost(clock - 1);
            out.push(entry);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
