//! `PFDEBUG` and `PFSELFTEST`.

use terrace_engine::{Edit, Outcome as Edited, Reply};
use terrace_protocol::resp::Encoder;

use super::hash::REGISTERS;
use super::value::{self, Encoding};
use super::{CORRUPTED, NO_SUCH_VALUE};
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::options::is;
use crate::resp::step::Step;

const NO_SUCH_KEY: &str = "ERR The specified key does not exist";

/// `PFDEBUG GETREG|DECODE|ENCODING|TODENSE key`.
pub(in crate::resp) fn pfdebug(call: &mut Call<'_>) -> Outcome {
    let what = call.arg(1);
    match () {
        () if is(what, "TODENSE") => call.edit(call.arg(2), to_dense, b""),
        () if is(what, "GETREG") => {
            let nothing = call.batch.bytes(b"");
            let op = call.push_edit(call.arg(2), registers, nothing);
            call.answer(Step::One { op, show: show_registers })
        }
        () => {
            let what: Box<[u8]> = what.into();
            call.computed(call.arg(2), move |encoder, value| tell(encoder, value, &what))
        }
    }
}

fn tell(encoder: &mut Encoder<'_>, value: Option<&[u8]>, what: &[u8]) {
    let Some(value) = value else { return encoder.error(NO_SUCH_KEY.as_bytes()) };
    let Some(encoding) = value::encoding(value) else { return encoder.error(NO_SUCH_VALUE.as_bytes()) };
    match (encoding, ()) {
        (Encoding::Dense, ()) if is(what, "ENCODING") => encoder.simple("dense"),
        (Encoding::Sparse, ()) if is(what, "ENCODING") => encoder.simple("sparse"),
        (Encoding::Dense, ()) if is(what, "DECODE") => encoder.error(b"ERR HLL encoding is not sparse"),
        (Encoding::Sparse, ()) if is(what, "DECODE") => encoder.bulk(value::describe(value).as_bytes()),
        _ => encoder.error(&[b"ERR Unknown PFDEBUG subcommand '", what, b"'"].concat()),
    }
}

/// Makes the value dense; whether it was not.
fn dense(edit: &mut Edit<'_>) -> Result<bool, &'static str> {
    let old = edit.old.ok_or(NO_SUCH_KEY)?;
    let encoding = value::encoding(old.value).ok_or(NO_SUCH_VALUE)?;
    let mut value = old.value.to_vec();
    value::make_dense(&mut value).map_err(|_| CORRUPTED)?;
    edit.value.extend_from_slice(&value);
    Ok(encoding == Encoding::Sparse)
}

fn to_dense(edit: &mut Edit<'_>) -> Edited {
    match dense(edit) {
        Err(error) => edited::refuse(edit, error),
        Ok(converted) => {
            edited::integer(edit, converted.into());
            if converted { edited::written_into(edit.old) } else { Edited::Keep }
        }
    }
}

/// As Redis does, looking at the registers makes the value dense.
fn registers(edit: &mut Edit<'_>) -> Edited {
    match dense(edit) {
        Err(error) => edited::refuse(edit, error),
        Ok(converted) => {
            edit.answer.resize(REGISTERS, 0);
            if value::merge_into(edit.answer, edit.value).is_err() {
                edit.answer.clear();
                return edited::refuse(edit, CORRUPTED);
            }
            if converted { edited::written_into(edit.old) } else { Edited::Keep }
        }
    }
}

fn show_registers(answer: &mut crate::resp::step::Answer<'_>, reply: Reply) {
    match reply {
        Reply::Edited { answer: span, .. } if span.len() == REGISTERS => {
            let batch = answer.batch;
            answer.encoder.array(REGISTERS);
            batch.output(span).iter().for_each(|register| answer.encoder.integer((*register).into()));
        }
        other => edited::show(answer, other),
    }
}

/// `PFSELFTEST`: both representations count the same, and about right.
pub(in crate::resp) fn pfselftest(call: &mut Call<'_>) -> Outcome {
    match self_test() {
        Some(()) => call.ok(),
        None => Err("ERR TESTFAILED HyperLogLogs do not count as they should".into()),
    }
}

fn self_test() -> Option<()> {
    const ELEMENTS: u64 = 1000;
    let mut sparse = value::empty();
    let mut dense = value::empty();
    value::make_dense(&mut dense).ok()?;
    for element in 0..ELEMENTS {
        let element = element.to_le_bytes();
        value::add(&mut sparse, &element).ok()?;
        value::add(&mut dense, &element).ok()?;
    }
    let count = value::count(&sparse).ok()?;
    let same = value::count(&dense).ok()? == count;
    // Ten times the standard error of so many elements.
    (same && count.abs_diff(ELEMENTS) < ELEMENTS / 12).then_some(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_test_passes() {
        assert_eq!(super::self_test(), Some(()));
    }
}
