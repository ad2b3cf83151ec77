//! Expiry times as commands give them.

use terrace_engine::ExpireAt;
use terrace_engine::clock::Time;

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
pub(super) fn positive(text: &[u8], unit: Unit, now: Time, name: &str) -> Result<ExpireAt, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    if number <= 0 {
        return Err(expire_time(name));
    }
    absolute(number, unit, now).ok_or_else(|| expire_time(name))
}

/// A time of either sign (`EXPIRE`); one in the past is the past.
pub(super) fn any(text: &[u8], unit: Unit, now: Time, name: &str) -> Result<ExpireAt, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    absolute(number, unit, now).ok_or_else(|| expire_time(name))
}

/// Milliseconds of the store's time, at least 1 (0 would mean never), if they fit 63 bits.
fn absolute(number: i64, unit: Unit, now: Time) -> Option<ExpireAt> {
    let ms = if unit.seconds { number.checked_mul(1000)? } else { number };
    if unit.relative {
        return Some(ms.checked_add(i64::try_from(now.now_ms).ok()?)?.max(1) as u64);
    }
    Some(now.from_wall(ms.max(1) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_milliseconds_and_never_zero() {
        let now = Time { now_ms: 5000, wall_ahead_ms: 0 };
        let ok = |text: &str, unit| any(text.as_bytes(), unit, now, "x").unwrap();
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
            assert!(any(text.as_bytes(), unit, now, "x").is_err(), "{text} must not wrap");
        }
        for text in ["0", "-1"] {
            assert!(positive(text.as_bytes(), SECONDS, now, "x").is_err());
        }
    }

    #[test]
    fn moments_are_the_walls_and_spans_the_stores() {
        for ahead in [1_000, -2_000] {
            let now = Time { now_ms: 5_000, wall_ahead_ms: ahead };
            let at = |text: &str, unit| any(text.as_bytes(), unit, now, "x").unwrap();
            assert_eq!(at("3", SECONDS), 8_000);
            assert_eq!(at("9", AT_SECOND), (9_000 - ahead) as u64);
            assert_eq!(now.to_wall(at("9123", AT_MILLISECOND)), 9_123, "as it was given");
            assert_eq!(at("0", AT_SECOND).max(5_000), 5_000, "long past");
        }
    }
}
