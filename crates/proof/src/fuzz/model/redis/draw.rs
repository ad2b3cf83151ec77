//! Commands from a fuzzer's bytes: on few keys, most of them right.

use super::super::super::source::Source;
use super::Model;
use super::payload::payload;
use super::store::Command;

/// What connections may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Share {
    /// `SUBSCRIBE` and the like.
    pub listens: bool,
}

/// The next command of a connection.
pub(in super::super) fn draw(source: &mut Source<'_>, model: &Model, client: usize, share: Share) -> Command {
    let kind = source.byte();
    match kind % 16 {
        0..=4 => strings(source),
        5 | 6 => bits(source),
        7..=10 => keys(source),
        11 | 12 => transactions(source),
        13 => floats(source),
        14 if share.listens => channels(source, model, client),
        14 => expiries(source),
        _ => wrong(source, model, client),
    }
}

fn words(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn with<const N: usize>(name: &str, args: [Vec<u8>; N]) -> Command {
    [words(name), args.to_vec()].concat()
}

fn key(source: &mut Source<'_>) -> Vec<u8> {
    vec![b'k', b'0' + source.byte() % 4]
}

/// Keys of floating-point numbers, which nothing else writes: what would become of any text is hard to say.
fn float_key(source: &mut Source<'_>) -> Vec<u8> {
    vec![b'f', b'0' + source.byte() % 2]
}

fn value(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() % 4 {
        0 => number(source).to_vec(),
        _ => {
            let length = source.one_of(&[0, 1, 3, 3, 20, 21, 44, 45, 100, 5000, 20_000]);
            vec![source.byte(); length]
        }
    }
}

fn number(source: &mut Source<'_>) -> Vec<u8> {
    (source.edge() as i64).to_string().into_bytes()
}

fn index(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() % 8 {
        0 => number(source),
        _ => i64::from(source.byte() as i8).to_string().into_bytes(),
    }
}

/// Options of an expiry, far away: no test waits for it. No two times to live are alike: whether they come to the same moment
/// would depend on the clock.
fn far(source: &mut Source<'_>) -> String {
    let different = 1000 * source.left();
    match source.byte() % 7 {
        0 => format!("EX {}", 10_000 + different),
        1 => format!("PX {}", 5_000_000 + different),
        other => {
            ["EXAT 4000000000", "PXAT 9000000000000", "EX 0", "EX -1", "EX x"][usize::from(other - 2)].into()
        }
    }
}

fn strings(source: &mut Source<'_>) -> Command {
    let key = key(source);
    match source.byte() % 24 {
        0..=2 => with("SET", [key, value(source)]),
        3 => [with("SET", [key, value(source)]), words(source.one_of(&["NX", "XX", "GET", "KEEPTTL"]))]
            .concat(),
        4 => {
            let options =
                source.one_of(&["NX GET", "XX GET", "XX KEEPTTL", "NX XX", "GET KEEPTTL", "KEEPTTL EX 5"]);
            [with("SET", [key, value(source)]), words(options)].concat()
        }
        5 => [with("SET", [key, value(source)]), words(&far(source))].concat(),
        6 => [with("set", [key, value(source)]), words("get"), words(&far(source))].concat(),
        7 => with("SETNX", [key, value(source)]),
        8 => with(source.one_of(&["SETEX", "PSETEX"]), [key, b"100000".to_vec(), value(source)]),
        9 => with("GETSET", [key, value(source)]),
        10 => with("GETDEL", [key]),
        11 => [with("GETEX", [key]), words(&far(source))].concat(),
        12 => with("GETEX", [key, source.one_of(&["PERSIST", "persist", "EX"]).into()]),
        13 => with("GETEX", [key]),
        14 => with("APPEND", [key, value(source)]),
        15 => with("SETRANGE", [key, offset(source), value(source)]),
        16 => with(source.one_of(&["GETRANGE", "SUBSTR"]), [key, index(source), index(source)]),
        17 => with(source.one_of(&["INCR", "DECR"]), [key]),
        18 => with(source.one_of(&["INCRBY", "DECRBY"]), [key, number(source)]),
        19 => with("MSET", [key, value(source), self::key(source), value(source)]),
        20 => with("MSETNX", [key, value(source), self::key(source), value(source)]),
        21 => with("MGET", [key, self::key(source)]),
        22 => with("STRLEN", [key]),
        _ => with("get", [key]),
    }
}

fn offset(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() % 8 {
        0 => source.one_of(&["-1", "600000000", "9223372036854775807", "5000"]).into(),
        _ => (source.byte() % 64).to_string().into_bytes(),
    }
}

fn bits(source: &mut Source<'_>) -> Command {
    let key = key(source);
    match source.byte() % 10 {
        0..=2 => with("SETBIT", [key, bit(source), source.one_of(&["0", "1", "1", "2"]).into()]),
        3 | 4 => with("GETBIT", [key, bit(source)]),
        5 => with("BITCOUNT", [key]),
        6 => with("BITCOUNT", [key, index(source), index(source)]),
        7 => with(
            "BITCOUNT",
            [key, index(source), index(source), source.one_of(&["BIT", "bit", "BYTE", "x"]).into()],
        ),
        8 => with("BITOP NOT", [key, self::key(source)]),
        _ => {
            let name = source.one_of(&["BITOP AND", "BITOP OR", "BITOP XOR", "BITOP NOT", "BITOP nor"]);
            with(name, [key, self::key(source), self::key(source)])
        }
    }
}

fn bit(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() % 8 {
        0 => source.one_of(&["-1", "4294967296", "99999999999", "40000"]).into(),
        _ => source.byte().to_string().into_bytes(),
    }
}

fn keys(source: &mut Source<'_>) -> Command {
    let key = key(source);
    match source.byte() % 20 {
        0 => with(source.one_of(&["DEL", "UNLINK"]), [key]),
        1 => with("DEL", [key, self::key(source)]),
        2 => with(source.one_of(&["EXISTS", "TOUCH"]), [key, self::key(source)]),
        3 => with("TYPE", [key]),
        4 => with("RENAME", [key, self::key(source)]),
        5 => with("RENAMENX", [key, self::key(source)]),
        6 => with("COPY", [key, self::key(source)]),
        7 => with("COPY", [key, self::key(source), b"REPLACE".to_vec()]),
        8 => with("COPY", [key, self::key(source), b"DB".to_vec(), database(source)]),
        9 => with("COPY", [key, self::key(source), b"replace".to_vec(), b"db".to_vec(), database(source)]),
        10 => with("MOVE", [key, database(source)]),
        11 => with("SELECT", [database(source)]),
        12 => words("DBSIZE"),
        13 => words("KEYS *"),
        14 => with("OBJECT ENCODING", [key]),
        15 => with("DUMP", [key]),
        16 => {
            let mut dump = payload(&value(source));
            if source.byte().is_multiple_of(8) {
                let at = source.below(dump.len());
                dump[at] ^= 4;
            }
            let ttl = source.one_of(&["0", "0", "100000", "-1"]).into();
            let replace = source.one_of(&["", "REPLACE", "replace", "x"]);
            let command = with("RESTORE", [key, ttl, dump]);
            if replace.is_empty() { command } else { [command, words(replace)].concat() }
        }
        17 => words(source.one_of(&["FLUSHDB", "FLUSHALL", "flushdb async", "FLUSHDB SYNC"])),
        _ => expiries(source),
    }
}

fn database(source: &mut Source<'_>) -> Vec<u8> {
    source.one_of(&["0", "1", "2", "3", "0", "1", "16", "-1", "x"]).into()
}

fn expiries(source: &mut Source<'_>) -> Command {
    let key = key(source);
    match source.byte() % 10 {
        0 => {
            with(source.one_of(&["EXPIRE", "PEXPIRE"]), [key, source.one_of(&["1000000", "-1", "0"]).into()])
        }
        1 => with("EXPIREAT", [key, source.one_of(&["4000000000", "5000000000", "1"]).into()]),
        2 => with("PEXPIREAT", [key, source.one_of(&["4500000000000", "5000000000000"]).into()]),
        3 => {
            let at = source.one_of(&["4000000000", "4500000000", "5000000000"]).into();
            with("EXPIREAT", [key, at, source.one_of(&["NX", "XX", "GT", "LT", "gt", "no"]).into()])
        }
        4 => with("EXPIRE", [key, number(source)]).into_iter().map(not_soon).collect(),
        5 => with("PERSIST", [key]),
        _ => with(source.one_of(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), [key]),
    }
}

/// What would expire while the input runs becomes something else.
fn not_soon(arg: Vec<u8>) -> Vec<u8> {
    let is_soon = |number: i64| (1..100_000).contains(&number);
    if super::store::integer(&arg).is_some_and(is_soon) { b"0".to_vec() } else { arg }
}

fn transactions(source: &mut Source<'_>) -> Command {
    match source.byte() % 12 {
        0..=2 => words("MULTI"),
        3..=6 => words("EXEC"),
        7 => words("DISCARD"),
        8 => with("WATCH", [key(source)]),
        9 => with("WATCH", [key(source), key(source)]),
        10 => words("UNWATCH"),
        _ => words("watch k0"),
    }
}

fn floats(source: &mut Source<'_>) -> Command {
    let key = float_key(source);
    match source.byte() % 8 {
        0 => with("SET", [key, source.one_of(&["0", "10", "-3.5", "2.25", "text", "1e2", "5.0"]).into()]),
        1 => with("GET", [key]),
        2 => with("OBJECT ENCODING", [key]),
        3 => with("RENAME", [key, float_key(source)]),
        _ => {
            let by = source.one_of(&["0", "1", "-1", "0.5", "-0.25", "100.75", "-99999", "1e3", "3.0", "x"]);
            with("INCRBYFLOAT", [key, by.into()])
        }
    }
}

fn channels(source: &mut Source<'_>, model: &Model, client: usize) -> Command {
    let is_queueing = model.is_queueing(client);
    let channel = source.one_of(&["a1", "a2", "b1", "c"]);
    // No channel fits two of them: in which order a listener would be told is nobody's promise.
    let pattern = source.one_of(&["a*", "b*", "c"]);
    let command = match source.byte() % 14 {
        0 | 1 => format!("SUBSCRIBE {channel}"),
        2 => format!("SUBSCRIBE {channel} b1"),
        3 => format!("PSUBSCRIBE {pattern}"),
        4 => format!("SSUBSCRIBE {channel}"),
        5 => format!("UNSUBSCRIBE {channel}"),
        6 => format!("PUNSUBSCRIBE {pattern}"),
        7 => format!("SUNSUBSCRIBE {channel}"),
        8 => source.one_of(&["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"]).to_owned(),
        9 => format!("SPUBLISH {channel} hi"),
        10 => format!("PING {channel}"),
        _ => format!("PUBLISH {channel} text"),
    };
    let several = model.listening(client).of(&command.to_lowercase()) > 1;
    let listens = command.split(' ').next().is_some_and(|name| name.ends_with("SUBSCRIBE"));
    // Redis 7.0 puts a connection's own message into the middle of the array that EXEC answers.
    let tells_itself = command.contains("PUBLISH") && is_queueing && model.hears_in_version_three(client);
    if several || listens && is_queueing || tells_itself { words("PING") } else { words(&command) }
}

fn wrong(source: &mut Source<'_>, model: &Model, client: usize) -> Command {
    match source.byte() % 8 {
        0 => words("GET"),
        1 => words("nosuch thing 1"),
        2 => words("SET k0"),
        3 => words("MSET k0 1 k1"),
        4 => words("RESET"),
        // The version does not change in the middle of an array.
        5 if !model.is_queueing(client) => words("HELLO 3"),
        6 if !model.is_queueing(client) => words("HELLO 2"),
        _ => words("PING"),
    }
}
