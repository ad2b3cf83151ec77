//! `COMMAND`: the table, told to clients.

use terrace_protocol::resp::Encoder;

use super::call::{Call, Outcome};
use super::step::Step;
use super::table::{COMMANDS, Command, find};

/// `COMMAND`: how every command is called.
pub(super) fn all(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| {
        answer.encoder.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(&mut answer.encoder, command));
    })
}

pub(super) fn count(call: &mut Call<'_>) -> Outcome {
    call.answer(Step::Integer(COMMANDS.len() as i64))
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| {
        answer.encoder.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| answer.encoder.bulk(command.name.as_bytes()));
    })
}

/// `COMMAND INFO [name …]`.
pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    let commands: Vec<_> = call.args.from(2).map(named).collect();
    call.late(move |answer| {
        answer.encoder.array(commands.len());
        for command in commands {
            match command {
                Some(command) => describe(&mut answer.encoder, command),
                None => answer.encoder.null(),
            }
        }
    })
}

/// `COMMAND DOCS [name …]`; unknown names are left out.
pub(super) fn docs(call: &mut Call<'_>) -> Outcome {
    let commands: Vec<&Command> = match call.args.len() {
        2 => COMMANDS.iter().collect(),
        _ => call.args.from(2).filter_map(named).collect(),
    };
    call.late(move |answer| {
        answer.encoder.map(commands.len());
        commands.iter().for_each(|command| document(&mut answer.encoder, command));
    })
}

/// The command of this name, which may be `container|subcommand`.
fn named(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let command = find(COMMANDS, parts.next()?)?;
    match parts.next() {
        Some(sub) => find(command.subcommands, sub),
        None => Some(command),
    }
}

/// Redis's ten fields.
fn describe(encoder: &mut Encoder<'_>, command: &Command) {
    encoder.array(10);
    encoder.bulk(command.full_name.as_bytes());
    encoder.integer(command.arity.into());
    encoder.set(command.flags.split(' ').count());
    command.flags.split(' ').for_each(|flag| encoder.simple(flag));
    let (first, last, step) = command.keys;
    encoder.integer(first);
    encoder.integer(last);
    encoder.integer(step);
    let has = |flag: &str| command.flags.split(' ').any(|other| other == flag);
    let categories = [
        Some(if has("fast") { "@fast" } else { "@slow" }),
        has("write").then_some("@write"),
        has("readonly").then_some("@read"),
        has("admin").then_some("@admin"),
        (command.group == "string").then_some("@string"),
        (command.group == "connection").then_some("@connection"),
    ];
    encoder.set(categories.iter().flatten().count());
    categories.iter().flatten().for_each(|category| encoder.simple(category));
    // Tips and key specifications: none.
    encoder.set(0);
    encoder.set(0);
    encoder.array(command.subcommands.len());
    command.subcommands.iter().for_each(|sub| describe(encoder, sub));
}

fn document(encoder: &mut Encoder<'_>, command: &Command) {
    encoder.bulk(command.full_name.as_bytes());
    encoder.map(2 + usize::from(!command.subcommands.is_empty()));
    for (key, value) in [("summary", command.summary), ("group", command.group)] {
        encoder.bulk(key.as_bytes());
        encoder.bulk(value.as_bytes());
    }
    if !command.subcommands.is_empty() {
        encoder.bulk(b"subcommands");
        encoder.map(command.subcommands.len());
        command.subcommands.iter().for_each(|sub| document(encoder, sub));
    }
}
