//! Numbers as text, by the rules of Redis and of memcached. Written from their documentation, not from the engine.

use terrace_engine::{Delta, OpError};

/// What an addition makes of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sum {
    /// The key is absent and stays so.
    Miss,
    Signed(i64),
    /// The number, and the text to store (padded).
    Unsigned(u64, Vec<u8>),
    Float(f64),
}

pub(super) fn add(old: Option<&[u8]>, by: Delta) -> Result<Sum, OpError> {
    match by {
        Delta::Signed(by) => {
            let old = old.map_or(Ok(0), |old| signed(old).ok_or(OpError::NotInteger))?;
            old.checked_add(by).map(Sum::Signed).ok_or(OpError::Overflow)
        }
        Delta::Float(by) => {
            let old = old.map_or(Ok(0.0), |old| float(old).ok_or(OpError::NotFloat))?;
            let sum = old + by;
            if sum.is_finite() { Ok(Sum::Float(sum)) } else { Err(OpError::NotFinite) }
        }
        Delta::Wrapping(by) => {
            let Some(old) = old else { return Ok(Sum::Miss) };
            let sum = unsigned(old).ok_or(OpError::NotInteger)?.wrapping_add(by);
            Ok(Sum::Unsigned(sum, sum.to_string().into_bytes()))
        }
        Delta::Saturating(by) => {
            let Some(old) = old else { return Ok(Sum::Miss) };
            let rest = unsigned(old).ok_or(OpError::NotInteger)?.saturating_sub(by);
            Ok(Sum::Unsigned(rest, format!("{rest:<0$}", old.len()).into_bytes()))
        }
    }
}

/// Redis: exactly the text that printing the number gives.
fn signed(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// memcached: digits, padded behind.
fn unsigned(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(' ');
    let all_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

/// Redis: a number and nothing else.
fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_rules() {
        assert_eq!(add(None, Delta::Signed(-3)), Ok(Sum::Signed(-3)));
        assert_eq!(add(Some(b"9223372036854775807"), Delta::Signed(1)), Err(OpError::Overflow));
        for wrong in [&b""[..], b" 1", b"1 ", b"01", b"+1", b"-0", b"1.0", b"9223372036854775808", b"x"] {
            assert_eq!(add(Some(wrong), Delta::Signed(1)), Err(OpError::NotInteger), "{wrong:?}");
        }
        assert_eq!(add(None, Delta::Wrapping(1)), Ok(Sum::Miss));
        assert_eq!(
            add(Some(b"18446744073709551615"), Delta::Wrapping(3)),
            Ok(Sum::Unsigned(2, b"2".to_vec()))
        );
        assert_eq!(add(Some(b"100"), Delta::Saturating(95)), Ok(Sum::Unsigned(5, b"5  ".to_vec())));
        assert_eq!(add(Some(b"5  "), Delta::Saturating(9)), Ok(Sum::Unsigned(0, b"0  ".to_vec())));
        assert_eq!(add(Some(b"-5"), Delta::Wrapping(1)), Err(OpError::NotInteger));
        assert_eq!(add(Some(b"1.5"), Delta::Float(2.0)), Ok(Sum::Float(3.5)));
        assert_eq!(add(Some(b"x"), Delta::Float(2.0)), Err(OpError::NotFloat));
        assert_eq!(add(Some(b"1"), Delta::Float(f64::INFINITY)), Err(OpError::NotFinite));
    }
}
