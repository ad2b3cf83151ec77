//! memcached's binary protocol: its parser, and a connection that speaks it. Most inputs say what requests are like, since random
//! bytes are none; some are taken as they are.

use terrace_protocol::memcached::binary::{Event, HEADER_BYTES, Parser};

use super::wire::{Behind, alike, events};
use super::{Target, server};

const WORDS: &[&str] =
    &["\0", "\x01", "\x04", "\x09", "\x0d", "\x10", "\x14", "PLAIN", "settings", "17", "key"];

/// Requests, split everywhere.
pub(super) static BINARY: Target = Target {
    name: "memcached-binary",
    corpus: "memcached-binary",
    about: "requests of memcached's binary protocol, split everywhere",
    bytes_max: 600,
    words: WORDS,
    run: run_parser,
};

/// A connection that speaks it.
pub(super) static SERVE_BINARY: Target = Target {
    name: "serve-memcached-binary",
    corpus: "memcached-binary",
    about: "requests of memcached's binary protocol against a store, whole and in pieces",
    bytes_max: 400,
    words: WORDS,
    run: run_server,
};

/// The bytes that an input stands for.
fn requests(input: &[u8]) -> Vec<u8> {
    let Some((kind, rest)) = input.split_first() else { return Vec::new() };
    if kind % 8 == 7 {
        return [&[0x80], rest].concat();
    }
    let mut bytes = rest.iter().copied();
    let mut all = Vec::new();
    while let Some(code) = bytes.next() {
        let mut next = || bytes.next().unwrap_or(0);
        let (shape, cas) = (next(), next());
        // What the opcode wants, mostly.
        let (extras, key) = match code & 0x3f {
            0x01..=0x03 | 0x11..=0x13 => (8, 1),
            0x05 | 0x06 | 0x15 | 0x16 => (20, 1),
            0x1c..=0x1e | 0x23 | 0x24 => (4, 1),
            0x07 | 0x08 | 0x0a | 0x0b | 0x17 | 0x18 => (0, 0),
            _ => (0, 1),
        };
        let (extras, key) = match shape % 16 {
            0 => (usize::from(next()) % 24, key),
            1 => (extras, usize::from(next())),
            _ => (extras, key * (1 + usize::from(shape % 3))),
        };
        let value = match code & 0x3f {
            0x01..=0x03 | 0x0e | 0x0f | 0x11..=0x13 | 0x19 | 0x1a | 0x21 => usize::from(shape / 16) * 3,
            _ => usize::from(shape == 2),
        };
        let body = extras + key + value;
        all.extend_from_slice(&[0x80, code & 0x3f]);
        all.extend_from_slice(&(key as u16).to_be_bytes());
        all.extend_from_slice(&[extras as u8, 0, 0, 0]);
        // Now and then a length that is not there.
        let claimed = if shape == 255 { u32::from(next()) << 16 } else { body as u32 };
        all.extend_from_slice(&claimed.to_be_bytes());
        all.extend_from_slice(&[0, 0, 0, cas]);
        all.extend_from_slice(&u64::from(cas % 4).to_be_bytes());
        all.extend(std::iter::repeat_with(&mut next).take(body));
    }
    all
}

fn parsed(value_bytes_max: usize, pieces: &[&[u8]]) -> Result<Vec<String>, String> {
    let mut parser = Parser::new(value_bytes_max, value_bytes_max > 100);
    events(pieces, |input| {
        let (consumed, event) = parser.step(input);
        let behind = match event {
            Event::Incomplete { needed } => Behind::Needed(needed),
            Event::Close | Event::Broken(..) => Behind::End,
            Event::Request(_) | Event::TooLarge(_) => Behind::More,
        };
        (consumed, format!("{event:?}"), behind)
    })
}

fn run_parser(input: &[u8]) -> Result<(), String> {
    let bytes = requests(input);
    for value_bytes_max in [1 << 20, 5] {
        alike(&bytes, |pieces| parsed(value_bytes_max, pieces))?;
    }
    Ok(())
}

/// Sends in pieces: commands, how many answers came, and whether it was closed.
fn send(pieces: &[&[u8]]) -> Result<(usize, usize, bool), String> {
    let (commands, replies, is_closed) = server::send(false, pieces)?;
    let (mut rest, mut answers) = (&replies[..], 0);
    while let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let [magic, _, _, _, _, _, _, _, b0, b1, b2, b3, ..] = *header;
        let bytes = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        if magic != 0x81 || body.len() < bytes {
            return Err(format!("an answer that is none: {}", rest.escape_ascii()));
        }
        rest = &body[bytes..];
        answers += 1;
    }
    if !rest.is_empty() {
        return Err(format!("the last answer is cut: {}", rest.escape_ascii()));
    }
    Ok((commands, answers, is_closed))
}

fn run_server(input: &[u8]) -> Result<(), String> {
    let bytes = requests(input);
    let whole = send(&[&bytes])?;
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let split = send(&single)?;
    // Reports tell of what came before, and are as long as there are connections.
    let has_report = bytes.contains(&0x10);
    if (split.0, split.2) != (whole.0, whole.2) || (split.1 != whole.1 && !has_report) {
        return Err(format!(
            "(commands, answers, closed): {whole:?} in one piece, {split:?} in single bytes"
        ));
    }
    Ok(())
}
