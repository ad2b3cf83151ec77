//! `BITCOUNT` and `BITPOS`.
//!
//! As in Redis 7.0 what is wrong with a range shows only where there is a value.

use std::ops::Range;

use super::scan;
use crate::resp::call::{Call, Outcome};
use crate::resp::error::{NOT_AN_INTEGER, SYNTAX};
use crate::resp::options::is;
use crate::resp::text::range;
use terrace_protocol::resp::parse_integer;

/// A range as given.
#[derive(Clone, Copy)]
struct Given {
    start: i64,
    /// To the last byte if there is none.
    end: Option<i64>,
    /// In bits, else in bytes.
    bits: bool,
}

const WHOLE: Given = Given { start: 0, end: None, bits: false };

impl Given {
    /// The bits of a value of so many bytes that it covers.
    fn bits(self, bytes: usize, resolve: fn(i64, i64, u64) -> Range<u64>) -> Range<u64> {
        let unit = if self.bits { 1 } else { 8 };
        let range = resolve(self.start, self.end.unwrap_or(-1), bytes as u64 * 8 / unit);
        range.start * unit..range.end * unit
    }
}

pub(in crate::resp) fn bitcount(call: &mut Call<'_>) -> Outcome {
    let given = match call.args.len() {
        2 => Ok(WHOLE),
        3 => Err(SYNTAX),
        _ => given(call, 2, false),
    };
    call.computed(call.arg(1), move |encoder, value| match (value, given) {
        (None, _) => encoder.integer(0),
        (Some(_), Err(error)) => encoder.error(error.as_bytes()),
        (Some(value), Ok(given)) => {
            encoder.integer(scan::count(value, given.bits(value.len(), range::within)) as i64);
        }
    })
}

pub(in crate::resp) fn bitpos(call: &mut Call<'_>) -> Outcome {
    let set = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let given = if call.args.len() == 3 { Ok(WHOLE) } else { given(call, 3, true) };
    call.computed(call.arg(1), move |encoder, value| match (value, given) {
        (None, _) => encoder.integer(if set { -1 } else { 0 }),
        (Some(_), Err(error)) => encoder.error(error.as_bytes()),
        (Some(value), Ok(given)) => {
            let bits = given.bits(value.len(), range::clamped);
            let position = match scan::position(value, bits.clone(), set) {
                Some(position) => position as i64,
                // Behind a value that is looked at to its end there are zeros.
                None if !set && given.end.is_none() && !bits.is_empty() => bits.end as i64,
                None => -1,
            };
            encoder.integer(position);
        }
    })
}

/// Reads a range from argument `at` on: a start, maybe an end, maybe a unit, in the order in which `BITCOUNT` or (`unit_first`)
/// `BITPOS` looks at them.
fn given(call: &Call<'_>, at: usize, unit_first: bool) -> Result<Given, &'static str> {
    if call.args.len() > at + 3 {
        return Err(SYNTAX);
    }
    let number = |at| parse_integer(call.arg(at)).ok_or(NOT_AN_INTEGER);
    let end = || call.args.get(at + 1).map(|_| number(at + 1)).transpose();
    let unit = || match call.args.get(at + 2) {
        None => Ok(false),
        Some(unit) if is(unit, "BIT") => Ok(true),
        Some(unit) if is(unit, "BYTE") => Ok(false),
        Some(_) => Err(SYNTAX),
    };
    let start = number(at)?;
    if unit_first {
        let bits = unit()?;
        return Ok(Given { start, end: end()?, bits });
    }
    let end = end()?;
    let bits = match end {
        // Nothing, whatever the unit is said to be.
        Some(end) if start < 0 && end < 0 && start > end => false,
        _ => unit()?,
    };
    Ok(Given { start, end, bits })
}
