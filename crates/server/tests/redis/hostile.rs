//! What no client should send: garbage, half commands, lengths without data, endless lines.

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, error, ok};
use crate::ours::Ours;

/// Some deterministic noise.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

#[test]
fn garbage_harms_nobody_else() {
    let ours = Ours::start();
    let mut witness = Client::connect(ours.address);
    assert_eq!(witness.ask(&["SET", "a", "1"]), ok());
    for seed in 0..50 {
        let mut client = Client::connect(ours.address);
        let mut bytes = noise(seed, 4000);
        if seed % 2 == 0 {
            bytes.splice(0..0, *b"*3\r\n$3\r\n");
        }
        client.send(&bytes);
        client.finish();
        client.rest();
        assert_eq!(witness.ask(&["GET", "a"]), Value::Bulk(b"1".to_vec()));
    }
    ours.stop();
}

#[test]
fn hoarded_names_are_refused() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let prefixes: Vec<String> = (0..1025).map(|i| format!("{i:04}")).collect();
    let mut command = vec!["CLIENT", "TRACKING", "ON", "BCAST"];
    command.extend(prefixes[..1024].iter().flat_map(|prefix| ["PREFIX", prefix]));
    assert_eq!(client.ask(&command), ok());
    let more = ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", &prefixes[1024]];
    assert_eq!(client.ask(&more), error("ERR a connection may track at most 1024 prefixes"));
    let refused = error("ERR the keys that a connection watches may take at most 67108864 bytes");
    let long = "k".repeat(40 << 20);
    assert_eq!(client.ask(&["WATCH", &long]), ok());
    assert_eq!(client.ask(&["WATCH", &long]), refused);
    assert_eq!(client.ask(&["UNWATCH"]), ok());
    assert_eq!(client.ask(&["WATCH", &long]), ok());
    ours.stop();
}

#[test]
fn limits_are_the_servers_own() {
    let options =
        ServerOptions { argument_bytes_max: 1000, command_bytes_max: 5000, ..ServerOptions::default() };
    let ours = Ours::start_with(options);
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["SET", "a", &"v".repeat(1000)]), ok());
    assert_eq!(
        client.ask(&["SET", "a", &"v".repeat(1001)]),
        error("ERR Protocol error: invalid bulk length")
    );
    assert_eq!(client.rest(), b"");
    // Each argument is short enough, all of them are not.
    let mut client = Client::connect(ours.address);
    client.send(b"*100\r\n");
    client.send(&[b"$900\r\n".as_slice(), &[b'x'; 900], b"\r\n"].concat().repeat(6));
    assert_eq!(client.rest(), b"", "closed without an answer");
    ours.stop();
}

#[test]
fn an_endless_line_is_cut_off() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(&[b'x'; 70 << 10]);
    assert_eq!(client.rest(), b"-ERR Protocol error: too big inline request\r\n");
    ours.stop();
}

#[test]
fn an_http_request_is_no_command() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n");
    assert!(client.rest().starts_with(b"-ERR "));
    assert_eq!(Client::connect(ours.address).ask(&["GET", "a"]), Value::Null);
    ours.stop();
}

#[test]
fn a_client_that_vanishes_leaves_nothing() {
    let ours = Ours::start();
    let before = Client::connect(ours.address).ask(&["DBSIZE"]);
    for _ in 0..50 {
        let mut client = Client::connect(ours.address);
        client.send(&b"GET a\r\n".repeat(1000));
        client.send(b"*2\r\n$3\r\nGET\r\n$100\r\nhalf");
        drop(client);
    }
    assert_eq!(Client::connect(ours.address).ask(&["DBSIZE"]), before);
    ours.stop();
}
