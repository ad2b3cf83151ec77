//! Runs the parser as a connection does, and tells its events in words.

use std::fmt::Write as _;
use terrace_protocol::memcached::meta::Meta;
use terrace_protocol::memcached::{Command, Event, KeyBuffer, Limits, Parser, Words};

/// The events of bytes that arrive at once.
pub fn run(limits: Limits, input: &[u8]) -> Vec<String> {
    run_pieces(limits, &[input])
}

/// The events of bytes that arrive piece by piece, each told in words.
///
/// # Panics
/// If the parser breaks a promise of its interface: consumes what isn't there, makes no progress, or asks for bytes that
/// it has.
pub fn run_pieces(limits: Limits, pieces: &[&[u8]]) -> Vec<String> {
    run_parser(Parser::new(limits), pieces)
}

/// The same with a parser of the caller's. A login with the password "secret" unlocks it.
///
/// # Panics
/// As [`run_pieces`].
pub fn run_parser(mut parser: Parser, pieces: &[&[u8]]) -> Vec<String> {
    let mut buffer = Vec::new();
    let mut events = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let step = parser.step(&buffer);
            let consumed = step.consumed;
            assert!(consumed <= buffer.len());
            let done = match step.event {
                Event::Incomplete { needed } => {
                    assert!(needed > buffer.len() - consumed, "asks for what it has");
                    true
                }
                Event::Close(_) => true,
                _ => {
                    assert!(consumed > 0, "no progress");
                    false
                }
            };
            let closed = matches!(step.event, Event::Close(_));
            let unlocks = matches!(step.event, Event::Login { password: b"secret", .. });
            events.extend(describe(step.event));
            buffer.drain(..consumed);
            if unlocks {
                parser.unlock();
            }
            if closed {
                return events;
            }
            if done {
                break;
            }
        }
    }
    events
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn list(words: Words<'_>) -> String {
    format!("[{}]", words.map(text).collect::<Vec<_>>().join(", "))
}

fn describe(event: Event<'_>) -> Option<String> {
    let (mut told, noreply) = match event {
        Event::Incomplete { .. } => return None,
        Event::Close(reason) => (format!("close {reason:?}"), false),
        Event::Refused { noreply: true, .. } | Event::TooLarge { noreply: true, .. } => {
            ("silence".into(), false)
        }
        Event::Refused { reply, .. } => (text(reply).trim_end().to_string(), false),
        Event::TooLarge { key, delete, .. } => {
            let key = text(key.bytes(&mut KeyBuffer::default()));
            (format!("too large {key}{}", if delete { " delete" } else { "" }), false)
        }
        Event::Login { user, password } => (format!("login {} {}", text(user), text(password)), false),
        Event::Command(command) => command_told(command),
    };
    if noreply {
        let _ = write!(told, " noreply");
    }
    Some(told)
}

fn command_told(command: Command<'_>) -> (String, bool) {
    match command {
        Command::Get { keys, cas } => (format!("get cas={cas} {}", list(keys)), false),
        Command::GetAndTouch { exptime, keys, cas } => {
            (format!("gat {exptime} cas={cas} {}", list(keys)), false)
        }
        Command::Store(store) => (
            format!(
                "{:?} {} {} {} {}",
                store.verb,
                text(store.key),
                store.flags,
                store.exptime,
                text(store.value)
            ),
            store.noreply,
        ),
        Command::Arithmetic { key, delta, down, noreply } => {
            (format!("{} {} {delta}", if down { "decr" } else { "incr" }, text(key)), noreply)
        }
        Command::Touch { key, exptime, noreply } => (format!("touch {} {exptime}", text(key)), noreply),
        Command::Delete { key, noreply } => (format!("delete {}", text(key)), noreply),
        Command::FlushAll { delay, noreply } => (format!("flush_all {delay}"), noreply),
        Command::Version => ("version".into(), false),
        Command::Stats { args } => (format!("stats {}", list(args)), false),
        Command::Verbosity { level, noreply } => (format!("verbosity {level}"), noreply),
        Command::MetaGet(meta) => (format!("mg {}", meta_told(&meta)), false),
        Command::MetaSet { meta, mode, value } => {
            (format!("ms {mode:?} {} {}", text(value), meta_told(&meta)), false)
        }
        Command::MetaDelete(meta) => (format!("md {}", meta_told(&meta)), false),
        Command::MetaNumber { meta, down } => {
            (format!("ma {}{}", if down { "down " } else { "" }, meta_told(&meta)), false)
        }
        Command::MetaDebug { key } => (format!("me {}", text(key.bytes(&mut KeyBuffer::default()))), false),
        Command::Answered { reply, noreply } => (text(reply).trim_end().to_string(), noreply),
        Command::LruCrawler(crawl) => (format!("{crawl:?}"), false),
        Command::Watch(Some(watch)) => (format!("{watch:?}"), false),
        Command::Watch(None) => ("watch of no event".into(), false),
        Command::Shutdown(shutdown) => (format!("shutdown {shutdown:?}"), false),
        Command::RefreshCerts { noreply } => ("refresh_certs".into(), noreply),
        Command::CacheMemlimit { megabytes, noreply } => (format!("cache_memlimit {megabytes}"), noreply),
        Command::Quit => ("close Quit".into(), false),
    }
}

/// The key, the flags as they came, and the numbers that are read from them.
fn meta_told(meta: &Meta<'_>) -> String {
    let mut told = text(meta.key.bytes(&mut KeyBuffer::default()));
    for (letter, token) in meta.flags.iter() {
        assert!(meta.flags.has(letter));
        let _ = write!(told, " {}", char::from(letter));
        match letter {
            b'N' | b'R' | b'T' => drop(write!(
                told,
                "{}",
                meta.flags.signed(letter).unwrap_or_else(|| panic!("{letter} is no number"))
            )),
            b'C' | b'D' | b'F' | b'J' => drop(write!(
                told,
                "{}",
                meta.flags.unsigned(letter).unwrap_or_else(|| panic!("{letter} is no number"))
            )),
            _ => told += &text(token),
        }
    }
    told
}
