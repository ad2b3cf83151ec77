//! Meta commands beyond single answers: who wins among many, cas tokens, what a restart keeps.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use terrace_server::ServerOptions;

use crate::client::Client;
use crate::ours::Ours;

/// The number behind a flag in an answer.
fn flag(answer: &str, letter: char) -> u64 {
    let line = answer.lines().next().unwrap();
    let word = line.split(' ').find(|word| word.starts_with(letter) && word[1..].parse::<u64>().is_ok());
    word.unwrap_or_else(|| panic!("no {letter} in {line}"))[1..].parse().unwrap()
}

#[test]
fn of_many_readers_of_a_stale_record_one_wins() {
    let ours = Ours::start();
    let mut writer = Client::connect(ours.address);
    for round in 0..50 {
        assert_eq!(writer.ask("ms a 1\r\nx\r\nmd a I\r\n", "HD\r\nHD\r\n"), "HD\r\nHD\r\n");
        let (won, stale) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = Client::connect(ours.address);
                    let got = client.ask("mg a v\r\n", "x\r\n");
                    won.fetch_add(usize::from(got.contains(" W")), Relaxed);
                    stale.fetch_add(usize::from(got.contains(" X")), Relaxed);
                    assert!(got.contains(" W") || got.contains(" Z"), "{got}");
                });
            }
        });
        assert_eq!((won.into_inner(), stale.into_inner()), (1, 4), "round {round}");
    }
    drop(writer);
    ours.stop();
}

#[test]
fn of_many_who_miss_one_fetches() {
    let ours = Ours::start();
    for round in 0..50 {
        let won = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = Client::connect(ours.address);
                    let got = client.ask(&format!("mg a{round} N30 t\r\n"), "\r\n");
                    won.fetch_add(usize::from(got.ends_with(" W\r\n")), Relaxed);
                });
            }
        });
        assert_eq!(won.into_inner(), 1, "round {round}");
    }
    ours.stop();
}

#[test]
fn tokens_are_those_of_gets() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let stored = flag(&client.ask("ms a 1 c T100\r\nx\r\n", "\r\n"), 'c');
    assert_eq!(client.ask("gets a\r\n", "END\r\n"), format!("VALUE a 0 1 {stored}\r\nx\r\nEND\r\n"));
    assert_eq!(flag(&client.ask("mg a c\r\n", "\r\n"), 'c'), stored);
    // Whatever changes the record: the token in the answer is the one to use next.
    let mut token = stored;
    for request in [
        "mg a T200 c\r\n",
        "ms a 1 C@ c T100\r\n5\r\n",
        "ma a C@ c\r\n",
        "ms a 1 MA C@ c\r\n7\r\n",
        "mg a c R300\r\n",
    ] {
        let answer = client.ask(&request.replace('@', &token.to_string()), "\r\n");
        assert!(answer.starts_with("HD "), "{request}: {answer}");
        token = flag(&answer, 'c');
        assert_eq!(flag(&client.ask("mg a c\r\n", "\r\n"), 'c'), token, "{request}");
    }
    assert_eq!(client.ask("mg a v\r\n", "\r\n67\r\n"), "VA 2 Z\r\n67\r\n");
    assert_eq!(client.ask(&format!("md a C{stored}\r\n"), "\r\n"), "EX\r\n");
    assert_eq!(client.ask(&format!("md a C{token} q\r\nmn\r\n"), "\r\n"), "MN\r\n");
    drop(client);
    ours.stop();
}

#[test]
fn too_large_values_delete_what_was_there() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let long = "v".repeat((1 << 20) + 1);
    for mode in ["", " ME", " MA q"] {
        client.ask("ms a 1\r\nx\r\n", "\r\n");
        let request = format!("ms a {}{mode}\r\n{long}\r\nmg a v\r\n", long.len());
        assert_eq!(client.ask(&request, "EN\r\n"), "SERVER_ERROR object too large for cache\r\nEN\r\n");
    }
    drop(client);
    ours.stop();
}

#[test]
fn large_values_go_in_and_out() {
    const BYTES: usize = 70 << 20;
    let options = ServerOptions { memcached_value_bytes_max: 1 << 30, ..ServerOptions::default() };
    let ours = Ours::start_as(256 << 20, options);
    let mut client = Client::connect(ours.address);
    let mut request = format!("ms a {BYTES} c\r\n").into_bytes();
    request.resize(request.len() + BYTES, b'v');
    request.extend_from_slice(b"\r\n");
    client.send(&request);
    assert!(client.read_until(|got| got.ends_with(b"\r\n")).starts_with(b"HD c"));
    client.send(b"mg a v\r\n");
    let head = format!("VA {BYTES}\r\n");
    let got = client.read_until(|got| got.len() == head.len() + BYTES + 2);
    assert!(
        got.starts_with(head.as_bytes()) && got[head.len()..].iter().take(BYTES).all(|&byte| byte == b'v')
    );
    drop((client, request, got));
    ours.stop();
}
