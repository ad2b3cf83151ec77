//! `COMMAND DOCS`.

use terrace_protocol::resp::Encoder;

use crate::resp::call::{Call, Outcome};
use crate::resp::syntax::{self, Argument, Kind};
use crate::resp::table::{COMMAND_COUNT, Command, named, top_level};

/// `COMMAND DOCS [name …]`; unknown names, and known ones that come again, are left out.
pub(in crate::resp) fn docs(call: &mut Call<'_>) -> Outcome {
    // Each once: the answer is a map.
    let mut told = [false; COMMAND_COUNT];
    let mut is_new = |command: &&Command| !std::mem::replace(&mut told[usize::from(command.id)], true);
    let commands: Vec<&Command> = match call.args.len() {
        2 => top_level().iter().collect(),
        _ => call.args.from(2).filter_map(named).filter(&mut is_new).collect(),
    };
    call.about_store(move |answer| {
        answer.bounded(
            |encoder| encoder.map(commands.len()),
            &commands,
            |encoder, command| {
                document(encoder, command);
            },
        );
    })
}

fn document(encoder: &mut Encoder<'_>, command: &Command) {
    let arguments = syntax::parse(command.syntax);
    let subs = command.subcommands();
    let deprecated = command.deprecated;
    encoder.bulk(command.full_name.as_bytes());
    encoder.map(
        4 + 3 * usize::from(deprecated.is_some())
            + usize::from(!arguments.is_empty())
            + usize::from(!subs.is_empty()),
    );
    let mut field = |name: &str, value: &str| {
        encoder.bulk(name.as_bytes());
        encoder.bulk(value.as_bytes());
    };
    field("summary", command.summary);
    field("since", command.since);
    field("group", command.group);
    field("complexity", command.cost);
    if let Some((since, instead)) = deprecated {
        field("deprecated_since", since);
        field("replaced_by", instead);
        encoder.bulk(b"doc_flags");
        super::statuses(encoder, ["deprecated"].into_iter(), "");
    }
    if !arguments.is_empty() {
        encoder.bulk(b"arguments");
        tell(encoder, &arguments);
    }
    if !subs.is_empty() {
        encoder.bulk(b"subcommands");
        encoder.map(subs.len());
        subs.iter().for_each(|sub| document(encoder, sub));
    }
}

fn tell(encoder: &mut Encoder<'_>, arguments: &[Argument<'_>]) {
    encoder.array(arguments.len());
    for argument in arguments {
        let flags: Vec<&'static str> = [("optional", argument.optional), ("multiple", argument.multiple)]
            .into_iter()
            .filter_map(|(flag, set)| set.then_some(flag))
            .collect();
        let is_key = argument.kind == Kind::Word("key");
        encoder.map(
            2 + usize::from(is_key)
                + usize::from(argument.token.is_some())
                + usize::from(!flags.is_empty())
                + usize::from(!argument.inner.is_empty()),
        );
        let mut field = |name: &str, value: &str| {
            encoder.bulk(name.as_bytes());
            encoder.bulk(value.as_bytes());
        };
        field("name", &argument.name());
        field("type", argument.kind.name());
        if is_key {
            encoder.bulk(b"key_spec_index");
            encoder.integer(0);
        }
        if let Some(token) = argument.token {
            encoder.bulk(b"token");
            encoder.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            encoder.bulk(b"flags");
            super::statuses(encoder, flags.into_iter(), "");
        }
        if !argument.inner.is_empty() {
            encoder.bulk(b"arguments");
            tell(encoder, &argument.inner);
        }
    }
}
