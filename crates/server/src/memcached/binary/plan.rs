//! Requests to operations.

use terrace_engine::{Batch, Condition, ExpireIf, Expiry, OpKind};
use terrace_protocol::memcached::binary::{Asked, Opcode, Request, Status};
use terrace_protocol::memcached::{Words, expire_at_ms};

use crate::memcached::meta::{self, Join, Sum};
use crate::memcached::plan::{self as text, Planned as TextPlanned};
use crate::memcached::stats::{self, Report};
use crate::memcached::{DATABASE, admin};
use crate::protocol::Context;

/// In the place of a time: a number that is not there is not made.
const NOT_MADE: u32 = u32::MAX;

/// What to answer once the batch has settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub asked: Asked,
    /// Only what is new is told.
    pub quiet: bool,
    pub what: What,
}

/// Operations by their number in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A read; the key is shown.
    Get {
        op: usize,
        key: bool,
    },
    /// A new time; the value is shown, and the key.
    Touch {
        op: usize,
        value: bool,
        key: bool,
    },
    /// A value stored: what is said if it was not.
    Store {
        op: usize,
        otherwise: Status,
        checked: bool,
    },
    /// A value joined.
    Join {
        op: usize,
    },
    /// A number changed.
    Number {
        op: usize,
        down: bool,
    },
    /// A key deleted.
    Delete {
        op: usize,
    },
    /// Everything forgotten.
    Flush {
        op: usize,
    },
    /// Done, with this text.
    Text(&'static [u8]),
    /// A login.
    Login {
        known: bool,
    },
    Stats(Report),
    /// A value too long, whose key is deleted.
    TooLarge,
    /// An error; what it says ends the connection.
    Refused {
        status: Status,
        ends: bool,
    },
    /// Done, and the connection ends.
    Quit,
}

impl Planned {
    /// A request that can't be read, behind which nothing can.
    pub(super) fn refused(asked: Asked, status: Status) -> Self {
        Self { asked, quiet: false, what: What::Refused { status, ends: true } }
    }

    /// Behind the operation that it is answered from; 0 if it needs none.
    pub(super) fn end(&self) -> usize {
        match self.what {
            What::Get { op, .. }
            | What::Touch { op, .. }
            | What::Store { op, .. }
            | What::Join { op }
            | What::Number { op, .. }
            | What::Delete { op }
            | What::Flush { op } => op + 1,
            _ => 0,
        }
    }

    /// Whether the connection has logged in with it.
    pub(super) fn logs_in(&self) -> bool {
        matches!(self.what, What::Login { known: true })
    }

    /// Whether the connection ends behind it.
    pub(super) fn ends(&self) -> bool {
        matches!(self.what, What::Quit | What::Refused { ends: true, .. })
    }

    /// Whether it is a report.
    pub(super) fn is_report(&self) -> bool {
        matches!(self.what, What::Stats(_))
    }
}

/// The plan of a request.
pub(super) fn plan(
    request: Request<'_>,
    authenticated: bool,
    batch: &mut Batch,
    ctx: &Context<'_>,
) -> Planned {
    let asked = request.asked;
    let Some((opcode, quiet)) = Opcode::of(asked.code) else {
        let status = if authenticated { Status::Unknown } else { Status::Auth };
        return Planned { asked, quiet: false, what: What::Refused { status, ends: !authenticated } };
    };
    let may = authenticated
        || matches!(opcode, Opcode::SaslList | Opcode::SaslAuth | Opcode::SaslStep | Opcode::Version);
    let what = match () {
        () if !may => What::Refused { status: Status::Auth, ends: true },
        () if !fits(opcode, &request) => What::Refused { status: Status::Invalid, ends: true },
        () => of(opcode, request, batch, ctx),
    };
    Planned { asked, quiet, what }
}

/// A request whose value is too long: a `set` deletes its key, so that no stale value stays behind.
pub(super) fn too_large(request: Request<'_>, authenticated: bool, batch: &mut Batch) -> Planned {
    let asked = request.asked;
    let refused = |status, ends| Planned { asked, quiet: false, what: What::Refused { status, ends } };
    match Opcode::of(asked.code) {
        _ if !authenticated => refused(Status::Auth, true),
        None => refused(Status::Unknown, false),
        Some((opcode, quiet)) if is_store(opcode) && !request.key.is_empty() => {
            if opcode == Opcode::Set {
                let kind = OpKind::Delete { condition: Condition::Always, old_value: false };
                batch.push(DATABASE, request.key, kind);
            }
            Planned { asked, quiet, what: What::TooLarge }
        }
        Some(_) => refused(Status::Invalid, true),
    }
}

fn is_store(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, Set | Add | Replace | Append | Prepend)
}

/// Whether a request has the parts that its opcode wants.
fn fits(opcode: Opcode, request: &Request<'_>) -> bool {
    use Opcode::*;
    let (extras, key, value) = (request.extras.len(), request.key.len(), request.value.len());
    match opcode {
        Get | GetK | Delete => extras == 0 && key > 0 && value == 0,
        Set | Add | Replace => extras == 8 && key > 0,
        Append | Prepend => extras == 0 && key > 0,
        Increment | Decrement => extras == 20 && key > 0 && value == 0,
        Touch | Gat | GatK => extras == 4 && key > 0,
        Flush => matches!(extras, 0 | 4) && key == 0 && value == 0,
        Quit | Noop | Version => extras == 0 && key == 0 && value == 0,
        Stat | SaslList => extras == 0,
        SaslAuth | SaslStep => extras == 0 && key > 0,
    }
}

fn of(opcode: Opcode, request: Request<'_>, batch: &mut Batch, ctx: &Context<'_>) -> What {
    let Request { cas, extras, key, value, .. } = request;
    let moment = |exptime: u32| expire_at_ms(exptime.into(), ctx.now_ms, ctx.time.wall_ahead_ms);
    let expiry = |at: usize| moment(u32_at(extras, at)).map_or(Expiry::Clear, Expiry::At);
    let mut touch = |value: bool| {
        batch.push(DATABASE, key, OpKind::Expire { expiry: expiry(0), condition: ExpireIf::Always, value })
    };
    match opcode {
        Opcode::Touch => What::Touch { op: touch(false), value: false, key: false },
        Opcode::Gat => What::Touch { op: touch(true), value: true, key: false },
        Opcode::GatK => What::Touch { op: touch(true), value: true, key: true },
        Opcode::Get => What::Get { op: batch.push(DATABASE, key, OpKind::Get { value: true }), key: false },
        Opcode::GetK => What::Get { op: batch.push(DATABASE, key, OpKind::Get { value: true }), key: true },
        Opcode::Set | Opcode::Add | Opcode::Replace => {
            // A token makes a check of all three.
            let (condition, otherwise) = match opcode {
                _ if cas != 0 => (Condition::Version(cas), Status::NotFound),
                Opcode::Add => (Condition::Absent, Status::Exists),
                Opcode::Replace => (Condition::Present, Status::NotFound),
                _ => (Condition::Always, Status::NotStored),
            };
            let value = batch.bytes(value);
            let (expiry, flags) = (expiry(4), Some(u32_at(extras, 0)));
            let op =
                batch.push(DATABASE, key, OpKind::Set { value, condition, expiry, flags, old_value: false });
            What::Store { op, otherwise, checked: cas != 0 }
        }
        Opcode::Append | Opcode::Prepend => {
            let front = opcode == Opcode::Prepend;
            What::Join { op: meta::join(batch, ctx, key, &Join { front, value, cas: token(cas) }) }
        }
        Opcode::Increment | Opcode::Decrement => {
            let down = opcode == Opcode::Decrement;
            let exptime = u32_at(extras, 16);
            let initial = (exptime != NOT_MADE).then(|| (u64_at(extras, 8), moment(exptime).unwrap_or(0)));
            let sum = Sum { down, delta: u64_at(extras, 0), initial, cas: token(cas) };
            What::Number { op: meta::add(batch, key, &sum), down }
        }
        Opcode::Delete => {
            let condition = token(cas).map_or(Condition::Always, Condition::Version);
            What::Delete { op: batch.push(DATABASE, key, OpKind::Delete { condition, old_value: false }) }
        }
        Opcode::Flush => {
            let delay = if extras.is_empty() { 0 } else { u32_at(extras, 0).into() };
            match text::flush_all(batch, delay, false, ctx) {
                TextPlanned::Flush { op, .. } => What::Flush { op },
                TextPlanned::Text { reply: admin::NO_FLUSH, .. } => {
                    What::Refused { status: Status::Auth, ends: false }
                }
                _ => What::Text(b""),
            }
        }
        Opcode::Noop => What::Text(b""),
        Opcode::Version => What::Text(crate::memcached::answer::VERSION.as_bytes()),
        Opcode::Quit => What::Quit,
        Opcode::Stat => match stats::plan(Words::new(key), ctx) {
            TextPlanned::Stats(report) => What::Stats(report),
            TextPlanned::Text { reply: b"OK\r\n", .. } => What::Text(b""),
            _ => What::Refused { status: Status::NotFound, ends: false },
        },
        Opcode::SaslList | Opcode::SaslAuth | Opcode::SaslStep => sasl(opcode, &request, ctx),
    }
}

/// Where nobody has to log in there is no SASL, as in memcached without `-S`.
fn sasl(opcode: Opcode, request: &Request<'_>, ctx: &Context<'_>) -> What {
    let Some(users) = &ctx.shared.options.memcached_users else {
        return What::Refused { status: Status::Unknown, ends: false };
    };
    if opcode == Opcode::SaslList {
        return What::Text(b"PLAIN");
    }
    let mut words = request.value.splitn(3, |byte| *byte == 0).skip(1);
    let login = (words.next(), words.next());
    let known = match login {
        (Some(user), Some(password)) => {
            opcode == Opcode::SaslAuth && request.key == b"PLAIN" && users.knows(user, password)
        }
        _ => false,
    };
    What::Login { known }
}

/// 0 is no token.
fn token(cas: u64) -> Option<u64> {
    Some(cas).filter(|cas| *cas != 0)
}

/// A number in the extras, whose length has been checked.
fn u32_at(extras: &[u8], at: usize) -> u32 {
    extras.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(extras: &[u8], at: usize) -> u64 {
    extras.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
