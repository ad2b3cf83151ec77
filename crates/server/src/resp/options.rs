//! The options behind SET and GETEX.

use terrace_engine::{Condition, Expiry};

use super::call::Call;
use super::error::{Refusal, SYNTAX};
use super::time::{self, Unit};

/// Whether an option's word is there, in any case.
pub(super) fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// What follows the value of a SET.
pub(super) struct SetOptions {
    pub condition: Condition,
    pub expiry: Expiry,
    /// Answer with the old value.
    pub get: bool,
}

/// Reads the options of SET, from argument 3 on. One kind of expiry and one condition may be given, and repeated; then the
/// last counts.
pub(super) fn set(call: &Call<'_>) -> Result<SetOptions, Refusal> {
    let mut condition = None;
    let mut expiry = None;
    let mut number = 0;
    let mut get = false;
    let mut at = 3;
    while at < call.args.len() {
        let word = call.arg(at);
        if is(word, "NX") {
            only(&mut condition, Condition::Absent)?;
        } else if is(word, "XX") {
            only(&mut condition, Condition::Present)?;
        } else if is(word, "GET") {
            get = true;
        } else if is(word, "KEEPTTL") {
            only(&mut expiry, None)?;
        } else {
            only(&mut expiry, Some(unit(call, at)?))?;
            at += 1;
            number = at;
        }
        at += 1;
    }
    // Numbers are read when the syntax is known to be right.
    let expiry = match expiry {
        None => Expiry::Clear,
        Some(None) => Expiry::Keep,
        Some(Some(unit)) => moment(call, number, unit)?,
    };
    Ok(SetOptions { condition: condition.unwrap_or(Condition::Always), expiry, get })
}

/// Reads the options of GETEX, from argument 2 on; none keeps the expiry. One may be said again: the last number counts.
pub(super) fn getex(call: &Call<'_>) -> Result<Expiry, Refusal> {
    let (mut expiry, mut number, mut at) = (None, 0, 2);
    while at < call.args.len() {
        if is(call.arg(at), "PERSIST") {
            only(&mut expiry, None)?;
        } else {
            only(&mut expiry, Some(unit(call, at)?))?;
            at += 1;
            number = at;
        }
        at += 1;
    }
    match expiry {
        None => Ok(Expiry::Keep),
        Some(None) => Ok(Expiry::Clear),
        Some(Some(unit)) => moment(call, number, unit),
    }
}

const UNITS: [(&str, Unit); 4] = [
    ("EX", time::SECONDS),
    ("PX", time::MILLISECONDS),
    ("EXAT", time::AT_SECOND),
    ("PXAT", time::AT_MILLISECOND),
];

/// The unit that the word at `at` names, if a number follows.
fn unit(call: &Call<'_>, at: usize) -> Result<Unit, Refusal> {
    let unit = UNITS.iter().find(|(name, _)| is(call.arg(at), name)).map(|(_, unit)| *unit);
    unit.filter(|_| at + 1 < call.args.len()).ok_or_else(|| SYNTAX.into())
}

/// The moment that the number at `at` means.
fn moment(call: &Call<'_>, at: usize, unit: Unit) -> Result<Expiry, Refusal> {
    time::positive(call.arg(at), unit, call.ctx.time, call.name).map(Expiry::At)
}

/// Takes a value if none, or the same one, was given before.
fn only<T: PartialEq>(option: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match option {
        Some(before) if *before != value => Err(SYNTAX.into()),
        _ => {
            *option = Some(value);
            Ok(())
        }
    }
}
