//! Commands from a fuzzer's bytes: on few keys, most of them right.

use super::super::super::source::Source;
use super::super::expect::Tokens;
use super::{Expect, Meta, Model, text};

/// A command's bytes, and its answer, if it has one. Tokens are those that the server has told.
pub(in super::super) fn draw(
    source: &mut Source<'_>,
    model: &mut Model,
    tokens: &Tokens,
) -> (Vec<u8>, Option<Expect>) {
    match source.byte() % 8 {
        0..=2 => classic(source, model, tokens),
        3..=6 => meta(source, model, tokens),
        _ => others(source, model),
    }
}

fn key(source: &mut Source<'_>) -> Vec<u8> {
    source.one_of(&["a", "b", "c", "foo"]).into()
}

fn value(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() % 5 {
        0 => source.edge().to_string().into_bytes(),
        1 => u64::from(source.byte()).to_string().into_bytes(),
        _ => {
            let length = source.one_of(&[0, 1, 3, 3, 100, 5000, 40_000]);
            // What ends lines, but begins no number: blanks in front of one are a matter of the C library.
            match source.byte() % 3 {
                0 => b"x\r\nmn\r\n\0".iter().copied().cycle().take(length).collect(),
                1 => vec![b'5'; length],
                _ => vec![b'y'; length],
            }
        }
    }
}

fn seconds(source: &mut Source<'_>) -> i64 {
    source.one_of(&[0, 0, 0, 1000, 100_000, 2_000_000_000, -1])
}

/// A token of the record, or of another, or none that there is.
fn token(source: &mut Source<'_>, model: &mut Model, key: &[u8], tokens: &Tokens) -> (u64, Option<u64>) {
    let (since, current) = model.get(key).map_or((0, 0), |item| (item.since, item.token));
    let generation = match source.byte() % 4 {
        0 => current.saturating_sub(u64::from(source.byte() % 4)),
        1 => u64::from(source.byte()) % (model.tokens + 1),
        _ => current,
    };
    let is_unclear = (since..current).contains(&generation);
    match tokens.get(generation).filter(|_| !is_unclear) {
        Some(token) => (token, Some(generation)),
        // Larger than any.
        None => (u64::MAX - 7, None),
    }
}

fn classic(source: &mut Source<'_>, model: &mut Model, tokens: &Tokens) -> (Vec<u8>, Option<Expect>) {
    let key = key(source);
    let shown = String::from_utf8_lossy(&key).into_owned();
    let choice = source.byte();
    let quiet = choice >= 0xe0;
    let noreply = if quiet { " noreply" } else { "" };
    let (line, answer) = match choice % 16 {
        0..=4 => {
            let name = source.one_of(&["set", "set", "add", "replace", "append", "prepend", "cas", "cas"]);
            let (flags, seconds, value) = (source.one_of(&[0, 7, u32::MAX]), seconds(source), value(source));
            let (cas, generation) = if name == "cas" {
                let (token, generation) = token(source, model, &key, tokens);
                (format!(" {token}"), generation)
            } else {
                (String::new(), None)
            };
            let answer = model.store(name, &key, flags, seconds, &value, generation);
            let head = format!("{name} {shown} {flags} {seconds} {}{cas}{noreply}\r\n", value.len());
            let line = [head.as_bytes(), &value, b"\r\n"].concat();
            return (line, (!quiet).then_some(answer));
        }
        5..=7 => {
            let other = self::key(source);
            let name = source.one_of(&["get", "gets"]);
            let line = format!("{name} {shown} {} {shown}\r\n", String::from_utf8_lossy(&other));
            return (line.into(), Some(model.retrieve(&[key.clone(), other, key], name == "gets")));
        }
        8 => {
            let (name, seconds) = (source.one_of(&["gat", "gats"]), seconds(source));
            let line = format!("{name} {seconds} {shown}\r\n");
            return (line.into(), Some(model.get_and_touch(seconds, &[key], name == "gats")));
        }
        9 => {
            let seconds = seconds(source);
            (format!("touch {shown} {seconds}{noreply}\r\n"), model.touch(&key, seconds))
        }
        10 | 11 => (format!("delete {shown}{noreply}\r\n"), model.delete(&key)),
        12 => (format!("flush_all{noreply}\r\n"), model.flush()),
        _ => {
            let (name, by) = (source.one_of(&["incr", "decr"]), source.edge());
            if model.is_chance(&key) {
                return (b"mn\r\n".to_vec(), Some(text("MN\r\n")));
            }
            (format!("{name} {shown} {by}{noreply}\r\n"), model.count(&key, by, name == "decr"))
        }
    };
    (line.into(), (!quiet).then_some(answer))
}

/// Flags of a meta command, each at most once, in any order.
fn flags(source: &mut Source<'_>, choices: &[&str], meta: &mut Meta) {
    for _ in 0..source.byte() % 6 {
        let flag = source.one_of(choices).as_bytes();
        if !meta.flags.iter().any(|have| have.0 == flag[0]) {
            meta.flags.push((flag[0], flag[1..].to_vec()));
        }
    }
}

fn meta(source: &mut Source<'_>, model: &mut Model, tokens: &Tokens) -> (Vec<u8>, Option<Expect>) {
    let key = key(source);
    let mut meta = Meta { shown: key.clone(), key, flags: Vec::new(), token: None };
    if meta.key == b"foo" && source.byte().is_multiple_of(2) {
        meta.shown = b"Zm9v".to_vec();
        meta.flags.push((b'b', Vec::new()));
    }
    let name = source.one_of(&["mg", "mg", "ms", "ms", "md", "ma"]);
    let choices: &[&str] = match name {
        "mg" => &[
            "q",
            "k",
            "O12",
            "v",
            "v",
            "t",
            "s",
            "f",
            "c",
            "c",
            "h",
            "l",
            "u",
            "C",
            "C",
            "N0",
            "N30000",
            "R10",
            "R50000",
            "T0",
            "T1000",
            "T-1",
            "T2000000000",
        ],
        "ms" => &[
            "q",
            "k",
            "Oab",
            "F5",
            "F4294967295",
            "T0",
            "T1000",
            "T100000",
            "T-1",
            "I",
            "c",
            "s",
            "N0",
            "N30000",
            "C",
            "C",
            "MS",
            "Ms",
            "ME",
            "MA",
            "MP",
            "MR",
            "Ma",
            "Me",
        ],
        "md" => &["q", "k", "O1", "C", "C", "I", "I", "x", "F5", "T0", "T1000", "T-1"],
        _ => &[
            "q",
            "k",
            "O1",
            "C",
            "N0",
            "N30000",
            "J5",
            "J18446744073709551615",
            "D0",
            "D2",
            "D18446744073709551615",
            "T0",
            "T1000",
            "MI",
            "M+",
            "Mi",
            "MD",
            "M-",
            "t",
            "c",
            "v",
            "v",
        ],
    };
    flags(source, choices, &mut meta);
    if let Some(at) = meta.flags.iter().position(|flag| flag.0 == b'C') {
        let (token, generation) = token(source, model, &meta.key, tokens);
        meta.flags[at].1 = token.to_string().into_bytes();
        meta.token = generation;
    }
    let value = if name == "ms" { value(source) } else { Vec::new() };
    let mut line = format!("{name} ").into_bytes();
    line.extend_from_slice(&meta.shown);
    if name == "ms" {
        line.extend_from_slice(format!(" {}", value.len()).as_bytes());
    }
    for (letter, argument) in &meta.flags {
        line.extend([b' ', *letter]);
        line.extend_from_slice(argument);
    }
    line.extend_from_slice(b"\r\n");
    if name == "ma" && model.is_chance(&meta.key) {
        return (b"mn\r\n".to_vec(), Some(text("MN\r\n")));
    }
    let answer = match name {
        "mg" => model.meta_get(&meta),
        "ms" => {
            line.extend_from_slice(&value);
            line.extend_from_slice(b"\r\n");
            model.meta_set(&meta, &value)
        }
        "md" => model.meta_delete(&meta),
        _ => model.meta_count(&meta),
    };
    (line, answer)
}

fn others(source: &mut Source<'_>, model: &mut Model) -> (Vec<u8>, Option<Expect>) {
    let key = key(source);
    let shown = String::from_utf8_lossy(&key).into_owned();
    let (line, answer) = match source.byte() % 8 {
        0 => ("nosuch\r\n".into(), "ERROR\r\n"),
        1 => ("get\r\n".into(), "CLIENT_ERROR bad command line format\r\n"),
        2 => (format!("incr {shown} x\r\n"), "CLIENT_ERROR invalid numeric delta argument\r\n"),
        3 => (format!("touch {shown} x\r\n"), "CLIENT_ERROR invalid exptime argument\r\n"),
        4 => (format!("mg {shown} ~\r\n"), "CLIENT_ERROR bad command line format\r\n"),
        5 => (format!("mg {shown} v v\r\n"), "CLIENT_ERROR duplicate flag\r\n"),
        6 => ("mn\r\n".into(), "MN\r\n"),
        _ => {
            return (format!("mg {shown} v\r\n").into(), {
                let meta = Meta { shown: key.clone(), key, flags: vec![(b'v', Vec::new())], token: None };
                model.meta_get(&meta)
            });
        }
    };
    (line.into_bytes(), Some(text(answer)))
}
