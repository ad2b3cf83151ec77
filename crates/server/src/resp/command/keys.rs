//! `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`.

use terrace_protocol::resp::Encoder;

use crate::resp::call::{Call, Outcome};
use crate::resp::table::{Command, keys_of};

/// `COMMAND GETKEYS command [argument …]`.
pub(in crate::resp) fn getkeys(call: &mut Call<'_>) -> Outcome {
    tell(call, |encoder, key, _| encoder.bulk(key))
}

/// `COMMAND GETKEYSANDFLAGS command [argument …]`.
pub(in crate::resp) fn getkeysandflags(call: &mut Call<'_>) -> Outcome {
    tell(call, |encoder, key, access| {
        encoder.array(2);
        encoder.bulk(key);
        super::statuses(encoder, access.split(' '), "");
    })
}

fn tell(call: &mut Call<'_>, write: fn(&mut Encoder<'_>, &[u8], &'static str)) -> Outcome {
    let args: Vec<&[u8]> = call.args.from(2).collect();
    let command = meant(&args).ok_or("ERR Invalid command specified")?;
    if command.key_specs().all(|spec| spec.has("not_key")) {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let keys: Vec<(Box<[u8]>, &'static str)> =
        keys_of(command, &args).map(|(at, access)| (args[at].into(), access)).collect();
    if keys.is_empty() {
        return Err("ERR Invalid arguments specified for command".into());
    }
    call.about_store(move |answer| {
        answer.bounded(
            |encoder| encoder.array(keys.len()),
            &keys,
            |encoder, (key, access)| {
                write(encoder, key, access);
            },
        );
    })
}

/// The command that these arguments call.
pub(in crate::resp) fn meant(args: &[&[u8]]) -> Option<&'static Command> {
    let command = crate::resp::table::find(args.first()?)?;
    match args.get(1) {
        Some(sub) if command.is_container() => command.sub(sub),
        _ => Some(command),
    }
}
