//! `FUNCTION` and `SCRIPT`: there are no scripts, so that forgetting all of them is done at once.

use super::super::call::{Call, Outcome};
use super::super::error::{Refusal, wrong_arguments};
use super::super::options::is;

/// `FUNCTION FLUSH [ASYNC | SYNC]`.
pub(in crate::resp) fn function_flush(call: &mut Call<'_>) -> Outcome {
    match call.args.get(2) {
        _ if call.args.len() > 3 => Err(wrong_arguments(call.arg(1), "FUNCTION")),
        Some(how) if !is(how, "ASYNC") && !is(how, "SYNC") => {
            Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into())
        }
        _ => call.ok(),
    }
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`.
pub(in crate::resp) fn function_list(call: &mut Call<'_>) -> Outcome {
    let (mut code, mut pattern) = (false, false);
    let mut options = call.args.from(2);
    while let Some(option) = options.next() {
        if !code && is(option, "WITHCODE") {
            code = true;
        } else if !pattern && is(option, "LIBRARYNAME") {
            pattern = true;
            options.next().ok_or("ERR library name argument was not given")?;
        } else {
            return Err(Refusal::from([&b"ERR Unknown argument "[..], option].concat()));
        }
    }
    call.late(|answer| answer.encoder.array(0))
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`.
pub(in crate::resp) fn script_flush(call: &mut Call<'_>) -> Outcome {
    match call.args.get(2) {
        None => call.ok(),
        Some(how) if call.args.len() == 3 && (is(how, "ASYNC") || is(how, "SYNC")) => call.ok(),
        Some(_) => Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
    }
}

/// `SCRIPT EXISTS digest …`: none does.
pub(in crate::resp) fn script_exists(call: &mut Call<'_>) -> Outcome {
    let asked = call.args.len() - 2;
    call.late(move |answer| {
        answer.encoder.array(asked);
        (0..asked).for_each(|_| answer.encoder.integer(0));
    })
}

/// `FUNCTION KILL` and `SCRIPT KILL`.
pub(in crate::resp) fn not_busy(_call: &mut Call<'_>) -> Outcome {
    Err("NOTBUSY No scripts in execution right now.".into())
}
