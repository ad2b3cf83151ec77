//! Whole numbers of any width within a value, and what becomes of those that do not fit.

/// The type of a field: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub signed: bool,
    pub bits: u8,
}

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Its lowest bits are kept.
    Wrap,
    /// The nearest number that fits is kept.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl Type {
    /// The number whose first bit is at `offset`. Behind its end the value is all zeros.
    pub fn read(self, value: &[u8], offset: u64) -> i64 {
        let raw =
            (0..u64::from(self.bits)).fold(0u64, |raw, at| raw << 1 | u64::from(bit(value, offset + at)));
        let unused = 64 - u32::from(self.bits);
        if self.signed { ((raw << unused) as i64) >> unused } else { raw as i64 }
    }

    /// Writes the number's lowest bits. The value is long enough.
    pub fn write(self, value: &mut [u8], offset: u64, number: i64) {
        for at in 0..u64::from(self.bits) {
            let set = number >> (u64::from(self.bits) - 1 - at) & 1 == 1;
            set_bit(value, offset + at, set);
        }
    }

    /// The number to be written for `number`, which may be out of range; `None` if none is.
    pub fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (lowest, highest) = self.range();
        match overflow {
            _ if (lowest..=highest).contains(&number) => Some(number as i64),
            Overflow::Wrap => {
                let unused = 64 - u32::from(self.bits);
                let low = (number as u64) << unused;
                Some(if self.signed { (low as i64) >> unused } else { (low >> unused) as i64 })
            }
            Overflow::Saturate => Some(number.clamp(lowest, highest) as i64),
            Overflow::Fail => None,
        }
    }

    fn range(self) -> (i128, i128) {
        if self.signed {
            let half = 1i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        }
    }
}

/// The bit at `offset`; none is set behind the end.
pub(super) fn bit(value: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset / 8).ok().and_then(|at| value.get(at));
    byte.is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// Sets or clears the bit at `offset`. The value is long enough.
pub(super) fn set_bit(value: &mut [u8], offset: u64, set: bool) {
    let mask = 1 << (7 - offset % 8);
    if let Some(byte) = usize::try_from(offset / 8).ok().and_then(|at| value.get_mut(at)) {
        *byte = if set { *byte | mask } else { *byte & !mask };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U8: Type = Type { signed: false, bits: 8 };
    const I8: Type = Type { signed: true, bits: 8 };
    const I64: Type = Type { signed: true, bits: 64 };
    const U63: Type = Type { signed: false, bits: 63 };

    #[test]
    fn fields_are_read_as_they_were_written_and_touch_nothing_else() {
        for bits in 1..=64 {
            for signed in [false, true] {
                let field = Type { signed, bits };
                if bits == 64 && !signed {
                    continue;
                }
                let (lowest, highest) = field.range();
                for offset in [0, 1, 7, 8, 13] {
                    for number in [lowest, highest, 0, highest / 3] {
                        for background in [0x00, 0xff] {
                            let mut value = [background; 12];
                            field.write(&mut value, offset, number as i64);
                            assert_eq!(
                                i128::from(field.read(&value, offset)),
                                number,
                                "{field:?} at {offset}"
                            );
                            field.write(&mut value, offset, if background == 0 { 0 } else { -1 });
                            assert_eq!(value, [background; 12]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn behind_the_end_there_are_zeros() {
        assert_eq!(U8.read(b"\xff", 4), 0xf0);
        assert_eq!(U8.read(b"", u64::MAX / 2), 0);
    }

    #[test]
    fn numbers_that_do_not_fit() {
        let cases = [
            (U8, 256, 0, 255),
            (U8, -1, 255, 0),
            (U8, 511, 255, 255),
            (I8, 128, -128, 127),
            (I8, -129, 127, -128),
            (I8, 383, 127, 127),
            (I64, i64::MAX as i128 + 1, i64::MIN, i64::MAX),
            (I64, i64::MIN as i128 - 1, i64::MAX, i64::MIN),
            (U63, 1 << 63, 0, i64::MAX),
        ];
        for (field, number, wrapped, saturated) in cases {
            assert_eq!(field.fit(number, Overflow::Wrap), Some(wrapped), "{field:?} {number}");
            assert_eq!(field.fit(number, Overflow::Saturate), Some(saturated), "{field:?} {number}");
            assert_eq!(field.fit(number, Overflow::Fail), None, "{field:?} {number}");
        }
        assert_eq!(U8.fit(255, Overflow::Fail), Some(255));
    }
}
