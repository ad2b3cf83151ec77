//! Clients that mean harm: a little that is sent again and again, or that claims to be much. An input is small and says what
//! is repeated, so that what it costs shows: the driver bounds memory and time.

use super::source::Source;
use super::{Target, count, model};

/// See the module.
pub(super) static HOSTILE: Target = Target {
    name: "serve-hostile",
    corpus: "serve-hostile",
    about: "floods, endless lines, huge lengths and hoarded names against a store",
    bytes_max: 40,
    words: &[],
    run: hostile,
};

/// At most so many bytes are sent for one input.
const SENT_BYTES_MAX: usize = 4 << 20;

/// At most so many reports are asked for at a time.
const REPORTS: usize = 1 << 15;

/// What Redis's connection begins with.
const STARTS: &[&str] =
    &["", "MULTI\r\n", "HELLO 3\r\n", "HELLO 3\r\nCLIENT TRACKING ON\r\n", "CLIENT REPLY OFF\r\n"];

/// What comes again and again; `#` is a number that grows. What has no line's end is one endless line.
const REDIS: &[&str] = &[
    "PING\r\n",
    "\r\n",
    "*0\r\n",
    "*1\r\n$4\r\nPING\r\n",
    "*1048576\r\n",
    "*1000000000\r\n",
    "*2\r\n$3\r\nGET\r\n$536870912\r\n",
    "*1\r\n$99999999999\r\n",
    "*1048576\r\n$0\r\n\r\n",
    "$0\r\n\r\n",
    "x",
    "\"",
    "\"\\x41",
    " ' \" ",
    "GET k\r\n",
    "SET k # EX 1000\r\n",
    "MGET k k k k k k k k k k k k\r\n",
    "WATCH k#\r\n",
    "SUBSCRIBE c#\r\n",
    "PSUBSCRIBE p#*\r\n",
    "SSUBSCRIBE s#\r\n",
    "CLIENT TRACKING ON BCAST PREFIX p#\r\n",
    "GET k#\r\n",
    "CLIENT SETNAME n#\r\n",
    "ACL SETUSER u# on ~k#* +get\r\n",
    "MULTI\r\n",
    "EXEC\r\n",
    "nosuch # # #\r\n",
    "SELECT 1\r\nFLUSHDB\r\n",
    "MONITOR\r\n",
    "KEYS a*a*a*a*a*b\r\n",
    "CONFIG SET slowlog-max-len #\r\n",
    "PUBLISH c1 #\r\n",
];

const MEMCACHED: &[&str] = &[
    "mn\r\n",
    "\r\n",
    "x",
    "get",
    "get k k k k k\r\n",
    " k",
    " O1",
    "mg k v t s f c k O1\r\n",
    "mg k v v v v v v\r\n",
    "set k 0 0 1000000000\r\n",
    "set k 0 0 1\r\nv\r\n",
    "set k# 0 0 1 noreply\r\nv\r\n",
    "ms k 999999999\r\n",
    "ms k 1 q\r\nv\r\n",
    "mg k# N30 q\r\n",
    "ma n# N0 q\r\n",
    "nosuch\r\n",
    "stats\r\n",
    "stats detail dump\r\n",
    "get p#:k\r\n",
    "watch\r\n",
    "flush_all noreply\r\n",
];

fn hostile(input: &[u8]) -> Result<(), String> {
    let mut source = Source::new(input);
    let redis = source.byte().is_multiple_of(2);
    let mut exchange = model::exchange(redis)?;
    let another = exchange.connect();
    let mut sent = 0;
    if redis {
        let start = source.one_of(STARTS);
        exchange.send(start.as_bytes());
    }
    while !source.is_empty() && sent < SENT_BYTES_MAX {
        let unit = source.one_of(if redis { REDIS } else { MEMCACHED });
        let times = 1usize << (source.byte() % 21);
        // A report takes its time (30 us, without optimisation), and so many of them a minute, which is what a hang is known by.
        let times = if unit.starts_with("stats") { times.min(REPORTS) } else { times };
        let piece_bytes = source.one_of(&[1 << 16, 1 << 20, 1000, 16 << 10]);
        let mut bytes = Vec::new();
        for i in 0..times {
            for part in unit.split_inclusive('#') {
                match part.strip_suffix('#') {
                    Some(text) => {
                        bytes.extend_from_slice(text.as_bytes());
                        bytes.extend_from_slice(i.to_string().as_bytes());
                    }
                    None => bytes.extend_from_slice(part.as_bytes()),
                }
            }
            if bytes.len() + sent >= SENT_BYTES_MAX {
                break;
            }
            // A single byte, shown again with all before it, would be the driver's time and not the server's.
            if bytes.len() >= piece_bytes {
                sent += bytes.len();
                count(exchange.send_unheard(&bytes) as u64);
                bytes.clear();
            }
        }
        sent += bytes.len();
        count(exchange.send_unheard(&bytes) as u64);
        // Nobody else is hurt.
        let (ask, answer) =
            if redis { (&b"PING\r\n"[..], &b"PONG"[..]) } else { (&b"mn\r\n"[..], &b"MN"[..]) };
        let (_, answered) = exchange.send_to(another, ask);
        if !answered.windows(answer.len()).any(|bytes| bytes == answer) {
            return Err(format!(
                "another was answered {:?} behind {unit:?}",
                answered.escape_ascii().to_string()
            ));
        }
        if exchange.is_closed() {
            break;
        }
    }
    Ok(())
}
