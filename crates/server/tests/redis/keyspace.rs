//! Commands that take several turns, and bounds on what commands make.

use std::collections::HashSet;

use terrace_protocol::resp::{Value, write_request};
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

/// Many more than one turn looks at.
const MANY: usize = 30_000;

fn fill(client: &mut Client, count: usize) {
    for start in (0..count).step_by(1000) {
        let numbers = start..(start + 1000).min(count);
        let mut command = vec!["MSET".to_owned()];
        command.extend(numbers.flat_map(|n| [format!("key:{n}"), "x".to_owned()]));
        let mut request = Vec::new();
        write_request(&command, &mut request);
        client.send(&request);
        assert_eq!(client.answer(), ok());
    }
}

fn names(answer: Value) -> HashSet<Vec<u8>> {
    let Value::Array(keys) = answer else { panic!("{answer:?}") };
    let count = keys.len();
    let names: HashSet<Vec<u8>> = keys
        .into_iter()
        .map(|key| match key {
            Value::Bulk(name) => name,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names.len(), count, "a key was told twice");
    names
}

#[test]
fn keys_are_all_told_once_and_what_is_behind_waits() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    fill(&mut client, MANY);
    // All in one packet: a command behind KEYS sees and changes nothing before its answer.
    let mut requests = Vec::new();
    for command in
        [&["KEYS", "*"][..], &["PING"], &["KEYS", "key:*77"], &["DEL", "key:77"], &["KEYS", "key:77"]]
    {
        write_request(command, &mut requests);
    }
    client.send(&requests);
    assert_eq!(names(client.answer()).len(), MANY);
    assert_eq!(client.answer(), Value::Simple(b"PONG".to_vec()));
    let some = names(client.answer());
    assert_eq!(some.len(), MANY / 100);
    assert!(some.contains(&b"key:77"[..]));
    assert_eq!(client.answer(), Value::Integer(1));
    assert_eq!(client.answer(), Value::Array(vec![]));
    // An answer that is not wanted does not come later.
    client.command(&["CLIENT", "REPLY", "SKIP"]);
    client.command(&["KEYS", "*"]);
    assert_eq!(client.ask(&["ECHO", "next"]), bulk("next"));
    // Others are served meanwhile, and a connection that goes away takes its command with it.
    for _ in 0..20 {
        let mut other = Client::connect(ours.address);
        other.command(&["KEYS", "*"]);
        drop(other);
    }
    assert_eq!(client.ask(&["PING"]), Value::Simple(b"PONG".to_vec()));
    drop(client);
    ours.stop();
}

#[test]
fn a_transaction_looks_at_few_keys_only() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    fill(&mut client, MANY);
    assert_eq!(client.ask(&["MULTI"]), ok());
    for command in [["KEYS", "*"], ["SET", "last"]] {
        let mut command = command.to_vec();
        if command[0] == "SET" {
            command.push("1");
        }
        assert_eq!(client.ask(&command), Value::Simple(b"QUEUED".to_vec()));
    }
    let refusal = "ERR keys in a transaction looks at the first keys only, and there are more: use SCAN";
    assert_eq!(client.ask(&["EXEC"]), Value::Array(vec![error(refusal), ok()]));
    drop(client);
    ours.stop();
}

#[test]
fn a_random_key_is_found_wherever_it_is() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["RANDOMKEY"]), Value::Null);
    fill(&mut client, MANY);
    let found: HashSet<String> = (0..50).map(|_| format!("{:?}", client.ask(&["RANDOMKEY"]))).collect();
    assert!(found.len() > 10, "always the same few: {found:?}");
    client.ask(&["SELECT", "3"]);
    assert_eq!(client.ask(&["RANDOMKEY"]), Value::Null);
    client.ask(&["SET", "alone", "1"]);
    for _ in 0..10 {
        assert_eq!(client.ask(&["RANDOMKEY"]), bulk("alone"));
    }
    drop(client);
    ours.stop();
}

#[test]
fn no_value_becomes_longer_than_an_argument_may_be() {
    let ours = Ours::start_with(ServerOptions { argument_bytes_max: 1000, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let too_long = error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    let value = "x".repeat(600);
    assert_eq!(client.ask(&["APPEND", "a", &value]), Value::Integer(600));
    assert_eq!(client.ask(&["APPEND", "a", &value]), too_long);
    assert_eq!(client.ask(&["APPEND", "a", &value[..400]]), Value::Integer(1000));
    assert_eq!(client.ask(&["APPEND", "a", "x"]), too_long);
    assert_eq!(client.ask(&["SETRANGE", "b", "999", "x"]), Value::Integer(1000));
    assert_eq!(client.ask(&["SETRANGE", "b", "1000", "x"]), too_long);
    assert_eq!(client.ask(&["SETBIT", "b", "7999", "1"]), Value::Integer(0));
    let offset = error("ERR bit offset is not an integer or out of range");
    assert_eq!(client.ask(&["SETBIT", "b", "8000", "1"]), offset);
    assert_eq!(
        client.ask(&["BITFIELD", "b", "SET", "u8", "#1000", "1"]),
        Value::Error(b"ERR bit offset is not an integer or out of range".to_vec())
    );
    let no_table = error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    assert_eq!(client.ask(&["LCS", "a", "b", "LEN"]), no_table);
    // 15 by 14 numbers of 4 bytes fit, 16 by 16 do not.
    client.ask(&["MSET", "c", "aaaaaaaaaaaaaa", "d", "aaaaaaaaaaaaa", "e", "aaaaaaaaaaaaaaa"]);
    assert_eq!(client.ask(&["LCS", "c", "d", "LEN"]), Value::Integer(13));
    assert_eq!(client.ask(&["LCS", "e", "e", "LEN"]), no_table);
    // A payload of a few bytes must not make a long value.
    let payload = b"\x00\xc3\x09@d\x01aa\xe0W\x00\x01aa\n\x00\xe8\xa3\xb5\x07\xb0m\xf2q";
    let mut request = Vec::new();
    write_request(&[&b"RESTORE"[..], b"r", b"0", payload], &mut request);
    client.send(&request);
    assert_eq!(client.answer(), ok());
    assert_eq!(client.ask(&["STRLEN", "r"]), Value::Integer(100));
    drop(client);
    ours.stop();
}

#[test]
fn large_values_are_moved_and_combined() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let value = "v".repeat(3 << 20);
    assert_eq!(client.ask(&["SET", "a", &value, "EX", "1000"]), ok());
    assert_eq!(client.ask(&["RENAME", "a", "b"]), ok());
    assert_eq!(client.ask(&["COPY", "b", "c"]), Value::Integer(1));
    assert_eq!(client.ask(&["BITOP", "XOR", "d", "b", "c"]), Value::Integer(3 << 20));
    assert_eq!(client.ask(&["BITCOUNT", "d"]), Value::Integer(0));
    assert_eq!(client.ask(&["MOVE", "b", "1"]), Value::Integer(1));
    assert_eq!(client.ask(&["EXISTS", "a", "b"]), Value::Integer(0));
    assert_eq!(client.ask(&["SETRANGE", "c", "3145728", "end"]), Value::Integer((3 << 20) + 3));
    assert_eq!(client.ask(&["GETRANGE", "c", "-4", "-1"]), bulk("vend"));
    assert_eq!(client.ask(&["SELECT", "1"]), ok());
    assert_eq!(client.ask(&["GET", "b"]), bulk(&value));
    drop(client);
    ours.stop();
}
