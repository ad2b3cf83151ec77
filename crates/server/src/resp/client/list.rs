//! `CLIENT LIST` and `CLIENT INFO`: Redis's line about a connection.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::resp::{Args, Version, parse_integer};

use super::super::bounded::{BYTES_MAX, TOO_LARGE};
use super::super::call::{Call, Outcome};
use super::super::error::{Refusal, SYNTAX};
use super::super::options::is;
use crate::registry::{Entry, Kind, flag};

/// What Redis sorts connections into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Normal,
    /// There are none here.
    Master,
    /// There are none here.
    Replica,
    /// Has subscribed to something.
    Pubsub,
}

impl Class {
    /// The class of this name.
    pub fn named(name: &[u8]) -> Result<Self, Refusal> {
        match () {
            () if is(name, "normal") => Ok(Self::Normal),
            () if is(name, "master") => Ok(Self::Master),
            () if is(name, "replica") || is(name, "slave") => Ok(Self::Replica),
            () if is(name, "pubsub") => Ok(Self::Pubsub),
            () => Err([b"ERR Unknown client type '", name, b"'"].concat().into()),
        }
    }

    /// A connection's class.
    pub fn of(entry: &Entry) -> Self {
        if entry.has(flag::SUBSCRIBED) { Self::Pubsub } else { Self::Normal }
    }
}

pub(in super::super) fn info(call: &mut Call<'_>) -> Outcome {
    let running = Running::of(call.args);
    call.about_store(move |answer| {
        let mut text = Vec::new();
        line(answer.entry, running, answer.ctx.now_ms, &mut text);
        answer.encoder.verbatim(&text);
    })
}

/// `CLIENT LIST [TYPE type] [ID id …]`.
pub(in super::super) fn list(call: &mut Call<'_>) -> Outcome {
    let mut class = None;
    let mut ids = Vec::new();
    match (call.args.len(), call.arg(2)) {
        (2, _) => {}
        (4, word) if is(word, "TYPE") => class = Some(Class::named(call.arg(3))?),
        (4.., word) if is(word, "ID") => {
            for id in call.args.from(3) {
                ids.push(parse_integer(id).ok_or("ERR Invalid client ID")?);
            }
        }
        _ => return Err(SYNTAX.into()),
    }
    let own = Running::of(call.args);
    call.about_store(move |answer| {
        let connections = &answer.ctx.shared.connections;
        let all = if ids.is_empty() { connections.all() } else { Vec::new() };
        let some = ids.iter().filter_map(|id| connections.find(*id as u64));
        let room = BYTES_MAX.min(answer.effort.left() as usize);
        let mut text = Vec::new();
        for entry in all.into_iter().chain(some) {
            // Who was ended is gone, though its thread has not got round to it.
            if entry.kind == Kind::Redis
                && !entry.is_killed()
                && class.is_none_or(|class| Class::of(&entry) == class)
            {
                let running = if Arc::ptr_eq(&entry, answer.entry) { own } else { Running::default() };
                line(&entry, running, answer.ctx.now_ms, &mut text);
            }
            if text.len() > room {
                return answer.encoder.error(TOO_LARGE.as_bytes());
            }
        }
        answer.effort.take(text.len() as u64);
        answer.encoder.verbatim(&text);
    })
}

/// Has said MULTI; no bit of [`flag`].
const MULTI: u32 = 1 << 31;

/// Flags in the order and with the letters of Redis.
const LETTERS: [(u32, char); 9] = [
    (flag::MONITOR, 'O'),
    (flag::SUBSCRIBED, 'P'),
    (MULTI, 'x'),
    (flag::BLOCKED, 'b'),
    (flag::TRACKING, 't'),
    (flag::BROKEN_REDIRECT, 'R'),
    (flag::BROADCAST, 'B'),
    (flag::NO_EVICT, 'e'),
    (flag::NO_TOUCH, 'T'),
];

/// What the command that runs takes.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Running {
    /// Its bytes as they came.
    query: usize,
    /// Those of its arguments.
    arguments: usize,
}

impl Running {
    fn of(args: Args<'_>) -> Self {
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
        // A sign, digits and the end of a line; of each argument, the end of one more.
        let framed: usize = args.from(0).map(|arg| digits(arg.len()) + 3 + arg.len() + 2).sum();
        Self { query: digits(args.len()) + 3 + framed, arguments: args.bytes() }
    }
}

/// Redis's line about a connection.
fn line(entry: &Entry, running: Running, now_ms: u64, out: &mut Vec<u8>) {
    line_of(entry, (entry.last_command(), running), usize::MAX, now_ms, out);
}

/// The same, its command being this one, with at most so many bytes of each name that the client chose; fields that mean nothing
/// here are told as they are where nothing happens.
pub(in super::super) fn line_of(
    entry: &Entry,
    (command, running): (&str, Running),
    name_bytes_max: usize,
    now_ms: u64,
    out: &mut Vec<u8>,
) {
    let labels = entry.labels.lock().clone();
    let cut = |name: &[u8]| String::from_utf8_lossy(&name[..name.len().min(name_bytes_max)]).into_owned();
    let [sub, psub, ssub] = entry.subscriptions.lock().counts();
    let multi = entry.multi.load(Relaxed);
    let bits = entry.flags.load(Relaxed) | if multi >= 0 { MULTI } else { 0 };
    let letters = LETTERS.iter().filter(|(bit, _)| bits & bit != 0);
    let mut flags: String = letters.map(|(_, letter)| letter).collect();
    if flags.is_empty() {
        flags.push('N');
    }
    let (input, output) = (entry.input_bytes.load(Relaxed).max(running.query), entry.waiting_bytes());
    let [input_room, output_room] = entry.room.each_ref().map(|room| room.load(Relaxed));
    let version = if entry.version() == Version::Resp3 { 3 } else { 2 };
    // Writing to memory does not fail.
    let _written = writeln!(
        out,
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} \
         multi={multi} qbuf={input} qbuf-free={} argv-mem={} multi-mem={} rbs={output_room} rbp={output_room} obl=0 oll={} omem={output} \
         tot-mem={} events=r cmd={} user={} redir={} resp={version} lib-name={} lib-ver={} watch={}",
        entry.id(),
        entry.peer.remote,
        entry.peer.local,
        cut(&labels.name),
        now_ms.saturating_sub(entry.peer.since_ms) / 1000,
        now_ms.saturating_sub(entry.last_ms.load(Relaxed)) / 1000,
        entry.db.load(Relaxed),
        input_room.saturating_sub(input),
        running.arguments,
        entry.kept.of_transaction(),
        u8::from(output > 0),
        size_of::<Entry>() + input.max(input_room) + output.max(output_room) + entry.kept.bytes(),
        command,
        cut(labels.user.as_bytes()),
        entry.redirect.load(Relaxed),
        cut(&labels.library_name),
        cut(&labels.library_version),
        entry.watch.load(Relaxed),
    );
}
