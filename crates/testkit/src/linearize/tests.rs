use super::*;
use crate::rng::Rng;

fn answered(client: u32, from: u64, to: u64, action: Action, answer: Answer) -> Entry {
    Entry { key: 1, client, invoke: from, outcome: Outcome::Answered(to, answer), action }
}

fn lost(client: u32, from: u64, crash: u64, action: Action) -> Entry {
    Entry { key: 1, client, invoke: from, outcome: Outcome::Lost(crash), action }
}

fn get(from: u64, to: u64, value: Option<i64>) -> Entry {
    answered(9, from, to, Action::Get, Answer::Value(value))
}

fn set(from: u64, to: u64, value: i64) -> Entry {
    answered(1, from, to, Action::Set(value), Answer::Stored)
}

fn holds(history: &[Entry]) -> bool {
    check(history, |_| None).is_ok()
}

#[test]
fn one_after_another() {
    assert!(holds(&[set(1, 2, 7), get(3, 4, Some(7))]));
    assert!(!holds(&[set(1, 2, 7), get(3, 4, None)]), "a lost write");
    assert!(!holds(&[set(1, 2, 7), set(3, 4, 8), get(5, 6, Some(7))]), "a stale read");
    assert!(!holds(&[get(1, 2, Some(7))]), "a value from nowhere");
    assert!(!holds(&[get(1, 2, Some(7)), set(3, 4, 7)]), "a value from the future");
}

#[test]
fn overlapping_calls_take_effect_in_any_order_but_in_one() {
    let two = [set(1, 10, 7), answered(2, 2, 9, Action::Set(8), Answer::Stored)];
    for last in [7, 8] {
        assert!(holds(&[two[0], two[1], get(11, 12, Some(last))]));
    }
    assert!(!holds(&[two[0], two[1], get(11, 12, Some(7)), get(13, 14, Some(8))]), "readers disagree");
    // During the call it may be seen, but once seen it stays.
    assert!(holds(&[set(1, 10, 7), get(2, 3, None), get(4, 5, Some(7))]));
    assert!(!holds(&[set(1, 10, 7), get(2, 3, Some(7)), get(4, 5, None)]), "seen and unseen");
}

#[test]
fn increments_and_deletes() {
    let incr = |from, to, sum| answered(3, from, to, Action::Incr(1), Answer::Number(sum));
    assert!(holds(&[incr(1, 10, 2), incr(2, 9, 1), get(11, 12, Some(2))]));
    assert!(!holds(&[incr(1, 10, 1), incr(2, 9, 1)]), "a lost update");
    let delete = |from, to, was| answered(4, from, to, Action::Delete, Answer::Deleted(was));
    assert!(holds(&[set(1, 2, 5), delete(3, 10, true), delete(4, 9, false)]));
    assert!(!holds(&[set(1, 2, 5), delete(3, 10, true), delete(4, 9, true)]), "deleted twice");
    assert!(!holds(&[set(1, 2, 5), delete(3, 4, true), get(5, 6, Some(5))]), "back from the dead");
}

#[test]
fn compare_and_swap() {
    let cas = |from, to, expected, new, answer| answered(5, from, to, Action::Cas { expected, new }, answer);
    assert!(holds(&[set(1, 2, 1), cas(3, 9, 1, 2, Answer::Stored), cas(4, 8, 1, 3, Answer::NotStored)]));
    assert!(
        !holds(&[set(1, 2, 1), cas(3, 9, 1, 2, Answer::Stored), cas(4, 8, 1, 3, Answer::Stored)]),
        "both won"
    );
    assert!(!holds(&[set(1, 2, 1), cas(3, 4, 1, 2, Answer::NotStored)]), "refused for nothing");
}

#[test]
fn an_unanswered_call_took_effect_before_the_crash_or_never() {
    let unanswered = lost(1, 1, 10, Action::Set(7));
    assert!(holds(&[unanswered, get(11, 12, None)]));
    assert!(holds(&[unanswered, get(11, 12, Some(7)), get(13, 14, Some(7))]));
    assert!(holds(&[unanswered, get(2, 3, None), get(4, 5, Some(7)), get(11, 12, Some(7))]));
    assert!(!holds(&[unanswered, get(11, 12, None), get(13, 14, Some(7))]), "took effect after the crash");
    assert!(!holds(&[unanswered, get(11, 12, Some(7)), get(13, 14, None)]), "taken back");
    assert!(!holds(&[unanswered, get(2, 3, Some(7)), get(11, 12, None)]), "was seen, then lost in the crash");
}

#[test]
fn keys_are_independent_and_start_somewhere() {
    let other = Entry { key: 2, ..get(3, 4, Some(5)) };
    assert!(check(&[set(1, 2, 7), other], |key| (key == 2).then_some(5)).is_ok());
    let Err(Failure::Violation(violation)) = check(&[set(1, 2, 7), other], |_| None) else {
        panic!("accepted")
    };
    assert_eq!(violation.entry, other);
    assert!(violation.to_string().contains("key 2"), "{violation}");
}

/// Histories that really happened: random calls whose effects fall at a random time inside them.
fn honest_history(seed: u64, calls: u64, clients: u64, keys: u64) -> Vec<Entry> {
    let mut rng = Rng::new(seed);
    let mut states = vec![None; keys as usize];
    let mut open: Vec<Option<(Entry, Option<Answer>)>> = vec![None; clients as usize];
    let mut history = Vec::new();
    let mut now = 0;
    let mut started = 0;
    while started < calls || open.iter().any(Option::is_some) {
        now += 1;
        let client = rng.below(clients) as usize;
        match &mut open[client] {
            None if started < calls => {
                started += 1;
                let action = match rng.below(5) {
                    0 => Action::Set(started as i64 * 1000),
                    1 => Action::Delete,
                    2 => Action::Incr(1),
                    3 => Action::Cas { expected: (started as i64 - 3) * 1000, new: -(started as i64) },
                    _ => Action::Get,
                };
                let key = rng.below(keys);
                let outcome = Outcome::Lost(u64::MAX);
                open[client] =
                    Some((Entry { key, client: client as u32, invoke: now, outcome, action }, None));
            }
            None => {}
            Some((entry, effect @ None)) => {
                let (state, answer) = apply(states[entry.key as usize], entry.action);
                states[entry.key as usize] = state;
                *effect = Some(answer);
            }
            Some((entry, Some(answer))) => {
                // Now and then an answer gets lost.
                let outcome = if rng.percent(3) {
                    Outcome::Lost(u64::MAX - now)
                } else {
                    Outcome::Answered(now, *answer)
                };
                history.push(Entry { outcome, ..*entry });
                open[client] = None;
            }
        }
    }
    history
}

#[test]
fn what_really_happened_is_accepted() {
    for seed in 0..200 {
        // Lost calls stay open to the end, so there may be few of them for each key.
        let history = honest_history(seed, 300, 5, 4);
        if let Err(violation) = check(&history, |_| None) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn a_wrong_answer_in_a_real_history_is_found() {
    let mut found = 0;
    for seed in 0..100 {
        let mut history = honest_history(seed, 200, 4, 3);
        // A sum nobody could have seen.
        let wrong = history.iter().position(|e| matches!(e.outcome, Outcome::Answered(_, Answer::Number(_))));
        if let Some(i) = wrong
            && let Outcome::Answered(at, _) = history[i].outcome
        {
            history[i].outcome = Outcome::Answered(at, Answer::Number(-77_777));
            assert!(check(&history, |_| None).is_err(), "seed {seed}");
            found += 1;
        }
    }
    assert!(found > 90, "the planted violations are real: {found}");
}

#[test]
fn a_million_calls() {
    let mut history = honest_history(1, 1_000_000, 4, 50_000);
    assert_eq!(history.len(), 1_000_000);
    assert!(check(&history, |_| None).is_ok());
    let last =
        history.iter().rposition(|e| matches!(e.outcome, Outcome::Answered(_, Answer::Stored))).unwrap();
    let (key, invoke) = (history[last].key, u64::MAX - 1);
    let outcome = Outcome::Answered(u64::MAX, Answer::Value(Some(-77_777)));
    history.push(Entry { key, client: 0, invoke, outcome, action: Action::Get });
    assert!(check(&history, |_| None).is_err());
}
