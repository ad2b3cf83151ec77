//! Whoever has the answer to a command of another and then asks for anything has heard of that command first: clients take the
//! answer to a PING for the end of what others did. The original is asked the same where it is.
//!
//! `TERRACE_ORDER_ROUNDS` asks for more rounds of each kind than the few of every run.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use terrace_protocol::resp::Value;
use terrace_server::{Endpoint, ServerOptions};

use crate::client::{Client, bulk, ok};
use crate::differential::number;
use crate::original::ask_original;
use crate::ours::Ours;

#[test]
fn what_others_did_comes_before_the_next_answer() {
    let memcached = vec![Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
    let ours = Ours::start_with(ServerOptions { threads: 4, memcached, ..ServerOptions::default() });
    let elsewhere = ours.memcached();
    // All at once, so that workers are busy when something is to be told.
    std::thread::scope(|scope| {
        scope.spawn(|| writes_through_memcached_are_told_of_first(ours.address, elsewhere));
        all(ours.address);
    });
    ours.stop();
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_tells_it_before_its_next_answer() {
    ask_original(all);
}

fn all(address: SocketAddr) {
    std::thread::scope(|scope| {
        for kind in [
            invalidations_come_first,
            broadcasts_come_first,
            redirected_invalidations_come_first,
            messages_come_first,
            events_come_first,
            what_a_transaction_did_comes_first,
            monitors_see_it_first,
        ] {
            scope.spawn(move || kind(address));
        }
    });
}

fn rounds() -> u64 {
    number("TERRACE_ORDER_ROUNDS").unwrap_or(400)
}

fn pong() -> Value {
    Value::Simple(b"PONG".to_vec())
}

/// What a subscriber who speaks RESP2 gets for a PING.
fn pong_between_messages() -> Value {
    Value::Array(vec![bulk("pong"), bulk("")])
}

fn invalidated(key: &str) -> Value {
    Value::Push(vec![bulk("invalidate"), Value::Array(vec![bulk(key)])])
}

/// A connection that speaks RESP3 and tracks.
fn tracking(address: SocketAddr, options: &[&str]) -> Client {
    let mut client = Client::connect(address);
    assert!(matches!(client.ask(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(client.ask(&[&["CLIENT", "TRACKING", "ON"], options].concat()), ok());
    client
}

/// The answers to a PING, in the order in which they came, must be `told` and then `pong`.
fn hears(listener: &mut Client, told: &Value, pong: &Value, round: u64) {
    assert_eq!((&listener.ask(&["PING"]), &listener.answer()), (told, pong), "round {round}");
}

fn invalidations_come_first(address: SocketAddr) {
    let (mut listener, mut writer) = (tracking(address, &[]), Client::connect(address));
    for round in 0..rounds() {
        assert!(matches!(listener.ask(&["GET", "order:k"]), Value::Null | Value::Bulk(_)));
        assert!(matches!(writer.ask(&["INCR", "order:k"]), Value::Integer(1..)));
        hears(&mut listener, &invalidated("order:k"), &pong(), round);
    }
}

fn broadcasts_come_first(address: SocketAddr) {
    let mut listener = tracking(address, &["BCAST", "PREFIX", "order:b"]);
    let mut writer = Client::connect(address);
    for round in 0..rounds() {
        assert_eq!(writer.ask(&["SET", "order:b", "x"]), ok());
        hears(&mut listener, &invalidated("order:b"), &pong(), round);
    }
}

fn redirected_invalidations_come_first(address: SocketAddr) {
    let (mut listener, mut writer) = (Client::connect(address), Client::connect(address));
    let Value::Integer(id) = listener.ask(&["CLIENT", "ID"]) else { panic!("no id") };
    assert!(matches!(listener.ask(&["SUBSCRIBE", "__redis__:invalidate"]), Value::Array(_)));
    let mut reader = Client::connect(address);
    assert_eq!(reader.ask(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id.to_string()]), ok());
    let channel = bulk("__redis__:invalidate");
    let told = Value::Array(vec![bulk("message"), channel, Value::Array(vec![bulk("order:r")])]);
    for round in 0..rounds() {
        assert!(matches!(reader.ask(&["GET", "order:r"]), Value::Null | Value::Bulk(_)));
        assert!(matches!(writer.ask(&["INCR", "order:r"]), Value::Integer(1..)));
        hears(&mut listener, &told, &pong_between_messages(), round);
    }
}

fn messages_come_first(address: SocketAddr) {
    let (mut listener, mut writer) = (Client::connect(address), Client::connect(address));
    assert!(matches!(listener.ask(&["SUBSCRIBE", "order:c"]), Value::Array(_)));
    for round in 0..rounds() {
        let message = round.to_string();
        assert_eq!(writer.ask(&["PUBLISH", "order:c", &message]), Value::Integer(1));
        let told = Value::Array(["message", "order:c", &message].map(bulk).to_vec());
        hears(&mut listener, &told, &pong_between_messages(), round);
    }
}

fn events_come_first(address: SocketAddr) {
    let (mut listener, mut writer) = (Client::connect(address), Client::connect(address));
    assert_eq!(writer.ask(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]), ok());
    assert!(matches!(listener.ask(&["SUBSCRIBE", "__keyspace@0__:order:e"]), Value::Array(_)));
    let told = Value::Array(["message", "__keyspace@0__:order:e", "append"].map(bulk).to_vec());
    for round in 0..rounds() {
        assert!(matches!(writer.ask(&["APPEND", "order:e", "x"]), Value::Integer(1..)));
        hears(&mut listener, &told, &pong_between_messages(), round);
    }
}

fn what_a_transaction_did_comes_first(address: SocketAddr) {
    let (mut listener, mut writer) = (tracking(address, &[]), Client::connect(address));
    for round in 0..rounds() {
        assert!(matches!(listener.ask(&["GET", "order:t"]), Value::Null | Value::Bulk(_)));
        writer.send(b"MULTI\r\nINCR order:t\r\nEXEC\r\n");
        (0..2).for_each(|_| assert!(matches!(writer.answer(), Value::Simple(_))));
        assert!(matches!(writer.answer(), Value::Array(_)));
        hears(&mut listener, &invalidated("order:t"), &pong(), round);
    }
}

fn monitors_see_it_first(address: SocketAddr) {
    let (mut listener, mut writer) = (Client::connect(address), Client::connect(address));
    assert_eq!(listener.ask(&["MONITOR"]), ok());
    for round in 0..rounds() {
        let said = format!("order:m:{round}");
        assert_eq!(writer.ask(&["ECHO", &said]), bulk(&said));
        listener.command(&["PING"]);
        let mut seen = false;
        loop {
            match listener.answer() {
                Value::Simple(line) if line == b"PONG" => break,
                Value::Simple(line) => seen |= line.ends_with(format!("\"{said}\"").as_bytes()),
                other => panic!("{other:?}"),
            }
        }
        assert!(seen, "round {round}");
    }
}

fn writes_through_memcached_are_told_of_first(address: SocketAddr, elsewhere: SocketAddr) {
    let mut listener = tracking(address, &[]);
    let mut writer = TcpStream::connect(elsewhere).unwrap();
    writer.set_nodelay(true).unwrap();
    let mut got = [0; 8];
    for round in 0..rounds() {
        assert!(matches!(listener.ask(&["GET", "order:other"]), Value::Null | Value::Bulk(_)));
        writer.write_all(b"set order:other 0 0 1\r\nx\r\n").unwrap();
        writer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"STORED\r\n");
        hears(&mut listener, &invalidated("order:other"), &pong(), round);
    }
}
