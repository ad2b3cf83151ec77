//! The binary protocol. The original is asked the same where it is.

use std::net::SocketAddr;

use terrace_server::{MemcachedUsers, ServerOptions};

use crate::client::Client;
use crate::original::Original;
use crate::ours::{Ours, VALUE_BYTES_MAX};

const HEADER: usize = 24;
const NOOP: u8 = 0x0a;
/// Marks the answer behind all others.
const LAST: u32 = 0xfeed_f00d;
/// Any other.
const OPAQUE: u32 = 0x0102_0304;

const SUCCESS: u16 = 0;
const NOT_FOUND: u16 = 1;
const EXISTS: u16 = 2;
const TOO_LARGE: u16 = 3;
const INVALID: u16 = 4;
const NOT_STORED: u16 = 5;
const NOT_A_NUMBER: u16 = 6;
const AUTH: u16 = 0x20;
const UNKNOWN: u16 = 0x81;

#[test]
fn the_operator_may_choose_one_protocol() {
    use terrace_server::MemcachedProtocols::{Binary, Text};
    // A no-op, and its answer.
    let mut noop = [0u8; 24];
    (noop[0], noop[1]) = (0x80, 0x0a);
    for (memcached_protocols, name) in [(Text, "ascii"), (Binary, "binary")] {
        let ours =
            Ours::start_as(64 << 20, ServerOptions { memcached_protocols, ..ServerOptions::default() });
        let mut client = Client::connect(ours.address);
        client.send(&noop);
        if memcached_protocols == Binary {
            assert_eq!(client.read_until(|got| got.len() >= 24)[..2], [0x81, 0x0a]);
            let mut client = Client::connect(ours.address);
            client.send(b"mn\r\n");
            assert_eq!(client.rest(), b"", "{name}");
        } else {
            assert_eq!(
                client.ask("\r\nmn\r\n", "MN\r\n"),
                "CLIENT_ERROR bad command line format\r\nERROR\r\nMN\r\n",
                "{name}"
            );
            let settings = client.ask("stats settings\r\n", "END\r\n");
            assert!(settings.contains("STAT binding_protocol ascii\r\n"), "{settings}");
        }
        drop(client);
        ours.stop();
    }
}

#[test]
fn it_is_spoken() {
    let ours = Ours::start();
    all(ours.address);
    text_and_binary_see_the_same(ours.address);
    ours.stop();
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_speaks_it_so_too() {
    if let Some(original) = Original::start() {
        all(original.address);
        text_and_binary_see_the_same(original.address);
    }
}

fn all(address: SocketAddr) {
    values_are_kept(address);
    conditions_hold(address);
    values_are_joined(address);
    numbers_are_counted(address);
    keys_go(address);
    times_are_given(address);
    the_server_is_asked(address);
    mistakes_are_told(address);
    any_byte_may_be_in_a_key(address);
}

/// A request's bytes.
fn request(code: u8, opaque: u32, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, code];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    [&bytes[..], extras, key, value].concat()
}

#[derive(Clone, Debug, PartialEq)]
struct Answer {
    code: u8,
    status: u16,
    opaque: u32,
    cas: u64,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Whole answers at the front of bytes.
fn answers(bytes: &[u8]) -> Vec<Answer> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while rest.len() >= HEADER {
        let number =
            |at: usize, len: usize| rest[at..at + len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let body = number(8, 4) as usize;
        if rest.len() < HEADER + body {
            break;
        }
        assert_eq!(rest[0], 0x81, "{}", rest.escape_ascii());
        let (key, extras) = (number(2, 2) as usize, usize::from(rest[4]));
        let parts = &rest[HEADER..HEADER + body];
        all.push(Answer {
            code: rest[1],
            status: number(6, 2) as u16,
            opaque: number(12, 4) as u32,
            cas: number(16, 8),
            extras: parts[..extras].to_vec(),
            key: parts[extras..extras + key].to_vec(),
            value: parts[extras + key..].to_vec(),
        });
        rest = &rest[HEADER + body..];
    }
    all
}

/// A client that speaks it.
struct Binary(Client);

impl Binary {
    fn connect(address: SocketAddr) -> Self {
        Self(Client::connect(address))
    }

    /// All that is answered to a request.
    fn send(&mut self, code: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<Answer> {
        let bytes = [request(code, OPAQUE, cas, extras, key, value), request(NOOP, LAST, 0, b"", b"", b"")];
        self.0.send(&bytes.concat());
        let is_last = |got: &[u8]| answers(got).last().is_some_and(|answer| answer.opaque == LAST);
        let mut got = answers(&self.0.read_until(is_last));
        got.pop();
        assert!(got.iter().all(|answer| (answer.opaque, answer.code) == (OPAQUE, code)), "{got:?}");
        got
    }

    /// The one answer to a request: what it says, and the cas token.
    fn ask(&mut self, code: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> (u16, Vec<u8>, u64) {
        let got = self.send(code, cas, extras, key, value);
        let [answer] = &got[..] else { panic!("{got:?}") };
        (answer.status, [&answer.extras[..], &answer.key, &answer.value].concat(), answer.cas)
    }

    /// Stores a value that never expires; its cas token.
    fn set(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let (status, body, cas) = self.ask(0x01, 0, &stored(7, 0), key, value);
        assert_eq!((status, &body[..]), (SUCCESS, &b""[..]));
        assert_ne!(cas, 0);
        cas
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let (status, body, _) = self.ask(0x00, 0, b"", key, b"");
        (status == SUCCESS).then(|| body[4..].to_vec())
    }
}

/// Extras of a set.
fn stored(flags: u32, exptime: u32) -> Vec<u8> {
    [flags.to_be_bytes(), exptime.to_be_bytes()].concat()
}

/// Extras of an increment.
fn sum(delta: u64, initial: u64, exptime: u32) -> Vec<u8> {
    [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
}

fn values_are_kept(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let cas = client.set(b"b:k", b"value");
    let flags = 7_u32.to_be_bytes();
    assert_eq!(client.ask(0x00, 0, b"", b"b:k", b""), (SUCCESS, [&flags[..], b"value"].concat(), cas));
    assert_eq!(client.ask(0x0c, 0, b"", b"b:k", b""), (SUCCESS, [&flags[..], b"b:kvalue"].concat(), cas));
    assert_eq!(client.ask(0x09, 0, b"", b"b:k", b"").0, SUCCESS, "a quiet read that finds something says so");
    assert_eq!(client.ask(0x0d, 0, b"", b"b:k", b"").1, [&flags[..], b"b:kvalue"].concat());
    assert_eq!(client.ask(0x00, 0, b"", b"b:none", b""), (NOT_FOUND, b"Not found".to_vec(), 0));
    assert_eq!(client.ask(0x0c, 0, b"", b"b:none", b""), (NOT_FOUND, b"b:none".to_vec(), 0));
    for quiet in [0x09, 0x0d] {
        assert_eq!(client.send(quiet, 0, b"", b"b:none", b""), []);
    }
    assert_eq!(client.send(0x11, 0, &stored(0, 0), b"b:k", b"quiet"), []);
    assert_eq!(client.value(b"b:k").unwrap(), b"quiet");
    // Longer than what is copied into answers.
    let long = vec![b'x'; 100_000];
    client.set(b"b:long", &long);
    assert_eq!(client.value(b"b:long").unwrap(), long);
    // Many in one go, as clients get several keys: quiet reads and a noop.
    let many: Vec<u8> = (0..100)
        .flat_map(|i: u32| {
            request(0x0d, i, 0, b"", if i.is_multiple_of(3) { b"b:none" } else { b"b:k" }, b"")
        })
        .chain(request(NOOP, LAST, 0, b"", b"", b""))
        .collect();
    client.0.send(&many);
    let got =
        answers(&client.0.read_until(|got| answers(got).last().is_some_and(|answer| answer.opaque == LAST)));
    let opaque: Vec<u32> = got.iter().map(|answer| answer.opaque).collect();
    let expected: Vec<u32> = (0..100).filter(|i| i % 3 != 0).chain([LAST]).collect();
    assert_eq!(opaque, expected);
}

fn conditions_hold(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let cas = client.set(b"b:c", b"1");
    let extras = stored(0, 0);
    assert_eq!(client.ask(0x02, 0, &extras, b"b:c", b"x"), (EXISTS, b"Data exists for key.".to_vec(), 0));
    assert_eq!(client.ask(0x12, 0, &extras, b"b:c", b"x").0, EXISTS, "quiet requests tell their errors");
    assert_eq!(client.ask(0x03, 0, &extras, b"b:none", b"x").0, NOT_FOUND);
    assert_eq!(client.ask(0x02, 0, &extras, b"b:fresh", b"x").0, SUCCESS);
    assert_eq!(client.ask(0x03, 0, &extras, b"b:fresh", b"y").0, SUCCESS);
    assert_eq!(client.send(0x13, 0, &extras, b"b:fresh", b"z"), []);
    assert_eq!(client.ask(0x01, cas + 1, &extras, b"b:c", b"x").0, EXISTS);
    assert_eq!(client.ask(0x01, cas, &extras, b"b:c", b"2").0, SUCCESS);
    assert_eq!(client.ask(0x01, cas, &extras, b"b:c", b"3").0, EXISTS, "the token has changed");
    assert_eq!(client.ask(0x01, cas, &extras, b"b:none", b"x").0, NOT_FOUND);
    assert_eq!(client.value(b"b:c").unwrap(), b"2");
}

fn values_are_joined(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let cas = client.set(b"b:j", b"b");
    let (status, body, after) = client.ask(0x0e, 0, b"", b"b:j", b"c");
    assert_eq!((status, body), (SUCCESS, vec![]));
    assert!(after != 0 && after != cas, "the new token is told");
    assert_eq!(client.ask(0x0f, after, b"", b"b:j", b"a").0, SUCCESS);
    assert_eq!(client.ask(0x0e, after, b"", b"b:j", b"x").0, EXISTS);
    assert_eq!(client.send(0x19, 0, b"", b"b:j", b"d"), []);
    assert_eq!(client.send(0x1a, 0, b"", b"b:j", b"_"), []);
    assert_eq!(client.value(b"b:j").unwrap(), b"_abcd");
    assert_eq!(client.ask(0x0e, 0, b"", b"b:none", b"x"), (NOT_STORED, b"Not stored.".to_vec(), 0));
    assert_eq!(client.ask(0x00, 0, b"", b"b:j", b"").1[..4], 7_u32.to_be_bytes(), "flags stay");
}

fn numbers_are_counted(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let cas = client.set(b"b:n", b"10");
    let number = |n: u64| n.to_be_bytes().to_vec();
    let (status, body, after) = client.ask(0x05, 0, &sum(5, 0, 0), b"b:n", b"");
    assert_eq!((status, body), (SUCCESS, number(15)));
    assert_ne!(after, cas);
    assert_eq!(client.ask(0x06, 0, &sum(100, 0, 0), b"b:n", b"").1, number(0));
    assert_eq!(client.ask(0x05, cas, &sum(1, 0, 0), b"b:n", b"").0, EXISTS);
    assert_eq!(client.ask(0x05, 0, &sum(1, 7, u32::MAX), b"b:none", b"").0, NOT_FOUND);
    assert_eq!(client.ask(0x05, 0, &sum(1, 7, 0), b"b:made", b"").1, number(7));
    assert_eq!(client.ask(0x05, 0, &sum(1, 7, 0), b"b:made", b"").1, number(8));
    assert_eq!(client.send(0x15, 0, &sum(1, 7, 0), b"b:made", b""), []);
    assert_eq!(client.send(0x16, 0, &sum(2, 7, 0), b"b:made", b""), []);
    assert_eq!(client.value(b"b:made").unwrap(), b"7");
    client.set(b"b:n", b"text");
    let refused = b"Non-numeric server-side value for incr or decr".to_vec();
    assert_eq!(client.ask(0x05, 0, &sum(1, 0, 0), b"b:n", b""), (NOT_A_NUMBER, refused, 0));
}

fn keys_go(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let cas = client.set(b"b:d", b"1");
    assert_eq!(client.ask(0x04, cas + 1, b"", b"b:d", b"").0, EXISTS);
    assert_eq!(client.ask(0x04, cas, b"", b"b:d", b""), (SUCCESS, vec![], 0));
    assert_eq!(client.ask(0x04, 0, b"", b"b:d", b"").0, NOT_FOUND);
    client.set(b"b:d", b"1");
    assert_eq!(client.send(0x14, 0, b"", b"b:d", b""), []);
    assert_eq!(client.ask(0x14, 0, b"", b"b:d", b"").0, NOT_FOUND);
    client.set(b"b:d", b"1");
    assert_eq!(client.ask(0x08, 0, b"", b"", b""), (SUCCESS, vec![], 0));
    assert_eq!(client.value(b"b:d"), None);
    assert_eq!(client.ask(0x08, 0, &1000_u32.to_be_bytes(), b"", b"").0, SUCCESS);
    client.set(b"b:d", b"1");
    assert_eq!(client.send(0x18, 0, b"", b"", b""), []);
    assert_eq!(client.value(b"b:d"), None);
}

fn times_are_given(address: SocketAddr) {
    let mut client = Binary::connect(address);
    client.set(b"b:t", b"v");
    let (hour, flags) = (3600_u32.to_be_bytes(), 7_u32.to_be_bytes());
    let (status, body, _) = client.ask(0x1c, 0, &hour, b"b:t", b"");
    assert_eq!((status, &body[..]), (SUCCESS, &flags[..]));
    assert_eq!(client.ask(0x1d, 0, &hour, b"b:t", b"").1, [&flags[..], b"v"].concat());
    assert_eq!(client.ask(0x23, 0, &hour, b"b:t", b"").1, [&flags[..], b"b:tv"].concat());
    assert_eq!(client.ask(0x1e, 0, &hour, b"b:t", b"").1, [&flags[..], b"v"].concat());
    assert_eq!(client.ask(0x1c, 0, &hour, b"b:none", b"").0, NOT_FOUND);
    assert_eq!(client.ask(0x1d, 0, &hour, b"b:none", b"").0, NOT_FOUND);
    for quiet in [0x1e, 0x24] {
        assert_eq!(client.send(quiet, 0, &hour, b"b:none", b""), []);
    }
    // Long past.
    assert_eq!(client.ask(0x1c, 0, &100_000_000_u32.to_be_bytes(), b"b:t", b"").0, SUCCESS);
    assert_eq!(client.value(b"b:t"), None);
}

fn the_server_is_asked(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let (status, version, _) = client.ask(0x0b, 0, b"", b"", b"");
    assert!(status == SUCCESS && version.starts_with(b"1.6."), "{version:?}");
    assert_eq!(client.send(NOOP, 0, b"", b"", b"").len(), 1);
    let stats = client.send(0x10, 0, b"", b"", b"");
    let (last, lines) = stats.split_last().unwrap();
    assert!(last.key.is_empty() && last.value.is_empty());
    let pid = lines.iter().find(|line| line.key == b"pid").unwrap();
    assert!(std::str::from_utf8(&pid.value).unwrap().parse::<u32>().is_ok());
    let settings = client.send(0x10, 0, b"", b"settings", b"");
    assert!(settings.iter().any(|line| line.key == b"maxconns"));
    assert_eq!(client.send(0x10, 0, b"", b"reset", b"").len(), 1);
    assert_eq!(client.ask(0x10, 0, b"", b"nonsense", b"").0, NOT_FOUND);
    let mut client = Client::connect(address);
    client.send(&request(0x07, OPAQUE, 0, b"", b"", b""));
    assert_eq!(answers(&client.rest()).len(), 1);
    let mut client = Client::connect(address);
    client.send(&request(0x17, OPAQUE, 0, b"", b"", b""));
    assert_eq!(client.rest(), b"");
}

fn mistakes_are_told(address: SocketAddr) {
    let mut client = Binary::connect(address);
    assert_eq!(client.ask(0x40, 0, b"", b"", b""), (UNKNOWN, b"Unknown command".to_vec(), 0));
    assert_eq!(client.ask(0x20, 0, b"", b"", b"").0, UNKNOWN, "nobody has to log in");
    client.set(b"b:big", b"old");
    let large = vec![0; 2 * VALUE_BYTES_MAX];
    assert_eq!(client.ask(0x01, 0, &stored(0, 0), b"b:big", &large), (TOO_LARGE, b"Too large.".to_vec(), 0));
    assert_eq!(client.value(b"b:big"), None, "no stale value stays behind");
    for (status, wrong) in [
        (INVALID, request(0x00, OPAQUE, 0, b"more", b"key", b"")),
        (INVALID, request(0x00, OPAQUE, 0, b"", b"", b"")),
        (INVALID, request(0x01, OPAQUE, 0, b"", b"key", b"value")),
        (INVALID, request(0x05, OPAQUE, 0, b"", b"key", b"")),
        (INVALID, request(0x0b, OPAQUE, 0, b"", b"key", b"")),
        (INVALID, request(0x00, OPAQUE, 0, b"", &[b'k'; 251], b"")),
    ] {
        let mut client = Client::connect(address);
        client.send(&wrong);
        let got = answers(&client.rest());
        let told: Vec<(u16, u32)> = got.iter().map(|answer| (answer.status, answer.opaque)).collect();
        assert_eq!(told, [(status, OPAQUE)], "{}", wrong.escape_ascii());
    }
}

fn any_byte_may_be_in_a_key(address: SocketAddr) {
    let mut client = Binary::connect(address);
    let key: Vec<u8> = (0..=249).collect();
    client.set(&key, b"v");
    assert_eq!(client.value(&key).unwrap(), b"v");
    assert_eq!(client.ask(0x0c, 0, b"", &key, b"").1[4..], [&key[..], b"v"].concat());
}

fn text_and_binary_see_the_same(address: SocketAddr) {
    let (mut binary, mut text) = (Binary::connect(address), Client::connect(address));
    let cas = binary.set(b"b:both", b"12");
    assert_eq!(text.ask("gets b:both\r\n", "END\r\n"), format!("VALUE b:both 7 2 {cas}\r\n12\r\nEND\r\n"));
    assert_eq!(text.ask("incr b:both 1\r\n", "\r\n"), "13\r\n");
    assert_eq!(binary.ask(0x05, 0, &sum(1, 0, 0), b"b:both", b"").1, 14_u64.to_be_bytes());
}

/// The original needs another build for it.
#[test]
fn who_must_log_in_does_so_by_sasl() {
    let users = Some(MemcachedUsers::parse(b"bob:secret\n").unwrap());
    let options = ServerOptions { memcached_users: users, ..ServerOptions::default() };
    let ours = Ours::start_as(16 << 20, options);
    let mut client = Client::connect(ours.address);
    let plain = |password: &[u8]| [&b"\0bob\0"[..], password].concat();
    client.send(&request(0x20, OPAQUE, 0, b"", b"", b""));
    client.send(&request(0x0b, OPAQUE, 0, b"", b"", b""));
    client.send(&request(0x21, OPAQUE, 0, b"", b"PLAIN", &plain(b"wrong")));
    client.send(&request(0x21, OPAQUE, 0, b"", b"CRAM-MD5", &plain(b"secret")));
    client.send(&request(0x21, OPAQUE, 0, b"", b"PLAIN", &plain(b"secret")));
    client.send(&request(0x01, OPAQUE, 0, &stored(0, 0), b"k", b"v"));
    let got = answers(&client.read_until(|got| answers(got).len() == 6));
    let told: Vec<u16> = got.iter().map(|answer| answer.status).collect();
    assert_eq!(told, [SUCCESS, SUCCESS, AUTH, AUTH, SUCCESS, SUCCESS]);
    assert_eq!((&got[0].value[..], &got[4].value[..]), (&b"PLAIN"[..], &b"Authenticated"[..]));
    let mut stranger = Client::connect(ours.address);
    stranger.send(&request(0x00, OPAQUE, 0, b"", b"k", b""));
    let got = answers(&stranger.rest());
    assert_eq!(got.iter().map(|answer| answer.status).collect::<Vec<_>>(), [AUTH]);
    ours.stop();
}
