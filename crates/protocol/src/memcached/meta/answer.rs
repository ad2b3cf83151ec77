//! Answers to meta commands.

use crate::memcached::base64::encode;
use crate::memcached::reply::decimal;

/// What an answer may show of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// `s`: length of the value.
    pub value_bytes: u64,
    /// `t`: seconds until it expires; `None` for never.
    pub ttl: Option<u64>,
    /// `c`: cas token.
    pub cas: u64,
    /// `f`: the client's flags.
    pub flags: u32,
    /// `h`: fetched before.
    pub fetched: bool,
    /// `l`: seconds since the last access.
    pub idle: u64,
    /// The key is told in base64.
    pub binary_key: bool,
}

/// Appends a status without a value (`HD`, `EN`, `NF`, `NS`, `EX`). Flags and a line end follow.
pub fn status(out: &mut Vec<u8>, status: &[u8; 2]) {
    out.extend_from_slice(status);
}

/// Appends the status that comes before a value. Flags, a line end, the value and a line end follow.
pub fn value(out: &mut Vec<u8>, value_bytes: u64) {
    out.extend_from_slice(b"VA ");
    decimal(out, value_bytes);
}

/// Appends one flag with a number.
pub fn number(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    decimal(out, number);
}

/// Appends those of the client's flags that an answer gives back and that are among `shown`, in the client's order; `text` is
/// [`Flags::text`](super::Flags::text).
pub fn flags(out: &mut Vec<u8>, text: &[u8], shown: &[u8], key: &[u8], item: &Item) {
    for word in text.split(|&byte| byte == b' ') {
        let Some(&letter) = word.first().filter(|letter| shown.contains(letter)) else { continue };
        match letter {
            b's' => number(out, b's', item.value_bytes),
            b't' => match item.ttl {
                Some(seconds) => number(out, b't', seconds),
                None => out.extend_from_slice(b" t-1"),
            },
            b'c' => number(out, b'c', item.cas),
            b'f' => number(out, b'f', u64::from(item.flags)),
            b'h' => out.extend_from_slice(if item.fetched { b" h1" } else { b" h0" }),
            b'l' => number(out, b'l', item.idle),
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            b'k' => self::key(out, key, item.binary_key),
            _ => {}
        }
    }
}

fn key(out: &mut Vec<u8>, key: &[u8], binary: bool) {
    out.extend_from_slice(b" k");
    if binary {
        encode(key, out);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_back_in_order_and_others_do_not() {
        let item = Item {
            value_bytes: 3,
            ttl: Some(9),
            cas: u64::MAX,
            flags: 7,
            fetched: true,
            idle: 2,
            binary_key: true,
        };
        let mut out = Vec::new();
        status(&mut out, b"HD");
        flags(&mut out, b"k  Oab q s t c f h l v", b"kOstcfhl", b"foo", &item);
        assert_eq!(String::from_utf8(out).unwrap(), "HD kZm9v b Oab s3 t9 c18446744073709551615 f7 h1 l2");
        let mut out = Vec::new();
        value(&mut out, 0);
        flags(&mut out, b"k t c", b"kt", b"foo", &Item::default());
        assert_eq!(out, b"VA 0 kfoo t-1");
    }
}
