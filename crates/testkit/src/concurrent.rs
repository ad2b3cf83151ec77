//! What a store must hold to with several threads on it.
//!
//! # Thread safety
//! Each client owns its session; they share the store, and a flag that ends the readers.
//!
//! # Invariants
//! A history is linearizable key by key. The count is exact once the threads are gone. Whoever sees one write of an atomic
//! group sees all of them from then on.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use terrace_engine::{Batch, Condition, Expiry, OpKind, Reply, Session, Store};

use crate::history::{Plan, key_name, record};
use crate::linearize;
use crate::rng::Rng;

/// Runs the plan's clients, checks what they saw, and that the count and the keys agree afterwards.
///
/// # Errors
/// What is wrong, in words.
///
/// # Panics
/// If a client panics.
pub fn threads_test(store: &dyn Store, plan: Plan) -> Result<(), String> {
    let history = record(store, plan)?;
    let calls = u64::from(plan.clients) * plan.batches * (plan.batch as u64).min(plan.keys);
    if history.len() as u64 != calls {
        return Err(format!("{} of {calls} calls were recorded", history.len()));
    }
    linearize::check(&history, |_| None).map_err(|violation| violation.to_string())?;
    let mut session = store.session().map_err(|error| error.to_string())?;
    let mut present = 0;
    for key in 0..plan.keys {
        present += u64::from(read(session.as_mut(), &key_name(key))?.is_some());
    }
    match store.len(0) {
        len if len == present => Ok(()),
        len => Err(format!("{present} keys are there, {len} are counted")),
    }
}

/// Keys in each atomic group of [`groups_test`].
const GROUP_KEYS: u64 = 4;

/// One thread writes groups of keys in one step, each with a number that grows; others read the keys one after another, in
/// any order. No read may find a lower number than an earlier read of the same reader found in any key.
///
/// # Errors
/// What is wrong, in words.
///
/// # Panics
/// If a client panics.
pub fn groups_test(store: &dyn Store, groups: u64, readers: u64, value_bytes: usize) -> Result<(), String> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &done;
        let readers: Vec<_> =
            (0..readers).map(|seed| scope.spawn(move || read_groups(store, done, seed))).collect();
        let written = scope.spawn(move || {
            let written = write_groups(store, groups, value_bytes);
            done.store(true, SeqCst);
            written
        });
        let results = std::iter::once(written).chain(readers).map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.collect::<Result<Vec<()>, String>>().map(|_| ())
    })
}

fn write_groups(store: &dyn Store, groups: u64, value_bytes: usize) -> Result<(), String> {
    let mut session = store.session().map_err(|error| error.to_string())?;
    let mut batch = Batch::new();
    for number in 1..=groups {
        batch.clear();
        batch.begin_atomic();
        let value = format!("{number:0value_bytes$}");
        for key in 0..GROUP_KEYS {
            let value = batch.bytes(value.as_bytes());
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
            batch.push(0, &key_name(key), kind);
        }
        batch.end_atomic();
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        for i in 0..batch.len() {
            if !matches!(batch.reply(i, &proof), Reply::Stored { .. }) {
                return Err(format!("a write of a group was answered {:?}", batch.reply(i, &proof)));
            }
        }
    }
    Ok(())
}

fn read_groups(store: &dyn Store, done: &AtomicBool, seed: u64) -> Result<(), String> {
    let mut session = store.session().map_err(|error| error.to_string())?;
    let mut rng = Rng::new(seed);
    let mut seen = (0, 0);
    // At least one round after the writer has ended.
    let mut last_round = false;
    while !last_round {
        last_round = done.load(SeqCst);
        for _ in 0..64 {
            let key = rng.below(GROUP_KEYS);
            let number = match read(session.as_mut(), &key_name(key))? {
                None => 0,
                Some(text) => text.parse::<u64>().map_err(|_| format!("{text:?} was never written"))?,
            };
            if number < seen.1 {
                return Err(format!(
                    "half of a group: key {} held {}, then key {key} held {number}",
                    seen.0, seen.1
                ));
            }
            seen = (key, number);
        }
    }
    Ok(())
}

fn read(session: &mut dyn Session, key: &[u8]) -> Result<Option<String>, String> {
    let mut batch = Batch::new();
    batch.push(0, key, OpKind::Get { value: true });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Miss => Ok(None),
        Reply::Hit { value: Some(span), .. } => {
            Ok(Some(String::from_utf8_lossy(batch.output(span)).into_owned()))
        }
        other => Err(format!("a get was answered {other:?}")),
    }
}
