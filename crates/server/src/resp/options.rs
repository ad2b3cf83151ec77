//! The options behind SET and GETEX.

use terrace_engine::{Condition, Expiry};

use super::call::Call;
use super::error::{Refusal, SYNTAX};
use super::text::compare::{self, Comparison};
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
    /// What the old value must be, and the argument that it is compared with; then `condition` is nothing.
    pub comparison: Option<(Comparison, usize)>,
}

/// Reads the options of SET, from argument 3 on. One kind of expiry and one condition may be given, and repeated; then the
/// last counts.
pub(super) fn set(call: &Call<'_>) -> Result<SetOptions, Refusal> {
    let (mut write, mut get, mut comparison) = (Write::default(), false, None);
    let mut at = 3;
    while at < call.args.len() {
        let word = call.arg(at);
        if let Some(named) = compare::named(word).filter(|_| at + 1 < call.args.len()) {
            if comparison.replace((named, at + 1)).is_some() {
                return Err(SYNTAX.into());
            }
            at += 2;
        } else if is(word, "GET") {
            get = true;
            at += 1;
        } else {
            at += write.read(call, at)?;
        }
    }
    if write.condition.is_some() && comparison.is_some() {
        return Err(SYNTAX.into());
    }
    let (condition, expiry) = write.end(call)?;
    if let Some((comparison, at)) = comparison {
        comparison.check(call.arg(at))?;
    }
    Ok(SetOptions { condition, expiry, get, comparison })
}

/// Reads the options of MSETEX, from argument `at` on: as of SET, save for those about one value.
pub(super) fn msetex(call: &Call<'_>, mut at: usize) -> Result<(Condition, Expiry), Refusal> {
    let mut write = Write::default();
    while at < call.args.len() {
        at += write.read(call, at)?;
    }
    write.end(call)
}

/// Options of a write, as they are read.
#[derive(Default)]
struct Write {
    condition: Option<Condition>,
    /// `None` inside keeps it.
    expiry: Option<Option<Unit>>,
    /// Where the unit's number is.
    number: usize,
}

impl Write {
    /// Reads the option at `at`; how many arguments it has.
    fn read(&mut self, call: &Call<'_>, at: usize) -> Result<usize, Refusal> {
        let word = call.arg(at);
        if is(word, "NX") {
            only(&mut self.condition, Condition::Absent)?;
        } else if is(word, "XX") {
            only(&mut self.condition, Condition::Present)?;
        } else if is(word, "KEEPTTL") {
            only(&mut self.expiry, None)?;
        } else {
            only(&mut self.expiry, Some(unit(call, at)?))?;
            self.number = at + 1;
            return Ok(2);
        }
        Ok(1)
    }

    /// Numbers are read when the syntax is known to be right.
    fn end(self, call: &Call<'_>) -> Result<(Condition, Expiry), Refusal> {
        let expiry = match self.expiry {
            None => Expiry::Clear,
            Some(None) => Expiry::Keep,
            Some(Some(unit)) => moment(call, self.number, unit)?,
        };
        Ok((self.condition.unwrap_or(Condition::Always), expiry))
    }
}

/// Reads the options of GETEX, from argument 2 on; none keeps the expiry. One may be said again: the last number counts.
pub(super) fn getex(call: &Call<'_>) -> Result<Expiry, Refusal> {
    let (mut times, mut at) = (Times::default(), 2);
    while at < call.args.len() {
        at += times.read(call, at)?;
    }
    times.end(call)
}

/// Options about the time of a key that is there, as they are read.
#[derive(Default)]
pub(super) struct Times {
    /// `None` inside takes it away.
    expiry: Option<Option<Unit>>,
    number: usize,
}

impl Times {
    /// Reads the option at `at`; how many arguments it has.
    pub fn read(&mut self, call: &Call<'_>, at: usize) -> Result<usize, Refusal> {
        if is(call.arg(at), "PERSIST") {
            only(&mut self.expiry, None)?;
            return Ok(1);
        }
        only(&mut self.expiry, Some(unit(call, at)?))?;
        self.number = at + 1;
        Ok(2)
    }

    /// What they ask for; none keeps the time.
    pub fn end(self, call: &Call<'_>) -> Result<Expiry, Refusal> {
        match self.expiry {
            None => Ok(Expiry::Keep),
            Some(None) => Ok(Expiry::Clear),
            Some(Some(unit)) => moment(call, self.number, unit),
        }
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
