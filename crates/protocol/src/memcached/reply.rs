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
/// `delete` with a hold time.
pub const DELETE_USAGE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
/// `incr`, `decr`: the value is not a number.
pub const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The value is longer than the limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// Every tier is full.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// `shutdown` is never enabled.
pub const SHUTDOWN: &[u8] = b"ERROR: shutdown not enabled\r\n";
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
/// An answer in the binary protocol with status "not supported" and a text that says so.
pub const NOT_BINARY: &[u8] = b"\x81\0\0\0\0\0\0\x83\0\0\0\x3d\0\0\0\0\0\0\0\0\0\0\0\0\
The binary protocol is not supported: use memcached text mode";

/// One value of a `get`; with `cas`, one of a `gets`.
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    out.reserve(key.len() + value.len() + 64);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    decimal(out, u64::from(flags));
    out.push(b' ');
    decimal(out, value.len() as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        decimal(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
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

fn decimal(out: &mut Vec<u8>, number: u64) {
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

    #[test]
    fn the_binary_refusal_is_a_whole_packet() {
        let body = u32::from_be_bytes(NOT_BINARY[8..12].try_into().unwrap()) as usize;
        assert_eq!(NOT_BINARY.len(), 24 + body);
    }
}
