//! The incremental parser: what the bytes that came so far say.
//!
//! Invariants: a step that consumes nothing and is not `Incomplete` or `Close` does not exist; nothing is allocated; a
//! byte is searched for the line end once, however the bytes arrive.

use super::base64::KeyBuffer;
use super::command::{Command, Store};
use super::line::{Header, HeaderKind, LINE_BYTES_MIN, Line, parse};
use super::login::{self, Login};
use super::meta::Key;
use super::reply::{BAD_CHUNK, BAD_LINE};
use super::value_room;

/// A line that is not a get may be this long without its end being in sight.
const LINE_BYTES_MAX: usize = 2048;

/// A get's line may start with this many spaces and still be one.
const LEADING_SPACES_MAX: usize = 100;

/// What a parser accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest value in bytes; longer ones are refused and skipped without being buffered.
    pub value_bytes_max: usize,
    /// It is that of an item, as memcached counts it: see [`value_room`].
    pub counts_items: bool,
    /// The longest line of a `get`, `gets`, `gat` or `gats` in bytes. Other lines may have 2048 (and more if they arrive
    /// at once, as in memcached).
    pub get_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: 64 << 20, counts_items: false, get_line_bytes_max: 4 << 20 }
    }
}

/// A connection's parser.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    state: State,
    /// Whether nothing but a login is taken.
    locked: bool,
}

#[derive(Debug)]
enum State {
    /// At the start of a line, of which this many bytes are known to hold no line end.
    Line { scanned: usize },
    /// At the start of a storage command whose data block ends this many bytes on.
    Data { needed: usize },
    /// Inside a data block that nobody wants.
    Skip { left: u64 },
    /// Ended.
    Closed(CloseReason),
}

/// One step's outcome.
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes at the start of the input that are done with.
    pub consumed: usize,
    /// What they said.
    pub event: Event<'a>,
}

/// What a step found.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request.
    Command(Command<'a>),
    /// Answer this, or nothing with `noreply`.
    Refused {
        /// The whole answer.
        reply: &'static [u8],
        /// The client asked for silence.
        noreply: bool,
    },
    /// A value longer than the limit, which will be skipped: answer [`TOO_LARGE`](super::reply::TOO_LARGE), or nothing with
    /// `noreply`. After a `set` or an `ms` the key must be deleted, so that no stale value stays behind.
    TooLarge {
        /// The key.
        key: Key<'a>,
        /// Whether it was one of these.
        delete: bool,
        /// The client asked for silence.
        noreply: bool,
    },
    /// A login: answer `STORED` and call [`Parser::unlock`], or [`WRONG_LOGIN`](super::reply::WRONG_LOGIN).
    Login {
        /// The name that the client gives.
        user: &'a [u8],
        /// And its password.
        password: &'a [u8],
    },
    /// More is needed: come again with at least this many bytes, counted from the first that was not consumed.
    Incomplete {
        /// At least 1 more than there are.
        needed: usize,
    },
    /// Send what is due, then close.
    Close(CloseReason),
}

/// Why a connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// A line without end.
    LineTooLong,
    /// A web browser.
    Http,
    /// The client said `quit`.
    Quit,
    /// What came before the login can be none.
    NoLogin,
}

impl Parser {
    /// A parser at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: State::Line { scanned: 0 }, locked: false }
    }

    /// A parser at the start of a connection that must log in first, as memcached's with `-Y`.
    pub fn locked(limits: Limits) -> Self {
        Self { locked: true, ..Self::new(limits) }
    }

    /// Whether the client has yet to log in.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The client has logged in.
    pub fn unlock(&mut self) {
        self.locked = false;
    }

    /// Reads the next event from `input`: the bytes received and not yet consumed. Call it until it answers `Incomplete`
    /// or `Close`; drop the consumed bytes from the front each time.
    pub fn step<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        let step = self.next(input);
        debug_assert!(step.consumed <= input.len());
        step
    }

    fn next<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        match self.state {
            State::Closed(reason) => Step { consumed: 0, event: Event::Close(reason) },
            State::Skip { left } => self.skip(input, left),
            State::Data { needed } if input.len() < needed => incomplete(needed),
            State::Data { .. } => self.line(input, 0),
            State::Line { scanned } => self.line(input, scanned),
        }
    }

    fn skip<'a>(&mut self, input: &'a [u8], left: u64) -> Step<'a> {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let left = left - here as u64;
        if left > 0 {
            self.state = State::Skip { left };
            return Step { consumed: here, event: Event::Incomplete { needed: 1 } };
        }
        self.state = State::Line { scanned: 0 };
        let step = self.line(&input[here..], 0);
        Step { consumed: here + step.consumed, event: step.event }
    }

    fn line<'a>(&mut self, input: &'a [u8], scanned: usize) -> Step<'a> {
        let scanned = scanned.min(input.len());
        let Some(newline) = input[scanned..].iter().position(|&byte| byte == b'\n') else {
            return self.no_line_yet(input);
        };
        let end = scanned + newline;
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let rest = end + 1;
        self.state = State::Line { scanned: 0 };
        if self.locked {
            return self.login(input, line, rest);
        }
        if rest < LINE_BYTES_MIN {
            return Step { consumed: rest, event: Event::Refused { reply: BAD_LINE, noreply: false } };
        }
        let event = match parse(line) {
            Line::Command(Command::Quit) => return self.close(CloseReason::Quit),
            Line::Close(reason) => return self.close(reason),
            Line::Command(command) => Event::Command(command),
            Line::Refused { reply, noreply, skip } => {
                if skip > 0 {
                    self.state = State::Skip { left: skip };
                }
                Event::Refused { reply, noreply }
            }
            Line::Store(header) => return self.data(input, rest, header),
        };
        Step { consumed: rest, event }
    }

    fn no_line_yet<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if input.len() > self.limits.get_line_bytes_max
            || (input.len() > LINE_BYTES_MAX && (self.locked || !starts_like_a_get(input)))
        {
            return self.close(CloseReason::LineTooLong);
        }
        self.state = State::Line { scanned: input.len() };
        incomplete(input.len() + 1)
    }

    fn data<'a>(&mut self, input: &'a [u8], rest: usize, header: Header<'a>) -> Step<'a> {
        let value_bytes = header.value_bytes;
        if value_bytes > self.longest(&header) {
            self.state = State::Skip { left: value_bytes as u64 + 2 };
            let (key, delete) = (header.key(), header.deletes_if_too_large());
            return Step { consumed: rest, event: Event::TooLarge { key, delete, noreply: header.noreply } };
        }
        let needed = rest + value_bytes + 2;
        let Some(block) = input.get(rest..needed) else {
            self.state = State::Data { needed };
            return incomplete(needed);
        };
        let noreply = header.noreply;
        let event = match (block.strip_suffix(b"\r\n"), header.kind) {
            (Some(value), HeaderKind::Classic { verb, key, flags, exptime }) => {
                Event::Command(Command::Store(Store { verb, key, flags, exptime, value, noreply }))
            }
            (Some(value), HeaderKind::Meta { meta, mode }) => {
                Event::Command(Command::MetaSet { meta, mode, value })
            }
            (None, _) => Event::Refused { reply: BAD_CHUNK, noreply },
        };
        Step { consumed: needed, event }
    }

    fn longest(&self, header: &Header<'_>) -> usize {
        let max = self.limits.value_bytes_max;
        if !self.limits.counts_items || header.value_bytes > max {
            return max;
        }
        let flags = match &header.kind {
            HeaderKind::Classic { flags, .. } => *flags,
            HeaderKind::Meta { meta, .. } => meta.flags.unsigned(b'F').map_or(0, |flags| flags as u32),
        };
        value_room(max, header.key().bytes(&mut KeyBuffer::default()).len(), flags)
    }

    /// A line before the login, and the data block that it brings.
    fn login<'a>(&mut self, input: &'a [u8], line: &[u8], rest: usize) -> Step<'a> {
        let refused = |reply| Event::Refused { reply, noreply: false };
        if rest <= login::LINE_BYTES_MIN {
            return self.close(CloseReason::NoLogin);
        }
        let token_bytes = match login::token_bytes(line) {
            Ok(token_bytes) => token_bytes,
            Err(reply) => return Step { consumed: rest, event: refused(reply) },
        };
        let needed = rest + token_bytes + 2;
        let Some(block) = input.get(rest..needed) else {
            self.state = State::Data { needed };
            return incomplete(needed);
        };
        let event = match login::parse(block) {
            Ok(Login { user, password }) => Event::Login { user, password },
            Err(reply) => refused(reply),
        };
        Step { consumed: needed, event }
    }

    fn close<'a>(&mut self, reason: CloseReason) -> Step<'a> {
        self.state = State::Closed(reason);
        Step { consumed: 0, event: Event::Close(reason) }
    }
}

fn incomplete<'a>(needed: usize) -> Step<'a> {
    Step { consumed: 0, event: Event::Incomplete { needed } }
}

fn starts_like_a_get(input: &[u8]) -> bool {
    let spaces = input.iter().take_while(|&&byte| byte == b' ').count();
    let rest = &input[spaces..];
    spaces <= LEADING_SPACES_MAX
        && [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|verb| rest.starts_with(verb))
}
