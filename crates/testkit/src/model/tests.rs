use terrace_engine::{Condition, Delta, ExpireIf, Expiry, Meta, OpError};

use super::*;

const NOW: u64 = 1_000_000;

fn on_key(action: Action) -> Case {
    Case { db: 0, key: b"k".to_vec(), action }
}

fn set(value: &str) -> Case {
    let value = value.as_bytes().to_vec();
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    on_key(Action::Set { value, condition, expiry, flags: None, old_value: false })
}

fn set_with(value: &str, condition: Condition, expiry: Expiry) -> Case {
    on_key(Action::Set { value: value.into(), condition, expiry, flags: Some(5), old_value: true })
}

fn get() -> Case {
    on_key(Action::Get { value: true })
}

fn hit(version: u64, value: &str) -> Observed {
    let value_bytes = value.len() as u64;
    Observed::Hit(Meta { version, value_bytes, ..Meta::default() }, Some(value.into()))
}

/// Feeds a story; every step must fit.
fn told(steps: &[(Case, Observed)]) -> Model {
    let mut model = Model::new(NOW);
    for (case, observed) in steps {
        if let Err(expected) = model.check(case, observed) {
            panic!("{case:?}: expected {expected}, got {observed:?}");
        }
    }
    model
}

fn refuses(model: &Model, case: Case, observed: Observed) {
    assert!(model.clone().check(&case, &observed).is_err(), "{case:?} must not be answered {observed:?}");
}

#[test]
fn sets_and_gets() {
    let model = told(&[
        (get(), Observed::Miss),
        (set("a"), Observed::Stored(10, None)),
        (get(), hit(10, "a")),
        (set_with("b", Condition::Absent, Expiry::Clear), Observed::NotStored(true, Some("a".into()))),
        (set_with("b", Condition::Version(9), Expiry::Clear), Observed::NotStored(true, Some("a".into()))),
        (set_with("b", Condition::Version(10), Expiry::Keep), Observed::Stored(11, Some("a".into()))),
        (
            on_key(Action::Delete { condition: Condition::Always, old_value: true }),
            Observed::Deleted(Some("b".into())),
        ),
        (get(), Observed::Miss),
        (set("a"), Observed::Stored(12, None)),
    ]);
    refuses(&model, get(), Observed::Miss);
    refuses(&model, get(), hit(12, "b"));
    refuses(&model, get(), hit(11, "a"));
    refuses(&model, get(), Observed::Pending);
    refuses(&model, set("c"), Observed::Stored(12, None));
    refuses(&model, set("c"), Observed::Stored(13, Some("a".into())));
    assert_eq!(model.len_range(0), (1, 1));
}

#[test]
fn versions_outlive_deletion() {
    let model = told(&[
        (set("a"), Observed::Stored(10, None)),
        (on_key(Action::Delete { condition: Condition::Always, old_value: false }), Observed::Deleted(None)),
    ]);
    refuses(&model, set("b"), Observed::Stored(10, None));
}

#[test]
fn numbers_keep_expiry_and_flags() {
    let at = NOW + 500;
    let mut model = told(&[
        (set_with("41", Condition::Always, Expiry::At(at)), Observed::Stored(1, None)),
        (on_key(Action::Incr(Delta::Signed(1))), Observed::Number(42)),
        (on_key(Action::Incr(Delta::Signed(i64::MAX))), Observed::Error(OpError::Overflow)),
        (on_key(Action::Incr(Delta::Float(0.5))), Observed::Float(b"42.5".to_vec())),
    ]);
    let meta = Meta { version: 3, token: 0, flags: 5, expire_at: at, value_bytes: 4, state: 0 };
    refuses(&model, get(), Observed::Hit(Meta { version: 1, ..meta }, Some("42.5".into())));
    refuses(&model, get(), Observed::Hit(Meta { flags: 0, ..meta }, Some("42.5".into())));
    assert_eq!(model.check(&get(), &Observed::Hit(meta, Some("42.5".into()))), Ok(()));
}

#[test]
fn time_passes() {
    let at = NOW + 500;
    let mut model = told(&[
        (set_with("a", Condition::Always, Expiry::At(at)), Observed::Stored(1, None)),
        (
            on_key(Action::Expire { expiry: Expiry::At(at - 5), condition: ExpireIf::Later, value: false }),
            Observed::NotStored(true, None),
        ),
    ]);
    model.set_now_ms(at + 1);
    assert_eq!(model.len_range(0), (0, 1));
    assert_eq!(model.check(&get(), &Observed::Miss), Ok(()));
    refuses(&model, get(), hit(1, "a"));
    model.forget_expired();
    assert_eq!(model.len_range(0), (0, 0));
    // Stored and expired in one.
    let past = set_with("b", Condition::Always, Expiry::At(NOW - 5));
    assert_eq!(model.check(&past, &Observed::Stored(2, None)), Ok(()));
    assert_eq!(model.check(&get(), &Observed::Miss), Ok(()));
}

#[test]
fn an_expiry_in_the_past_deletes_and_answers_hit() {
    let case = on_key(Action::Expire { expiry: Expiry::At(5), condition: ExpireIf::Always, value: true });
    let mut model =
        told(&[(set("a"), Observed::Stored(1, None)), (case, hit(1, "a")), (get(), Observed::Miss)]);
    model.forget_expired();
    assert!(model.keys(0).is_empty());
}

#[test]
fn appends() {
    let append = |value: &str, front, create| {
        on_key(Action::Append { value: value.into(), front, create, condition: Condition::Always })
    };
    told(&[
        (append("b", false, false), Observed::NotStored(false, None)),
        (append("b", false, true), Observed::Length(1)),
        (append("a", true, false), Observed::Length(2)),
        (append("", true, false), Observed::Length(2)),
        (get(), hit(7, "ab")),
    ]);
}

#[test]
fn flushes_and_scans() {
    let elsewhere = Case { db: 3, ..set("x") };
    let scan = || Case { db: 0, key: vec![], action: Action::Scan { cursor: 0, count: 10 } };
    let mut model = told(&[
        (set("a"), Observed::Stored(1, None)),
        (elsewhere, Observed::Stored(2, None)),
        (scan(), Observed::Scanned(0, vec![b"k".to_vec()])),
    ]);
    refuses(&model, scan(), Observed::Scanned(0, vec![b"ghost".to_vec()]));
    let flush = Case { db: 0, key: vec![], action: Action::Flush(Some(0)) };
    assert_eq!(model.check(&flush, &Observed::Done), Ok(()));
    assert_eq!((model.len_range(0), model.len_range(3)), ((0, 0), (1, 1)));
    refuses(&model, scan(), Observed::Scanned(0, vec![b"k".to_vec()]));
}
