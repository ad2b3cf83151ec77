//! Expiry times as commands give them.

use terrace_engine::ExpireAt;

use super::error::{NOT_AN_INTEGER, Refusal, expire_time};
use terrace_protocol::resp::parse_integer;

/// How a command gives a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// In seconds, else milliseconds.
    pub seconds: bool,
    /// From now, else since the Unix epoch.
    pub relative: bool,
}

pub(super) const SECONDS: Unit = Unit { seconds: true, relative: true };
pub(super) const MILLISECONDS: Unit = Unit { seconds: false, relative: true };
pub(super) const AT_SECOND: Unit = Unit { seconds: true, relative: false };
pub(super) const AT_MILLISECOND: Unit = Unit { seconds: false, relative: false };

/// A time that must be positive (`SET … EX`, `GETEX … PXAT`); `name` is the command's, for the error.
pub(super) fn positive(text: &[u8], unit: Unit, now_ms: u64, name: &str) -> Result<ExpireAt, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    if number <= 0 {
        return Err(expire_time(name));
    }
    absolute(number, unit, now_ms).ok_or_else(|| expire_time(name))
}

/// A time of either sign (`EXPIRE`); one in the past is the past.
pub(super) fn any(text: &[u8], unit: Unit, now_ms: u64, name: &str) -> Result<ExpireAt, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    absolute(number, unit, now_ms).ok_or_else(|| expire_time(name))
}

/// Milliseconds since the epoch, at least 1 (0 would mean never), if they fit 63 bits.
fn absolute(number: i64, unit: Unit, now_ms: u64) -> Option<ExpireAt> {
    let ms = if unit.seconds { number.checked_mul(1000)? } else { number };
    let ms = if unit.relative { ms.checked_add(i64::try_from(now_ms).ok()?)? } else { ms };
    Some(ms.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_milliseconds_and_never_zero() {
        let ok = |text: &str, unit| any(text.as_bytes(), unit, 5000, "x").unwrap();
        assert_eq!(ok("3", SECONDS), 8000);
        assert_eq!(ok("3", MILLISECONDS), 5003);
        assert_eq!(ok("3", AT_SECOND), 3000);
        assert_eq!(ok("3", AT_MILLISECOND), 3);
        assert_eq!(ok("-6", SECONDS), 1, "the past, not never");
        assert_eq!(ok("0", AT_SECOND), 1);
        for (text, unit) in [
            ("9223372036854775807", SECONDS),
            ("9223372036854775807", MILLISECONDS),
            ("-9223372036854775808", SECONDS),
            ("9223372036854775", SECONDS),
        ] {
            assert!(any(text.as_bytes(), unit, 5000, "x").is_err(), "{text} must not wrap");
        }
        for text in ["0", "-1"] {
            assert!(positive(text.as_bytes(), SECONDS, 5000, "x").is_err());
        }
    }
}
