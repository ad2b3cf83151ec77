//! What a connection is, and the `CLIENT` commands that tell and change it.

mod kill;
mod list;
mod pause;
mod reply;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::databases::Databases;
use terrace_protocol::resp::Version;

use super::acl::Access;
use super::call::{Call, Outcome};
use super::error::SYNTAX;
use super::mark::Note;
use super::options::is;
use super::stats::{OfWorker, Ran};
use super::step::{Step, WriteLate};
use super::transaction::{Transaction, WatchedKeys};
use crate::effort::Effort;
use crate::protocol::Peer;
use crate::registry::{CommandName, DEFAULT_USER, Entry, Kind, flag};
use crate::snapshot::Ticket;

pub(super) use kill::kill;
pub(super) use list::{Running, info, line_of, list};
pub(super) use pause::{is_held, pause, unblock, unpause};
pub(super) use reply::{Replies, reply};

/// A name that a client gives itself or its library may have so many bytes: all who list connections are told all of them.
const NAME_BYTES_MAX: usize = 64 << 10;

/// The state of a connection beyond its bytes.
pub(super) struct Client {
    pub peer: Peer,
    /// What others see of it; its names live there.
    pub entry: Arc<Entry>,
    /// The chosen database.
    pub db: u8,
    /// Who it is.
    pub access: Access,
    /// The protocol's version as the last parsed command left it.
    pub version: Version,
    /// The version in which the next answer is written; behind `version` while a HELLO waits to be answered.
    pub answering: Version,
    /// The command that ran last.
    pub last_command: Option<CommandName>,
    /// Commands that ran and are not answered yet.
    pub ran: Vec<Ran>,
    /// The operation behind those of the last of them.
    pub ran_end: u32,
    /// The arguments of some of them, by their place in `ran`, for the slow log.
    pub kept: Vec<(usize, Vec<Box<[u8]>>)>,
    /// Where its worker counts.
    pub numbers: Option<Arc<OfWorker>>,
    /// Which answers it wants.
    pub replies: Replies,
    /// Commands kept since `MULTI`.
    pub transaction: Option<Box<Transaction>>,
    /// Watched keys.
    pub watched: WatchedKeys,
    /// What its commands mean by the number of a database, in those of their batch: after a `SWAPDB` in the same transaction another.
    pub databases: Databases,
    /// While `EXEC` runs with watched keys: the first operation that checks them.
    pub guard: Option<u32>,
    /// Commands of a transaction wait until it is known whether that happens.
    pub defers: bool,
    /// It has subscribed to something.
    pub is_subscribed: bool,
    /// It tracks the keys that it reads.
    pub tracks: bool,
    /// It sees every command.
    pub monitors: bool,
    /// What others are told of when the commands are answered.
    pub notes: Vec<Note>,
    /// Close once everything is answered.
    pub closing: bool,
    /// The last command's answer tells about the whole store: nothing behind it may be executed before.
    pub pausing: bool,
    /// What its commands of this turn may still take beyond what others take.
    pub effort: Effort,
    /// The rest of a command whose turn is one of its own.
    pub alone: Option<Alone>,
}

/// What goes into a batch of its own, which settles once everything before it is safe from power loss.
pub(super) enum Alone {
    /// Nothing: it waits for a snapshot, if that has begun.
    Save(Option<Arc<Ticket>>),
    /// An answer alone.
    Answer(WriteLate),
    /// An exchange of these databases.
    Swap(u8, u8),
}

impl Client {
    pub fn new(peer: Peer) -> Self {
        Self {
            entry: Entry::new(peer.clone(), Kind::Redis),
            peer,
            db: 0,
            access: Access::default(),
            version: Version::Resp2,
            answering: Version::Resp2,
            last_command: None,
            ran: Vec::new(),
            ran_end: 0,
            kept: Vec::new(),
            numbers: None,
            replies: Replies::default(),
            transaction: None,
            databases: Databases::default(),
            watched: WatchedKeys::default(),
            guard: None,
            defers: false,
            is_subscribed: false,
            tracks: false,
            monitors: false,
            notes: Vec::new(),
            closing: false,
            pausing: false,
            effort: Effort::default(),
            alone: None,
        }
    }

    /// As a new connection, save for the library's name.
    pub fn reset(&mut self) {
        self.db = 0;
        self.access.reset();
        self.entry.relabel(|labels| (labels.user, labels.user_number) = ("default".into(), DEFAULT_USER));
        self.version = Version::Resp2;
        self.transaction = None;
        self.watched.clear();
        self.replies = Replies::default();
        self.entry.set(flag::NO_EVICT | flag::NO_TOUCH, false);
        self.set_name(b"");
    }

    /// Sees what its last commands, or others, have made of it.
    pub fn look(&mut self) {
        let flags = self.entry.flags.load(Relaxed);
        self.is_subscribed = flags & flag::SUBSCRIBED != 0;
        self.tracks = flags & (flag::TRACKING | flag::BROADCAST) == flag::TRACKING;
        self.monitors = flags & flag::MONITOR != 0;
    }

    /// Lets others see what the last commands changed.
    pub fn tell(&self) {
        self.entry.db.store(self.db, Relaxed);
        let multi = self.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64);
        self.entry.multi.store(multi, Relaxed);
        let of = |bytes: fn(&Transaction) -> usize| self.transaction.as_deref().map_or(0, bytes);
        self.entry.kept.multi.store(of(Transaction::kept_bytes), Relaxed);
        self.entry.kept.spilled.store(of(Transaction::spilled_bytes), Relaxed);
        self.tell_watched();
        if let Some(name) = self.last_command {
            self.entry.ran(name);
        }
    }

    /// Lets others see which keys it watches.
    pub fn tell_watched(&self) {
        self.entry.watch.store(self.watched.len() as u32, Relaxed);
        self.entry.kept.watched.store(self.watched.kept_bytes(), Relaxed);
    }

    /// Names the connection.
    pub fn set_name(&mut self, name: &[u8]) {
        self.entry.relabel(|labels| labels.name = name.into());
    }

    /// Whether something beside the answers must be done behind every command of this connection.
    pub fn wants_marks(&self) -> bool {
        self.replies.are_muted() || self.is_subscribed || self.monitors || !self.notes.is_empty()
    }
}

/// Names are printable and have no spaces, so that a line of `CLIENT LIST` stays a line of fields, and no length that others
/// would have to pay for.
fn check_name(what: &str, name: &[u8]) -> Outcome {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes").into());
    }
    Ok(())
}

/// Checks a name for `CLIENT SETNAME`.
pub(super) fn check_client_name(name: &[u8]) -> Outcome {
    check_name("Client names", name)
}

pub(super) fn id(call: &mut Call<'_>) -> Outcome {
    let id = call.client.peer.id as i64;
    call.answer(Step::Integer(id))
}

pub(super) fn getname(call: &mut Call<'_>) -> Outcome {
    let name = call.client.entry.labels.lock().name.clone();
    call.answer(Step::Bulk((!name.is_empty()).then_some(name)))
}

pub(super) fn setname(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    check_client_name(name)?;
    call.client.set_name(name);
    call.ok()
}

pub(super) fn setinfo(call: &mut Call<'_>) -> Outcome {
    let (attribute, value) = (call.arg(2), call.arg(3));
    let name = match () {
        () if is(attribute, "LIB-NAME") => "lib-name",
        () if is(attribute, "LIB-VER") => "lib-ver",
        () => return Err([b"ERR Unrecognized option '", attribute, b"'"].concat().into()),
    };
    check_name(name, value)?;
    call.client.entry.relabel(|labels| {
        let field = if name == "lib-name" { &mut labels.library_name } else { &mut labels.library_version };
        *field = value.into();
    });
    call.ok()
}

/// Told by `CLIENT LIST`; no connection is closed for want of memory here.
pub(super) fn no_evict(call: &mut Call<'_>) -> Outcome {
    on_or_off(call, flag::NO_EVICT)
}

/// Told by `CLIENT LIST`; reads are counted all the same.
pub(super) fn no_touch(call: &mut Call<'_>) -> Outcome {
    on_or_off(call, flag::NO_TOUCH)
}

fn on_or_off(call: &mut Call<'_>, flag: u32) -> Outcome {
    let word = call.arg(2);
    let on = is(word, "ON");
    if !on && !is(word, "OFF") {
        return Err(SYNTAX.into());
    }
    call.client.entry.set(flag, on);
    call.ok()
}
