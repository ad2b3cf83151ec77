//! memcached's binary protocol: bytes to requests and back. Upstream advises against it since 1.6; clients that are older speak it.
//!
//! ```text
//!   0x80 opcode key:16 extras:8 0 vbucket:16 body:32 opaque:32 cas:64 | extras | key | value      a request
//!   0x81 opcode key:16 extras:8 0 status:16  body:32 opaque:32 cas:64 | extras | key | value      an answer
//! ```
//! Numbers are big-endian. A body is extras, key and value together.

use super::{KEY_BYTES_MAX, value_room};

/// Bytes in front of extras, key and value.
pub const HEADER_BYTES: usize = 24;
const REQUEST: u8 = 0x80;
const ANSWER: u8 = 0x81;

/// Whether a connection that begins with this byte speaks it.
pub fn begins(first: u8) -> bool {
    first == REQUEST
}

macro_rules! opcodes {
    ($($name:ident $code:literal $(quiet $quiet:literal)?,)*) => {
        /// What a request asks for. Those that have a quiet form, which answers only what is new, are named without it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are memcached's")]
        pub enum Opcode {
            $($name,)*
        }

        impl Opcode {
            /// By its number, and whether it is the quiet form.
            pub fn of(code: u8) -> Option<(Self, bool)> {
                match code {
                    $($code => Some((Self::$name, false)), $($quiet => Some((Self::$name, true)),)?)*
                    _ => None,
                }
            }
        }
    };
}
opcodes! {
    Get 0x00 quiet 0x09,
    Set 0x01 quiet 0x11,
    Add 0x02 quiet 0x12,
    Replace 0x03 quiet 0x13,
    Delete 0x04 quiet 0x14,
    Increment 0x05 quiet 0x15,
    Decrement 0x06 quiet 0x16,
    Quit 0x07 quiet 0x17,
    Flush 0x08 quiet 0x18,
    Noop 0x0a,
    Version 0x0b,
    GetK 0x0c quiet 0x0d,
    Append 0x0e quiet 0x19,
    Prepend 0x0f quiet 0x1a,
    Stat 0x10,
    Touch 0x1c,
    Gat 0x1d quiet 0x1e,
    SaslList 0x20,
    SaslAuth 0x21,
    SaslStep 0x22,
    GatK 0x23 quiet 0x24,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done.
    Success = 0x00,
    /// No such key.
    NotFound = 0x01,
    /// The key is there, or with another cas token.
    Exists = 0x02,
    /// The value is longer than may be.
    TooLarge = 0x03,
    /// The request makes no sense.
    Invalid = 0x04,
    /// Nothing was stored.
    NotStored = 0x05,
    /// The value is no number.
    NotANumber = 0x06,
    /// Not logged in, or not allowed.
    Auth = 0x20,
    /// No such opcode.
    Unknown = 0x81,
    /// The store is full.
    OutOfMemory = 0x82,
    /// The server failed. (memcached's name is *internal error*.)
    Internal = 0x84,
}

impl Status {
    /// memcached's words, which are an error's body.
    pub fn text(self) -> &'static [u8] {
        match self {
            Self::Success => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::Invalid => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NotANumber => b"Non-numeric server-side value for incr or decr",
            Self::Auth => b"Auth failure.",
            Self::Unknown => b"Unknown command",
            Self::OutOfMemory => b"Out of memory",
            Self::Internal => b"Internal error",
        }
    }
}

/// What an answer gives back of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The opcode's number.
    pub code: u8,
    /// The client's own number.
    pub opaque: u32,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What its answer gives back.
    pub asked: Asked,
    /// 0 for none.
    pub cas: u64,
    /// In front of the key.
    pub extras: &'a [u8],
    /// At most 250 bytes, which may be any.
    pub key: &'a [u8],
    /// Behind the key.
    pub value: &'a [u8],
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request.
    Request(Request<'a>),
    /// One whose value is longer than the limit and will be skipped: it is empty here.
    TooLarge(Request<'a>),
    /// Answer this, then close: what follows can't be read.
    Broken(Asked, Status),
    /// Close: this is no request.
    Close,
    /// More is needed: come again with at least this many bytes, counted from the first that was not consumed.
    Incomplete {
        /// At least 1 more than there are.
        needed: usize,
    },
}

/// A connection's parser.
#[derive(Debug)]
pub struct Parser {
    value_bytes_max: usize,
    counts_items: bool,
    /// Of a value that nobody wants.
    skip: u64,
    closed: bool,
}

impl Parser {
    /// A parser at the start of a connection; longer values are skipped without being buffered. With `counts_items` the bound is that
    /// of an item, as memcached counts it: see [`value_room`].
    pub fn new(value_bytes_max: usize, counts_items: bool) -> Self {
        Self { value_bytes_max, counts_items, skip: 0, closed: false }
    }

    /// Reads the next event from the bytes received and not yet consumed, and how many of them are done with. Call it until it answers
    /// `Incomplete`, `Broken` or `Close`.
    pub fn step<'a>(&mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        if self.closed {
            return (0, Event::Close);
        }
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(input.len());
        self.skip -= skipped as u64;
        if self.skip > 0 {
            return (skipped, Event::Incomplete { needed: 1 });
        }
        let (consumed, event) = self.request(&input[skipped..]);
        self.closed = matches!(event, Event::Broken(..) | Event::Close);
        (skipped + consumed, event)
    }

    fn request<'a>(&mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        let Some((header, body)) = input.split_first_chunk::<HEADER_BYTES>() else {
            return match input.first() {
                Some(first) if !begins(*first) => (0, Event::Close),
                _ => (0, Event::Incomplete { needed: HEADER_BYTES }),
            };
        };
        let [magic, code, key_high, key_low, extras_bytes, _, _, _, rest @ ..] = *header;
        if !begins(magic) {
            return (0, Event::Close);
        }
        let key_bytes = usize::from(u16::from_be_bytes([key_high, key_low]));
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        let body_bytes = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let asked = Asked { code, opaque: u32::from_be_bytes([o0, o1, o2, o3]) };
        let front = usize::from(extras_bytes) + key_bytes;
        if front > body_bytes {
            return (HEADER_BYTES, Event::Broken(asked, Status::Unknown));
        }
        if key_bytes > KEY_BYTES_MAX {
            return (HEADER_BYTES, Event::Broken(asked, Status::Invalid));
        }
        let value_bytes = body_bytes - front;
        let Some(extras) = body.get(..extras_bytes.into()) else {
            return (0, Event::Incomplete { needed: HEADER_BYTES + front });
        };
        let is_long = value_bytes > self.longest(extras, key_bytes);
        let wanted = if is_long { front } else { body_bytes };
        let Some(body) = body.get(..wanted) else {
            return (0, Event::Incomplete { needed: HEADER_BYTES + wanted });
        };
        let (extras, body) = body.split_at(extras_bytes.into());
        let (key, value) = body.split_at(key_bytes);
        let request = Request { asked, cas: u64::from_be_bytes(cas), extras, key, value };
        if is_long {
            self.skip = value_bytes as u64;
            return (HEADER_BYTES + wanted, Event::TooLarge(request));
        }
        (HEADER_BYTES + wanted, Event::Request(request))
    }

    fn longest(&self, extras: &[u8], key_bytes: usize) -> usize {
        if !self.counts_items {
            return self.value_bytes_max;
        }
        // Those of a set begin with its flags.
        let flags = extras.first_chunk().filter(|_| extras.len() == 8);
        value_room(self.value_bytes_max, key_bytes, flags.map_or(0, |flags| u32::from_be_bytes(*flags)))
    }
}

/// Appends an answer up to its value, which has so many bytes and follows.
pub fn answer(
    out: &mut Vec<u8>,
    asked: Asked,
    status: Status,
    cas: u64,
    (extras, key, value_bytes): (&[u8], &[u8], usize),
) {
    let body_bytes = (extras.len() + key.len() + value_bytes) as u32;
    out.extend_from_slice(&[ANSWER, asked.code]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0]);
    out.extend_from_slice(&(status as u16).to_be_bytes());
    out.extend_from_slice(&body_bytes.to_be_bytes());
    out.extend_from_slice(&asked.opaque.to_be_bytes());
    out.extend_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
}

/// Appends an answer that says what went wrong.
pub fn refuse(out: &mut Vec<u8>, asked: Asked, status: Status) {
    answer(out, asked, status, 0, (b"", b"", status.text().len()));
    out.extend_from_slice(status.text());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![REQUEST, code];
        bytes.extend((key.len() as u16).to_be_bytes());
        bytes.extend([extras.len() as u8, 0, 0, 0]);
        bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend(0xdead_beef_u32.to_be_bytes());
        bytes.extend(cas.to_be_bytes());
        [&bytes[..], extras, key, value].concat()
    }

    #[test]
    fn a_request_is_read_however_it_arrives() {
        let bytes = request(1, 7, b"flagstim", b"key", b"value");
        for len in 0..bytes.len() {
            let (consumed, event) = Parser::new(100, false).step(&bytes[..len]);
            let Event::Incomplete { needed } = event else { panic!("{event:?} after {len}") };
            assert!(consumed == 0 && needed > len && needed <= bytes.len());
        }
        let asked = Asked { code: 1, opaque: 0xdead_beef };
        let expected = Request { asked, cas: 7, extras: b"flagstim", key: b"key", value: b"value" };
        let two = [&bytes[..], &bytes].concat();
        let mut parser = Parser::new(100, false);
        assert_eq!(parser.step(&two), (bytes.len(), Event::Request(expected)));
        assert_eq!(parser.step(&two[bytes.len()..]), (bytes.len(), Event::Request(expected)));
        assert_eq!(parser.step(b""), (0, Event::Incomplete { needed: HEADER_BYTES }));
    }

    #[test]
    fn long_values_are_skipped_and_not_kept() {
        let bytes =
            [request(1, 0, b"flagstim", b"key", &[b'x'; 50]), request(0x0a, 0, b"", b"", b"")].concat();
        let mut parser = Parser::new(49, false);
        let (consumed, event) = parser.step(&bytes[..40]);
        let Event::TooLarge(request) = event else { panic!("{event:?}") };
        assert_eq!((consumed, request.key, request.value), (35, &b"key"[..], &b""[..]));
        assert_eq!(parser.step(&bytes[35..60]), (25, Event::Incomplete { needed: 1 }));
        let (consumed, event) = parser.step(&bytes[60..]);
        assert_eq!(consumed, bytes.len() - 60);
        assert!(matches!(event, Event::Request(Request { asked: Asked { code: 0x0a, .. }, .. })));
    }

    #[test]
    fn what_makes_no_sense_ends_the_connection() {
        let mut short = request(0, 0, b"", b"key", b"");
        short[11] = 2;
        let mut parser = Parser::new(100, false);
        assert!(matches!(parser.step(&short), (HEADER_BYTES, Event::Broken(_, Status::Unknown))));
        assert_eq!(parser.step(&short), (0, Event::Close));
        let long = request(0, 0, b"", &[b'k'; 251], b"");
        assert!(matches!(
            Parser::new(100, false).step(&long),
            (HEADER_BYTES, Event::Broken(_, Status::Invalid))
        ));
        assert_eq!(Parser::new(100, false).step(b"get x\r\n"), (0, Event::Close));
        let mut parser = Parser::new(100, false);
        let good = request(0x0a, 0, b"", b"", b"");
        assert_eq!(parser.step(&good).0, good.len());
        assert_eq!(parser.step(b"get"), (0, Event::Close));
    }

    #[test]
    fn answers_give_back_what_was_asked() {
        let asked = Asked { code: 0x0c, opaque: 9 };
        let mut out = Vec::new();
        answer(&mut out, asked, Status::Success, 5, (b"flag", b"key", 2));
        out.extend_from_slice(b"ab");
        let expected =
            b"\x81\x0c\x00\x03\x04\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05flagkeyab";
        assert_eq!(out, expected);
        out.clear();
        refuse(&mut out, asked, Status::NotFound);
        assert_eq!((&out[6..8], &out[24..]), (&[0, 1][..], &b"Not found"[..]));
    }

    #[test]
    fn every_number_has_one_meaning() {
        let known: Vec<u8> = (0..=255).filter(|code| Opcode::of(*code).is_some()).collect();
        let expected: Vec<u8> = (0x00..=0x1a).chain([0x1c, 0x1d, 0x1e]).chain(0x20..=0x24).collect();
        assert_eq!(known, expected);
        assert_eq!(Opcode::of(0x0d), Some((Opcode::GetK, true)));
    }
}
