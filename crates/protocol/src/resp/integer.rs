//! Whole numbers as Redis reads them.

/// Parses a decimal `i64` that is written in the one canonical way: no sign but `-`, no leading zeros, no spaces, no `-0`.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // 19 digits fit a u64, so only the last conversion can fail.
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn only_canonical_numbers() {
        for number in [0, 1, -1, 10, 999, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
        }
        for wrong in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "a",
            "1.0",
            "0x10",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "18446744073709551616",
        ] {
            assert_eq!(parse_integer(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
