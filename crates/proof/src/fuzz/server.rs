//! Pipelines of any requests against the server's command layer and a store, without sockets: a reply for each request, however
//! the bytes arrive.

use terrace_protocol::resp::Value;

use super::{Target, count, model};

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

/// Sends in pieces: commands, replies' bytes, and whether it was closed.
pub(super) fn send(redis: bool, pieces: &[&[u8]]) -> Result<(usize, Vec<u8>, bool), String> {
    let mut exchange = model::exchange(redis)?;
    let (mut commands, mut replies) = (0, Vec::new());
    for piece in pieces {
        let (more, bytes) = exchange.send(piece);
        commands += more;
        replies.extend_from_slice(&bytes);
    }
    count(commands as u64);
    Ok((commands, replies, exchange.is_closed()))
}

fn any(input: &[u8], redis: bool) -> Result<(), String> {
    let (commands, replies, closed) = send(redis, &[input])?;
    if redis {
        let count = values(&replies)?.len();
        if count != commands {
            return Err(format!("{commands} commands were answered with {count} replies"));
        }
    }
    // memcached refuses to watch behind commands that arrived together with it.
    if !redis && input.windows(5).any(|word| word == b"watch") {
        return Ok(());
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
