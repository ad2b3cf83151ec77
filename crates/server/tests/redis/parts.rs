//! Batches whose answers are so large that they are executed in parts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use terrace_protocol::resp::Value;
use terrace_server::{Endpoint, Server, ServerOptions};

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

/// A part ends behind every operation that answers with bytes.
fn tiny() -> ServerOptions {
    ServerOptions { turn_answer_bytes: 0, ..ServerOptions::default() }
}

#[test]
fn answers_are_the_same_in_parts() {
    let ours = Ours::start_with(tiny());
    let mut client = Client::connect(ours.address);
    for i in 0..100 {
        assert_eq!(client.ask(&["SET", &format!("k{i}"), &format!("v{i}")]), ok());
    }
    let keys: Vec<String> = (0..100).map(|i| format!("k{}", i * 2)).collect();
    let mut mget = vec!["MGET"];
    mget.extend(keys.iter().map(String::as_str));
    let expected = |i: usize| if i < 50 { bulk(&format!("v{}", i * 2)) } else { Value::Null };
    assert_eq!(client.ask(&mget), Value::Array((0..100).map(expected).collect()));
    // A pipeline of commands of one operation, of several whose answer needs all of them, and of none.
    for _ in 0..20 {
        client.send(
            b"GET k1\r\nLCS k1 k11\r\nPING\r\nMGET k1 none k2\r\nSET k1 v1\r\nGETSET k3 v3\r\nMULTI\r\nGET k4\r\nMGET k4 k5\r\n\
              EXEC\r\nSTRLEN k6\r\nDBSIZE\r\nGET k7\r\n",
        );
    }
    for _ in 0..20 {
        assert_eq!(client.answer(), bulk("v1"));
        assert_eq!(client.answer(), bulk("v1"));
        assert_eq!(client.answer(), Value::Simple(b"PONG".to_vec()));
        assert_eq!(client.answer(), Value::Array(vec![bulk("v1"), Value::Null, bulk("v2")]));
        assert_eq!(client.answer(), ok());
        assert_eq!(client.answer(), bulk("v3"));
        assert_eq!(client.answer(), ok());
        assert_eq!(client.answer(), Value::Simple(b"QUEUED".to_vec()));
        assert_eq!(client.answer(), Value::Simple(b"QUEUED".to_vec()));
        let both = Value::Array(vec![bulk("v4"), bulk("v5")]);
        assert_eq!(client.answer(), Value::Array(vec![bulk("v4"), both]));
        assert_eq!(client.answer(), Value::Integer(2));
        assert_eq!(client.answer(), Value::Integer(100));
        assert_eq!(client.answer(), bulk("v7"));
    }
    ours.stop();
}

#[test]
fn messages_come_between_answers_in_parts() {
    let ours = Ours::start_with(tiny());
    let mut client = Client::connect(ours.address);
    client.ask(&["HELLO", "3"]);
    assert_eq!(client.ask(&["MSET", "a", "1", "b", "2", "c", "3"]), ok());
    client.ask(&["SUBSCRIBE", "x"]);
    let mut other = Client::connect(ours.address);
    for _ in 0..50 {
        client.send(b"MGET a b c\r\nMGET a b c\r\n");
        assert_eq!(other.ask(&["PUBLISH", "x", "m"]), Value::Integer(1));
        let (mut answers, mut messages) = (0, 0);
        while answers < 2 || messages < 1 {
            match client.answer() {
                Value::Array(values) => {
                    assert_eq!(values, [bulk("1"), bulk("2"), bulk("3")]);
                    answers += 1;
                }
                Value::Push(parts) => {
                    assert_eq!(parts, [bulk("message"), bulk("x"), bulk("m")]);
                    messages += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // An answer that is not wanted is not sent, in however many parts.
    client.send(b"CLIENT REPLY SKIP\r\nMGET a b c\r\nGET a\r\n");
    assert_eq!(client.answer(), bulk("1"));
    ours.stop();
}

#[test]
fn one_transaction_is_bounded_and_then_does_nothing() {
    let ours = Ours::start_with(ServerOptions { transaction_bytes_max: 1000, ..tiny() });
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(400);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(client.ask(&["SET", key, &value]), ok());
    }
    let refused =
        error("ERR the values that one transaction reads may take at most 1000 bytes: ask for fewer in one");
    for reads in [["GET a", "GET b", "GET c", "GET d"], ["GET a", "GET a", "GET a", "GET a"]] {
        assert_eq!(client.ask(&["MULTI"]), ok());
        assert_eq!(client.ask(&["GETDEL", "d"]), Value::Simple(b"QUEUED".to_vec()));
        for read in reads {
            client.ask(&read.split(' ').collect::<Vec<_>>());
        }
        assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![refused.clone(); 5]));
        assert_eq!(client.ask(&["GET", "d"]), bulk(&value), "nothing is lost");
    }
    assert_eq!(client.ask(&["MULTI"]), ok());
    client.ask(&["GET", "a"]);
    client.ask(&["GET", "b"]);
    assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![bulk(&value), bulk(&value)]));
    // Outside of a transaction there is no such bound.
    let all = client.ask(&["MGET", "a", "b", "c", "d"]);
    assert_eq!(all, Value::Array(vec![bulk(&value); 4]));
    ours.stop();
}

/// Large values are looked for together before a transaction is decided: those that it changes first are told as it left them.
#[test]
fn a_transaction_reads_large_values_as_it_left_them() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let value = |letter: &str| letter.repeat(100_000);
    for letter in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(client.ask(&["SET", letter, &value(letter)]), ok());
    }
    assert_eq!(client.ask(&["WATCH", "f"]), ok());
    assert_eq!(client.ask(&["MULTI"]), ok());
    let commands: [&[&str]; 12] = [
        &["SET", "b", "new"],
        &["GET", "a"],
        &["GET", "b"],
        &["APPEND", "c", "!"],
        &["GET", "c"],
        &["DEL", "d"],
        &["GET", "d"],
        &["GETDEL", "e"],
        &["GET", "e"],
        &["GET", "f"],
        &["GET", "a"],
        &["GET", "none"],
    ];
    for command in commands {
        assert_eq!(client.ask(command), Value::Simple(b"QUEUED".to_vec()));
    }
    let expected = [
        ok(),
        bulk(&value("a")),
        bulk("new"),
        Value::Integer(100_001),
        bulk(&(value("c") + "!")),
        Value::Integer(1),
        Value::Null,
        bulk(&value("e")),
        Value::Null,
        bulk(&value("f")),
        bulk(&value("a")),
        Value::Null,
    ];
    let Value::Array(got) = client.ask(&["EXEC"]) else { panic!("no array") };
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(got == expected, "answer {i}");
    }
    ours.stop();
}

/// 128 MiB of answers, of which the server holds little: to a client that reads late, while another one is served.
#[test]
fn large_answers_take_little_memory_and_delay_nobody() {
    let ours = Ours::start_with(ServerOptions {
        turn_answer_bytes: 1 << 20,
        output_bytes_max: 16 << 20,
        ..ServerOptions::default()
    });
    let value = "v".repeat(1 << 20);
    assert_eq!(Client::connect(ours.address).ask(&["SET", "k", &value]), ok());
    let command = [&b"MGET"[..], &b" k".repeat(128), b"\r\nGET k\r\n"].concat();
    let mut client = TcpStream::connect(ours.address).unwrap();
    client.write_all(&command).unwrap();
    served(ours.address);
    // Had they been encoded before it read, the client would have been closed for its output.
    let one = format!("$1048576\r\n{value}\r\n");
    let mut head = [0; 6];
    client.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"*128\r\n");
    let mut got = vec![0; one.len()];
    for i in 0..129 {
        client.read_exact(&mut got).unwrap();
        assert!(got == one.as_bytes(), "value {i}");
    }
    // One that never reads and leaves: its rest is forgotten.
    let mut gone = TcpStream::connect(ours.address).unwrap();
    gone.write_all(&command).unwrap();
    served(ours.address);
    drop(gone);
    served(ours.address);
    ours.stop();
}

/// The same where most values have to be read from a device: parts end before all that is waited for would be large, too.
#[test]
fn values_that_are_read_from_a_device_come_in_parts() {
    const VALUES: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let store = terrace::open(terrace::Options {
        dir: Some(dir.path().into()),
        engine: "tac".into(),
        dram: Some(16 << 20),
        ssd: Some(terrace::Tier { bytes: 256 << 20, place: None }),
        ..terrace::Options::default()
    })
    .unwrap();
    let options = ServerOptions {
        redis: vec![Endpoint::Tcp(([127, 0, 0, 1], 0).into())],
        turn_answer_bytes: 1 << 20,
        transaction_bytes_max: 4 << 20,
        ..ServerOptions::default()
    };
    let server = Server::start(store.clone(), options).unwrap();
    let mut client = Client::connect(server.addresses().redis.unwrap());
    let value = |i: usize| format!("{i:04}").repeat(if i.is_multiple_of(2) { 25 << 10 } else { 100 });
    let name = |i: usize| format!("k{i}");
    for i in 0..VALUES {
        assert_eq!(client.ask(&["SET", &name(i), &value(i)]), ok());
    }
    let names: Vec<String> = (0..VALUES).map(name).collect();
    for _ in 0..3 {
        let pieces: Vec<Vec<&str>> =
            names.chunks(50).map(|names| names.iter().map(String::as_str).collect()).collect();
        for piece in &pieces {
            client.command(&[&["MGET"], &piece[..]].concat());
        }
        for (at, piece) in pieces.iter().enumerate() {
            let expected = (0..piece.len()).map(|i| bulk(&value(at * 50 + i))).collect();
            assert!(client.answer() == Value::Array(expected), "piece {at}");
        }
    }
    // 10 MiB in one step are too many.
    assert_eq!(client.ask(&["MULTI"]), ok());
    client.ask(&[&["MGET"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    let refused = error(
        "ERR the values that one transaction reads may take at most 4194304 bytes: ask for fewer in one",
    );
    assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![refused]));
    drop(client);
    server.shutdown().unwrap();
    store.close().unwrap();
}

fn served(address: SocketAddr) {
    let mut other = Client::connect(address);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert_eq!(other.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    }
}
