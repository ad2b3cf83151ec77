//! Number to text: without an exponent, at most 17 digits behind the point, no zeros at the end.

use num_bigint::BigUint;

use super::Extended;

const PLACES: usize = 17;

impl Extended {
    /// The text that Redis stores and answers.
    pub fn write(self) -> Vec<u8> {
        let (negative, mantissa, exponent) = match self {
            Self::Infinite { negative } => return if negative { b"-inf".to_vec() } else { b"inf".to_vec() },
            Self::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        let mut text = Vec::new();
        if negative {
            text.push(b'-');
        }
        if exponent >= 0 {
            let whole = BigUint::from(mantissa) << exponent.unsigned_abs();
            text.extend_from_slice(whole.to_string().as_bytes());
        } else {
            text.extend_from_slice(fraction(mantissa, exponent.unsigned_abs().into()).as_bytes());
        }
        // What is too small to be shown has no sign either.
        if text == b"-0" { b"0".to_vec() } else { text }
    }
}

/// `mantissa` divided by two to the power of `bits`, which is at least 1.
fn fraction(mantissa: u64, bits: u32) -> String {
    // Below 2^121.
    let scaled = u128::from(mantissa) * 10u128.pow(PLACES as u32);
    let rounded = match scaled.checked_shr(bits) {
        None => 0,
        Some(kept) => {
            let half = 1u128 << (bits - 1);
            let dropped = scaled & (half | (half - 1));
            let up = dropped > half || (dropped == half && kept & 1 == 1);
            kept + u128::from(up)
        }
    };
    let text = format!("{rounded:0width$}", width = PLACES + 1);
    let (whole, places) = text.split_at(text.len() - PLACES);
    match places.trim_end_matches('0') {
        "" => whole.to_owned(),
        places => format!("{whole}.{places}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seventeen_places_and_no_zeros_at_the_end() {
        for (mantissa, exponent, expected) in [
            (1, 0, "1"),
            (3, -1, "1.5"),
            (10, 0, "10"),
            (1 << 63, -63, "1"),
            (1, -57, "0.00000000000000001"),
            (1, -58, "0"),
            (1, -200, "0"),
            (1, -16445, "0"),
            (u64::MAX, -64, "1"),
            (u64::MAX, 1, "36893488147419103230"),
        ] {
            let number = Extended::Finite { negative: false, mantissa, exponent };
            assert_eq!(String::from_utf8(number.write()).unwrap(), expected, "{mantissa} * 2^{exponent}");
        }
    }
}
