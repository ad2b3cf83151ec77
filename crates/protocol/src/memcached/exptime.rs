//! memcached's exptime.

/// Up to this many seconds an exptime is relative, above it is seconds since the Unix epoch.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// The moment that an exptime given at `now_ms` means, in milliseconds on the clock of `now_ms`; the wall clock is `wall_ahead_ms`
/// ahead of that one. `None` is never (0); negative ones are at 1 ms, that is, long past.
pub fn expire_at_ms(exptime: i64, now_ms: u64, wall_ahead_ms: i64) -> Option<u64> {
    let ms = (exptime.unsigned_abs()).saturating_mul(1000);
    match exptime {
        0 => None,
        ..0 => Some(1),
        1..=RELATIVE_SECONDS_MAX => Some(now_ms.saturating_add(ms)),
        _ => Some(ms.saturating_add_signed(wall_ahead_ms.saturating_neg()).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_absolute_never_and_past() {
        let now = 1_700_000_000_000;
        assert_eq!(expire_at_ms(0, now, 0), None);
        assert_eq!(expire_at_ms(-1, now, 0), Some(1));
        assert_eq!(expire_at_ms(i64::MIN, now, 0), Some(1));
        assert_eq!(expire_at_ms(1, now, 0), Some(now + 1000));
        assert_eq!(expire_at_ms(2_592_000, now, 0), Some(now + 2_592_000_000));
        assert_eq!(expire_at_ms(2_592_001, now, 0), Some(2_592_001_000), "absolute, in 1970");
        assert_eq!(expire_at_ms(1, now, -600_000), Some(now + 1000), "a span, whatever the wall clock shows");
        assert_eq!(
            expire_at_ms(1_700_000_060, now, -600_000),
            Some(now + 660_000),
            "a moment of the wall clock"
        );
        assert_eq!(expire_at_ms(5_000_000_000, now, 0), Some(5_000_000_000_000), "beyond 32 bits");
        assert_eq!(expire_at_ms(i64::MAX, now, 0), Some(u64::MAX));
    }
}
