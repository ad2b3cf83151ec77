//! Pipelines of requests against the server's command layer and a store, without sockets: a reply for each request, however
//! the bytes arrive; and of the plain commands the replies that a model gives.

use std::collections::BTreeMap;

use terrace_protocol::resp::{Value, write_request};
use terrace_server::{Exchange, ServerOptions};

use super::Target;
use super::source::Source;

/// Any bytes as a RESP connection.
pub(super) static SERVE_RESP: Target = Target {
    name: "serve-resp",
    corpus: "serve-resp",
    about: "any RESP requests against a store, whole and in pieces",
    bytes_max: 600,
    words: &[
        "\r\n",
        "SET k v\r\n",
        "GET k\r\n",
        "INCR n\r\n",
        "APPEND k x\r\n",
        "MSET a 1 b 2\r\n",
        "SCAN 0 MATCH [a-",
        "COUNT 5\r\n",
        "EXPIRE k 10\r\n",
        "HELLO 3\r\n",
        "CLIENT INFO\r\n",
        "COMMAND DOCS get\r\n",
        "CONFIG GET *\r\n",
        "INFO all\r\n",
        "SELECT 3\r\n",
        "RESET\r\n",
        "QUIT\r\n",
        "INCRBYFLOAT f 1e300\r\n",
        "GETEX k PXAT ",
        "FLUSHALL\r\n",
        "KEEPTTL",
        "*3\r\n$3\r\nSET\r\n",
        "*2\r\n$3\r\nGET\r\n",
        "9223372036854775807",
        "-",
    ],
    run: |input| any(input, true),
};

/// Any bytes as a memcached connection.
pub(super) static SERVE_MEMCACHED: Target = Target {
    name: "serve-memcached",
    corpus: "serve-memcached",
    about: "any memcached requests against a store, whole and in pieces",
    bytes_max: 600,
    words: &[
        "\r\n",
        "set k 0 0 1\r\nv\r\n",
        "get k\r\n",
        "gets k n\r\n",
        "incr n 18446744073709551615\r\n",
        "decr n 1\r\n",
        "append k 0 0 2\r\nab\r\n",
        "cas k 1 2 1 7\r\nc\r\n",
        "flush_all 5\r\n",
        "flush_all noreply\r\n",
        "touch k -1\r\n",
        "gat 9 k\r\n",
        "stats items\r\n",
        "ms k 1 T9 c\r\nv\r\n",
        "ms k 2 MA C7 I\r\nab\r\n",
        "ms Zm9v 1 b\r\nv\r\n",
        "mg k v s t f c k q O1\r\n",
        "mg n N30 R9 T60\r\n",
        "mg Zm9v b k h l\r\n",
        "md k I T30\r\n",
        "ma n N0 J13 v\r\n",
        "ma n MD D3 q\r\n",
        "me k\r\n",
        "mn\r\n",
        "lru_crawler metadump all\r\n",
        "stats cachedump 1 0\r\n",
        "stats detail on\r\n",
        "watch\r\n",
        "verbosity 1\r\n",
    ],
    run: |input| any(input, false),
};

/// Commands of which a model knows the replies.
pub(super) static MODEL: Target = Target {
    name: "serve-model",
    corpus: "serve-model",
    about: "plain commands in a pipeline, cut anywhere, against a model",
    bytes_max: 300,
    words: &[],
    run: model,
};

/// Bytes of DRAM for a store.
const DRAM_BYTES: u64 = 16 << 20;

/// Runs `with` on a connection to a new store.
fn connected<T>(redis: bool, with: impl FnOnce(&mut Exchange) -> Result<T, String>) -> Result<T, String> {
    let options = terrace::Options {
        engine: "dram".into(),
        dram_records: Some(DRAM_BYTES),
        background_threads: 0,
        ..terrace::Options::default()
    };
    let store = terrace::open(options).map_err(|error| format!("opening: {error}"))?;
    let options = ServerOptions { command_bytes_max: 1 << 20, ..ServerOptions::default() };
    let connect = if redis { Exchange::redis } else { Exchange::memcached };
    let mut exchange = connect(store, options).map_err(|error| error.to_string())?;
    with(&mut exchange)
}

/// Sends in pieces: commands, replies' bytes, and whether it was closed.
fn send(redis: bool, pieces: &[&[u8]]) -> Result<(usize, Vec<u8>, bool), String> {
    connected(redis, |exchange| {
        let (mut commands, mut replies) = (0, Vec::new());
        for piece in pieces {
            let (more, bytes) = exchange.send(piece);
            commands += more;
            replies.extend_from_slice(&bytes);
        }
        Ok((commands, replies, exchange.is_closed()))
    })
}

fn any(input: &[u8], redis: bool) -> Result<(), String> {
    let (commands, replies, closed) = send(redis, &[input])?;
    if redis {
        let count = values(&replies)?.len();
        if count != commands {
            return Err(format!("{commands} commands were answered with {count} replies"));
        }
    }
    // Replies may tell the time, so only their number is compared.
    let single: Vec<&[u8]> = input.chunks(1).collect();
    let split = send(redis, &single)?;
    let count = |replies: &[u8]| if redis { values(replies).map(|list| list.len()) } else { Ok(0) };
    if (split.0, split.2, count(&split.1)?) != (commands, closed, count(&replies)?) {
        return Err(format!("{commands} commands in one piece, {} in single bytes", split.0));
    }
    Ok(())
}

/// Replies one by one.
fn values(mut replies: &[u8]) -> Result<Vec<Value>, String> {
    let mut list = Vec::new();
    while !replies.is_empty() {
        let (value, taken) = match Value::decode(replies) {
            Ok(Some(found)) => found,
            other => {
                return Err(format!(
                    "a reply that is none: {other:?}: {:?}",
                    String::from_utf8_lossy(replies)
                ));
            }
        };
        list.push(value);
        replies = &replies[taken..];
    }
    Ok(list)
}

fn model(input: &[u8]) -> Result<(), String> {
    let mut source = Source::new(input);
    let (mut bytes, mut expected, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let mut keys: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    while !source.is_empty() {
        let (command, reply) = command(&mut source, &mut keys);
        write_request(&command, &mut bytes);
        told.push(
            command
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
                .join(" "),
        );
        expected.push(reply);
    }
    let cut = 1 + input.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97;
    let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
    let (_, replies, _) = send(true, &pieces)?;
    let replies = values(&replies)?;
    for (i, expected) in expected.iter().enumerate() {
        if replies.get(i) != Some(expected) {
            return Err(format!("{}: {:?}, expected {expected:?}", told[i], replies.get(i)));
        }
    }
    if replies.len() == expected.len() {
        Ok(())
    } else {
        Err(format!("{} replies too many", replies.len() - expected.len()))
    }
}

/// The next command and its reply, after Redis's documentation.
fn command(source: &mut Source<'_>, keys: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> (Vec<Vec<u8>>, Value) {
    let key = vec![b'k', b'0' + source.byte() % 4];
    let ok = || Value::Simple(b"OK".to_vec());
    let bulk = |value: Option<&Vec<u8>>| value.map_or(Value::Null, |value| Value::Bulk(value.clone()));
    let word = |text: &str| text.as_bytes().to_vec();
    let old = keys.get(&key).cloned();
    match source.byte() % 10 {
        0 | 1 => {
            let len = source.one_of(&[0, 1, 3, 100, 5000, 20_000]);
            let value = vec![source.byte(); len];
            keys.insert(key.clone(), value.clone());
            (vec![word("SET"), key, value], ok())
        }
        2 => {
            let number = (source.edge() as i64).to_string().into_bytes();
            keys.insert(key.clone(), number.clone());
            (vec![word("SET"), key, number], ok())
        }
        3 => (vec![word("get"), key], bulk(old.as_ref())),
        4 => {
            keys.remove(&key);
            (vec![word("DEL"), key], Value::Integer(i64::from(old.is_some())))
        }
        5 => {
            let value = keys.entry(key.clone()).or_default();
            value.extend_from_slice(b"+x");
            let len = value.len() as i64;
            (vec![word("APPEND"), key, word("+x")], Value::Integer(len))
        }
        6 => {
            let by = source.edge() as i64;
            let number = old.as_deref().map_or(Some(0), integer);
            let reply = match number.map(|number| number.checked_add(by)) {
                None => Value::Error(word("ERR value is not an integer or out of range")),
                Some(None) => Value::Error(word("ERR increment or decrement would overflow")),
                Some(Some(sum)) => {
                    keys.insert(key.clone(), sum.to_string().into_bytes());
                    Value::Integer(sum)
                }
            };
            (vec![word("INCRBY"), key, by.to_string().into_bytes()], reply)
        }
        7 => {
            let set = old.is_none();
            keys.entry(key.clone()).or_insert_with(|| b"new".to_vec());
            (vec![word("SETNX"), key, word("new")], Value::Integer(i64::from(set)))
        }
        8 => (vec![word("STRLEN"), key], Value::Integer(old.map_or(0, |value| value.len() as i64))),
        _ => (vec![word("DBSIZE")], Value::Integer(keys.len() as i64)),
    }
}

/// A number as Redis reads it: no sign but a minus, no blanks, no needless zeros.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}
