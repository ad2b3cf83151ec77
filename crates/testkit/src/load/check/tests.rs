//! The check must notice what it is there to notice.

use super::*;

/// Two writers; the first sets key 0 to 1 in its pipeline 1 and to 2 in pipeline 3; the second reads 2 in its pipeline 1 and
/// sets 3 in pipeline 2.
fn writers(first: (u64, u64), second: (u64, u64)) -> Vec<(Vec<SharedCall>, Settled)> {
    let call = |client, stage, invoke, action, answer| SharedCall {
        entry: Entry { key: 0, client, invoke, outcome: Outcome::Answered(invoke + 1, answer), action },
        stage,
        answered_us: Some(invoke),
    };
    let (stored, read) = (linearize::Answer::Stored, linearize::Answer::Value(Some(2)));
    let settled = |last_stage| Settled { wrong: Vec::new(), last_stage };
    vec![
        (vec![call(0, 1, 1, Action::Set(1), stored), call(0, 3, 3, Action::Set(2), stored)], settled(first)),
        (vec![call(1, 1, 5, Action::Get, read), call(1, 2, 7, Action::Set(3), stored)], settled(second)),
    ]
}

fn check(first: (u64, u64), second: (u64, u64), now: Option<i64>, safe_us: u64) -> Result<(), String> {
    let now = now.map(|value| (0, value)).into_iter().collect();
    check_shared(&writers(first, second), &BTreeMap::new(), &now, 100, safe_us)
}

#[test]
fn the_newest_writes_may_be_lost_under_a_window() {
    check((4, 9), (3, 9), Some(3), 0).unwrap();
    check((4, 9), (1, 1), Some(2), 0).unwrap();
    check((2, 2), (1, 1), Some(1), 0).unwrap();
    check((0, 1), (0, 1), None, 0).unwrap();
    // The pipeline with the write is the last of which something survived: it may be there or not.
    check((3, 3), (1, 1), Some(2), 0).unwrap();
    check((3, 3), (1, 1), Some(1), 0).unwrap();
}

#[test]
fn what_survived_rests_on_what_survived() {
    let wrong = check((4, 9), (3, 9), Some(2), 0).unwrap_err();
    assert!(wrong.contains("after the power cut"), "{wrong}");
    // The second writer's later pipelines are there, and not the write that it read before.
    check((2, 2), (2, 2), Some(1), 0).unwrap_err();
    // What nobody wrote.
    check((4, 9), (3, 9), Some(7), 0).unwrap_err();
}

#[test]
fn older_than_the_window_must_be_there() {
    check((4, 9), (1, 1), Some(2), 3).unwrap();
    check((3, 3), (1, 1), Some(1), 3).unwrap_err();
    check((2, 2), (1, 1), Some(1), 3).unwrap_err();
    check((4, 9), (3, 9), Some(3), u64::MAX).unwrap();
    check((4, 9), (3, 9), Some(2), u64::MAX).unwrap_err();
}
