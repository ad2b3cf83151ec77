//! What the oracle accepts and refuses, on histories written by hand.

use std::collections::BTreeMap;

use terrace_media_sim::{Oracle, Promise};

type Contents = BTreeMap<&'static str, u32>;

fn verdict(
    oracle: &Oracle<&'static str, u32>,
    position: usize,
    promise: Promise,
    found: &[(&'static str, u32)],
) -> Result<(), String> {
    let found: Contents = found.iter().copied().collect();
    oracle.verify(position, &promise, &found).map_err(|violation| violation.to_string())
}

/// set k=1 (0..10), set k=2 (10..20), delete k (20..30), set k=3 (30..).
fn one_key() -> Oracle<&'static str, u32> {
    let mut oracle = Oracle::new(77);
    for (i, value) in [Some(1), Some(2), None, Some(3)].into_iter().enumerate() {
        let op = oracle.issue(0, i * 10, vec![("k", value)]);
        if i < 3 {
            oracle.acknowledge(op, i * 10 + 10);
        }
    }
    oracle
}

#[test]
fn an_acknowledged_write_must_be_there_and_the_next_may() {
    let oracle = one_key();
    let sync = |position, found: &[_]| verdict(&oracle, position, Promise::sync(position), found);
    for found in [&[][..], &[("k", 1)]] {
        sync(5, found).unwrap();
    }
    for found in [&[("k", 1)], &[("k", 2)]] {
        sync(15, found).unwrap();
    }
    let lost = sync(15, &[]).unwrap_err();
    assert!(lost.contains("lost") && lost.contains("must be there") && lost.contains("77"), "{lost}");
    assert!(sync(5, &[("k", 2)]).unwrap_err().contains("had not been issued"));
    assert!(sync(25, &[("k", 1)]).unwrap_err().contains("older"));
}

#[test]
fn deleted_keys_stay_deleted() {
    let oracle = one_key();
    let back = verdict(&oracle, 30, Promise::sync(30), &[("k", 2)]).unwrap_err();
    assert!(back.contains("older") && back.contains("delete \"k\""), "{back}");
    verdict(&oracle, 30, Promise::sync(30), &[]).unwrap();
    verdict(&oracle, 31, Promise::sync(31), &[("k", 3)]).unwrap();
}

#[test]
fn nothing_is_invented() {
    let oracle = one_key();
    assert!(verdict(&oracle, 5, Promise::nothing(), &[("other", 1)]).unwrap_err().contains("never written"));
    assert!(verdict(&oracle, 5, Promise::nothing(), &[("k", 9)]).unwrap_err().contains("never written"));
}

#[test]
fn withdrawn_operations_leave_nothing() {
    let mut oracle = Oracle::new(1);
    oracle.initial("k", 1);
    let refused = oracle.issue(0, 5, vec![("k", Some(2))]);
    oracle.withdraw(refused);
    verdict(&oracle, 9, Promise::sync(9), &[("k", 1)]).unwrap();
    verdict(&oracle, 9, Promise::sync(9), &[("k", 2)]).unwrap_err();
    verdict(&oracle, 9, Promise::nothing(), &[]).unwrap_err();
}

#[test]
fn an_atomic_group_is_there_or_not() {
    let mut oracle = Oracle::new(2);
    oracle.initial("a", 1);
    let group = oracle.issue(0, 5, vec![("a", Some(2)), ("b", Some(2)), ("c", None)]);
    for promise in [Promise::sync(6), Promise::nothing()] {
        verdict(&oracle, 6, promise, &[("a", 1)]).unwrap();
        verdict(&oracle, 6, promise, &[("a", 2), ("b", 2)]).unwrap();
        let torn = verdict(&oracle, 6, promise, &[("a", 2)]).unwrap_err();
        assert!(torn.contains("half there") && torn.contains("set \"b\" = 2"), "{torn}");
        verdict(&oracle, 6, promise, &[("a", 1), ("b", 2)]).unwrap_err();
    }
    oracle.acknowledge(group, 8);
    verdict(&oracle, 8, Promise::sync(8), &[("a", 1)]).unwrap_err();
}

#[test]
fn of_a_repeated_key_in_a_group_the_last_counts() {
    let mut oracle = Oracle::new(3);
    oracle.issue(0, 0, vec![("a", Some(1)), ("b", Some(1)), ("a", Some(2))]);
    verdict(&oracle, 1, Promise::sync(1), &[("a", 2), ("b", 1)]).unwrap();
    verdict(&oracle, 1, Promise::sync(1), &[("a", 1), ("b", 1)]).unwrap_err();
}

/// One session sets a, b, c; all answered, by 10, 20 and 30.
fn three_keys() -> Oracle<&'static str, u32> {
    let mut oracle = Oracle::new(4);
    for (i, key) in ["a", "b", "c"].into_iter().enumerate() {
        let op = oracle.issue(0, i * 10, vec![(key, Some(1))]);
        oracle.acknowledge(op, i * 10 + 10);
    }
    oracle
}

#[test]
fn the_window_may_be_lost_from_its_end_only() {
    let oracle = three_keys();
    let batch = |found: &[_]| verdict(&oracle, 30, Promise::batch(15), found);
    batch(&[("a", 1)]).unwrap();
    batch(&[("a", 1), ("b", 1)]).unwrap();
    batch(&[("a", 1), ("b", 1), ("c", 1)]).unwrap();
    assert!(batch(&[]).unwrap_err().contains("lost"));
    let hole = batch(&[("a", 1), ("c", 1)]).unwrap_err();
    assert!(hole.contains("later one survived"), "{hole}");
    let loose = Promise { session_prefix: false, ..Promise::batch(15) };
    verdict(&oracle, 30, loose, &[("a", 1), ("c", 1)]).unwrap();
}

/// Session 0 sets x, then k; session 1 overwrites k. Nothing is in the promise.
fn overtaken() -> Oracle<&'static str, u32> {
    let mut oracle = Oracle::new(5);
    oracle.issue(0, 0, vec![("x", Some(1))]);
    oracle.issue(0, 1, vec![("k", Some(1))]);
    oracle.issue(1, 2, vec![("k", Some(2))]);
    oracle
}

#[test]
fn a_causal_cut_keeps_what_a_survivor_overwrote() {
    let oracle = overtaken();
    let causal = Promise::batch(0);
    let loose = Promise { causal: false, ..causal };
    // Only the overwriting set survived: its session saw session 0's set, which came after x.
    verdict(&oracle, 9, loose, &[("k", 2)]).unwrap();
    verdict(&oracle, 9, causal, &[("k", 2)]).unwrap_err();
    verdict(&oracle, 9, causal, &[("k", 2), ("x", 1)]).unwrap();
    verdict(&oracle, 9, causal, &[("x", 1)]).unwrap();
}

#[test]
fn versions_order_the_writes_of_several_sessions() {
    let mut oracle = Oracle::new(6);
    let late = oracle.issue(0, 0, vec![("k", Some(1))]);
    let early = oracle.issue(1, 0, vec![("k", Some(2))]);
    for (op, version) in [(late, 20), (early, 10)] {
        oracle.set_version(op, version);
        oracle.acknowledge(op, 5);
    }
    verdict(&oracle, 6, Promise::sync(6), &[("k", 1)]).unwrap();
    verdict(&oracle, 6, Promise::sync(6), &[("k", 2)]).unwrap_err();
}

#[test]
fn a_read_that_was_answered_binds() {
    let mut oracle = Oracle::new(7);
    let op = oracle.issue(0, 0, vec![("k", Some(1))]);
    verdict(&oracle, 9, Promise::sync(9), &[]).unwrap();
    // Another session read it and was answered at 8; the writer's own answer comes later.
    oracle.acknowledge(op, 8);
    oracle.acknowledge(op, 30);
    verdict(&oracle, 9, Promise::sync(9), &[]).unwrap_err();
}

#[test]
fn a_cache_may_lose_a_key_and_never_show_an_older_version() {
    let mut oracle = one_key();
    oracle.evicts();
    verdict(&oracle, 15, Promise::sync(15), &[]).unwrap();
    let older = verdict(&oracle, 25, Promise::sync(25), &[("k", 1)]).unwrap_err();
    assert!(older.contains("older"), "{older}");
    let deleted = verdict(&oracle, 30, Promise::sync(30), &[("k", 2)]);
    assert!(deleted.is_err(), "a deleted key came back");
    assert!(verdict(&oracle, 15, Promise::sync(15), &[("k", 9)]).is_err(), "never written");
}

#[test]
fn operations_of_one_rank_survive_in_any_order_and_before_the_next_rank() {
    let mut oracle = Oracle::new(1);
    for (rank, key) in [(1, "a"), (1, "b"), (2, "c")] {
        let op = oracle.issue(0, 0, vec![(key, Some(1))]);
        oracle.set_rank(op, rank);
    }
    let survive = |keys: &[&'static str]| {
        let found: Vec<_> = keys.iter().map(|key| (*key, 1)).collect();
        let promise = Promise { kept_before: 0, session_prefix: true, causal: true };
        verdict(&oracle, 9, promise, &found)
    };
    for fine in [&[][..], &["a"], &["b"], &["a", "b"], &["a", "b", "c"]] {
        survive(fine).unwrap_or_else(|wrong| panic!("{fine:?}: {wrong}"));
    }
    for hole in [&["c"][..], &["a", "c"], &["b", "c"]] {
        assert!(survive(hole).is_err(), "{hole:?}");
    }
}

#[test]
fn what_follows_a_flush_says_nothing_of_what_was_before() {
    let survive = |forgets: bool| {
        let mut oracle = Oracle::new(1);
        oracle.issue(0, 0, vec![("other", Some(1))]);
        oracle.issue(0, 0, vec![("k", Some(1))]);
        let flush = oracle.issue(1, 0, vec![("k", None)]);
        if forgets {
            oracle.forgets(flush);
        }
        oracle.issue(1, 0, vec![("k", Some(2))]);
        let promise = Promise { kept_before: 0, session_prefix: true, causal: true };
        verdict(&oracle, 9, promise, &[("k", 2)])
    };
    // The deletion looked at what it deleted: that, and what its session wrote before, must be there.
    assert!(survive(false).is_err());
    survive(true).unwrap();
}
