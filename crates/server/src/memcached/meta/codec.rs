//! What a meta command's rule is given and answers, as bytes. Both ends are here: no length comes from a client.

use terrace_engine::Meta;
use terrace_engine::clock::Time;
use terrace_protocol::memcached::expire_at_ms;
use terrace_protocol::memcached::meta::Flags;

/// State of a record: it was invalidated, and is shown as stale.
pub(super) const STALE: u8 = 1;
/// State of a record: one client was told to fetch it anew.
pub(super) const TOKEN_SENT: u8 = 2;
/// State of a record: its key is shown in base64.
pub(in crate::memcached) const BINARY_KEY: u8 = 4;

/// What a flag does to a record, in the order of the client's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `T`: gives it this expiry, 0 for never.
    Expire(u64),
    /// `N`: gives it this one if it was created.
    ExpireCreated(u64),
    /// `R`: a win if it expires in fewer seconds than this.
    Recache(u64),
    /// `t`: this is the moment at which the answer shows the expiry.
    ShowExpiry,
}

/// Most bytes of an argument without a value: each flag is there once, so there are four steps at most.
const ARGUMENT_BYTES_MAX: usize = 72;

/// An argument without a value, on the stack.
pub(super) struct Argument {
    bytes: [u8; ARGUMENT_BYTES_MAX],
    len: usize,
}

impl Argument {
    /// One that begins with these bytes.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut argument = Self { bytes: [0; ARGUMENT_BYTES_MAX], len: 0 };
        argument.extend(bytes.iter().copied());
        argument
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Extend<u8> for Argument {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        for byte in bytes {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }
}

/// Appends the steps of these flags that change something.
pub(super) fn put_steps(flags: Flags<'_>, time: Time, out: &mut impl Extend<u8>) {
    let moment = |exptime| expire_at_ms(exptime, time.now_ms, time.wall_ahead_ms);
    let at = |letter| flags.signed(letter).and_then(moment).unwrap_or(0);
    for (letter, _) in flags.iter() {
        let number = match letter {
            b'T' | b'N' => at(letter),
            b'R' => seconds_left(at(b'R'), time.now_ms),
            b't' => 0,
            _ => continue,
        };
        out.extend([letter]);
        out.extend(number.to_le_bytes());
    }
}

/// The steps that [`put_steps`] wrote.
pub(super) fn steps(bytes: &[u8]) -> impl Iterator<Item = Step> {
    let (steps, _) = bytes.as_chunks::<9>();
    steps.iter().map(|[letter, number @ ..]| {
        let number = u64::from_le_bytes(*number);
        match letter {
            b'T' => Step::Expire(number),
            b'N' => Step::ExpireCreated(number),
            b'R' => Step::Recache(number),
            _ => Step::ShowExpiry,
        }
    })
}

/// Whole seconds until a moment, as memcached counts them; 0 if it has passed or is never.
pub(in crate::memcached) fn seconds_left(expire_at: u64, now_ms: u64) -> u64 {
    expire_at.saturating_sub(now_ms).div_ceil(1000)
}

/// Takes a number from the front; 0 where nothing is left.
pub(super) fn take_u64(bytes: &mut &[u8]) -> u64 {
    match bytes.split_first_chunk::<8>() {
        Some((number, rest)) => {
            *bytes = rest;
            u64::from_le_bytes(*number)
        }
        None => 0,
    }
}

/// Takes a byte from the front; 0 where nothing is left.
pub(super) fn take_u8(bytes: &mut &[u8]) -> u8 {
    match bytes.split_first() {
        Some((byte, rest)) => {
            *bytes = rest;
            *byte
        }
        None => 0,
    }
}

/// How an edit ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Status {
    /// There is no record.
    #[default]
    Absent,
    /// There is one.
    Found,
    /// There is one now.
    Created,
    /// There is one with another cas token.
    Mismatch,
    /// There is one that an `add` did not replace.
    NotStored,
    /// There is one that is not a number.
    NotNumber,
}

/// What an edit answers; the value (or number), if asked for, stands behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub status: Status,
    /// The client won the right to fetch it anew.
    pub won: bool,
    /// The record's state before.
    pub state: u8,
    pub flags: u32,
    /// As the answer shows it.
    pub expire_at: u64,
    /// The cas token before.
    pub cas: u64,
    /// The value's length.
    pub value_bytes: u64,
}

impl View {
    /// A record as it is.
    pub(super) fn of(meta: &Meta) -> Self {
        Self {
            status: Status::Found,
            won: false,
            state: meta.state,
            flags: meta.flags,
            expire_at: meta.expire_at,
            cas: meta.cas(),
            value_bytes: meta.value_bytes,
        }
    }

    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.status as u8, u8::from(self.won), self.state]);
        for number in [u64::from(self.flags), self.expire_at, self.cas, self.value_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Takes it from the front.
    pub(super) fn take(bytes: &mut &[u8]) -> Self {
        let status = match take_u8(bytes) {
            1 => Status::Found,
            2 => Status::Created,
            3 => Status::Mismatch,
            4 => Status::NotStored,
            5 => Status::NotNumber,
            _ => Status::Absent,
        };
        let (won, state) = (take_u8(bytes) != 0, take_u8(bytes));
        let [flags, expire_at, cas, value_bytes] = std::array::from_fn(|_| take_u64(bytes));
        Self { status, won, state, flags: flags as u32, expire_at, cas, value_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_and_numbers_come_back() {
        for status in [
            Status::Absent,
            Status::Found,
            Status::Created,
            Status::Mismatch,
            Status::NotStored,
            Status::NotNumber,
        ] {
            let view = View {
                status,
                won: true,
                state: 6,
                flags: u32::MAX,
                expire_at: 5,
                cas: u64::MAX,
                value_bytes: 7,
            };
            let mut bytes = Vec::new();
            view.put(&mut bytes);
            bytes.extend_from_slice(b"value");
            let mut rest = &bytes[..];
            assert_eq!((View::take(&mut rest), rest), (view, &b"value"[..]));
        }
        assert_eq!(take_u64(&mut &b"short"[..]), 0);
    }

    #[test]
    fn seconds_are_counted_to_the_next_whole_one() {
        assert_eq!(
            [seconds_left(10_000, 9_999), seconds_left(10_000, 9_000), seconds_left(10_000, 8_999)],
            [1, 1, 2]
        );
        assert_eq!([seconds_left(10_000, 10_000), seconds_left(0, 5)], [0, 0]);
    }
}
