//! The 80-bit format and its one operation.

use num_bigint::{BigInt, BigUint, Sign};

/// Bits of the mantissa.
const BITS: i64 = 64;
/// The exponent of the mantissa's last bit in the smallest numbers, normal and subnormal.
const LOWEST: i64 = -16445;
/// The exponent of the mantissa's last bit in the largest numbers.
const HIGHEST: i64 = 16320;

/// A number, or an infinity; not-a-number is never kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Extended {
    /// `mantissa` times two to the power of `exponent`, negated if so. The mantissa's top bit is set, or the exponent is the
    /// lowest one.
    Finite { negative: bool, mantissa: u64, exponent: i16 },
    /// Beyond the largest number.
    Infinite { negative: bool },
}

/// Bytes of a number as an argument of an operation.
const ENCODED_BYTES: usize = 11;

impl Extended {
    /// Bytes of what [`encode`](Self::encode) makes.
    pub const ENCODED_BYTES: usize = ENCODED_BYTES;
    pub const ZERO: Self = Self::Finite { negative: false, mantissa: 0, exponent: LOWEST as i16 };

    /// `magnitude` times two to the power of `exponent`, and a little more if `more`, rounded to the nearest number; of two
    /// equally near, to the even one.
    pub(super) fn round(negative: bool, magnitude: &BigUint, exponent: i64, more: bool) -> Self {
        let bits = magnitude.bits() as i64;
        if bits == 0 {
            return Self::Finite { negative, mantissa: 0, exponent: LOWEST as i16 };
        }
        let dropped = (bits - BITS).max(LOWEST - exponent);
        if dropped <= 0 {
            let mantissa = low_word(magnitude) << -dropped;
            return Self::finite(negative, mantissa, exponent + dropped);
        }
        let kept = magnitude >> dropped as u64;
        let half = magnitude.bit(dropped as u64 - 1);
        let below = more || magnitude.trailing_zeros().is_some_and(|zeros| (zeros as i64) < dropped - 1);
        let mantissa = low_word(&kept);
        let up = half && (below || mantissa & 1 == 1);
        match mantissa.checked_add(up.into()) {
            Some(mantissa) => Self::finite(negative, mantissa, exponent + dropped),
            None => Self::finite(negative, 1 << 63, exponent + dropped + 1),
        }
    }

    fn finite(negative: bool, mantissa: u64, exponent: i64) -> Self {
        if exponent > HIGHEST {
            return Self::Infinite { negative };
        }
        Self::Finite { negative, mantissa, exponent: exponent as i16 }
    }

    /// The largest number, or the one farthest below zero.
    pub const fn largest(negative: bool) -> Self {
        Self::Finite { negative, mantissa: u64::MAX, exponent: HIGHEST as i16 }
    }

    /// Whether it is none of the infinities.
    pub fn is_finite(self) -> bool {
        matches!(self, Self::Finite { .. })
    }

    /// Whether its sign is minus.
    pub fn is_negative(self) -> bool {
        let (Self::Finite { negative, .. } | Self::Infinite { negative }) = self;
        negative
    }

    /// The number with the other sign.
    pub fn negated(self) -> Self {
        match self {
            Self::Finite { negative, mantissa, exponent } => {
                Self::Finite { negative: !negative, mantissa, exponent }
            }
            Self::Infinite { negative } => Self::Infinite { negative: !negative },
        }
    }

    /// Whether it is less than another one.
    pub fn is_less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Infinite { negative }, Self::Infinite { negative: other }) => negative && !other,
            (Self::Infinite { negative }, _) => negative,
            (_, Self::Infinite { negative }) => !negative,
            (Self::Finite { exponent, .. }, Self::Finite { exponent: other_exponent, .. }) => {
                let lowest = exponent.min(other_exponent);
                self.scaled(lowest) < other.scaled(lowest)
            }
        }
    }

    /// The sum; `None` if it is no finite number.
    pub fn add(self, other: Self) -> Option<Self> {
        let (
            Self::Finite { negative, exponent, .. },
            Self::Finite { negative: other_negative, exponent: other_exponent, .. },
        ) = (self, other)
        else {
            return None;
        };
        let lowest = exponent.min(other_exponent);
        let sum = self.scaled(lowest) + other.scaled(lowest);
        let (sign, magnitude) = sum.into_parts();
        // Only minus zero and minus zero make minus zero.
        let negative = if sign == Sign::NoSign { negative && other_negative } else { sign == Sign::Minus };
        match Self::round(negative, &magnitude, lowest.into(), false) {
            Self::Infinite { .. } => None,
            sum => Some(sum),
        }
    }

    /// The number divided by two to the power of `exponent`, which is not above its own.
    fn scaled(self, to: i16) -> BigInt {
        let Self::Finite { negative, mantissa, exponent } = self else { return BigInt::ZERO };
        let magnitude = BigUint::from(mantissa) << (i32::from(exponent) - i32::from(to)) as u32;
        BigInt::from_biguint(if negative { Sign::Minus } else { Sign::Plus }, magnitude)
    }

    /// As an argument of an operation.
    pub fn encode(self) -> [u8; ENCODED_BYTES] {
        let (negative, mantissa, exponent) = match self {
            Self::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
            Self::Infinite { negative } => (negative, u64::MAX, i16::MAX),
        };
        let mut bytes = [0; ENCODED_BYTES];
        bytes[0] = negative.into();
        bytes[1..9].copy_from_slice(&mantissa.to_le_bytes());
        bytes[9..].copy_from_slice(&exponent.to_le_bytes());
        bytes
    }

    /// What [`encode`](Self::encode) made; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[negative], rest) = bytes.split_first_chunk()?;
        let (mantissa, rest) = rest.split_first_chunk()?;
        let exponent = i16::from_le_bytes(rest.try_into().ok()?);
        let (negative, mantissa) = (negative != 0, u64::from_le_bytes(*mantissa));
        Some(match exponent {
            i16::MAX => Self::Infinite { negative },
            exponent => Self::Finite { negative, mantissa, exponent },
        })
    }
}

fn low_word(number: &BigUint) -> u64 {
    number.iter_u64_digits().next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let number = |text: &str| Extended::read(text.as_bytes()).unwrap();
        number(a).add(number(b)).map(|sum| String::from_utf8(sum.write()).unwrap())
    }

    /// The answers are redis-server's.
    #[test]
    fn sums_show_the_digits_of_a_long_double() {
        for (a, b, expected) in [
            ("10.50", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("3", "1.000000000000000005", "4.00000000000000001"),
            ("1", "1e-19", "1"),
            ("-1e-20", "0", "0"),
            ("5.0e3", "200", "5200"),
            ("1e25", "1", "10000000000000000000000000"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("-5", "5", "0"),
            ("-1.5", "0.25", "-1.25"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        assert_eq!(sum("1e4932", "1.1e4932"), None);
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
    }

    #[test]
    fn numbers_are_ordered() {
        let number = |text: &str| Extended::read(text.as_bytes()).unwrap();
        let sorted =
            ["-inf", "-1e4932", "-2", "-0.5", "0", "1e-4940", "0.5", "2", "1e4932", "inf"].map(number);
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.is_less(*b), i < j, "{a:?} < {b:?}");
            }
        }
        assert!(!number("-0").is_less(number("0")));
        assert!(number("1e4932").is_less(Extended::largest(false)));
        assert!(Extended::largest(true).is_less(number("-1e4932")));
    }

    #[test]
    fn arguments_are_read_back() {
        for text in ["0", "-0", "1.5", "-3e-4940", "1e4932", "inf", "-inf"] {
            let number = Extended::read(text.as_bytes()).unwrap();
            assert_eq!(Extended::decode(&number.encode()), Some(number), "{text}");
        }
        assert_eq!(Extended::decode(b"short"), None);
    }
}
