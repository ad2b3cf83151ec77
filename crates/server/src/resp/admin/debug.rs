//! `DEBUG`: what tests of clients ask for, where it is allowed.

use std::time::Duration;

use terrace_protocol::resp::{Version, parse_integer};

use super::super::call::{Call, Outcome};
use super::super::error::{Refusal, wrong_arguments};
use super::super::generic::object::with_encoding;
use super::super::options::is;

const NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
     connection, otherwise you need to set this option in the configuration file, and then restart the server.";

const BIG_NUMBER: &[u8] = b"1234567999999999999999999999999999999";

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
        () if is(sub, "PROTOCOL") && count == 3 => protocol(call),
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

/// The bytes of a value in a `dump.rdb` that is not compressed.
fn serialized_bytes(value: &[u8]) -> usize {
    let number = parse_integer(value).and_then(|number| i32::try_from(number).ok());
    let in_head = match (number, value.len()) {
        (Some(number), _) if i8::try_from(number).is_ok() => return 2,
        (Some(number), _) if i16::try_from(number).is_ok() => return 3,
        (Some(_), _) => return 5,
        (None, ..64) => 1,
        (None, ..16384) => 2,
        (None, _) => 5,
    };
    in_head + value.len()
}

/// `DEBUG PROTOCOL type`: an answer of this type, for tests of clients.
fn protocol(call: &mut Call<'_>) -> Outcome {
    let kind = call.arg(2).to_ascii_lowercase();
    if kind == b"push" && call.client.version == Version::Resp2 {
        return Err("ERR RESP2 is not supported by this command".into());
    }
    call.late(move |answer| {
        let encoder = &mut answer.encoder;
        let is_resp3 = encoder.version() == Version::Resp3;
        match kind.as_slice() {
            b"string" => encoder.bulk(b"Hello World"),
            b"integer" => encoder.integer(12345),
            b"double" => encoder.decimal(b"3.141"),
            b"null" => encoder.null(),
            b"array" => {
                encoder.array(3);
                (0..3).for_each(|number| encoder.integer(number));
            }
            b"set" => {
                encoder.set(3);
                (0..3).for_each(|number| encoder.integer(number));
            }
            b"map" => {
                encoder.map(3);
                for number in 0..3 {
                    encoder.integer(number);
                    encoder.boolean(number == 1);
                }
            }
            b"attrib" => {
                if is_resp3 {
                    encoder.buffer().extend_from_slice(b"|1\r\n");
                    encoder.bulk(b"key-popularity");
                    encoder.array(2);
                    encoder.bulk(b"key:123");
                    encoder.integer(90);
                }
                encoder.bulk(b"Some real reply following the attribute");
            }
            b"push" => {
                encoder.push(2);
                encoder.bulk(b"server-cpu-usage");
                encoder.integer(42);
                encoder.bulk(b"Some real reply following the push reply");
            }
            b"true" => encoder.boolean(true),
            b"false" => encoder.boolean(false),
            b"verbatim" => encoder.verbatim(b"This is a verbatim\nstring"),
            b"bignum" if is_resp3 => {
                encoder.buffer().extend_from_slice(&[b"(", BIG_NUMBER, b"\r\n"].concat());
            }
            b"bignum" => encoder.bulk(BIG_NUMBER),
            _ => encoder.error(
                b"ERR Wrong protocol type name. Please use one of the following: \
                  string|integer|double|null|array|set|map|attrib|push|verbatim|true|false",
            ),
        }
    })
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
        Some((encoding, value)) => answer.encoder.simple(&format!(
            "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{} lru:0 lru_seconds_idle:0",
            serialized_bytes(value)
        )),
        None => answer.encoder.error(b"ERR no such key"),
    })
}

fn help(call: &mut Call<'_>) -> Outcome {
    const LINES: [&str; 19] = [
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANGE-REPL-ID | RELOAD",
        "    Nothing; answers OK.",
        "ERROR <string>",
        "    Answers with an error of this text.",
        "OBJECT <key>",
        "    Tells about a value.",
        "PROTOCOL <type>",
        "    Answers with a value of this type.",
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
