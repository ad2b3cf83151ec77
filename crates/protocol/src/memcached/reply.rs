//! Answers to bytes.

use std::io::Write as _;

/// No such command, or the wrong number of arguments.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// An argument is not what it should be, or the key is too long.
pub const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// The data block does not end where its length says.
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// `incr`, `decr`: the delta is not a number.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// `touch`, `gat`, `flush_all`: the exptime is not a number.
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// A meta command has a flag twice.
pub const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
/// A meta command has a flag that is none.
pub const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// `ma`: something about a flag is wrong.
pub const INVALID_OR_DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
/// A meta command has too many flags.
pub const MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
/// An opaque token of more than 31 bytes.
pub const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
/// A key is not base64.
pub const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
/// The number of a flag is none.
pub const BAD_FLAG_NUMBER: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
/// `ms` has no such mode.
pub const BAD_MS_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
/// `ma` has no such mode.
pub const BAD_MA_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
/// `J` is not a number.
pub const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// `D` is not a number.
pub const BAD_NUMERIC_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
/// No such slab class.
pub const BAD_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
/// A slab class and itself.
pub const SAME_CLASS: &[u8] = b"SAME src and dst class are identical\r\n";
/// `slabs automove window` out of range.
pub const BAD_WINDOW: &[u8] = b"CLIENT_ERROR automove window too low or too high\r\n";
/// `lru_crawler sleep` for too long.
pub const LONG_SLEEP: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
/// `lru tune` with too high percentages.
pub const PERCENTS_TOO_HIGH: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
/// `lru tune` with factors that are none.
pub const FACTORS_NOT_POSITIVE: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";
/// Nothing but a login is taken yet.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// A login is longer than any.
pub const LONG_LOGIN: &[u8] = b"CLIENT_ERROR auth token too long\r\n";
/// A login's data block does not end where its length says.
pub const BAD_LOGIN_END: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
/// A login is not a user and a password.
pub const BAD_LOGIN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";
/// The wrong user or password.
pub const WRONG_LOGIN: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// `incr`, `decr`: the value is not a number.
pub const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The value is longer than the limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// Every tier is full.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// `shutdown` is not enabled.
pub const NO_SHUTDOWN: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// Stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: changed since.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// No such key.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// Deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// Touched.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Done.
pub const OK: &[u8] = b"OK\r\n";
/// `stats reset` is done.
pub const RESET: &[u8] = b"RESET\r\n";
/// The end of values or statistics.
pub const END: &[u8] = b"END\r\n";

/// One value of a `get`; with `cas`, one of a `gets`.
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    out.reserve(key.len() + value.len() + 64);
    value_head(out, key, flags, value.len(), cas);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// What comes before such a value and the line break behind it.
pub fn value_head(out: &mut Vec<u8>, key: &[u8], flags: u32, value_bytes: usize, cas: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    decimal(out, u64::from(flags));
    out.push(b' ');
    decimal(out, value_bytes as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        decimal(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// The new number after an `incr` or `decr`.
pub fn number(out: &mut Vec<u8>, number: u64) {
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// One statistic.
pub fn stat(out: &mut Vec<u8>, name: impl std::fmt::Display, value: impl std::fmt::Display) {
    // Writing to a Vec can't fail.
    let _ = write!(out, "STAT {name} {value}\r\n");
}

/// The answer to `version`.
pub fn version(out: &mut Vec<u8>, version: &str) {
    let _ = write!(out, "VERSION {version}\r\n");
}

/// A server error with a text of our own; the text must hold no line end.
pub fn server_error(out: &mut Vec<u8>, text: impl std::fmt::Display) {
    let _ = write!(out, "SERVER_ERROR {text}\r\n");
}

pub(super) fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let mut out = Vec::new();
        value(&mut out, b"k", u32::MAX, b"a\r\nb", None);
        value(&mut out, b"k", 0, b"", Some(u64::MAX));
        number(&mut out, 0);
        stat(&mut out, "pid", 7);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "VALUE k 4294967295 4\r\na\r\nb\r\nVALUE k 0 0 18446744073709551615\r\n\r\n0\r\nSTAT pid 7\r\n"
        );
    }
}
