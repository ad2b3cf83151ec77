//! Several connections that hear of each other: channels, patterns, shards. The original is asked the same where it is.

use std::net::SocketAddr;

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, error, ok};
use crate::original::ask_original;
use crate::ours::ask_ours;

#[test]
fn connections_hear_of_each_other() {
    ask_ours(all);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_does_so_too() {
    ask_original(all);
}

fn all(address: SocketAddr) {
    messages_follow_the_publishers_order(address);
    patterns_and_channels_are_counted_apart(address);
    shards_are_a_world_of_their_own(address);
    resp3_hears_between_answers(address);
    silence_is_for_answers_only(address);
    reset_and_the_end_unsubscribe(address);
    queued_subscriptions_are_confirmed_by_exec(address);
}

fn list(parts: &[Value]) -> Value {
    Value::Array(parts.to_vec())
}

fn push(parts: &[Value]) -> Value {
    Value::Push(parts.to_vec())
}

fn number(number: i64) -> Value {
    Value::Integer(number)
}

fn messages_follow_the_publishers_order(address: SocketAddr) {
    let mut subscribers: Vec<Client> = (0..6).map(|_| Client::connect(address)).collect();
    for client in &mut subscribers {
        assert_eq!(client.ask(&["SUBSCRIBE", "c"]), list(&[bulk("subscribe"), bulk("c"), number(1)]));
    }
    let mut publisher = Client::connect(address);
    const MESSAGES: i64 = 500;
    for i in 0..MESSAGES {
        publisher.command(&["PUBLISH", "c", &i.to_string()]);
    }
    (0..MESSAGES).for_each(|_| assert_eq!(publisher.answer(), number(6)));
    for client in &mut subscribers {
        for i in 0..MESSAGES {
            assert_eq!(client.answer(), list(&[bulk("message"), bulk("c"), bulk(&i.to_string())]));
        }
        assert_eq!(client.ask(&["UNSUBSCRIBE"]), list(&[bulk("unsubscribe"), bulk("c"), number(0)]));
    }
    assert_eq!(publisher.ask(&["PUBLISH", "c", "x"]), number(0));
}

fn patterns_and_channels_are_counted_apart(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    assert_eq!(one.ask(&["SUBSCRIBE", "news.a"]), list(&[bulk("subscribe"), bulk("news.a"), number(1)]));
    assert_eq!(one.ask(&["PSUBSCRIBE", "news.*"]), list(&[bulk("psubscribe"), bulk("news.*"), number(2)]));
    assert_eq!(one.ask(&["PSUBSCRIBE", "n?ws.*"]), list(&[bulk("psubscribe"), bulk("n?ws.*"), number(3)]));
    assert_eq!(two.ask(&["PUBSUB", "NUMPAT"]), number(2));
    assert_eq!(
        two.ask(&["PUBSUB", "NUMSUB", "news.a", "x"]),
        list(&[bulk("news.a"), number(1), bulk("x"), number(0)])
    );
    assert_eq!(two.ask(&["PUBSUB", "CHANNELS"]), list(&[bulk("news.a")]));
    assert_eq!(two.ask(&["PUBSUB", "CHANNELS", "x*"]), list(&[]));
    assert_eq!(two.ask(&["PUBLISH", "news.a", "hi"]), number(3));
    assert_eq!(one.answer(), list(&[bulk("message"), bulk("news.a"), bulk("hi")]));
    let mut patterns = [one.answer(), one.answer()].map(|message| match message {
        Value::Array(parts) => {
            assert_eq!((&parts[0], &parts[2], &parts[3]), (&bulk("pmessage"), &bulk("news.a"), &bulk("hi")));
            format!("{:?}", parts[1])
        }
        other => panic!("{other:?}"),
    });
    patterns.sort();
    assert_eq!(patterns, [bulk("news.*"), bulk("n?ws.*")].map(|name| format!("{name:?}")));
    assert_eq!(
        one.ask(&["PUNSUBSCRIBE", "news.*"]),
        list(&[bulk("punsubscribe"), bulk("news.*"), number(2)])
    );
    assert_eq!(two.ask(&["PUBLISH", "news.b", "there"]), number(1));
    assert_eq!(one.answer(), list(&[bulk("pmessage"), bulk("n?ws.*"), bulk("news.b"), bulk("there")]));
    assert_eq!(
        one.ask(&["GET", "x"]),
        error(
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
    );
}

fn shards_are_a_world_of_their_own(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    assert_eq!(one.ask(&["SSUBSCRIBE", "s"]), list(&[bulk("ssubscribe"), bulk("s"), number(1)]));
    assert_eq!(one.ask(&["PSUBSCRIBE", "*"]), list(&[bulk("psubscribe"), bulk("*"), number(1)]));
    assert_eq!(two.ask(&["SPUBLISH", "s", "1"]), number(1));
    assert_eq!(one.answer(), list(&[bulk("smessage"), bulk("s"), bulk("1")]));
    assert_eq!(two.ask(&["PUBLISH", "s", "2"]), number(1));
    assert_eq!(one.answer(), list(&[bulk("pmessage"), bulk("*"), bulk("s"), bulk("2")]));
    assert_eq!(two.ask(&["PUBSUB", "SHARDCHANNELS"]), list(&[bulk("s")]));
    assert_eq!(two.ask(&["PUBSUB", "SHARDNUMSUB", "s"]), list(&[bulk("s"), number(1)]));
    // By pattern: connections of before may not have been seen to close yet.
    assert_eq!(two.ask(&["PUBSUB", "CHANNELS", "s*"]), list(&[]));
}

fn resp3_hears_between_answers(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    assert!(matches!(one.ask(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(one.ask(&["SUBSCRIBE", "a"]), push(&[bulk("subscribe"), bulk("a"), number(1)]));
    assert_eq!(one.ask(&["SET", "k", "v"]), ok());
    assert_eq!(two.ask(&["PUBLISH", "a", "m"]), number(1));
    assert_eq!(one.answer(), push(&[bulk("message"), bulk("a"), bulk("m")]));
    assert_eq!(one.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    assert_eq!(one.ask(&["GET", "k"]), bulk("v"));
    // Redis before 7.2 sends its own message in front of the answer, later ones behind it.
    one.command(&["PUBLISH", "a", "self"]);
    let mut both = [one.answer(), one.answer()];
    both.sort_by_key(|value| matches!(value, Value::Push(_)));
    assert_eq!(both, [number(1), push(&[bulk("message"), bulk("a"), bulk("self")])]);
    assert_eq!(one.ask(&["UNSUBSCRIBE"]), push(&[bulk("unsubscribe"), bulk("a"), number(0)]));
    assert_eq!(one.ask(&["UNSUBSCRIBE"]), push(&[bulk("unsubscribe"), Value::Null, number(0)]));
}

fn silence_is_for_answers_only(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    one.send(b"CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE q\r\nnonsense\r\n");
    assert_eq!(one.answer(), list(&[bulk("subscribe"), bulk("q"), number(1)]));
    assert_eq!(two.ask(&["PUBLISH", "q", "m"]), number(1));
    assert_eq!(one.answer(), list(&[bulk("message"), bulk("q"), bulk("m")]));
}

fn reset_and_the_end_unsubscribe(address: SocketAddr) {
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    one.send(b"SUBSCRIBE r r2\r\nPSUBSCRIBE r*\r\nSSUBSCRIBE r\r\nRESET\r\nGET none\r\n");
    (0..4).for_each(|_| assert!(matches!(one.answer(), Value::Array(_))));
    assert_eq!(one.answer(), Value::Simple(b"RESET".to_vec()));
    assert_eq!(one.answer(), Value::Null);
    assert_eq!(two.ask(&["PUBLISH", "r", "x"]), number(0));
    assert_eq!(two.ask(&["SPUBLISH", "r", "x"]), number(0));
    one.send(b"SUBSCRIBE r\r\nPSUBSCRIBE r*\r\n");
    (0..2).for_each(|_| assert!(matches!(one.answer(), Value::Array(_))));
    assert_eq!(two.ask(&["PUBLISH", "r", "x"]), number(2));
    assert!(matches!(one.answer(), Value::Array(_)));
    drop(one);
    let mut gone = || two.ask(&["PUBLISH", "r", "x"]) == number(0);
    assert!((0..100_000).any(|_| gone()), "a closed connection still listens");
    assert_eq!(two.ask(&["PUBSUB", "NUMPAT"]), number(0));
}

fn queued_subscriptions_are_confirmed_by_exec(address: SocketAddr) {
    let mut one = Client::connect(address);
    if one.ask(&["MULTI"]) != ok() {
        return;
    }
    let queued = Value::Simple(b"QUEUED".to_vec());
    assert_eq!(one.ask(&["SUBSCRIBE", "m"]), queued);
    assert_eq!(one.ask(&["PUBLISH", "z", "1"]), queued);
    assert_eq!(one.ask(&["EXEC"]), list(&[list(&[bulk("subscribe"), bulk("m"), number(1)]), number(0)]));
    assert!(matches!(one.ask(&["GET", "x"]), Value::Error(_)));
}
