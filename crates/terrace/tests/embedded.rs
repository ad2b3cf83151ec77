//! Single calls, without a session.

use terrace::engine::{Condition, Durability, Expiry, OpError};
use terrace::{CallError, Options, open};

#[test]
fn single_calls_from_many_threads() {
    let options = Options {
        engine: "dram".into(),
        durability: Durability::None,
        dram: Some(16 << 20),
        ..Options::default()
    };
    let store = open(options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    store.increment(b"n", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(store.get(b"n").unwrap().as_deref(), Some(&b"4000"[..]));
    assert!(!store.set_with(b"n", b"x", Condition::Absent, Expiry::Clear).unwrap());
    store.set(b"n", b"x").unwrap();
    assert!(matches!(store.increment(b"n", 1), Err(CallError::Op(OpError::NotInteger))));
    assert!(store.delete(b"n").unwrap() && !store.delete(b"n").unwrap());
    assert_eq!(store.len(0), 0);
    store.close().unwrap();
}
