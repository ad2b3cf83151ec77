//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.
//!
//! ```text
//!   MULTI  commands are checked and kept          WATCH  the versions of keys are read and kept
//!   EXEC   their handlers run, all that they push being one atomic group of the engine:
//!          [ a check for each watched key | operations of the first command | of the second | ... ]
//! ```
//! A check that finds another version ends the group, and nothing of it is done. What the engine can't do with others as one step
//! (forgetting databases, exchanging them, iterating) happens in its place between two groups: in order, but others may see what is before it.

use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::databases::Databases;
use terrace_engine::{Buffer, Edit, OpKind, Outcome, Reply};
use terrace_protocol::resp::{Args, Version};

use super::acl::Access;
use super::call::{Call, Outcome as Answered};
use super::client::Client;
use super::deferred;
use super::error::Refusal;
use super::step::{Answer, Step};
use super::table::{Command, Flags};
use crate::output;
use crate::registry::Labels;

/// A command that is kept may take so many bytes of memory, together with those before it.
const QUEUE_BYTES_MAX: usize = 512 << 20;

/// What a command answers whose answer, with those before it in the transaction, is beyond what one may read.
const ANSWERS_TOO_LARGE: &str = "ERR the answers of the transaction are too large, and this one is left out";

/// The keys that a connection watches may take so many bytes of memory.
const WATCHED_BYTES_MAX: usize = 64 << 20;

/// Commands kept since `MULTI`.
#[derive(Default)]
pub(super) struct Transaction {
    bytes: Buffer,
    ranges: Vec<(usize, usize)>,
    /// For each command, where its arguments end in `ranges`.
    ends: Vec<usize>,
    /// A command was refused: `EXEC` does nothing.
    pub failed: bool,
}

impl Transaction {
    /// Commands kept.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The memory that it takes: a small command takes more than its bytes.
    pub fn kept_bytes(&self) -> usize {
        let ranges = self.ranges.len() * size_of::<(usize, usize)>();
        self.bytes.len() + ranges + self.ends.len() * size_of::<usize>()
    }

    /// Of that, what lies in a file.
    pub fn spilled_bytes(&self) -> usize {
        if self.bytes.memory() == 0 { self.bytes.len() } else { 0 }
    }

    /// The same with these arguments, too.
    fn bytes_with(&self, args: Args<'_>) -> usize {
        self.kept_bytes() + args.bytes() + args.len() * size_of::<(usize, usize)>() + size_of::<usize>()
    }

    /// Keeps a command.
    pub fn keep(&mut self, args: Args<'_>) {
        for arg in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.ranges.push((start, self.bytes.len()));
        }
        self.ends.push(self.ranges.len());
    }

    /// Those that are kept.
    pub fn commands(&self) -> impl Iterator<Item = Args<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, &end)| &self.ranges[start..end]);
        ranges.map(|ranges| Args::new(&self.bytes, ranges))
    }
}

/// A watched key.
pub(super) struct Watched {
    db: u8,
    key: Box<[u8]>,
    /// The version that it had; 0 if it was not there.
    version: u64,
}

/// The keys that a connection watches.
#[derive(Default)]
pub(super) struct WatchedKeys {
    list: Vec<Watched>,
    /// Their own.
    bytes: usize,
}

impl WatchedKeys {
    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes more.
    pub fn append(&mut self, more: &mut Vec<Watched>) {
        self.bytes += more.iter().map(|watched| watched.key.len()).sum::<usize>();
        self.list.append(more);
    }

    /// The memory that they take.
    pub fn kept_bytes(&self) -> usize {
        self.bytes + self.list.len() * size_of::<Watched>()
    }

    fn have_room(&self, args: Args<'_>) -> bool {
        self.kept_bytes() + args.bytes() + args.len() * size_of::<Watched>() <= WATCHED_BYTES_MAX
    }
}

/// Whether a command is executed although a transaction has begun.
pub(super) fn runs_at_once(command: &Command) -> bool {
    matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// Keeps a command for `EXEC`.
pub(super) fn keep(call: &mut Call<'_>, command: &Command) -> Answered {
    let args = call.args;
    let Some(transaction) = &mut call.client.transaction else { return Ok(()) };
    if command.flags.has(Flags::NO_MULTI) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if transaction.bytes_with(args) > QUEUE_BYTES_MAX {
        return Err(format!(
            "ERR a transaction may take at most {QUEUE_BYTES_MAX} bytes: send fewer commands at a time"
        )
        .into());
    }
    transaction.keep(args);
    call.answer(Step::Simple("QUEUED"))
}

pub(super) fn multi(call: &mut Call<'_>) -> Answered {
    if call.client.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.transaction = Some(Box::default());
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>) -> Answered {
    call.client.transaction.take().ok_or("ERR DISCARD without MULTI")?;
    call.client.watched.clear();
    call.ok()
}

/// `EXEC` was refused: the transaction is over.
pub(super) fn abort(client: &mut Client, why: &Refusal) -> Refusal {
    client.transaction = None;
    client.watched.clear();
    let why = why.0.strip_prefix(b"ERR ").unwrap_or(&why.0);
    [b"EXECABORT Transaction discarded because of: ", why].concat().into()
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Answered {
    call.client.watched.clear();
    call.ok()
}

/// `WATCH key …`. Nothing behind it is executed before the versions are known.
pub(super) fn watch(call: &mut Call<'_>) -> Answered {
    if call.client.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    if !call.client.watched.have_room(call.args) {
        return Err(format!(
            "ERR the keys that a connection watches may take at most {WATCHED_BYTES_MAX} bytes"
        )
        .into());
    }
    call.client.pausing = true;
    call.each(1, OpKind::Get { value: false }, |answer, ops| {
        for op in ops {
            let version = match answer.reply(op) {
                Reply::Hit { meta, .. } => meta.version,
                _ => 0,
            };
            let op = answer.batch.op(op);
            let key = answer.batch.input(op.key).into();
            answer.watching.push(Watched { db: op.db, key, version });
        }
        answer.encoder.simple("OK");
    })
}

pub(super) fn exec(call: &mut Call<'_>) -> Answered {
    let transaction = call.client.transaction.take().ok_or("ERR EXEC without MULTI")?;
    let watched = std::mem::take(&mut call.client.watched).list;
    if transaction.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    call.batch.begin_transaction();
    let first = call.batch.len() as u32;
    for Watched { db, key, version } in &watched {
        let argument = call.batch.bytes(&version.to_le_bytes());
        call.batch.push(*db, key, OpKind::Edit { edit: unchanged, argument });
    }
    let guard = (!watched.is_empty()).then_some(first);
    call.client.guard = guard;
    let before = guard.map(|_| Box::new(Before::of(call.client)));
    let mut steps = Vec::with_capacity(transaction.len());
    for args in transaction.commands() {
        if guard.is_some() && deferred::is_deferred(args) {
            steps.push(deferred::step(args));
            call.client.defers = true;
            continue;
        }
        let start = steps.len();
        let mut one = Call::new(args, call.batch, call.ctx, call.client, &mut steps);
        if let Err(refusal) = one.run() {
            steps.truncate(start);
            steps.push(Step::Error(refusal));
        }
    }
    call.batch.end_atomic();
    call.client.databases = Databases::default();
    call.client.guard = None;
    let before = before.filter(|before| before.differs(call.client));
    // Which database the commands behind it are for is known when it is known whether the transaction happens.
    call.client.pausing |= before.is_some() || call.client.defers;
    let end = call.batch.len() as u32;
    call.answer(Step::Transaction(Planned { guard, before, commands: transaction.len(), steps, end }))
}

/// Ends the group unless the key has the version that it had when it was watched.
fn unchanged(edit: &mut Edit<'_>) -> Outcome {
    let version = edit.old.map_or(0, |old| old.meta.version);
    if edit.argument == version.to_le_bytes() { Outcome::Keep } else { Outcome::Abort }
}

/// What a connection had chosen before an `EXEC` that chooses otherwise.
pub(super) struct Before {
    db: u8,
    version: Version,
    access: Access,
    labels: Labels,
}

impl Before {
    fn of(client: &Client) -> Self {
        let labels = client.entry.labels.lock().clone();
        Self { db: client.db, version: client.version, access: client.access.clone(), labels }
    }

    fn differs(&self, client: &Client) -> bool {
        let chosen = (self.db, self.version) != (client.db, client.version);
        chosen || !self.access.is_same(&client.access) || self.labels.name != client.entry.labels.lock().name
    }

    /// Makes it so again.
    pub fn restore(self, client: &mut Client) {
        (client.db, client.version, client.access) = (self.db, self.version, self.access);
        client.entry.db.store(self.db, Relaxed);
        client.entry.relabel(|labels| *labels = self.labels);
    }
}

/// What it takes to answer `EXEC`.
pub(super) struct Planned {
    /// The first operation that checks watched keys.
    pub guard: Option<u32>,
    before: Option<Box<Before>>,
    commands: usize,
    pub steps: Vec<Step>,
    /// Behind its operations.
    pub end: u32,
}

/// Writes the answer of `EXEC`.
pub(super) fn write(planned: Planned, answer: &mut Answer<'_>) {
    let Planned { guard, before, commands, steps, .. } = planned;
    match guard.map(|guard| answer.reply(guard as usize)) {
        Some(Reply::Aborted) => {
            answer.undone = before;
            answer.encoder.null_array();
        }
        Some(Reply::Error(error)) => {
            answer.undone = before;
            answer.failed(error);
        }
        _ => {
            answer.encoder.array(commands);
            let bytes_max = answer.ctx.shared.options.transaction_bytes_max;
            let begun = answer.encoder.buffer().len();
            for step in steps {
                let (start, lent) = (answer.encoder.buffer().len(), answer.lent.len());
                step.write(answer);
                // What it did it has done.
                if answer.encoder.buffer().len() - begun > bytes_max {
                    output::truncate(start, lent, answer.encoder.buffer(), answer.lent);
                    answer.encoder.error(ANSWERS_TOO_LARGE.as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, Transaction, WATCHED_BYTES_MAX, Watched, WatchedKeys};

    #[test]
    fn small_commands_count_as_what_they_take() {
        let mut transaction = Transaction::default();
        for _ in 0..1000 {
            transaction.keep(Args::new(b"xyz", &[(0, 1), (1, 1), (1, 3)]));
        }
        let taken = transaction.bytes.len() + transaction.ranges.len() * 16 + transaction.ends.len() * 8;
        let next = Args::new(b"a", &[(0, 1)]);
        assert_eq!(transaction.bytes_with(next), taken + 1 + 16 + 8);
        assert!(taken >= 1000 * (3 + 3 * 16 + 8));
    }

    #[test]
    fn watched_keys_are_bounded() {
        let mut watched = WatchedKeys::default();
        let key = vec![0; WATCHED_BYTES_MAX / 2];
        assert!(watched.have_room(Args::new(&key, &[(0, WATCHED_BYTES_MAX / 2)])));
        watched.append(&mut vec![Watched { db: 0, key: key.clone().into(), version: 1 }]);
        assert!(!watched.have_room(Args::new(&key, &[(0, WATCHED_BYTES_MAX / 2)])));
        watched.clear();
        assert!(watched.len() == 0 && watched.have_room(Args::new(&key, &[(0, 1)])));
    }
}
