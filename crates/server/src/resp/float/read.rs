//! Text to number, by the rules of C's `strtold` as Redis uses it.

use num_bigint::BigUint;

use super::Extended;

/// Longer texts are no numbers to Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

/// Beyond this power of ten every number of [`TEXT_BYTES_MAX`] digits is infinite, or zero.
const POWER_MAX: i64 = 10_100;

impl Extended {
    /// Reads a whole text: a sign, decimal or (behind `0x`) hexadecimal digits with a point, an exponent; or an infinity.
    /// `None` if it is something else, not a number, or so small or so large that it would be read as zero or infinite.
    pub fn read(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        let number = match text {
            [b'0', b'x' | b'X', digits @ ..] => hexadecimal(negative, digits),
            digits => decimal(negative, digits),
        }?;
        match number {
            Read { number: Self::Infinite { .. }, .. } => None,
            Read { number: Self::Finite { mantissa: 0, .. }, is_zero: false } => None,
            Read { number, .. } => Some(number),
        }
    }
}

struct Read {
    number: Extended,
    /// The digits were all zeros, so that zero is not for want of range.
    is_zero: bool,
}

/// Digits as a whole number, and how many of them were behind the point.
struct Digits<'a> {
    digits: Vec<u8>,
    behind: i64,
    rest: &'a [u8],
}

/// Takes digits with at most one point; at least one digit.
fn digits(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<Digits<'_>> {
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let (whole, mut rest) = text.split_at(whole);
    let mut digits = whole.to_vec();
    let mut behind = 0;
    if let [b'.', fraction @ ..] = rest {
        let length = fraction.iter().take_while(|byte| is_digit(byte)).count();
        digits.extend_from_slice(&fraction[..length]);
        behind = length as i64;
        rest = &fraction[length..];
    }
    (!digits.is_empty()).then_some(Digits { digits, behind, rest })
}

/// The exponent behind one of `marks`, held within what can matter; 0 if there is none, `None` if something else follows.
fn exponent(text: &[u8], marks: [u8; 2]) -> Option<i64> {
    let [mark, text @ ..] = text else { return Some(0) };
    if !marks.contains(mark) {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    const FAR: i64 = 1 << 20;
    let magnitude = digits.iter().fold(0, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(FAR));
    Some(if negative { -magnitude } else { magnitude })
}

fn decimal(negative: bool, text: &[u8]) -> Option<Read> {
    let Digits { digits, behind, rest } = digits(text, u8::is_ascii_digit)?;
    let power = exponent(rest, [b'e', b'E'])? - behind;
    let magnitude = BigUint::parse_bytes(&digits, 10)?;
    let is_zero = magnitude == BigUint::ZERO;
    if is_zero || power < -POWER_MAX {
        let number = Extended::round(negative, &BigUint::ZERO, 0, false);
        return Some(Read { number, is_zero });
    }
    if power > POWER_MAX {
        return Some(Read { number: Extended::Infinite { negative }, is_zero });
    }
    let scale = BigUint::from(10u8).pow(power.unsigned_abs() as u32);
    let number = if power >= 0 {
        Extended::round(negative, &(magnitude * scale), 0, false)
    } else {
        // So many bits more that the quotient has two beyond the mantissa's.
        let shift = (scale.bits() as i64 - magnitude.bits() as i64 + 66).max(0);
        let dividend = magnitude << shift as u64;
        let quotient = &dividend / &scale;
        let more = &quotient * &scale != dividend;
        Extended::round(negative, &quotient, -shift, more)
    };
    Some(Read { number, is_zero })
}

fn hexadecimal(negative: bool, text: &[u8]) -> Option<Read> {
    let Digits { digits, behind, rest } = digits(text, u8::is_ascii_hexdigit)?;
    let power = exponent(rest, [b'p', b'P'])? - 4 * behind;
    let magnitude = BigUint::parse_bytes(&digits, 16)?;
    let is_zero = magnitude == BigUint::ZERO;
    Some(Read { number: Extended::round(negative, &magnitude, power, false), is_zero })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        Extended::read(text.as_bytes()).map(|number| String::from_utf8(number.write()).unwrap())
    }

    #[test]
    fn what_strtold_takes_is_a_number() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("+1.", "1"),
            (".5", "0.5"),
            ("007", "7"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("12345e-2", "123.45"),
            ("0x10", "16"),
            ("0x.8p1", "1"),
            ("0X1P-1", "0.5"),
            ("inf", "inf"),
            ("-Infinity", "-inf"),
            ("0e99999999999999999999", "0"),
            ("3.6e-4951", "0"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            " 1",
            "1 ",
            "1e",
            "1e+",
            "e5",
            ".",
            "-",
            "+-1",
            "1.2.3",
            "nan",
            "NaN(1)",
            "0x",
            "0x1p",
            "1_000",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "1e-99999999999999999999",
            "1\0",
            "infin",
        ] {
            assert_eq!(shown(text), None, "{text:?}");
        }
        assert_eq!(Extended::read(&[b'1'; TEXT_BYTES_MAX + 1]), None);
        assert_eq!(Extended::read(&[b'0'; TEXT_BYTES_MAX]), Some(Extended::ZERO));
    }

    #[test]
    fn the_largest_and_the_smallest_are_known() {
        let largest = "1.18973149535723176502e4932";
        assert!(matches!(
            Extended::read(largest.as_bytes()),
            Some(Extended::Finite { mantissa: u64::MAX, exponent: 16320, .. })
        ));
        assert!(matches!(
            Extended::read(b"3.6451995318824746025e-4951"),
            Some(Extended::Finite { mantissa: 1, exponent: -16445, .. })
        ));
        // Normal from here on.
        assert!(matches!(
            Extended::read(b"3.3621031431120935063e-4932"),
            Some(Extended::Finite { mantissa: 0x8000_0000_0000_0000, exponent: -16445, .. })
        ));
    }
}
