//! What a connection is, and the `CLIENT` commands that tell and change it.

use terrace_protocol::resp::Version;

use super::call::{Call, Outcome};
use super::error::{Refusal, SYNTAX};
use super::options::is;
use super::step::Step;
use super::transaction::{Transaction, Watched};
use crate::protocol::Peer;

pub(super) const INVALID_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

/// The state of a connection beyond its bytes.
pub(super) struct Client {
    pub peer: Peer,
    /// The chosen database.
    pub db: u8,
    /// The protocol's version as the last parsed command left it.
    pub version: Version,
    /// The version in which the next answer is written; behind `version` while a HELLO waits to be answered.
    pub answering: Version,
    pub name: Box<[u8]>,
    library_name: Box<[u8]>,
    library_version: Box<[u8]>,
    /// Close once everything is answered.
    pub closing: bool,
    /// The last command's answer tells about the whole store: nothing behind it may be executed before.
    pub pausing: bool,
    /// Commands kept since `MULTI`.
    pub transaction: Option<Box<Transaction>>,
    /// Watched keys.
    pub watched: Vec<Watched>,
    /// While `EXEC` runs with watched keys: the first operation that checks them.
    pub guard: Option<u32>,
}

impl Client {
    pub fn new(peer: Peer) -> Self {
        Self {
            peer,
            db: 0,
            version: Version::Resp2,
            answering: Version::Resp2,
            name: Box::default(),
            library_name: Box::default(),
            library_version: Box::default(),
            closing: false,
            pausing: false,
            transaction: None,
            watched: Vec::new(),
            guard: None,
        }
    }

    /// As a new connection, save for the library's name.
    pub fn reset(&mut self) {
        self.db = 0;
        self.version = Version::Resp2;
        self.name = Box::default();
        self.transaction = None;
        self.watched.clear();
    }

    /// Redis's line about a connection, with the fields that mean something here.
    fn line(&self, now_ms: u64, command: &str) -> String {
        format!(
            "id={} addr={} laddr={} name={} age={} idle=0 flags=N db={} sub=0 psub=0 ssub=0 multi={} watch={} events=r \
             cmd={command} user=default redir=-1 resp={} lib-name={} lib-ver={}\n",
            self.peer.id,
            self.peer.remote,
            self.peer.local,
            String::from_utf8_lossy(&self.name),
            now_ms.saturating_sub(self.peer.since_ms) / 1000,
            self.db,
            self.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64),
            self.watched.len(),
            self.version.number(),
            String::from_utf8_lossy(&self.library_name),
            String::from_utf8_lossy(&self.library_version),
        )
    }
}

/// Names are printable and have no spaces, so that [`Client::line`] stays a line of fields.
pub(super) fn is_valid_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

pub(super) fn id(call: &mut Call<'_>) -> Outcome {
    let id = call.client.peer.id as i64;
    call.answer(Step::Integer(id))
}

pub(super) fn getname(call: &mut Call<'_>) -> Outcome {
    let name = call.client.name.clone();
    call.answer(Step::Bulk((!name.is_empty()).then_some(name)))
}

pub(super) fn setname(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if !is_valid_name(name) {
        return Err(INVALID_NAME.into());
    }
    call.client.name = name.into();
    call.ok()
}

pub(super) fn setinfo(call: &mut Call<'_>) -> Outcome {
    let (attribute, value) = (call.arg(2), call.arg(3));
    let (field, name) = if is(attribute, "LIB-NAME") {
        (&mut call.client.library_name, "lib-name")
    } else if is(attribute, "LIB-VER") {
        (&mut call.client.library_version, "lib-ver")
    } else {
        return Err([b"ERR Unrecognized option '", attribute, b"'"].concat().into());
    };
    if !is_valid_name(value) {
        return Err(Refusal::from(format!(
            "ERR {name} cannot contain spaces, newlines or special characters."
        )));
    }
    *field = value.into();
    call.ok()
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let line = call.client.line(call.ctx.now_ms, call.name);
    call.late(move |answer| answer.encoder.verbatim(line.as_bytes()))
}

/// `CLIENT LIST`: this connection alone. A worker does not look into another's connections.
pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 { info(call) } else { Err(SYNTAX.into()) }
}

pub(super) fn no_evict(call: &mut Call<'_>) -> Outcome {
    on_or_off(call)
}

pub(super) fn no_touch(call: &mut Call<'_>) -> Outcome {
    on_or_off(call)
}

fn on_or_off(call: &mut Call<'_>) -> Outcome {
    let word = call.arg(2);
    if is(word, "ON") || is(word, "OFF") { call.ok() } else { Err(SYNTAX.into()) }
}

pub(super) fn reply(call: &mut Call<'_>) -> Outcome {
    let word = call.arg(2);
    match () {
        () if is(word, "ON") => call.ok(),
        () if is(word, "OFF") || is(word, "SKIP") => {
            Err("ERR CLIENT REPLY OFF and SKIP are not supported".into())
        }
        () => Err(SYNTAX.into()),
    }
}
