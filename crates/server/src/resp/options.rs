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

/// Reads the options of SET, from argument 3 on. Each kind may be given once, save for `GET`.
pub(super) fn set(call: &Call<'_>) -> Result<SetOptions, Refusal> {
    let mut condition = None;
    let mut expiry = None;
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
            once(&mut expiry, Expiry::Keep)?;
        } else {
            let moment = moment(call, at)?;
            once(&mut expiry, moment)?;
            at += 1;
        }
        at += 1;
    }
    let (condition, expiry) = (condition.unwrap_or(Condition::Always), expiry.unwrap_or(Expiry::Clear));
    Ok(SetOptions { condition, expiry, get })
}

/// Reads the option of GETEX, from argument 2 on; none keeps the expiry.
pub(super) fn getex(call: &Call<'_>) -> Result<Expiry, Refusal> {
    match call.args.len() {
        2 => Ok(Expiry::Keep),
        3 if is(call.arg(2), "PERSIST") => Ok(Expiry::Clear),
        4 => moment(call, 2),
        _ => Err(SYNTAX.into()),
    }
}

/// `EX 10` and its like, at argument `at`.
fn moment(call: &Call<'_>, at: usize) -> Result<Expiry, Refusal> {
    const UNITS: [(&str, Unit); 4] = [
        ("EX", time::SECONDS),
        ("PX", time::MILLISECONDS),
        ("EXAT", time::AT_SECOND),
        ("PXAT", time::AT_MILLISECOND),
    ];
    let unit = UNITS.iter().find(|(name, _)| is(call.arg(at), name)).map(|(_, unit)| *unit);
    match (unit, call.args.get(at + 1)) {
        (Some(unit), Some(number)) => {
            time::positive(number, unit, call.ctx.now_ms, call.name).map(Expiry::At)
        }
        _ => Err(SYNTAX.into()),
    }
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SYNTAX.into()),
    }
}

/// As [`once`], but saying the same twice is allowed.
fn only<T: PartialEq + Copy>(option: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match option.replace(value) {
        Some(before) if before != value => Err(SYNTAX.into()),
        _ => Ok(()),
    }
}
