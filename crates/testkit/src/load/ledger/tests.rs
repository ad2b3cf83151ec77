//! The ledger itself must notice what it is there to notice.

use super::*;

const ALL_SAFE: u64 = u64::MAX;

fn value(text: &str) -> State {
    Some(text.as_bytes().to_vec())
}

#[test]
fn a_ledger_notices_loss() {
    let (a, b) = (b"a".to_vec(), b"b".to_vec());
    let after = |found_a: State, found_b: State| {
        let mut ledger = Ledger::default();
        ledger.attempt(&a, value("1"));
        ledger.acknowledge(&a, 1, ALL_SAFE);
        ledger.attempt(&b, value("2"));
        ledger.attempt_group(&[(a.clone(), value("3")), (b.clone(), value("4"))]);
        ledger.settle(&BTreeMap::from([(a.clone(), found_a), (b.clone(), found_b)]), ALL_SAFE).wrong.len()
    };
    assert_eq!(after(value("1"), None), 0, "the unanswered writes never happened");
    assert_eq!(after(value("1"), value("2")), 0, "one of them did");
    assert_eq!(after(value("3"), value("4")), 0, "all did");
    assert_eq!(after(None, None), 1, "an acknowledged write is gone");
    assert_eq!(after(value("9"), None), 1, "a value from nowhere");
    assert_eq!(after(value("3"), value("2")), 1, "half of an atomic write");
    assert_eq!(after(value("1"), value("4")), 1, "the other half");
}

/// Three pipelines: a=1, b=1; a=2, c=2; b=3. All acknowledged, at 10, 20 and 30.
fn settled(found: [&str; 3], safe_us: u64) -> Settled {
    let names = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    let mut ledger = Ledger::default();
    for (stage, writes) in [(1, &[0, 1][..]), (2, &[0, 2]), (3, &[1])] {
        ledger.next_stage();
        for key in writes {
            ledger.attempt(&names[*key], value(&stage.to_string()));
        }
        for key in writes {
            ledger.acknowledge(&names[*key], stage * 10, safe_us);
        }
    }
    let state = |text: &str| (text != "-").then(|| text.as_bytes().to_vec());
    ledger.settle(&names.into_iter().zip(found.map(state)).collect(), safe_us)
}

#[test]
fn what_survives_a_window_is_a_past() {
    for (found, last_stage) in [
        (["-", "-", "-"], (0, 1)),
        (["1", "-", "-"], (1, 1)),
        (["1", "1", "-"], (1, 2)),
        (["2", "1", "-"], (2, 2)),
        (["2", "1", "2"], (2, 3)),
        (["2", "3", "2"], (3, u64::MAX - 1)),
    ] {
        let settled = settled(found, 0);
        assert_eq!((settled.wrong.len(), settled.last_stage), (0, last_stage), "{found:?}");
    }
    for found in [["2", "-", "-"], ["1", "3", "-"], ["2", "3", "-"], ["-", "1", "2"]] {
        let wrong = settled(found, 0).wrong;
        assert!(wrong.len() == 1 && wrong[0].contains("no moment"), "{found:?}: {wrong:?}");
    }
}

#[test]
fn what_is_older_than_the_window_must_survive() {
    assert_eq!(settled(["1", "1", "-"], 10).wrong.len(), 0);
    assert_eq!(settled(["1", "-", "-"], 10).wrong.len(), 1);
    assert_eq!(settled(["2", "1", "-"], 20).wrong.len(), 1);
    assert_eq!(settled(["2", "1", "2"], 20).wrong.len(), 0);
    assert_eq!(settled(["2", "1", "2"], 30).wrong.len(), 1);
    assert_eq!(settled(["2", "3", "2"], 30).wrong.len(), 0);
}
