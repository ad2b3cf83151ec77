//! What meta commands make of a record: pure functions, run inside the engine's critical section for the key.

use terrace_engine::{Edit, Meta, NewBytes, OldRecord, Outcome, Put};
use terrace_protocol::memcached::unsigned;

use super::codec::{
    BINARY_KEY, STALE, Status, Step, TOKEN_SENT, View, seconds_left, steps, take_u8, take_u64,
};

/// A longer value is no number, whatever it is: memcached keeps it in pieces.
const NUMBER_BYTES_MAX: usize = 512 << 10;

/// `mg`, where it may change something. Argument: whether a missing record is created, whether the value is shown, the cas token
/// with which it is not, that of a created record, steps.
pub(super) fn get(edit: &mut Edit<'_>) -> Outcome {
    let mut argument = edit.argument;
    let (creates, shows_value) = (take_u8(&mut argument) != 0, take_u8(&mut argument) != 0);
    let unless = cas(&mut argument);
    let token = take_u64(&mut argument);
    let created = edit.old.is_none();
    if created && !creates {
        View::default().put(edit.answer);
        return Outcome::Keep;
    }
    let mut view = match &edit.old {
        Some(old) => View::of(&old.meta),
        None => View { status: Status::Created, ..View::default() },
    };
    let mut expire_at = view.expire_at;
    for step in steps(argument) {
        match step {
            Step::Expire(at) => expire_at = at,
            Step::ExpireCreated(at) => {
                if created {
                    expire_at = at;
                    view.won = true;
                }
            }
            Step::Recache(seconds) => {
                let left = seconds_left(expire_at, edit.now_ms);
                view.won |= view.state & TOKEN_SENT == 0 && !created && expire_at != 0 && left < seconds;
            }
            Step::ShowExpiry => view.expire_at = expire_at,
        }
    }
    // Who comes first after an invalidation wins.
    view.won |= view.state & (STALE | TOKEN_SENT) == STALE;
    let changed = created || view.won || steps(argument).any(|step| matches!(step, Step::Expire(_)));
    view.put(edit.answer);
    let old = edit.old.as_ref().map_or(&[][..], |old| old.value);
    if shows_value && (created || unless != Some(view.cas)) {
        edit.answer.extend_from_slice(old);
    }
    if !changed {
        return Outcome::Keep;
    }
    let state = view.state | if view.won { TOKEN_SENT } else { 0 };
    let bytes = if created { NewBytes::Value } else { NewBytes::Old };
    // Reading leaves a token as it is.
    let token = edit.old.map_or(token, |old| old.meta.token);
    written(Put { bytes, flags: view.flags, expire_at, state }, token)
}

/// Writes a record with a cas token of the client's choosing; 0: it chose none.
fn written(put: Put, token: u64) -> Outcome {
    if token == 0 { Outcome::Put(put) } else { Outcome::Tokened(put, token) }
}

/// What `ms` stores, for [`set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetRule {
    pub mode: Mode,
    /// The key is shown in base64.
    pub binary_key: bool,
    /// `N`: what is to be joined to a missing record becomes one, which expires at `expire_at`.
    pub creates: bool,
    /// `I`: an older cas token stores, too, and the record is stale.
    pub invalidates: bool,
    pub cas: Option<u64>,
    /// `E`: the cas token to be; 0: the store chooses it.
    pub token: u64,
    /// The longest that a value may become by being joined.
    pub value_bytes_max: u32,
    pub flags: u32,
    pub expire_at: u64,
}

/// When [`set`] stores, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

const MODES: [Mode; 5] = [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend];

impl SetRule {
    /// Appends the argument: this, and the value.
    pub(super) fn put(&self, value: &[u8], out: &mut Vec<u8>) {
        out.push(self.mode as u8);
        for said in [self.binary_key, self.creates, self.invalidates, self.cas.is_some()] {
            out.push(u8::from(said));
        }
        let Self { cas, token, value_bytes_max, flags, expire_at, .. } = *self;
        for number in [cas.unwrap_or(0), token, value_bytes_max.into(), flags.into(), expire_at] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(value);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        let mode = MODES.get(usize::from(take_u8(bytes))).copied().unwrap_or(Mode::Set);
        let [binary_key, creates, invalidates, has_cas] = std::array::from_fn(|_| take_u8(bytes) != 0);
        let [cas, token, value_bytes_max, flags, expire_at] = std::array::from_fn(|_| take_u64(bytes));
        let (cas, value_bytes_max, flags) = (has_cas.then_some(cas), value_bytes_max as u32, flags as u32);
        Self { mode, binary_key, creates, invalidates, cas, token, value_bytes_max, flags, expire_at }
    }
}

/// The command, the expiry and the value's length in an argument of [`set`].
pub(in crate::memcached) fn told(mut argument: &[u8]) -> (&'static str, u64, usize) {
    let rule = SetRule::take(&mut argument);
    let command = match (rule.mode, rule.cas) {
        (Mode::Set | Mode::Replace, Some(_)) => "cas",
        (Mode::Set, None) => "set",
        (Mode::Add, _) => "add",
        (Mode::Replace, None) => "replace",
        (Mode::Append, _) => "append",
        (Mode::Prepend, _) => "prepend",
    };
    (command, rule.expire_at, argument.len())
}

/// `ms`, where the engine's own rules don't do.
pub(super) fn set(edit: &mut Edit<'_>) -> Outcome {
    let mut value = edit.argument;
    let rule = SetRule::take(&mut value);
    let joins = matches!(rule.mode, Mode::Append | Mode::Prepend);
    // An answer shows the size of what was sent where nothing is stored.
    let sent = value.len() as u64;
    let keeps = |edit: &mut Edit<'_>, status| {
        View { status, value_bytes: sent, ..View::default() }.put(edit.answer);
        Outcome::Keep
    };
    let fresh = Put {
        bytes: NewBytes::Value,
        flags: rule.flags,
        expire_at: rule.expire_at,
        state: if rule.binary_key { BINARY_KEY } else { 0 },
    };
    let put = match (edit.old, rule.mode, rule.cas) {
        (None, Mode::Set, None) | (None, Mode::Add, _) => fresh,
        (None, Mode::Append | Mode::Prepend, _) if rule.creates => fresh,
        // A cas token makes a check of a set and of a replace.
        (None, Mode::Set | Mode::Replace, Some(_)) => return keeps(edit, Status::Absent),
        (None, ..) | (Some(_), Mode::Add, _) => return keeps(edit, Status::NotStored),
        (Some(old), _, Some(cas)) if cas != old.meta.cas() => {
            if joins || !rule.invalidates || cas > old.meta.cas() {
                return keeps(edit, Status::Mismatch);
            }
            // What an old token stores is stale from the start, and lives no longer than what it replaces.
            let state = fresh.state | STALE | old.meta.state & TOKEN_SENT;
            Put { expire_at: old.meta.expire_at, state, ..fresh }
        }
        (Some(old), ..) if joins && old.value.len() + value.len() > rule.value_bytes_max as usize => {
            return keeps(edit, Status::NotStored);
        }
        (Some(old), ..) if joins => {
            Put { flags: old.meta.flags, expire_at: old.meta.expire_at, state: old.meta.state, ..fresh }
        }
        (Some(_), ..) => fresh,
    };
    let old = edit.old.map_or(&[][..], |old| old.value);
    match rule.mode {
        Mode::Append => edit.value.extend_from_slice(old),
        Mode::Prepend => {
            edit.value.extend_from_slice(value);
            value = old;
        }
        _ => {}
    }
    edit.value.extend_from_slice(value);
    let value_bytes = edit.value.len() as u64;
    View { status: Status::Found, value_bytes, ..View::default() }.put(edit.answer);
    written(put, rule.token)
}

/// `md` with `I` or `x`: the record stays, invalidated or without its value. Argument: which, the flags of a record without a
/// value, the cas token to be, whether one is to be compared, it, steps.
pub(super) fn mark(edit: &mut Edit<'_>) -> Outcome {
    let mut argument = edit.argument;
    let (invalidates, empties) = (take_u8(&mut argument) != 0, take_u8(&mut argument) != 0);
    let (flags, token) = (take_u64(&mut argument) as u32, take_u64(&mut argument));
    let cas = cas(&mut argument);
    let Some(old) = edit.old else {
        View::default().put(edit.answer);
        return Outcome::Keep;
    };
    if cas.is_some_and(|cas| cas != old.meta.cas()) {
        View { status: Status::Mismatch, ..View::default() }.put(edit.answer);
        return Outcome::Keep;
    }
    View::of(&old.meta).put(edit.answer);
    let kept = if empties {
        Put { bytes: NewBytes::Value, flags, expire_at: 0, state: 0 }
    } else {
        let Meta { flags, expire_at, state, .. } = old.meta;
        Put { bytes: NewBytes::Old, flags, expire_at, state }
    };
    let mut expire_at = kept.expire_at;
    for step in steps(argument) {
        if let Step::Expire(at) = step {
            expire_at = at;
        }
    }
    // The next client wins once more.
    let state = if invalidates { kept.state & !TOKEN_SENT | STALE } else { kept.state };
    let token = if token == 0 && !invalidates { old.meta.token } else { token };
    written(Put { expire_at, state, ..kept }, token)
}

/// Appends a cas token for [`cas`].
pub(super) fn put_cas(cas: Option<u64>, out: &mut impl Extend<u8>) {
    out.extend([u8::from(cas.is_some())]);
    out.extend(cas.unwrap_or(0).to_le_bytes());
}

fn cas(argument: &mut &[u8]) -> Option<u64> {
    let has_cas = take_u8(argument) != 0;
    let cas = take_u64(argument);
    has_cas.then_some(cas)
}

/// `ma`. Argument: whether down, whether a missing record is created, delta, initial number, the cas token to be, whether one is to
/// be compared, it, steps. The answer's
/// value is the number.
pub(super) fn number(edit: &mut Edit<'_>) -> Outcome {
    let mut argument = edit.argument;
    let (down, creates) = (take_u8(&mut argument) != 0, take_u8(&mut argument) != 0);
    let [delta, initial, token] = std::array::from_fn(|_| take_u64(&mut argument));
    // 0 is no token, as in memcached.
    let cas = cas(&mut argument).filter(|&cas| cas != 0);
    let (status, number) = match &edit.old {
        None if creates => (Status::Created, initial),
        None => (Status::Absent, 0),
        Some(old) => match added(old, down, delta, cas) {
            Ok(number) => (Status::Found, number),
            Err(status) => (status, 0),
        },
    };
    let mut view = View { status, ..edit.old.map_or_else(View::default, |old| View::of(&old.meta)) };
    if !matches!(status, Status::Created | Status::Found) {
        view.put(edit.answer);
        return Outcome::Keep;
    }
    let mut expire_at = view.expire_at;
    for step in steps(argument) {
        match step {
            Step::Expire(at) => expire_at = at,
            Step::ExpireCreated(at) if status == Status::Created => expire_at = at,
            Step::ShowExpiry => view.expire_at = expire_at,
            _ => {}
        }
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    edit.value.extend_from_slice(digits);
    view.value_bytes = digits.len() as u64;
    view.put(edit.answer);
    edit.answer.extend_from_slice(digits);
    // A shorter number keeps its length, filled with spaces.
    let length = edit.old.map_or(0, |old| old.value.len());
    while edit.value.len() < length {
        edit.value.extend_from_slice(b" ");
    }
    written(Put { bytes: NewBytes::Value, flags: view.flags, expire_at, state: view.state }, token)
}

fn added(old: &OldRecord<'_>, down: bool, delta: u64, cas: Option<u64>) -> Result<u64, Status> {
    if old.value.is_empty() {
        return Err(Status::NotNumber);
    }
    if cas.is_some_and(|cas| cas != old.meta.cas()) {
        return Err(Status::Mismatch);
    }
    if old.value.len() > NUMBER_BYTES_MAX {
        return Err(Status::NotNumber);
    }
    let found = unsigned(old.value).ok_or(Status::NotNumber)?;
    Ok(if down { found.saturating_sub(delta) } else { found.wrapping_add(delta) })
}
