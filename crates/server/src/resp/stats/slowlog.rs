//! `SLOWLOG`: commands that took longer than `slowlog-log-slower-than`.
//!
//! Arguments are not kept until the answer, but for those of subcommands and of the administrator's commands, so that an entry holds the command's name and the keys of
//! its operations. Where next to everything is slow (a threshold below [`FINE_US`], as tests and people who look for something set
//! it) they are.

use std::collections::VecDeque;

use terrace_engine::{Batch, OpKind};
use terrace_protocol::resp::Args;

use super::super::call::{Call, Outcome};
use super::super::client::Client;
use super::super::error::wrong_arguments;
use super::super::options::is;
use super::super::secrets;
use super::super::step::Step;
use super::super::table::{COMMANDS, Flags};
use crate::protocol::Context;

/// Below this threshold arguments are kept until the answer.
pub(in crate::resp) const FINE_US: i64 = 1000;
/// As in Redis: more arguments, and more bytes of each, are cut.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;
/// Commands of one batch whose arguments are kept.
pub(in crate::resp) const KEPT_MAX: usize = 1024;
/// Entries that `SLOWLOG GET` tells unless asked for more.
const SHOWN: i64 = 10;
/// Entries are bounded whatever `slowlog-max-len` says.
const LEN_MAX: i64 = 100_000;

/// A slow command.
#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    at_s: u64,
    microseconds: u64,
    args: Vec<Box<[u8]>>,
    address: String,
    /// The beginning of the client's name.
    name: Box<[u8]>,
}

/// The last ones, the newest first.
#[derive(Debug, Default)]
pub(in crate::resp) struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    fn add(&mut self, mut entry: Entry, max: i64) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(max.clamp(0, LEN_MAX) as usize);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The arguments that an entry holds of the command with this full name: no secrets.
pub(in crate::resp) fn shortened(command: &'static str, args: Args<'_>) -> Vec<Box<[u8]>> {
    shorten(args.len(), secrets::shown(command, args))
}

fn shorten<'a>(count: usize, args: impl Iterator<Item = &'a [u8]>) -> Vec<Box<[u8]>> {
    let shown = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut kept: Vec<Box<[u8]>> = args
        .take(shown)
        .map(|arg| match arg.get(..ARG_BYTES_MAX).filter(|_| arg.len() > ARG_BYTES_MAX) {
            Some(front) => {
                [front, format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes()].concat().into()
            }
            None => arg.into(),
        })
        .collect();
    if count > shown {
        kept.push(format!("... ({} more arguments)", count - shown).into_bytes().into());
    }
    kept
}

/// The beginning of a client's name: an entry must not cost what a client calls itself.
fn cut(name: &[u8]) -> Box<[u8]> {
    name[..name.len().min(ARG_BYTES_MAX)].into()
}

/// Logs what was slow about a connection's part of a batch: all its commands where the threshold is fine, else the one with
/// the most operations, the others having waited for it.
#[cold]
pub(super) fn note(client: &mut Client, batch: &Batch, ctx: &Context<'_>, slower_us: i64) {
    let redis = &ctx.shared.redis;
    let max = redis.settings.slowlog_max.load(std::sync::atomic::Ordering::Relaxed);
    let name = cut(&client.entry.labels.lock().name);
    let mut log = redis.stats.slow.lock();
    let mut add = |args| {
        let (address, name) = (client.peer.remote.to_string(), name.clone());
        log.add(
            Entry {
                id: 0,
                at_s: ctx.time.wall_now_ms() / 1000,
                microseconds: ctx.elapsed_us,
                args,
                address,
                name,
            },
            max,
        );
    };
    if slower_us < FINE_US && !client.kept.is_empty() {
        client.kept.drain(..).for_each(|(_, args)| add(args));
        return;
    }
    let end = |at: usize| client.ran.get(at + 1).map_or(client.ran_end, |next| next.first) as usize;
    let logged = |at: &usize| !COMMANDS[usize::from(client.ran[*at].id)].flags.has(Flags::SKIP_SLOWLOG);
    let Some(at) = (0..client.ran.len())
        .filter(logged)
        .max_by_key(|at| (end(*at) - client.ran[*at].first as usize, usize::MAX - at))
    else {
        return;
    };
    if let Some((_, args)) = client.kept.iter_mut().find(|(ran, _)| *ran == at) {
        return add(std::mem::take(args));
    }
    let ran = &client.ran[at];
    let command = &COMMANDS[usize::from(ran.id)];
    let keyed = command.key_specs().next().is_some();
    let ops = if keyed { ran.first as usize..end(at) } else { 0..0 };
    let keys = ops
        .map(|op| batch.op(op))
        .filter(|op| !matches!(op.kind, OpKind::Flush { .. } | OpKind::Swap { .. } | OpKind::Scan { .. }));
    let keys: Vec<&[u8]> =
        keys.map(|op| batch.input(op.key)).take(if command.keys.1 == 1 { 1 } else { usize::MAX }).collect();
    let name = command.full_name.split('|').map(str::as_bytes);
    let words: Vec<&[u8]> = name.chain(keys).collect();
    add(shorten(words.len(), words.into_iter()));
}

/// `SLOWLOG GET [count]`.
pub(in crate::resp) fn slowlog_get(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => SHOWN,
        3 => terrace_protocol::resp::parse_integer(call.arg(2))
            .filter(|count| *count >= -1)
            .ok_or("ERR count should be greater than or equal to -1")?,
        _ => return Err(wrong_arguments(call.arg(1), "SLOWLOG")),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries: Vec<Entry> =
        call.ctx.shared.redis.stats.slow.lock().entries.iter().take(count).cloned().collect();
    call.late(move |answer| {
        answer.encoder.array(entries.len());
        for entry in &entries {
            answer.encoder.array(6);
            for number in [entry.id, entry.at_s, entry.microseconds] {
                answer.encoder.integer(number as i64);
            }
            answer.encoder.array(entry.args.len());
            entry.args.iter().for_each(|arg| answer.encoder.bulk(arg));
            answer.encoder.bulk(entry.address.as_bytes());
            answer.encoder.bulk(&entry.name);
        }
    })
}

/// `SLOWLOG LEN`.
pub(in crate::resp) fn slowlog_len(call: &mut Call<'_>) -> Outcome {
    let len = call.ctx.shared.redis.stats.slow.lock().len();
    call.answer(Step::Integer(len as i64))
}

/// `SLOWLOG RESET`.
pub(in crate::resp) fn slowlog_reset(call: &mut Call<'_>) -> Outcome {
    debug_assert!(is(call.arg(1), "RESET"), "dispatched by that name");
    call.ctx.shared.redis.stats.slow.lock().entries.clear();
    call.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut() {
        let long = vec![b'x'; 200];
        let kept = shorten(2, [&b"get"[..], &long].into_iter());
        assert_eq!(&*kept[1], [&long[..128], b"... (72 more bytes)"].concat());
        let many = vec![&b"a"[..]; 50];
        let kept = shorten(many.len(), many.into_iter());
        assert_eq!((kept.len(), &*kept[31]), (32, &b"... (19 more arguments)"[..]));
        assert_eq!(shorten(32, vec![&b"a"[..]; 32].into_iter()).len(), 32);
        assert_eq!((cut(&long).len(), &*cut(b"me")), (128, &b"me"[..]));
    }

    #[test]
    fn the_newest_stay() {
        let mut log = SlowLog::default();
        for microseconds in 0..5 {
            let entry = Entry {
                id: 0,
                at_s: 0,
                microseconds,
                args: vec![],
                address: String::new(),
                name: Box::default(),
            };
            log.add(entry, 3);
        }
        let told: Vec<_> = log.entries.iter().map(|entry| (entry.id, entry.microseconds)).collect();
        assert_eq!(told, [(4, 4), (3, 3), (2, 2)]);
    }
}
