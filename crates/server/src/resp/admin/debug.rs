//! `DEBUG`: what tests of clients ask for, where it is allowed.

use std::time::Duration;

use super::super::call::{Call, Outcome};
use super::super::error::{Refusal, wrong_arguments};
use super::super::generic::object::with_encoding;
use super::super::options::is;

const NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
     connection, otherwise you need to set this option in the configuration file, and then restart the server.";

/// A worker sleeps no longer than this, whatever it is told: all its connections wait meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// `DEBUG subcommand …`.
pub(in crate::resp) fn debug(call: &mut Call<'_>) -> Outcome {
    if !call.ctx.shared.options.debug_commands {
        return Err(NOT_ALLOWED.into());
    }
    let (sub, count) = (call.arg(1), call.args.len());
    match () {
        () if is(sub, "SLEEP") && count == 3 => sleep(call),
        () if is(sub, "OBJECT") && count >= 3 => object(call),
        () if is(sub, "ERROR") && count == 3 => Err(Refusal::from(call.arg(2).to_vec())),
        // There is nothing to switch; whoever says so goes on.
        () if (is(sub, "SET-ACTIVE-EXPIRE")
            || is(sub, "QUICKLIST-PACKED-THRESHOLD")
            || is(sub, "SET-DISABLE-DENY-SCRIPTS"))
            && count == 3 =>
        {
            call.ok()
        }
        // What is in the store is what would be read from its media.
        () if is(sub, "RELOAD") || is(sub, "CHANGE-REPL-ID") && count == 2 => call.ok(),
        () if is(sub, "HELP") && count == 2 => help(call),
        () => Err(wrong_arguments(sub, "DEBUG")),
    }
}

fn sleep(call: &mut Call<'_>) -> Outcome {
    // As in Redis, what is no number is none at all.
    let seconds = std::str::from_utf8(call.arg(2)).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let asked = Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 {
        SLEEP_MAX
    } else {
        Duration::ZERO
    });
    std::thread::sleep(asked.min(SLEEP_MAX));
    call.ok()
}

fn object(call: &mut Call<'_>) -> Outcome {
    with_encoding(call, |answer, found| match found {
        Some((encoding, bytes)) => answer.encoder.simple(&format!(
            "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 lru_seconds_idle:0"
        )),
        None => answer.encoder.error(b"ERR no such key"),
    })
}

fn help(call: &mut Call<'_>) -> Outcome {
    const LINES: [&str; 17] = [
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANGE-REPL-ID | RELOAD",
        "    Nothing; answers OK.",
        "ERROR <string>",
        "    Answers with an error of this text.",
        "OBJECT <key>",
        "    Tells about a value.",
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "    Nothing; answers OK.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Nothing; answers OK.",
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    Nothing; answers OK.",
        "SLEEP <seconds>",
        "    Lets a worker sleep, with all its connections.",
        "HELP",
        "    Prints this help.",
    ];
    call.late(|answer| {
        answer.encoder.array(LINES.len());
        LINES.iter().for_each(|line| answer.encoder.simple(line));
    })
}
