//! Transactions of several connections, at our server and, where there is one, at the original.

use std::net::SocketAddr;

use terrace_protocol::resp::Value;

use crate::client::{Client, bulk, ok};
use crate::original::ask_original;
use crate::ours::ask_ours;

fn queued() -> Value {
    Value::Simple(b"QUEUED".to_vec())
}

/// Runs the test against both.
fn both(test: fn(SocketAddr)) {
    ask_ours(test);
    ask_original(test);
}

#[test]
fn what_another_changed_ends_the_transaction() {
    both(|address| {
        let (mut mine, mut other) = (Client::connect(address), Client::connect(address));
        let changes: [&[&str]; 6] = [
            &["SET", "k", "w"],
            &["APPEND", "k", "w"],
            &["EXPIRE", "k", "100"],
            &["DEL", "k"],
            &["MSET", "a", "1", "k", "2"],
            &["FLUSHALL"],
        ];
        for change in changes {
            mine.ask(&["SET", "k", "v"]);
            assert_eq!(mine.ask(&["WATCH", "k"]), ok());
            other.ask(change);
            assert_eq!(mine.ask(&["MULTI"]), ok());
            assert_eq!(mine.ask(&["SET", "done", "1"]), queued());
            assert_eq!(mine.ask(&["EXEC"]), Value::Null, "{change:?}");
            assert_eq!(mine.ask(&["GET", "done"]), Value::Null, "{change:?}");
            // The keys are not watched any more.
            assert_eq!(mine.ask(&["MULTI"]), ok());
            assert_eq!(mine.ask(&["PING"]), queued());
            assert_eq!(mine.ask(&["EXEC"]), Value::Array(vec![Value::Simple(b"PONG".to_vec())]));
        }
    });
}

#[test]
fn what_nobody_changed_lets_it_be_done() {
    both(|address| {
        let (mut mine, mut other) = (Client::connect(address), Client::connect(address));
        mine.ask(&["SET", "k", "v"]);
        assert_eq!(mine.ask(&["WATCH", "k", "none"]), ok());
        // Another key, another database, a read.
        other.ask(&["SET", "l", "w"]);
        other.ask(&["GET", "k"]);
        other.ask(&["SELECT", "1"]);
        other.ask(&["SET", "k", "w"]);
        assert_eq!(mine.ask(&["MULTI"]), ok());
        assert_eq!(mine.ask(&["GET", "k"]), queued());
        assert_eq!(mine.ask(&["EXEC"]), Value::Array(vec![bulk("v")]));
        // A key that was not there, and is.
        assert_eq!(mine.ask(&["WATCH", "none"]), ok());
        other.ask(&["SELECT", "0"]);
        other.ask(&["SET", "none", "x"]);
        assert_eq!(mine.ask(&["MULTI"]), ok());
        assert_eq!(mine.ask(&["GET", "k"]), queued());
        assert_eq!(mine.ask(&["EXEC"]), Value::Null);
        // RESET and DISCARD forget.
        assert_eq!(mine.ask(&["WATCH", "k"]), ok());
        mine.ask(&["RESET"]);
        other.ask(&["SET", "k", "y"]);
        assert_eq!(mine.ask(&["MULTI"]), ok());
        assert_eq!(mine.ask(&["GET", "k"]), queued());
        assert_eq!(mine.ask(&["EXEC"]), Value::Array(vec![bulk("y")]));
    });
}

#[test]
fn databases_are_exchanged_only_if_the_transaction_happens() {
    both(|address| {
        let (mut mine, mut other) = (Client::connect(address), Client::connect(address));
        mine.ask(&["SET", "k", "of 0"]);
        for happens in [false, true] {
            assert_eq!(mine.ask(&["WATCH", "k"]), ok());
            if !happens {
                other.ask(&["APPEND", "k", ""]);
                other.ask(&["EXPIRE", "k", "1000"]);
            }
            assert_eq!(mine.ask(&["MULTI"]), ok());
            assert_eq!(mine.ask(&["SWAPDB", "0", "1"]), queued());
            assert_eq!(mine.ask(&["SET", "l", "behind it"]), queued());
            assert_eq!(mine.ask(&["GET", "k"]), queued());
            let done = mine.ask(&["EXEC"]);
            assert_eq!(done, if happens { Value::Array(vec![ok(), ok(), Value::Null]) } else { Value::Null });
        }
        assert_eq!(mine.ask(&["MGET", "k", "l"]), Value::Array(vec![Value::Null, bulk("behind it")]));
        assert_eq!(other.ask(&["SELECT", "1"]), ok());
        assert_eq!(other.ask(&["MGET", "k", "l"]), Value::Array(vec![bulk("of 0"), Value::Null]));
    });
}

#[test]
fn exchanges_of_several_connections_mix_nothing_up() {
    both(|address| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                std::thread::spawn(move || {
                    let mut client = Client::connect(address);
                    let (a, b) = ([("0", "1"), ("1", "2"), ("2", "0"), ("0", "2")])[thread];
                    let key = format!("of {thread}");
                    for _ in 0..50 {
                        client.ask(&["MULTI"]);
                        client.ask(&["SELECT", a]);
                        client.ask(&["INCR", &key]);
                        client.ask(&["SWAPDB", a, b]);
                        client.ask(&["SELECT", b]);
                        client.ask(&["DECR", &key]);
                        // It is the same database, which has another number now.
                        let answers = [ok(), Value::Integer(1), ok(), ok(), Value::Integer(0)];
                        assert_eq!(client.ask(&["EXEC"]), Value::Array(answers.to_vec()));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut client = Client::connect(address);
        let mut found = 0;
        for db in ["0", "1", "2"] {
            client.ask(&["SELECT", db]);
            for thread in 0..4 {
                let value = client.ask(&["GET", &format!("of {thread}")]);
                assert!([bulk("0"), Value::Null].contains(&value), "database {db}: {value:?}");
                found += i32::from(value != Value::Null);
            }
        }
        assert!((4..=12).contains(&found), "each key in one of its databases at least: {found}");
    });
}

#[test]
fn counters_raised_by_watching_lose_nothing() {
    both(|address| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut client = Client::connect(address);
                    let mut done = 0;
                    while done < 50 {
                        client.ask(&["WATCH", "n"]);
                        let n = match client.ask(&["GET", "n"]) {
                            Value::Bulk(text) => String::from_utf8(text).unwrap().parse::<i64>().unwrap(),
                            _ => 0,
                        };
                        client.ask(&["MULTI"]);
                        client.ask(&["SET", "n", &(n + 1).to_string()]);
                        client.ask(&["INCR", "m"]);
                        done += i32::from(client.ask(&["EXEC"]) != Value::Null);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut client = Client::connect(address);
        assert_eq!(client.ask(&["MGET", "n", "m"]), Value::Array(vec![bulk("200"), bulk("200")]));
    });
}

#[test]
fn a_transaction_is_seen_whole() {
    both(|address| {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let writer = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut client = Client::connect(address);
                for i in 0..500 {
                    client.command(&["MULTI"]);
                    client.command(&["SET", "a", &i.to_string()]);
                    client.command(&["INCR", "c"]);
                    client.command(&["SET", "b", &i.to_string()]);
                    client.command(&["EXEC"]);
                    (0..5).for_each(|_| drop(client.answer()));
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let mut client = Client::connect(address);
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            client.command(&["MULTI"]);
            client.command(&["GET", "a"]);
            client.command(&["GET", "b"]);
            client.command(&["EXEC"]);
            let answers: Vec<Value> = (0..4).map(|_| client.answer()).collect();
            let Value::Array(values) = &answers[3] else { panic!("{answers:?}") };
            assert_eq!(values[0], values[1], "half of a transaction");
        }
        writer.join().unwrap();
    });
}

/// What a transaction that is ended would have changed in the server itself, it has not changed.
#[test]
fn an_ended_transaction_changes_nothing_in_the_server() {
    both(|address| {
        let (mut mine, mut other) = (Client::connect(address), Client::connect(address));
        assert_eq!(mine.ask(&["CLIENT", "SETNAME", "before"]), ok());
        assert_eq!(mine.ask(&["CONFIG", "SET", "slowlog-max-len", "77"]), ok());
        other.ask(&["ACL", "SETUSER", "someone", "on", "nopass", "+@all", "~*"]);
        let commands: [&[&str]; 11] = [
            &["CLIENT", "SETNAME", "after"],
            &["CONFIG", "SET", "slowlog-max-len", "88"],
            &["ACL", "SETUSER", "nobody", "on"],
            &["SELECT", "3"],
            &["AUTH", "someone", "any"],
            &["HELLO", "3", "AUTH", "someone", "any", "SETNAME", "after"],
            &["SUBSCRIBE", "channel"],
            &["CLIENT", "NO-EVICT", "ON"],
            &["CLIENT", "PAUSE", "100000"],
            &["CLIENT", "REPLY", "OFF"],
            &["PUBLISH", "channel", "x"],
        ];
        let state = |mine: &mut Client| {
            let Value::Bulk(info) = mine.ask(&["CLIENT", "INFO"]) else { panic!() };
            let info = String::from_utf8(info).unwrap();
            let kept = |word: &&str| {
                ["name=", "db=", "sub=", "flags=", "user=", "resp="]
                    .iter()
                    .any(|field| word.starts_with(field))
            };
            info.split(' ').filter(kept).collect::<Vec<_>>().join(" ")
        };
        let before = state(&mut mine);
        for changed in [true, false] {
            mine.ask(&["SET", "k", "v"]);
            assert_eq!(mine.ask(&["WATCH", "k"]), ok());
            if changed {
                other.ask(&["SET", "k", "w"]);
            }
            assert_eq!(mine.ask(&["MULTI"]), ok());
            let commands = if changed { &commands[..] } else { &commands[..3] };
            for command in commands {
                assert_eq!(mine.ask(command), queued(), "{command:?}");
            }
            mine.ask(&["SET", "done", "1"]);
            mine.ask(&["CLIENT", "GETNAME"]);
            if changed {
                assert_eq!(mine.ask(&["EXEC"]), Value::Null);
                assert_eq!(state(&mut mine), before);
                assert_eq!(mine.ask(&["ACL", "WHOAMI"]), bulk("default"));
                let length = mine.ask(&["CONFIG", "GET", "slowlog-max-len"]);
                assert_eq!(length, Value::Array(vec![bulk("slowlog-max-len"), bulk("77")]));
                let users = Value::Array(vec![bulk("default"), bulk("someone")]);
                assert_eq!(mine.ask(&["ACL", "USERS"]), users);
            } else {
                // In their order, when they are done.
                let done = Value::Array(vec![ok(), ok(), ok(), ok(), bulk("after")]);
                assert_eq!(mine.ask(&["EXEC"]), done);
                let length = mine.ask(&["CONFIG", "GET", "slowlog-max-len"]);
                assert_eq!(length, Value::Array(vec![bulk("slowlog-max-len"), bulk("88")]));
                let users = Value::Array(vec![bulk("default"), bulk("nobody"), bulk("someone")]);
                assert_eq!(mine.ask(&["ACL", "USERS"]), users);
            }
        }
    });
}
