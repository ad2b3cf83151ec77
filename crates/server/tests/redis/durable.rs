//! What waits until the log is synced, on a store that has one.

use terrace_protocol::resp::Value;
use terrace_server::{Endpoint, Server, ServerOptions};

use crate::client::{Client, bulk, ok};

#[test]
fn who_waits_for_a_sync_gets_it_and_delays_nobody() {
    let dir = tempfile::tempdir().unwrap();
    // A window so long that nothing is synced unless somebody waits for it.
    let options = terrace::Options {
        dir: Some(dir.path().into()),
        engine: "tac".into(),
        dram: Some(64 << 20),
        ssd: Some(terrace::Tier { bytes: 256 << 20, place: None }),
        durability: "batch:60000".parse().unwrap(),
        ..terrace::Options::default()
    };
    // As one lies there that was saved before.
    std::fs::write(dir.path().join("dump.rdb"), "of a store in memory").unwrap();
    let again = options.clone();
    let store = terrace::open(options).unwrap();
    let options = ServerOptions {
        redis: vec![Endpoint::Tcp(([127, 0, 0, 1], 0).into())],
        durability: "batch:60000".into(),
        dir: dir.path().to_str().unwrap().into(),
        ..ServerOptions::default()
    };
    let server = Server::start(store.clone(), options).unwrap();
    let address = server.addresses().redis.unwrap();
    let syncs = |store: &terrace::OpenStore| {
        let stats = store.stats();
        stats.tiers.iter().map(|tier| tier.media.fences).sum::<u64>()
            + stats.log.map_or(0, |log| log.media.fences)
    };
    let (mut one, mut other) = (Client::connect(address), Client::connect(address));
    assert_eq!(one.ask(&["SET", "k", "v"]), ok());
    let before = syncs(&store);
    // In a pipeline, with commands before and behind.
    one.command(&["SET", "k", "w"]);
    one.command(&["WAITAOF", "1", "0", "0"]);
    one.command(&["GET", "k"]);
    assert_eq!(one.answer(), ok());
    assert_eq!(one.answer(), Value::Array(vec![Value::Integer(1), Value::Integer(0)]));
    assert_eq!(one.answer(), bulk("w"));
    assert!(syncs(&store) > before, "WAITAOF has the log synced");
    let before = syncs(&store);
    assert_eq!(other.ask(&["SET", "l", "v"]), ok());
    let told = match one.ask(&["LASTSAVE"]) {
        Value::Integer(told) => told,
        other => panic!("{other:?}"),
    };
    assert_eq!(one.ask(&["SAVE"]), ok(), "of another's write, too");
    assert!(syncs(&store) > before, "SAVE has the log synced");
    assert!(matches!(one.ask(&["LASTSAVE"]), Value::Integer(now) if now >= told));
    let before = syncs(&store);
    assert_eq!(one.ask(&["SET", "k", "x"]), ok());
    assert_eq!(
        one.ask(&["WAITAOF", "0", "0", "0"]),
        Value::Array(vec![Value::Integer(0), Value::Integer(0)])
    );
    assert_eq!(syncs(&store), before, "nobody waited");
    server.shutdown().unwrap();
    store.close().unwrap();
    // A snapshot in its directory is nothing to the store.
    let store = terrace::open(again).unwrap();
    assert_eq!(store.len(0), 2);
    store.close().unwrap();
    assert!(terrace::check::check(dir.path(), &terrace::check::CheckOptions::default()).unwrap().is_clean());
}
