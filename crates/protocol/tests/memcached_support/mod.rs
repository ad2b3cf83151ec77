//! Runs the parser as a connection does, and tells its events in words.

use std::fmt::Write as _;
use terrace_protocol::memcached::{Command, Event, Limits, Parser, Words};

/// The events of bytes that arrive at once.
pub fn run(limits: Limits, input: &[u8]) -> Vec<String> {
    run_pieces(limits, &[input])
}

/// The events of bytes that arrive piece by piece.
///
/// # Panics
/// If the parser breaks a promise of its interface: consumes what isn't there, makes no progress, or asks for bytes that
/// it has.
pub fn run_pieces(limits: Limits, pieces: &[&[u8]]) -> Vec<String> {
    let mut parser = Parser::new(limits);
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
            events.extend(describe(step.event));
            buffer.drain(..consumed);
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
        Event::TooLarge { key, set, .. } => {
            (format!("too large {}{}", text(key), if set { " set" } else { "" }), false)
        }
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
        Command::Verbosity { noreply } => ("verbosity".into(), noreply),
        Command::CacheMemlimit { megabytes, noreply } => (format!("cache_memlimit {megabytes}"), noreply),
        Command::Quit => ("close Quit".into(), false),
    }
}
