//! Client tracking with several connections. The original is asked the same where it is.

use std::net::SocketAddr;

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, ok};
use crate::original::ask_original;
use crate::ours::ask_ours;

#[test]
fn caches_of_clients_are_kept_right() {
    ask_ours(all);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_keeps_them_so_too() {
    ask_original(all);
}

fn all(address: SocketAddr) {
    a_write_by_another_is_told_once(address);
    own_writes_are_told_unless_noloop(address);
    prefixes_are_broadcast(address);
    only_what_was_asked_for_is_tracked(address);
    resp2_hears_through_another_connection(address);
    a_redirection_may_break(address);
    a_full_table_forgets_with_a_message(address);
}

fn number(number: i64) -> Value {
    Value::Integer(number)
}

fn invalidated(keys: &[&str]) -> Value {
    let keys = keys.iter().map(|key| bulk(key)).collect();
    Value::Push(vec![bulk("invalidate"), Value::Array(keys)])
}

fn flushed() -> Value {
    Value::Push(vec![bulk("invalidate"), Value::Null])
}

/// A connection that speaks RESP3 and tracks.
fn tracking(address: SocketAddr, options: &[&str]) -> Client {
    let mut client = Client::connect(address);
    assert!(matches!(client.ask(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(client.ask(&[&["CLIENT", "TRACKING", "ON"], options].concat()), ok());
    client
}

/// Whether nothing more has come.
fn is_silent(client: &mut Client) -> bool {
    client.ask(&["PING"]) == Value::Simple(b"PONG".to_vec())
}

fn a_write_by_another_is_told_once(address: SocketAddr) {
    let (mut one, mut two) = (tracking(address, &[]), Client::connect(address));
    assert_eq!(two.ask(&["MSET", "a", "1", "b", "1", "c", "1"]), ok());
    assert_eq!(one.ask(&["MGET", "a", "b"]), Value::Array(vec![bulk("1"), bulk("1")]));
    assert_eq!(two.ask(&["SET", "c", "2"]), ok());
    assert_eq!(two.ask(&["SET", "a", "2"]), ok());
    assert_eq!(one.answer(), invalidated(&["a"]));
    assert_eq!(two.ask(&["SET", "a", "3"]), ok());
    assert_eq!(two.ask(&["DEL", "none"]), number(0));
    assert_eq!(two.ask(&["SET", "b", "2", "NX"]), Value::Null);
    assert_eq!(two.ask(&["EXPIRE", "b", "100", "GT"]), number(0));
    assert!(is_silent(&mut one));
    for write in
        [&["EXPIRE", "b", "100"][..], &["PERSIST", "b"], &["APPEND", "b", "x"], &["DEL", "b"], &["INCR", "b"]]
    {
        assert!(matches!(one.ask(&["GET", "b"]), Value::Bulk(_) | Value::Null));
        assert!(matches!(two.ask(write), Value::Integer(1..)));
        assert_eq!(one.answer(), invalidated(&["b"]), "{write:?}");
    }
    // As in Redis, whatever the database.
    assert_eq!(one.ask(&["GET", "a"]), bulk("3"));
    assert_eq!(two.ask(&["SELECT", "1"]), ok());
    assert_eq!(two.ask(&["SET", "a", "elsewhere"]), ok());
    assert_eq!(one.answer(), invalidated(&["a"]));
    assert_eq!(two.ask(&["FLUSHDB"]), ok());
    assert_eq!(one.answer(), flushed());
    assert_eq!(two.ask(&["FLUSHALL"]), ok());
    assert_eq!(one.answer(), flushed());
    assert_eq!(one.ask(&["GET", "a"]), Value::Null);
    assert_eq!(one.ask(&["CLIENT", "TRACKING", "OFF"]), ok());
    assert_eq!(two.ask(&["SET", "a", "4"]), ok());
    assert!(is_silent(&mut one));
}

fn own_writes_are_told_unless_noloop(address: SocketAddr) {
    let (mut one, mut two) = (tracking(address, &[]), Client::connect(address));
    assert!(matches!(one.ask(&["GET", "x"]), Value::Null | Value::Bulk(_)));
    assert_eq!(one.ask(&["SET", "x", "1"]), ok());
    assert_eq!(one.answer(), invalidated(&["x"]));
    assert_eq!(one.ask(&["GET", "x"]), bulk("1"));
    one.send(b"MULTI\r\nSET x 2\r\nEXEC\r\n");
    (0..2).for_each(|_| assert!(matches!(one.answer(), Value::Simple(_))));
    assert_eq!(one.answer(), Value::Array(vec![ok()]));
    assert_eq!(one.answer(), invalidated(&["x"]));

    let mut one = tracking(address, &["NOLOOP"]);
    assert_eq!(one.ask(&["GET", "x"]), bulk("2"));
    assert_eq!(one.ask(&["SET", "x", "3"]), ok());
    assert_eq!(one.ask(&["GET", "x"]), bulk("3"));
    assert_eq!(two.ask(&["SET", "x", "4"]), ok());
    assert_eq!(one.answer(), invalidated(&["x"]));
    assert!(is_silent(&mut one));
}

fn prefixes_are_broadcast(address: SocketAddr) {
    let mut one = tracking(address, &["BCAST", "PREFIX", "user:", "PREFIX", "item:"]);
    let (mut all, mut two) = (tracking(address, &["BCAST", "NOLOOP"]), Client::connect(address));
    assert_eq!(two.ask(&["SET", "user:1", "x"]), ok());
    assert_eq!(one.answer(), invalidated(&["user:1"]));
    assert_eq!(all.answer(), invalidated(&["user:1"]));
    assert_eq!(two.ask(&["SET", "other", "x"]), ok());
    assert_eq!(all.answer(), invalidated(&["other"]));
    assert_eq!(two.ask(&["MSET", "user:2", "x", "user:3", "x", "other", "x"]), ok());
    assert_eq!(one.answer(), invalidated(&["user:2", "user:3"]));
    assert_eq!(all.answer(), invalidated(&["other", "user:2", "user:3"]));
    assert_eq!(all.ask(&["SET", "item:1", "x"]), ok());
    assert_eq!(one.answer(), invalidated(&["item:1"]));
    assert!(is_silent(&mut all));
    assert_eq!(one.ask(&["SET", "item:1", "y"]), ok());
    assert_eq!(one.answer(), invalidated(&["item:1"]));
    assert_eq!(two.ask(&["FLUSHALL"]), ok());
    assert_eq!(one.answer(), flushed());
}

fn only_what_was_asked_for_is_tracked(address: SocketAddr) {
    let (mut one, mut two) = (tracking(address, &["OPTIN"]), Client::connect(address));
    let get = |client: &mut Client, key: &str| {
        assert!(matches!(client.ask(&["GET", key]), Value::Null | Value::Bulk(_)));
    };
    get(&mut one, "x");
    assert_eq!(one.ask(&["CLIENT", "CACHING", "YES"]), ok());
    get(&mut one, "y");
    get(&mut one, "z");
    assert_eq!(two.ask(&["MSET", "x", "1", "y", "1", "z", "1"]), ok());
    assert_eq!(one.answer(), invalidated(&["y"]));
    one.send(b"CLIENT CACHING YES\r\nMULTI\r\nGET x\r\nGET y\r\nEXEC\r\nGET z\r\n");
    (0..4).for_each(|_| assert!(matches!(one.answer(), Value::Simple(_))));
    assert_eq!(one.answer(), Value::Array(vec![bulk("1"), bulk("1")]));
    assert_eq!(one.answer(), bulk("1"));
    assert_eq!(two.ask(&["MSET", "x", "2", "y", "2", "z", "2"]), ok());
    assert_eq!(one.answer(), invalidated(&["x"]));
    assert_eq!(one.answer(), invalidated(&["y"]));
    assert!(is_silent(&mut one));

    let mut one = tracking(address, &["OPTOUT"]);
    assert_eq!(one.ask(&["CLIENT", "CACHING", "NO"]), ok());
    get(&mut one, "x");
    get(&mut one, "y");
    assert_eq!(two.ask(&["MSET", "x", "3", "y", "3"]), ok());
    assert_eq!(one.answer(), invalidated(&["y"]));
    assert!(is_silent(&mut one));
}

fn resp2_hears_through_another_connection(address: SocketAddr) {
    let mut clients: [Client; 3] = std::array::from_fn(|_| Client::connect(address));
    let [one, two, ear] = &mut clients;
    let Value::Integer(id) = ear.ask(&["CLIENT", "ID"]) else { panic!("no id") };
    assert!(matches!(ear.ask(&["SUBSCRIBE", "__redis__:invalidate"]), Value::Array(_)));
    assert_eq!(one.ask(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id.to_string()]), ok());
    assert_eq!(one.ask(&["CLIENT", "GETREDIR"]), number(id));
    assert!(matches!(one.ask(&["GET", "x"]), Value::Null | Value::Bulk(_)));
    assert_eq!(two.ask(&["SET", "x", "1"]), ok());
    let message = |what| Value::Array(vec![bulk("message"), bulk("__redis__:invalidate"), what]);
    assert_eq!(ear.answer(), message(Value::Array(vec![bulk("x")])));
    assert_eq!(two.ask(&["FLUSHALL"]), ok());
    assert_eq!(ear.answer(), message(Value::Null));
    assert!(is_silent(one));
}

fn a_redirection_may_break(address: SocketAddr) {
    let (mut two, mut ear) = (Client::connect(address), Client::connect(address));
    let Value::Integer(id) = ear.ask(&["CLIENT", "ID"]) else { panic!("no id") };
    let mut one = tracking(address, &["REDIRECT", &id.to_string()]);
    assert!(matches!(one.ask(&["GET", "x"]), Value::Null | Value::Bulk(_)));
    assert_eq!(ear.ask(&["QUIT"]), ok());
    assert_eq!(ear.rest(), b"");
    let gone = |two: &mut Client| two.ask(&["CLIENT", "LIST", "ID", &id.to_string()]) == bulk("");
    assert!((0..100_000).any(|_| gone(&mut two)), "the connection is still listed");
    assert_eq!(two.ask(&["SET", "x", "1"]), ok());
    assert_eq!(one.answer(), Value::Push(vec![bulk("tracking-redir-broken"), number(id)]));
    let Value::Map(told) = one.ask(&["CLIENT", "TRACKINGINFO"]) else { panic!("no map") };
    assert_eq!(told[0], (bulk("flags"), Value::Set(vec![bulk("on"), bulk("broken_redirect")])));
}

fn a_full_table_forgets_with_a_message(address: SocketAddr) {
    let (mut one, mut two) = (tracking(address, &[]), Client::connect(address));
    assert_eq!(two.ask(&["CONFIG", "SET", "tracking-table-max-keys", "10"]), ok());
    // The original looks ten times a second; we with every key.
    let mut told = 0;
    for i in 0..1000 {
        one.command(&["GET", &format!("full:{i}")]);
        while let Value::Push(_) = one.answer() {
            told += 1;
        }
    }
    while told < 900 {
        assert!(matches!(one.answer(), Value::Push(_)));
        told += 1;
    }
    // A smaller one does so at once.
    assert_eq!(two.ask(&["CONFIG", "SET", "tracking-table-max-keys", "3"]), ok());
    while told < 997 {
        assert!(matches!(one.answer(), Value::Push(_)));
        told += 1;
    }
    assert!(is_silent(&mut one));
    assert_eq!(two.ask(&["CONFIG", "SET", "tracking-table-max-keys", "1000000"]), ok());
}
