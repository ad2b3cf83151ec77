//! The request parser: remembers how far it has come, so that a command that arrives in pieces is looked at once.
//!
//! # Invariants
//! - Between two calls for one command, the bytes already shown stay the same and more follow; offsets count from the
//!   command's first byte, so the caller may move the bytes in memory.
//! - The parser's memory is bounded by the bytes that arrived: an argument costs 16 bytes here and at least 6 on the wire.

use super::error::ProtocolError;
use super::inline;
use super::integer::parse_integer;

/// Lines longer than this are refused.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What a client that has not logged in may claim: enough for AUTH and HELLO.
const STRANGER_ARGS_MAX: i64 = 10;
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;
/// What Redis calls wrong whoever claims it.
const COUNT_MAX: i64 = i32::MAX as i64;
/// Digits of a short number.
const SHORT_DIGITS: usize = 5;
/// Room for this many arguments is kept from command to command.
const KEEP_ARGS: usize = 64;

/// What a request may claim.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most arguments of one command, its name included.
    pub args_max: usize,
    /// Longest argument in bytes (Redis's `proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { args_max: 1 << 20, bulk_bytes_max: 512 << 20 }
    }
}

/// Parses the requests of one connection, one after the other.
#[derive(Debug, Default)]
pub struct Parser {
    limits: Limits,
    /// The client has not logged in.
    stranger: bool,
    state: State,
    /// Start and end of each argument, in the input or in `unquoted`.
    args: Vec<(usize, usize)>,
    /// The arguments of an inline request, without their quotes.
    unquoted: Vec<u8>,
    /// The first byte that was not taken yet.
    at: usize,
    /// The first byte that may hold the end of the line that begins at `at`.
    search_from: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before a command's first byte.
    #[default]
    Start,
    /// In an inline request.
    Inline,
    /// In the line that begins with `*`.
    Count,
    /// In the line that begins with `$`, with so many arguments to come.
    Length { remaining: usize },
    /// In an argument of `bytes`, with so many arguments to come, this one included.
    Bulk { remaining: usize, bytes: usize },
    /// A whole command, array or inline, is in `args`.
    Whole { inline: bool },
}

impl Parser {
    /// A parser with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Says whether the client has yet to log in; then it may claim no more than 10 arguments of 16 KiB each. To be called
    /// between commands; what was parsed of an unfinished one stays.
    pub fn set_stranger(&mut self, stranger: bool) {
        self.stranger = stranger;
    }

    /// Goes on with the command that begins at the first byte of `input`. `Some(n)`: it is whole and takes the first `n`
    /// bytes; its arguments are given by [`args`](Self::args) until the next call, which expects the bytes after it. It may
    /// have no arguments (an empty line); such a command has no answer. `None`: more bytes are needed.
    ///
    /// # Errors
    /// If the framing is wrong or claims more than the limits; the parser can't be used afterwards.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if matches!(self.state, State::Whole { .. }) {
            self.reset();
        }
        loop {
            self.state = match self.state {
                State::Whole { .. } => return Ok(Some(self.at)),
                State::Start => match input.first() {
                    None => return Ok(None),
                    Some(b'*') => State::Count,
                    Some(_) => State::Inline,
                },
                State::Inline => {
                    let Some(end) = self.find(input, b'\n', ProtocolError::InlineTooBig)? else {
                        return Ok(None);
                    };
                    let line = &input[self.at..end];
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    inline::split(line, &mut self.unquoted, &mut self.args)?;
                    self.at = end + 1;
                    State::Whole { inline: true }
                }
                State::Count => {
                    let count = match self.short_line(input, b'*') {
                        Some(count) => Some(count),
                        None => {
                            let Some(line) = self.line(input, ProtocolError::MultibulkCountTooBig)? else {
                                return Ok(None);
                            };
                            parse_integer(&line[1..])
                        }
                    };
                    match count {
                        Some(..=0) => State::Whole { inline: false },
                        Some(count)
                            if self.stranger && (STRANGER_ARGS_MAX + 1..=COUNT_MAX).contains(&count) =>
                        {
                            return Err(ProtocolError::UnauthenticatedMultibulkLength);
                        }
                        Some(count) if count as u64 <= self.limits.args_max as u64 => {
                            State::Length { remaining: count as usize }
                        }
                        _ => return Err(ProtocolError::MultibulkLength),
                    }
                }
                State::Length { remaining: 0 } => State::Whole { inline: false },
                State::Length { remaining } => {
                    let length = match self.short_line(input, b'$') {
                        Some(length) => Some(length),
                        None => {
                            let Some(line) = self.line(input, ProtocolError::BulkCountTooBig)? else {
                                return Ok(None);
                            };
                            let [b'$', length @ ..] = line else {
                                let first = line.first().copied();
                                return Err(ProtocolError::ExpectedDollar(first.unwrap_or(b'\r')));
                            };
                            parse_integer(length)
                        }
                    };
                    match length {
                        Some(bytes @ 0..) if bytes as u64 <= self.limits.bulk_bytes_max as u64 => {
                            if self.stranger && bytes > STRANGER_BULK_BYTES_MAX {
                                return Err(ProtocolError::UnauthenticatedBulkLength);
                            }
                            State::Bulk { remaining, bytes: bytes as usize }
                        }
                        _ => return Err(ProtocolError::BulkLength),
                    }
                }
                State::Bulk { remaining, bytes } => {
                    // Two more for the line's end, which Redis does not look at either.
                    if input.len() - self.at < bytes + 2 {
                        return Ok(None);
                    }
                    self.args.push((self.at, self.at + bytes));
                    self.at += bytes + 2;
                    self.search_from = self.at;
                    State::Length { remaining: remaining - 1 }
                }
            };
        }
    }

    /// How many bytes the command has up to the end of the argument that it is in, as its client says; 0 between arguments.
    pub fn wanted(&self) -> usize {
        match self.state {
            State::Bulk { bytes, .. } => self.at + bytes + 2,
            _ => 0,
        }
    }

    /// The arguments of the command that [`next`](Self::next) found whole in the same `input`.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let bytes = if self.state == (State::Whole { inline: true }) { &self.unquoted } else { input };
        Args { bytes, ranges: &self.args }
    }

    /// Forgets the command.
    fn reset(&mut self) {
        self.state = State::Start;
        self.args.clear();
        self.args.shrink_to(KEEP_ARGS);
        self.unquoted.clear();
        self.unquoted.shrink_to(0);
        self.at = 0;
        self.search_from = 0;
    }

    /// The number in the line at `at`, if that begins with `mark`, is there as a whole, and the number has few digits: goes behind it. Most
    /// lines are such; `None` says nothing of this one.
    #[inline]
    fn short_line(&mut self, input: &[u8], mark: u8) -> Option<i64> {
        if self.search_from != self.at {
            return None;
        }
        let [first, line @ ..] = input.get(self.at..)? else { return None };
        let mut number = 0;
        for (i, byte) in line.iter().take(SHORT_DIGITS + 1).enumerate() {
            match byte {
                // A number that begins with 0 has no other digit.
                b'0'..=b'9' if i != 1 || number != 0 => number = number * 10 + i64::from(byte - b'0'),
                // Its last byte is there as well.
                b'\r' if i > 0 && line.len() > i + 1 && *first == mark => {
                    self.at += i + 3;
                    self.search_from = self.at;
                    return Some(number);
                }
                _ => return None,
            }
        }
        None
    }

    /// The line at `at`, without its end, if it is there; goes behind it.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        too_big: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let Some(end) = self.find(input, b'\r', too_big)? else { return Ok(None) };
        if end + 1 >= input.len() {
            return Ok(None);
        }
        let line = &input[self.at..end];
        self.at = end + 2;
        self.search_from = self.at;
        Ok(Some(line))
    }

    /// Where `byte` is at or after `at`; remembers where to go on looking.
    fn find(
        &mut self,
        input: &[u8],
        byte: u8,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let unseen = input.get(self.search_from..).unwrap_or_default();
        // As far as a line may go, so that the outcome does not depend on the pieces in which it arrives.
        let room = LINE_BYTES_MAX + 1 - (self.search_from - self.at);
        match unseen.iter().take(room).position(|b| *b == byte) {
            Some(position) => {
                self.search_from += position;
                Ok(Some(self.search_from))
            }
            None if input.len() - self.at > LINE_BYTES_MAX => Err(too_big),
            None => {
                self.search_from = input.len();
                Ok(None)
            }
        }
    }
}

/// A command's arguments, its name first; ranges of the input, copied nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl<'a> Args<'a> {
    /// Arguments that lie in these ranges of `bytes`.
    pub fn new(bytes: &'a [u8], ranges: &'a [(usize, usize)]) -> Self {
        Self { bytes, ranges }
    }

    /// How many there are, the name included.
    #[inline]
    pub fn len(self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none, not even a name.
    pub fn is_empty(self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`, if there is one; 0 is the name.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|&(start, end)| &self.bytes[start..end])
    }

    /// All from `index` on.
    pub fn from(self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.ranges.get(index..).unwrap_or_default().iter().map(move |&(start, end)| &bytes[start..end])
    }

    /// Bytes of all arguments together.
    pub fn bytes(self) -> usize {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}
