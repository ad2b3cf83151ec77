//! The checker against every order of the calls, tried one by one, on many small histories.

use std::collections::BTreeSet;

use super::*;
use crate::rng::Rng;

/// Everything that the key may hold after these calls and, if `crash`, the crash after them, by trying every order.
fn after(calls: &[Entry], from: State, crash: bool) -> BTreeSet<State> {
    let mut found = BTreeSet::new();
    orders(calls, 0, from, &mut vec![(from, true)], crash, &mut found);
    found
}

/// `trace` is what the key held after each call so far, and whether that call must survive.
fn orders(
    calls: &[Entry],
    placed: u32,
    state: State,
    trace: &mut Vec<(State, bool)>,
    crash: bool,
    found: &mut BTreeSet<State>,
) {
    let is_placed = |i: usize| placed & 1 << i != 0;
    let lost = |entry: &Entry| matches!(entry.outcome, Outcome::Lost(_));
    if calls.iter().enumerate().all(|(i, entry)| is_placed(i) || lost(entry)) {
        found.insert(state);
        if crash {
            let must = trace.iter().rposition(|(_, must)| *must).unwrap();
            found.extend(trace[must..].iter().map(|(state, _)| *state));
        }
    }
    for (i, entry) in calls.iter().enumerate().filter(|(i, _)| !is_placed(*i)) {
        let waits =
            |j: usize, other: &Entry| !is_placed(j) && !lost(other) && other.outcome.end() < entry.invoke;
        let (next, answer) = apply(state, entry.action);
        let fits = entry.outcome.answer().is_none_or(|seen| register::explains(answer, seen, entry.action));
        if fits && !calls.iter().enumerate().any(|(j, other)| waits(j, other)) {
            trace.push((next, matches!(entry.outcome, Outcome::Answered(..))));
            orders(calls, placed | 1 << i, next, trace, crash, found);
            trace.pop();
        }
    }
}

fn oracle(epochs: &[Vec<Entry>]) -> bool {
    let mut states = BTreeSet::from([None]);
    for (i, calls) in epochs.iter().enumerate() {
        states = states.into_iter().flat_map(|state| after(calls, state, i + 1 < epochs.len())).collect();
    }
    !states.is_empty()
}

const EPOCH: u64 = 1000;

fn action(rng: &mut Rng, lists: bool) -> Action {
    let value = rng.below(3) as i64;
    match rng.below(if lists { 14 } else { 12 }) {
        0..3 => Action::Get,
        3..6 => Action::Set(value),
        6 => Action::Delete,
        7 => Action::Incr(1),
        8 => Action::Cas { expected: value, new: rng.below(3) as i64 },
        9 => Action::SetIfAbsent(value),
        10 => Action::SetIfPresent(value),
        11 => *rng.pick(&[Action::Swap(value), Action::IncrIfPresent(1)]),
        12 => Action::Append(value),
        _ => Action::AppendIfPresent(value),
    }
}

/// Up to six calls that really happened, perhaps with one answer changed, and perhaps a crash that undoes some.
fn epoch(rng: &mut Rng, number: u64, state: &mut State, crash: bool, undo: bool, wrong: bool) -> Vec<Entry> {
    let (from, to) = (number * EPOCH, (number + 1) * EPOCH);
    let lists = rng.percent(30);
    let mut times = BTreeSet::new();
    let calls = rng.between(1, 6) as usize;
    while times.len() < calls * 3 {
        times.insert(from + 1 + rng.below(EPOCH - 2));
    }
    let mut times: Vec<u64> = times.into_iter().collect();
    // Shuffled within some distance: calls overlap a little or a lot.
    let far = rng.between(1, times.len() as u64);
    for i in 0..times.len() {
        let j = (i + rng.below(far) as usize).min(times.len() - 1);
        times.swap(i, j);
    }
    let mut drafts: Vec<(u64, u64, u64, Action)> = times
        .chunks(3)
        .map(|three| {
            let mut three = [three[0], three[1], three[2]];
            three.sort_unstable();
            (three[1], three[0], three[2], action(rng, lists))
        })
        .collect();
    drafts.sort_unstable_by_key(|draft| draft.0);
    let window = if undo { from + rng.below(EPOCH) } else { u64::MAX };
    let mut trace = vec![*state];
    let mut must = 0;
    let mut entries = Vec::new();
    for (_, invoke, end, action) in drafts {
        let cut = crash && rng.percent(if undo { 10 } else { 25 });
        if cut && rng.percent(50) {
            entries.push(Entry { key: 1, client: 0, invoke, outcome: Outcome::Lost(to), action });
            continue;
        }
        let (next, answer) = apply(*state, action);
        *state = next;
        trace.push(next);
        let outcome = match cut {
            true => Outcome::Lost(to),
            false if end > window => Outcome::Undoable(end, answer),
            false => Outcome::Answered(end, answer),
        };
        if matches!(outcome, Outcome::Answered(..)) {
            must = trace.len() - 1;
        }
        entries.push(Entry { key: 1, client: 0, invoke, outcome, action });
    }
    if crash && undo {
        *state = trace[must + rng.below((trace.len() - must) as u64) as usize];
    }
    let changed = rng.below(calls as u64) as usize;
    if wrong && let Some(answer) = entries[changed].outcome.answer() {
        let value = [None, Some(0), Some(1), Some(2)][rng.below(4) as usize];
        let answer = match answer {
            Answer::Value(_) => Answer::Value(value),
            Answer::Stored if !matches!(entries[changed].action, Action::Set(_)) => Answer::NotStored,
            Answer::NotStored => Answer::Stored,
            Answer::Deleted(deleted) => Answer::Deleted(!deleted),
            Answer::Number(number) => Answer::Number(number + 1),
            other => other,
        };
        entries[changed].outcome = match entries[changed].outcome {
            Outcome::Undoable(end, _) => Outcome::Undoable(end, answer),
            outcome => Outcome::Answered(outcome.end(), answer),
        };
    }
    entries
}

/// Compares verdicts; returns how many histories were right and wrong.
fn compare(seeds: std::ops::Range<u64>, undo: bool) -> (u32, u32) {
    let (mut right, mut wrong) = (0, 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let epochs = rng.between(1, 3);
        let mut state = None;
        let plant = rng.percent(60).then(|| rng.below(epochs));
        let epochs: Vec<_> = (0..epochs)
            .map(|i| epoch(&mut rng, i, &mut state, i + 1 < epochs, undo, plant == Some(i)))
            .collect();
        let calls = epochs.iter().flatten().map(Call::new).collect();
        let crashes = (1..epochs.len() as u64).map(|i| i * EPOCH).collect();
        // Calls of the last epoch that no crash follows have nothing that could undo them.
        let verdict = match (History { calls, crashes }).check(1, |_| None) {
            Ok(_) => true,
            Err(Failure::Violation(_)) => false,
            Err(other) => panic!("seed {seed}: {other}"),
        };
        let expected = oracle(&epochs);
        assert_eq!(verdict, expected, "seed {seed}: {epochs:#?}");
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    (right, wrong)
}

#[test]
fn crashes_that_keep_what_was_answered() {
    let (right, wrong) = compare(0..30_000, false);
    assert!(right > 5000 && wrong > 5000, "{right} right, {wrong} wrong");
}

#[test]
fn crashes_that_undo_what_was_answered_last() {
    let (right, wrong) = compare(100_000..130_000, true);
    assert!(right > 5000 && wrong > 3000, "{right} right, {wrong} wrong");
}
