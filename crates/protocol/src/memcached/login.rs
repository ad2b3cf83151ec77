//! The login of connections that must (`-Y`): a `set` whose data block is a user and a password.

use super::number::digits32;
use super::reply::{BAD_LOGIN, BAD_LOGIN_END, LONG_LOGIN, UNAUTHENTICATED};
use super::words::{Args, Words};

/// The longest user and password together, as in memcached.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Shorter lines are no login, nor a command: the connection ends.
pub(super) const LINE_BYTES_MIN: usize = 6;

/// What a client gives.
pub(super) struct Login<'a> {
    pub(super) user: &'a [u8],
    pub(super) password: &'a [u8],
}

/// How long the data block is that a line announces. Key, flags and exptime don't matter.
pub(super) fn token_bytes(line: &[u8]) -> Result<usize, &'static [u8]> {
    let mut words = Words::new(line);
    let starts = line.starts_with(b"set");
    let _verb = words.next();
    let bytes = Args::new(words);
    let bytes = Some(bytes).filter(|args| starts && args.count() >= 4).and_then(|args| digits32(args.get(3)));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(UNAUTHENTICATED)?;
    if bytes > TOKEN_BYTES_MAX { Err(LONG_LOGIN) } else { Ok(bytes) }
}

/// Reads a data block, its line end included: a user, a space, and a password, which may hold others.
pub(super) fn parse(block: &[u8]) -> Result<Login<'_>, &'static [u8]> {
    let Some(token) = block.strip_suffix(b"\r\n") else { return Err(BAD_LOGIN_END) };
    let space = token.iter().position(|&byte| byte == b' ').ok_or(BAD_LOGIN)?;
    Ok(Login { user: &token[..space], password: &token[space + 1..] })
}
