//! The login of connections that must (`-Y`): a `set` whose data block is a user and a password.

use super::number::unsigned;
use super::reply::{BAD_LOGIN, BAD_LOGIN_END, UNAUTHENTICATED};
use super::words::{Args, Words};

/// The longest user and password. memcached's have 255 bytes together.
const TOKEN_BYTES_MAX: u64 = 1024;

/// What a client gives.
pub(super) struct Login<'a> {
    pub(super) user: &'a [u8],
    pub(super) password: &'a [u8],
}

/// How long the data block is that a line announces. Key, flags and exptime don't matter.
pub(super) fn token_bytes(line: &[u8]) -> Result<usize, &'static [u8]> {
    let mut words = Words::new(c_string(line));
    let is_set = words.next() == Some(b"set");
    let args = Args::new(words);
    let bytes = Some(args).filter(|args| is_set && args.count() >= 4).and_then(|args| unsigned(args.get(3)));
    let bytes = bytes.filter(|&bytes| bytes <= TOKEN_BYTES_MAX);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(UNAUTHENTICATED)
}

/// Reads a data block, its line end included.
pub(super) fn parse(block: &[u8]) -> Result<Login<'_>, &'static [u8]> {
    let Some(token) = block.strip_suffix(b"\r\n") else { return Err(BAD_LOGIN_END) };
    let mut words = Words::new(c_string(token));
    match (words.next(), words.next()) {
        (Some(user), Some(password)) => Ok(Login { user, password }),
        _ => Err(BAD_LOGIN),
    }
}

/// memcached's strings end at a zero byte.
pub(super) fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|&byte| byte == 0).map_or(bytes, |end| &bytes[..end])
}
