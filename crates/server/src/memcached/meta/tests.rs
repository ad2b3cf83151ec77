//! The rules by themselves: what they make of a record at a given time.

use terrace_engine::{Edit, EditFn, Meta, NewBytes, OldRecord, Outcome, Put};

use super::codec::{BINARY_KEY, STALE, Status, TOKEN_SENT, View};
use super::rules::{self, Mode, SetRule};

const NOW: u64 = 1_700_000_000_000;

/// What a rule did: the view, what stands behind it, what becomes of the record, and the new value.
struct Ran {
    view: View,
    shown: Vec<u8>,
    outcome: Outcome,
    value: Vec<u8>,
}

fn run(rule: EditFn, argument: &[u8], old: Option<(Meta, &[u8])>) -> Ran {
    let (mut value, mut answer, mut carry) =
        (terrace_engine::Buffer::new(), Vec::new(), terrace_engine::Buffer::new());
    let outcome = rule(&mut Edit {
        argument,
        old: old.map(|(meta, value)| OldRecord { meta, value }),
        now_ms: NOW,
        value: &mut value,
        answer: &mut answer,
        carry: &mut carry,
    });
    let mut shown = &answer[..];
    let view = View::take(&mut shown);
    Ran { view, shown: shown.to_vec(), outcome, value: value.to_vec() }
}

fn record(state: u8, expire_at: u64) -> Meta {
    Meta { version: 7, token: 0, flags: 5, expire_at, value_bytes: 1, state }
}

/// An argument of [`rules::get`]: what is done to the expiry, in order, as (flag, number).
fn get_argument(creates: bool, steps: &[(u8, u64)]) -> Vec<u8> {
    let mut argument = vec![u8::from(creates), 1];
    rules::put_cas(None, &mut argument);
    argument.extend_from_slice(&[0; 8]);
    for (letter, number) in steps {
        argument.push(*letter);
        argument.extend_from_slice(&number.to_le_bytes());
    }
    argument
}

fn put(bytes: NewBytes, expire_at: u64, state: u8) -> Outcome {
    Outcome::Put(Put { bytes, flags: 5, expire_at, state })
}

#[test]
fn a_read_that_changes_nothing_writes_nothing() {
    let ran = run(
        rules::get,
        &get_argument(true, &[(b'N', NOW + 1), (b'R', 0), (b't', 0)]),
        Some((record(0, 9), b"x")),
    );
    assert_eq!((ran.outcome, ran.view.won, &ran.shown[..]), (Outcome::Keep, false, &b"x"[..]));
    let ran = run(rules::get, &get_argument(false, &[(b'T', 1)]), None);
    assert_eq!((ran.outcome, ran.view.status), (Outcome::Keep, Status::Absent));
    let sent = record(STALE | TOKEN_SENT, 0);
    let ran = run(rules::get, &get_argument(false, &[]), Some((sent, b"x")));
    assert_eq!((ran.outcome, ran.view.won), (Outcome::Keep, false), "somebody has won already");
}

#[test]
fn who_wins() {
    let wins = |state, expire_at, seconds| {
        let argument = get_argument(false, &[(b'R', seconds)]);
        let ran = run(rules::get, &argument, Some((record(state, expire_at), b"x")));
        let expected =
            if ran.view.won { put(NewBytes::Old, expire_at, state | TOKEN_SENT) } else { Outcome::Keep };
        assert_eq!(ran.outcome, expected);
        ran.view.won
    };
    assert!(wins(0, NOW + 29_000, 30));
    assert!(!wins(0, NOW + 29_001, 30), "30 seconds begun are left");
    assert!(!wins(0, 0, 30), "it never expires");
    assert!(!wins(TOKEN_SENT, NOW + 1, 30), "another has won");
    assert!(wins(STALE, 0, 0), "it was invalidated");
    assert!(wins(STALE | BINARY_KEY, 0, 0));
    assert!(!wins(STALE | TOKEN_SENT, NOW + 1, 30));
}

#[test]
fn flags_act_in_their_order() {
    let created = |steps: &[_]| {
        let ran = run(rules::get, &get_argument(true, steps), None);
        assert_eq!((ran.view.status, ran.view.won, ran.value.len()), (Status::Created, true, 0));
        let Outcome::Put(put) = ran.outcome else { panic!("{:?}", ran.outcome) };
        assert_eq!((put.state, put.flags), (TOKEN_SENT, 0));
        (ran.view.expire_at, put.expire_at)
    };
    assert_eq!(created(&[(b'N', 30), (b'T', 60), (b't', 0)]), (60, 60));
    assert_eq!(created(&[(b'T', 60), (b'N', 30), (b't', 0)]), (30, 30));
    assert_eq!(created(&[(b't', 0), (b'N', 30)]), (0, 30));
    let ran =
        run(rules::get, &get_argument(false, &[(b't', 0), (b'T', 60)]), Some((record(BINARY_KEY, 9), b"x")));
    assert_eq!((ran.view.expire_at, ran.outcome), (9, put(NewBytes::Old, 60, BINARY_KEY)), "shown as it was");
}

#[test]
fn an_old_token_stores_stale() {
    let rule = SetRule {
        mode: Mode::Set,
        binary_key: true,
        creates: false,
        invalidates: true,
        cas: Some(6),
        token: 0,
        value_bytes_max: 4,
        flags: 5,
        expire_at: 60,
    };
    let run = |rule: SetRule, old| {
        let mut argument = Vec::new();
        rule.put(b"new", &mut argument);
        run(rules::set, &argument, old)
    };
    let ran = run(rule, Some((record(TOKEN_SENT, 9), b"x")));
    let state = STALE | TOKEN_SENT | BINARY_KEY;
    assert_eq!((ran.outcome, &ran.value[..]), (put(NewBytes::Value, 9, state), &b"new"[..]));
    let ran = run(SetRule { cas: Some(7), ..rule }, Some((record(STALE, 9), b"x")));
    assert_eq!(ran.outcome, put(NewBytes::Value, 60, BINARY_KEY), "the right token makes it fresh");
    for (cas, invalidates) in [(8, true), (6, false)] {
        let ran = run(SetRule { cas: Some(cas), invalidates, ..rule }, Some((record(0, 9), b"x")));
        assert_eq!((ran.outcome, ran.view.status), (Outcome::Keep, Status::Mismatch));
    }
    let ran = run(rule, None);
    assert_eq!((ran.outcome, ran.view.status), (Outcome::Keep, Status::Absent));
    let ran = run(SetRule { mode: Mode::Append, cas: Some(7), ..rule }, Some((record(STALE, 9), b"x")));
    assert_eq!((ran.outcome, &ran.value[..]), (put(NewBytes::Value, 9, STALE), &b"xnew"[..]));
    for mode in [Mode::Append, Mode::Prepend] {
        let ran = run(SetRule { mode, cas: None, ..rule }, Some((record(0, 9), b"xy")));
        assert_eq!(
            (ran.outcome, ran.view.status),
            (Outcome::Keep, Status::NotStored),
            "5 bytes are too long"
        );
    }
}

#[test]
fn invalidating_lets_the_next_reader_win_again() {
    let argument = |cas, expire: Option<u64>| {
        let mut argument = vec![1, 0];
        argument.extend_from_slice(&[0; 16]);
        rules::put_cas(cas, &mut argument);
        if let Some(at) = expire {
            argument.push(b'T');
            argument.extend_from_slice(&at.to_le_bytes());
        }
        argument
    };
    let old = Some((record(STALE | TOKEN_SENT | BINARY_KEY, 9), &b"x"[..]));
    let ran = run(rules::mark, &argument(None, None), old);
    assert_eq!(ran.outcome, put(NewBytes::Old, 9, STALE | BINARY_KEY));
    let ran = run(rules::mark, &argument(Some(7), Some(60)), old);
    assert_eq!(ran.outcome, put(NewBytes::Old, 60, STALE | BINARY_KEY));
    let ran = run(rules::mark, &argument(Some(0), None), old);
    assert_eq!((ran.outcome, ran.view.status), (Outcome::Keep, Status::Mismatch));
    assert_eq!(run(rules::mark, &argument(None, None), None).view.status, Status::Absent);
}

#[test]
fn numbers() {
    let run = |down, delta: u64, cas: Option<u64>, old: &[u8]| {
        let mut argument = vec![u8::from(down), 0];
        argument.extend_from_slice(&delta.to_le_bytes());
        argument.extend_from_slice(&5u64.to_le_bytes());
        argument.extend_from_slice(&0u64.to_le_bytes());
        rules::put_cas(cas, &mut argument);
        run(rules::number, &argument, Some((record(STALE, 9), old)))
    };
    for (down, delta, old, number, stored) in [
        (false, 1, &b"9"[..], &b"10"[..], &b"10"[..]),
        (true, 1, b"10", b"9", b"9 "),
        (true, 11, b"10", b"0", b"0 "),
        (false, 1, b"18446744073709551615", b"0", b"0                   "),
        (false, 1, b" +5 x", b"6", b"6    "),
    ] {
        let ran = run(down, delta, Some(7), old);
        assert_eq!((&ran.shown[..], &ran.value[..]), (number, stored), "{}", old.escape_ascii());
        assert_eq!(ran.outcome, put(NewBytes::Value, 9, STALE));
    }
    for (cas, old, status) in [
        (Some(8), &b"1"[..], Status::Mismatch),
        (Some(8), b"", Status::NotNumber),
        (None, b"x", Status::NotNumber),
        (None, b"18446744073709551616", Status::NotNumber),
        (None, &[b'1'; 2000], Status::NotNumber),
    ] {
        let ran = run(false, 1, cas, old);
        assert_eq!((ran.outcome, ran.view.status), (Outcome::Keep, status), "{}", old.escape_ascii());
    }
}
