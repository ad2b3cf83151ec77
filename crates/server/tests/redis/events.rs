//! Keyspace notifications and MONITOR. The original is asked the same where it is.

use std::net::SocketAddr;

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, ok};
use crate::original::ask_original;
use crate::ours::ask_ours;

#[test]
fn changes_and_commands_are_told() {
    ask_ours(all);
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_tells_them_so_too() {
    ask_original(all);
}

fn all(address: SocketAddr) {
    told_as_they_happen(address, "EAm", CHANGES);
    told_as_they_happen(address, "Eng$", NEW_KEYS);
    only_the_classes_asked_for_are_told(address);
    the_database_is_told_as_the_command_named_it(address);
    one_may_hear_of_ones_own_changes(address);
    commands_are_shown(address);
    expired_keys_are_told(address);
}

/// Each command and the events that it makes.
const CHANGES: &[(&str, &str)] = &[
    ("SET a 1", "set:a"),
    ("SET a 2 EX 100", "set:a expire:a"),
    ("SET a 1 KEEPTTL", "set:a"),
    ("SET a 1 NX", ""),
    ("PERSIST a", "persist:a"),
    ("PERSIST a", ""),
    ("GETEX a EX 100", "expire:a"),
    ("GETEX a PERSIST", "persist:a"),
    ("GETEX a PERSIST", ""),
    ("GETEX n PERSIST", "keymiss:n"),
    ("GETEX a", ""),
    ("EXPIRE a 100", "expire:a"),
    ("EXPIRE a -1", "del:a"),
    ("EXPIRE a 100", ""),
    ("GET none", "keymiss:none"),
    ("MGET n1 n2", "keymiss:n1 keymiss:n2"),
    ("EXISTS n", "keymiss:n"),
    ("TTL n", "keymiss:n"),
    ("SETEX s 100 v", "set:s expire:s"),
    ("PSETEX s 100000 v", "set:s expire:s"),
    ("SETNX s v", ""),
    ("SETNX q v", "set:q"),
    ("GETSET q w", "set:q"),
    ("GETDEL q", "del:q"),
    ("GETDEL q", "keymiss:q"),
    ("MSET m1 1 m2 2", "set:m1 set:m2"),
    ("INCR n1", "incrby:n1"),
    ("DECR n1", "incrby:n1"),
    ("INCRBY n1 4", "incrby:n1"),
    ("DECRBY n1 4", "incrby:n1"),
    ("INCRBYFLOAT n1 1.5", "incrbyfloat:n1"),
    ("INCR n1", ""),
    ("APPEND ap x", "append:ap"),
    ("DEL ap nope", "del:ap"),
    ("UNLINK n1", "del:n1"),
    ("SET past v EXAT 1", "set:past expire:past expired:past"),
    ("SET m1 v EXAT 1", "set:m1 expire:m1 expired:m1"),
    ("FLUSHDB", ""),
    ("SELECT 1", ""),
    ("SET other 1", "set:other"),
    ("SELECT 0", ""),
];

/// The same where keys are new, or are made anew.
const NEW_KEYS: &[(&str, &str)] = &[
    ("FLUSHALL", ""),
    ("SET a 1", "new:a set:a"),
    ("SET a 2", "set:a"),
    ("SETNX b 1", "new:b set:b"),
    ("SETEX c 100 v", "new:c set:c expire:c"),
    ("GETSET d v", "new:d set:d"),
    ("INCR e", "new:e incrby:e"),
    ("INCR e", "incrby:e"),
    ("INCRBYFLOAT f 1.5", "new:f incrbyfloat:f"),
    ("APPEND g x", "new:g append:g"),
    ("SETRANGE h 1 x", "new:h setrange:h"),
    ("SETBIT i 1 1", "new:i setbit:i"),
    ("BITFIELD j SET u8 0 1", "new:j setbit:j"),
    ("BITOP OR k g", "new:k set:k"),
    ("BITOP OR k g", "set:k"),
    ("PFADD l x", "new:l pfadd:l"),
    ("MSET a 1 m 1", "set:a new:m set:m"),
    ("MSETNX n 1 o 1", "new:n set:n new:o set:o"),
    ("RENAME m p", "new:p rename_from:m rename_to:p"),
    ("RENAME p a", "new:a rename_from:p rename_to:a"),
    ("RENAMENX a q", "new:q rename_from:a rename_to:q"),
    ("COPY q r", "new:r copy_to:r"),
    ("COPY b r REPLACE", "new:r copy_to:r"),
    ("MOVE r 1", "new:r move_from:r move_to:r"),
    ("SET past v EXAT 1", "new:past set:past expire:past"),
    ("SET b v EXAT 1", "set:b expire:b"),
    ("DEL b", ""),
    ("SET b v", "new:b set:b"),
    ("MULTI", ""),
    ("SET s 1", ""),
    ("DEL s", ""),
    ("SET s 2", ""),
    ("GETDEL s", ""),
    ("INCR s", ""),
    ("EXEC", "new:s set:s del:s new:s set:s del:s new:s incrby:s"),
    ("FLUSHALL", ""),
];

fn told_as_they_happen(address: SocketAddr, classes: &str, changes: &[(&str, &str)]) {
    let [mut ear, mut client, mut other] = [(); 3].map(|()| Client::connect(address));
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", classes]), ok());
    assert!(matches!(ear.ask(&["PSUBSCRIBE", "__key*__:*"]), Value::Array(_)));
    for (command, events) in changes {
        client.send(format!("{command}\r\n").as_bytes());
        client.answer();
        for event in events.split(' ').filter(|event| !event.is_empty()) {
            assert_eq!(heard(&mut ear), event, "{command}");
        }
        // So that nothing too much goes unseen.
        assert!(matches!(other.ask(&["PUBLISH", "__key__:end", "x"]), Value::Integer(1..)));
        assert_eq!(heard(&mut ear), "__key__:end", "{command}");
    }
}

/// The name of the event and its key, of a message of a pattern.
fn heard(ear: &mut Client) -> String {
    let Value::Array(parts) = ear.answer() else { panic!("no message") };
    let [_, _, Value::Bulk(channel), Value::Bulk(key)] = &parts[..] else { panic!("{parts:?}") };
    let channel = String::from_utf8(channel.clone()).unwrap();
    match channel.strip_prefix("__keyevent@0__:").or_else(|| channel.strip_prefix("__keyevent@1__:")) {
        Some(event) => format!("{event}:{}", String::from_utf8_lossy(key)),
        None => channel,
    }
}

fn only_the_classes_asked_for_are_told(address: SocketAddr) {
    let (mut ear, mut client) = (Client::connect(address), Client::connect(address));
    let name = ["CONFIG", "GET", "notify-keyspace-events"];
    for (given, told) in [("KEA", "AKE"), ("KEg$", "g$KE"), ("Kn", "nK"), ("", ""), ("K$", "$K")] {
        assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", given]), ok());
        assert_eq!(client.ask(&name), Value::Array(vec![bulk(name[2]), bulk(told)]));
    }
    assert_eq!(
        client.ask(&["CONFIG", "SET", "notify-keyspace-events", "KQ"]),
        Value::Error(
            b"ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. \
              Use 'Ag$lshzxeKEtmdn'."
                .to_vec()
        )
    );
    assert!(matches!(ear.ask(&["PSUBSCRIBE", "__key*__:*"]), Value::Array(_)));
    client.send(b"SET a 1\r\nEXPIRE a 100\r\nGET none\r\nDEL a\r\nSET a 2\r\n");
    (0..5).for_each(|_| drop(client.answer()));
    for _ in 0..2 {
        let message = ["pmessage", "__key*__:*", "__keyspace@0__:a", "set"].map(bulk);
        assert_eq!(ear.answer(), Value::Array(message.to_vec()));
    }
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""]), ok());
    assert_eq!(client.ask(&["SET", "a", "3"]), ok());
    assert!(matches!(ear.ask(&["PING"]), Value::Array(_)), "nothing is told any more");
}

fn the_database_is_told_as_the_command_named_it(address: SocketAddr) {
    let (mut ear, mut client) = (Client::connect(address), Client::connect(address));
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", "KA"]), ok());
    assert!(matches!(ear.ask(&["PSUBSCRIBE", "__key*__:x"]), Value::Array(_)));
    client.send(b"MULTI\r\nSET x 1\r\nSWAPDB 0 1\r\nSET x 2\r\nSELECT 1\r\nDEL x\r\nEXEC\r\n");
    (0..7).for_each(|_| drop(client.answer()));
    for (channel, event) in
        [("__keyspace@0__:x", "set"), ("__keyspace@0__:x", "set"), ("__keyspace@1__:x", "del")]
    {
        assert_eq!(ear.answer(), Value::Array(["pmessage", "__key*__:x", channel, event].map(bulk).to_vec()));
    }
    client.send(b"SELECT 0\r\nDEL x\r\n");
    (0..2).for_each(|_| drop(client.answer()));
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""]), ok());
}

fn one_may_hear_of_ones_own_changes(address: SocketAddr) {
    let mut client = Client::connect(address);
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", "E$"]), ok());
    assert!(matches!(client.ask(&["HELLO", "3"]), Value::Map(_)));
    assert!(matches!(client.ask(&["SUBSCRIBE", "__keyevent@0__:set"]), Value::Push(_)));
    let event = Value::Push(["message", "__keyevent@0__:set", "k"].map(bulk).to_vec());
    // Redis before 7.2 sends it in front of the answer, later ones behind it.
    for _ in 0..3 {
        client.command(&["SET", "k", "v"]);
        let mut both = [client.answer(), client.answer()];
        both.sort_by_key(|value| matches!(value, Value::Push(_)));
        assert_eq!(both, [ok(), event.clone()]);
    }
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""]), ok());
}

fn commands_are_shown(address: SocketAddr) {
    let (mut watcher, mut client) = (Client::connect(address), Client::connect(address));
    assert_eq!(watcher.ask(&["MONITOR"]), ok());
    client.send(b"SET x \"a b\\x01\\r\\n\"\r\nnonsense\r\nget\r\nAUTH secret\r\nHELLO 2 AUTH default secret SETNAME me\r\n");
    client.send(b"CONFIG GET port\r\nSELECT 3\r\nMULTI\r\nSET y 1\r\nEXEC\r\nGET y\r\nFLUSHALL\r\n");
    (0..12).for_each(|_| drop(client.answer()));
    let expected = [
        (0, r#""SET" "x" "a b\x01\r\n""#),
        (0, r#""AUTH" "(redacted)""#),
        (0, r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me""#),
        (3, r#""SELECT" "3""#),
        (3, r#""MULTI""#),
        (3, r#""SET" "y" "1""#),
        (3, r#""EXEC""#),
        (3, r#""GET" "y""#),
        (3, r#""FLUSHALL""#),
    ];
    for (db, words) in expected {
        let Value::Simple(line) = watcher.answer() else { panic!("no line") };
        let line = String::from_utf8(line).unwrap();
        let (time, rest) = line.split_once(" [").unwrap();
        let (seconds, micros) = time.split_once('.').unwrap();
        assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6, "{line}");
        let (whence, told) = rest.split_once("] ").unwrap();
        assert_eq!(told, words);
        assert!(whence.starts_with(&format!("{db} 127.0.0.1:")), "{line}");
    }
    watcher.send(b"GET x\r\nMONITOR\r\nRESET\r\nGET none\r\n");
    let refused = Value::Error(b"ERR Replica can't interact with the keyspace".to_vec());
    assert_eq!(watcher.answer(), refused);
    assert_eq!(watcher.answer(), Value::Simple(b"RESET".to_vec()));
    assert_eq!(watcher.answer(), Value::Null);
}

/// The original looks for them ten times a second, we in the background; both tell, and invalidate, when they are deleted.
fn expired_keys_are_told(address: SocketAddr) {
    let (mut ear, mut client) = (Client::connect(address), Client::connect(address));
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", "Ex"]), ok());
    assert!(matches!(ear.ask(&["PSUBSCRIBE", "__key*__:*"]), Value::Array(_)));
    assert!(matches!(client.ask(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(client.ask(&["CLIENT", "TRACKING", "ON", "NOLOOP"]), ok());
    assert_eq!(client.ask(&["SET", "short", "1", "PX", "50"]), ok());
    assert_eq!(client.ask(&["GET", "short"]), bulk("1"));
    assert_eq!(heard(&mut ear), "expired:short");
    assert_eq!(client.answer(), Value::Push(vec![bulk("invalidate"), Value::Array(vec![bulk("short")])]));
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", "E$x"]), ok());
    // Whoever is first, the search for what has expired or the next write, each key is told of once, and before that write.
    for command in [&["SET", "again", "2"][..], &["MSET", "again", "3"], &["APPEND", "again", "4"]] {
        assert_eq!(client.ask(&["SET", "again", "1", "PX", "20"]), ok());
        assert_eq!(heard(&mut ear), "set:again");
        std::thread::sleep(std::time::Duration::from_millis(25));
        client.ask(command);
        assert_eq!(heard(&mut ear), "expired:again");
        assert_eq!(heard(&mut ear), format!("{}:again", command[0].to_lowercase().trim_start_matches('m')));
    }
    assert_eq!(client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""]), ok());
}
