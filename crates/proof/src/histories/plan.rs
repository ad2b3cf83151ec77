//! Which keys there are, and what is asked of them.

use terrace_testkit::linearize::{Action, appended, parts};
use terrace_testkit::rng::Rng;

use super::value::Kind;

/// The first so many keys get [`HOT_PERCENT`] of the calls.
const HOT_KEYS: u64 = 16;
const HOT_PERCENT: u64 = 30;
/// A list with more parts is written anew.
const PARTS_MAX: i64 = 48;

/// Only the first so many clients append. The order of parts whose appends are cut off by one crash is free, and what the list
/// may hold then multiplies with each of them.
const APPENDING_CLIENTS: u32 = 6;

/// What a key of this number holds: of 16, two counters, two lists, two pairs and ten blobs.
pub fn kind(key: u64) -> Kind {
    match key % 16 {
        0 | 8 => Kind::Counter,
        1 | 9 => Kind::List,
        2 | 10 => Kind::Pair,
        _ => Kind::Blob,
    }
}

/// Every second client does; the others speak Redis's protocol.
pub fn speaks_memcached(client: u32) -> bool {
    client % 2 == 1
}

/// A key's names: two of a pair, else one.
pub fn names(key: u64) -> Vec<String> {
    match kind(key) {
        Kind::Pair => vec![format!("p:{key}:a"), format!("p:{key}:b")],
        _ => vec![format!("k:{key}")],
    }
}

/// A key.
pub fn draw_key(rng: &mut Rng, keys: u64) -> u64 {
    if rng.percent(HOT_PERCENT) { rng.below(HOT_KEYS.min(keys)) } else { rng.below(keys) }
}

/// What a client knows of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The list it saw last, or 0.
    pub list: i64,
    /// The value it saw last, with its cas token.
    pub token: Option<(i64, u64)>,
}

/// What `client` is to ask; `unique` is a number that nobody else writes.
pub fn draw_action(rng: &mut Rng, kind: Kind, client: u32, unique: i64, known: &Known) -> Action {
    let memcached = speaks_memcached(client);
    let dice = rng.below(100);
    match (kind, memcached) {
        (Kind::Counter, false) => match dice {
            0..30 => Action::Get,
            30..75 => Action::Incr(1 + (unique & 3)),
            75..83 => Action::Set(unique),
            83..89 => Action::Delete,
            89..94 => Action::SetIfAbsent(unique),
            _ => Action::Swap(unique),
        },
        (Kind::Counter, true) => match dice {
            0..30 => Action::Get,
            30..75 => Action::IncrIfPresent(1 + (unique & 3)),
            75..85 => Action::Set(unique),
            85..93 => Action::Delete,
            _ => Action::SetIfAbsent(unique),
        },
        (Kind::List, _) => match dice {
            0..35 => Action::Get,
            35..40 => Action::Delete,
            40..45 => Action::Set(appended(None, unique)),
            _ if parts(known.list) > PARTS_MAX => Action::Set(appended(None, unique)),
            _ if client >= APPENDING_CLIENTS => Action::Get,
            _ if memcached => Action::AppendIfPresent(unique),
            _ => Action::Append(unique),
        },
        // Only Redis's protocol has an atomic write of two keys.
        (Kind::Pair, false) if dice >= 50 => Action::Set(unique),
        (Kind::Pair, _) => Action::Get,
        (Kind::Blob, false) => match dice {
            0..40 => Action::Get,
            40..76 => Action::Set(unique),
            76..83 => Action::Delete,
            83..89 => Action::SetIfAbsent(unique),
            89..94 => Action::SetIfPresent(unique),
            _ => Action::Swap(unique),
        },
        (Kind::Blob, true) => match (dice, known.token) {
            (0..20, Some((expected, _))) => Action::Cas { expected, new: unique },
            (0..50, _) => Action::Get,
            (50..80, _) => Action::Set(unique),
            (80..87, _) => Action::Delete,
            (87..94, _) => Action::SetIfAbsent(unique),
            _ => Action::SetIfPresent(unique),
        },
    }
}
