//! How long keys were not used, at our server and, where there is one, at the original.

use std::net::SocketAddr;
use std::time::Duration;

use terrace_protocol::resp::Value;

use crate::client::Client;
use crate::original::ask_original;
use crate::ours::ask_ours;

#[test]
fn the_time_since_a_key_was_used_is_told() {
    ask_ours(idle_times);
    ask_original(idle_times);
}

fn idle_times(address: SocketAddr) {
    let mut client = Client::connect(address);
    // Redis shares small numbers between keys, and the times of their use.
    client.ask(&["MSET", "read", "x", "written", "x", "looked at", "x"]);
    for key in ["read", "written", "looked at"] {
        assert_eq!(idle(&mut client, key), 0, "{key}");
    }
    std::thread::sleep(Duration::from_millis(2500));
    assert!((2..10).contains(&idle(&mut client, "read")));
    client.ask(&["GET", "read"]);
    client.ask(&["APPEND", "written", "x"]);
    for look in [&["TTL", "looked at"], &["EXISTS", "looked at"], &["TYPE", "looked at"]] {
        client.ask(look);
    }
    assert!(idle(&mut client, "read") <= 1);
    assert!(idle(&mut client, "written") <= 1);
    assert!(idle(&mut client, "looked at") >= 2);
    client.ask(&["TOUCH", "looked at"]);
    assert!(idle(&mut client, "looked at") <= 1);
    // The same key of another database is another key.
    client.ask(&["SELECT", "1"]);
    client.ask(&["SET", "looked at", "1"]);
    assert_eq!(client.ask(&["OBJECT", "IDLETIME", "read"]), Value::Null);
}

fn idle(client: &mut Client, key: &str) -> i64 {
    match client.ask(&["OBJECT", "IDLETIME", key]) {
        Value::Integer(seconds) => seconds,
        other => panic!("{other:?}"),
    }
}
