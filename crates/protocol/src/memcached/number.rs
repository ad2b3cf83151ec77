//! Numbers as memcached reads them: arguments of commands as digits alone ([`digits`], [`signed_digits`]); values, a storage command's
//! flags and its exptime as C's `strtoull` does: white space before, an optional sign, digits, and then the end or white space
//! and anything.

/// The most characters of a number that is digits alone.
const DIGITS_MAX: usize = 22;

/// An unsigned number of digits alone.
pub(super) fn digits(token: &[u8]) -> Option<u64> {
    if token.is_empty() || token.len() > DIGITS_MAX || !token.iter().all(u8::is_ascii_digit) {
        return None;
    }
    magnitude(token)
}

/// An unsigned number of digits alone that fits 32 bits.
pub(super) fn digits32(token: &[u8]) -> Option<u32> {
    u32::try_from(digits(token)?).ok()
}

/// A number of digits alone, or behind a minus.
pub(super) fn signed_digits(token: &[u8]) -> Option<i64> {
    match token.strip_prefix(b"-") {
        Some(rest) => 0i64.checked_sub_unsigned(digits(rest)?),
        None => i64::try_from(digits(token)?).ok(),
    }
}

fn magnitude(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// A sign and a magnitude; `None` if there is no number, it does not fit 64 bits, or something else follows it.
fn sign_and_magnitude(token: &[u8]) -> Option<(bool, u64)> {
    let rest = token.trim_ascii_start_c();
    let (negative, rest) = match rest.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, rest),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || rest.get(digits).is_some_and(|&byte| !is_space(byte)) {
        return None;
    }
    Some((negative, magnitude(&rest[..digits])?))
}

/// C's `isspace`: Rust's ASCII white space and the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

trait TrimC {
    fn trim_ascii_start_c(&self) -> &[u8];
}
impl TrimC for [u8] {
    fn trim_ascii_start_c(&self) -> &[u8] {
        let spaces = self.iter().take_while(|&&byte| is_space(byte)).count();
        &self[spaces..]
    }
}

/// An unsigned number. A negative one wraps, and is refused where that gives 2^63 or more (so every small one is).
pub fn unsigned(token: &[u8]) -> Option<u64> {
    let (negative, magnitude) = sign_and_magnitude(token)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    if value > i64::MAX as u64 && token.contains(&b'-') { None } else { Some(value) }
}

/// A signed number.
pub(super) fn signed(token: &[u8]) -> Option<i64> {
    match sign_and_magnitude(token)? {
        (false, magnitude) => i64::try_from(magnitude).ok(),
        (true, magnitude) => 0i64.checked_sub_unsigned(magnitude),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_as_strtoull() {
        assert_eq!(unsigned(b"0"), Some(0));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"\t+7"), Some(7));
        assert_eq!(unsigned(b"7\tjunk"), Some(7));
        assert_eq!(unsigned(b"-0"), Some(0));
        assert_eq!(unsigned(b"-18446744073709551615"), Some(1), "as memcached has it");
        for wrong in [&b""[..], b"-", b"+", b"x", b"7x", b"-1", b"18446744073709551616", b"- 1", b"0x10"] {
            assert_eq!(unsigned(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn digits_alone() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(digits(b"007"), Some(7));
        assert_eq!(digits32(b"4294967295"), Some(u32::MAX));
        assert_eq!((digits32(b"4294967296"), digits(b"00000000000000000000007")), (None, None));
        assert_eq!((signed_digits(b"-9223372036854775808"), signed_digits(b"0")), (Some(i64::MIN), Some(0)));
        for wrong in [&b""[..], b"+1", b" 1", b"1 ", b"\t1", b"1x", b"-", b"--1", b"18446744073709551616"] {
            assert_eq!((digits(wrong), signed_digits(wrong)), (None, None), "{}", wrong.escape_ascii());
        }
        assert_eq!(digits(b"-1"), None);
    }

    #[test]
    fn signed_as_strtol() {
        assert_eq!(signed(b"-1"), Some(-1));
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"5\r"), Some(5));
        for wrong in [&b""[..], b"9223372036854775808", b"-9223372036854775809", b"--1", b"1-"] {
            assert_eq!(signed(wrong), None, "{wrong:?}");
        }
    }
}
