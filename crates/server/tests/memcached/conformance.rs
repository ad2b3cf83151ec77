//! Our server answers what memcached answers, byte for byte; and the table says what memcached answers.

use std::net::SocketAddr;

use crate::client::Client;
use crate::original::Original;
use crate::ours::Ours;
use crate::table::{Case, cases};

/// How a client's bytes reach the server.
#[derive(Clone, Copy, PartialEq)]
enum Sent {
    AtOnce,
    ByteByByte,
}

#[test]
fn sent_at_once() {
    let ours = Ours::start();
    all(ours.address, Sent::AtOnce);
    ours.stop();
}

#[test]
fn sent_byte_by_byte() {
    let ours = Ours::start();
    all(ours.address, Sent::ByteByByte);
    ours.stop();
}

/// Needs the original: one that is installed, or that `TERRACE_MEMCACHED_ORIGINAL` names. Without it nothing is checked.
#[test]
fn the_original_answers_so_too() {
    let Some(original) = Original::start() else { return };
    all(original.address, Sent::AtOnce);
    all(original.address, Sent::ByteByByte);
}

fn all(address: SocketAddr, sent: Sent) {
    for case in cases() {
        converse(address, &case, sent);
    }
}

fn converse(address: SocketAddr, case: &Case, sent: Sent) {
    let key = format!("{}-{}", if sent == Sent::AtOnce { "whole" } else { "bytes" }, case.line);
    let with_key = |bytes: &[u8]| {
        bytes
            .iter()
            .flat_map(|byte| if *byte == b'@' { key.as_bytes().to_vec() } else { vec![*byte] })
            .collect::<Vec<u8>>()
    };
    let mut client = Client::connect(address);
    let request = with_key(&case.send);
    match sent {
        Sent::AtOnce => client.send(&request),
        Sent::ByteByByte => request.iter().for_each(|byte| client.send(&[*byte])),
    }
    let got = if case.closes { client.rest() } else { client.everything() };
    let expect = with_key(&case.expect);
    assert!(
        matches(&expect, &got),
        "table.txt:{}\nexpected {}\ngot      {}",
        case.line,
        expect.escape_ascii(),
        got.escape_ascii()
    );
}

/// Whether bytes fit a pattern: `{number}` is one, `{text}` the rest of a line, `{more}` all that follows.
fn matches(pattern: &[u8], got: &[u8]) -> bool {
    if pattern.starts_with(b"{more}") {
        return true;
    }
    if let Some(rest) = pattern.strip_prefix(b"{number}") {
        let digits = got.iter().take_while(|byte| byte.is_ascii_digit()).count();
        return digits > 0 && matches(rest, &got[digits..]);
    }
    if let Some(rest) = pattern.strip_prefix(b"{text}") {
        let line = got.iter().take_while(|&&byte| byte != b'\r').count();
        return matches(rest, &got[line..]);
    }
    match (pattern.split_first(), got.split_first()) {
        (None, None) => true,
        (Some((expected, pattern)), Some((byte, got))) => expected == byte && matches(pattern, got),
        _ => false,
    }
}

#[test]
fn patterns_match_what_they_should() {
    assert!(matches(b"a {number}\r\n{text}\r\n", b"a 12\r\nx y\r\n"));
    assert!(matches(b"a{more}\r\n", b"abc\r\nd"));
    for wrong in ["a \r\nx\r\n", "a 1\r\nx", "a 1\r\nx\r\ny", "b 1\r\nx\r\n"] {
        assert!(!matches(b"a {number}\r\n{text}\r\n", wrong.as_bytes()), "{wrong:?}");
    }
}
