//! Our server answers what Redis answers, byte for byte; and the table says what Redis answers.

use std::net::SocketAddr;

use crate::client::{Client, ok};
use crate::original::Original;
use crate::ours::Ours;
use crate::table::{Case, cases, matches};

/// How a client's bytes reach the server.
#[derive(Clone, Copy, PartialEq)]
enum Sent {
    AtOnce,
    ByteByByte,
}

#[test]
fn sent_at_once() {
    let ours = Ours::start();
    all(ours.address, cases().into_iter(), Sent::AtOnce);
    ours.stop();
}

#[test]
fn sent_byte_by_byte() {
    let ours = Ours::start();
    all(ours.address, cases().into_iter(), Sent::ByteByByte);
    ours.stop();
}

/// Needs the original: `TERRACE_REDIS_ORIGINAL` names its binary. Without it nothing is checked.
#[test]
fn the_original_answers_so_too() {
    let Some(original) = Original::start() else { return };
    let cases = || cases().into_iter().filter(|case| !case.is_ours_alone);
    all(original.address, cases(), Sent::AtOnce);
    all(original.address, cases(), Sent::ByteByByte);
}

fn all(address: SocketAddr, cases: impl Iterator<Item = Case>, sent: Sent) {
    for case in cases {
        assert_eq!(Client::connect(address).ask(&["FLUSHALL"]), ok());
        converse(address, &case, sent);
    }
}

fn converse(address: SocketAddr, case: &Case, sent: Sent) {
    const END: &[u8] = b"$16\r\nthat-was-the-end\r\n";
    let mut client = Client::connect(address);
    let mut request = case.send.clone();
    if !case.closes {
        request.extend_from_slice(b"ECHO that-was-the-end\r\n");
    }
    match sent {
        Sent::AtOnce => client.send(&request),
        Sent::ByteByByte => request.iter().for_each(|byte| client.send(&[*byte])),
    }
    let got = if case.closes { client.rest() } else { client.until(END) };
    let got = got.strip_suffix(END).unwrap_or(&got);
    assert!(
        matches(&case.expect, got),
        "{}:{}\nexpected {}\ngot      {}",
        case.file,
        case.line,
        case.expect.escape_ascii(),
        got.escape_ascii()
    );
}
