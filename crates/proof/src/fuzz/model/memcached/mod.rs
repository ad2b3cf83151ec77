//! What memcached's documentation says that its commands answer, classic ones and meta commands.

mod classic;
mod draw;
mod meta;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::expect::{Expect, Part};
pub(super) use draw::draw;
pub(super) use meta::Meta;

/// Seconds by which a time to live may differ from what the model says.
const LATE: i64 = 60;

/// A record.
#[derive(Clone, Debug)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    /// When it expires, in seconds since the epoch; 0 for never.
    at: i64,
    /// The generation of its cas token.
    token: u64,
    /// The first generation whose token it may still have.
    since: u64,
    /// It was read since it was written.
    fetched: bool,
    /// It was invalidated.
    stale: bool,
    /// Somebody was told to fetch it anew.
    token_sent: bool,
    /// Its key is told in base64.
    binary: bool,
}

impl Item {
    fn new(value: &[u8], flags: u32, at: i64, binary: bool) -> Self {
        let value = value.to_vec();
        Self { value, flags, at, token: 0, since: 0, fetched: false, stale: false, token_sent: false, binary }
    }
}

impl Item {
    /// Its token, as an answer tells it.
    fn shown_token(&self) -> Part {
        if self.since == self.token { Part::Token(self.token) } else { Part::TouchedToken(self.token) }
    }
}

/// The server.
pub(super) struct Model {
    items: BTreeMap<Vec<u8>, Item>,
    tokens: u64,
    /// It is memcached that is compared with, not terrace: where these differ on purpose, and `docs/fuzzing.md` says so.
    original: bool,
}

impl Model {
    pub fn new(original: bool) -> Self {
        Self { items: BTreeMap::new(), tokens: 0, original }
    }

    /// Whether what was answered must have left the server before this command. memcached counts in a number's place, blanks
    /// behind it, unless an answer on its way still refers to the record.
    pub fn needs_quiet(&self, command: &[u8]) -> bool {
        let counts = [&b"incr "[..], b"decr ", b"ma "].iter().any(|name| command.starts_with(name));
        self.original && counts
    }

    fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// The record of a key; one that has expired is none.
    fn get(&mut self, key: &[u8]) -> Option<&mut Item> {
        if self.items.get(key)?.at.is_negative() {
            self.items.remove(key);
        }
        self.items.get_mut(key)
    }

    /// Writes a record, with a new token.
    fn put(&mut self, key: &[u8], item: Item) -> u64 {
        let token = self.next_token();
        self.items.insert(key.to_vec(), Item { token, since: token, ..item });
        token
    }

    /// A change of a record that is no write: its token stays, or, with us, may change.
    fn touched(&mut self, key: &[u8]) {
        if !self.original {
            let token = self.next_token();
            if let Some(item) = self.items.get_mut(key) {
                item.token = token;
            }
        }
    }
}

/// When a record expires, from the seconds that a client says: -1 is past, and never comes.
fn expiry(seconds: i64) -> i64 {
    match seconds {
        ..0 => -1,
        0 => 0,
        // More than 30 days are a date.
        2_592_001.. => seconds,
        _ => now() + seconds,
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() as i64
}

/// A number as memcached reads it in a value: digits, and what a blank may follow. Our classic commands are strict: blanks
/// alone, and twenty digits.
fn number(value: &[u8], strict: bool) -> Option<u64> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let fits = if strict {
        end <= 20 && value[end..].iter().all(is_blank)
    } else {
        value.get(end).is_none_or(is_blank)
    };
    std::str::from_utf8(&value[..end]).ok().filter(|_| fits)?.parse().ok()
}

/// Text of an answer.
fn text(bytes: impl AsRef<[u8]>) -> Expect {
    Expect::Bytes(bytes.as_ref().to_vec())
}

/// Appends to the parts of an answer.
fn say(parts: &mut Vec<Part>, bytes: impl AsRef<[u8]>) {
    parts.push(Part::Text(bytes.as_ref().to_vec()));
}
