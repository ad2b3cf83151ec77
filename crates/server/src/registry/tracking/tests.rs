use super::*;
use crate::protocol::Peer;
use crate::registry::Kind;

#[test]
fn the_table_is_bounded_in_bytes() {
    let mut registry = Registry::new(Arc::default());
    registry.tracking.bytes_max = 1 << 20;
    let local = crate::endpoint::Address::Unix("/x".into());
    let of = |id: u64| {
        let entry =
            Entry::new(Peer { id, remote: local.clone(), local: local.clone(), since_ms: 0 }, Kind::Redis);
        registry.track(&entry, Options::default());
        entry
    };
    let (one, other) = (of(1), of(2));
    for i in 0..1000 {
        let key = format!("{i:0>60000}").into_bytes();
        registry.remember(&key, &one);
        registry.remember(&key, &other);
        registry.remember(&key, &other);
        assert!(registry.tracking.bytes.load(Relaxed) <= 1 << 20, "key {i}");
    }
    assert!((1..18).contains(&registry.tracking.keys()), "{}", registry.tracking.keys());
    // A key that fits alone stays; one is counted off as it was counted.
    (0..1000).for_each(|i| registry.written(&[format!("{i:0>60000}").as_bytes()], 0));
    assert_eq!((registry.tracking.keys(), registry.tracking.bytes.load(Relaxed)), (0, 0));
    registry.remember(b"a", &one);
    registry.remember(b"b", &other);
    registry.flushed();
    assert_eq!((registry.tracking.keys(), registry.tracking.bytes.load(Relaxed)), (0, 0));
}
