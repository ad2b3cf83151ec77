//! `COMMAND`: the table, told to clients.

mod docs;
mod keys;
mod list;
#[cfg(test)]
mod page;

pub(super) use docs::docs;
pub(super) use keys::{getkeys, getkeysandflags, meant};
pub(super) use list::{count, list};

use terrace_protocol::resp::Encoder;

use super::call::{Call, Outcome};
use super::table::{Command, KeySpec, named, names_of_categories, names_of_flags, top_level};

/// `COMMAND`: how every command is called.
pub(super) fn all(call: &mut Call<'_>) -> Outcome {
    call.about_store(|answer| {
        answer.bounded(|encoder| encoder.array(top_level().len()), top_level(), describe);
    })
}

/// `COMMAND INFO [name …]`.
pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    let commands: Vec<_> = call.args.from(2).map(named).collect();
    call.about_store(move |answer| {
        let write = |encoder: &mut Encoder<'_>, command: Option<&'static Command>| match command {
            Some(command) => describe(encoder, command),
            None => encoder.null(),
        };
        answer.bounded(|encoder| encoder.array(commands.len()), commands.iter().copied(), write);
    })
}

/// Redis's ten fields.
fn describe(encoder: &mut Encoder<'_>, command: &'static Command) {
    encoder.array(10);
    encoder.bulk(command.full_name.as_bytes());
    encoder.integer(command.arity.into());
    statuses(encoder, names_of_flags(command.flags), "");
    let (first, last, step) = command.keys;
    encoder.integer(first.into());
    encoder.integer(last.into());
    encoder.integer(step.into());
    statuses(encoder, names_of_categories(command.categories), "@");
    words(encoder, command.tips);
    encoder.set(command.key_specs().count());
    command.key_specs().for_each(|spec| specify(encoder, spec));
    encoder.set(command.subcommands().len());
    command.subcommands().iter().for_each(|sub| describe(encoder, sub));
}

fn statuses(encoder: &mut Encoder<'_>, names: impl Iterator<Item = &'static str>, before: &str) {
    let names: Vec<String> = names.map(|name| format!("{before}{name}")).collect();
    encoder.set(names.len());
    names.iter().for_each(|name| encoder.simple(name));
}

/// A set of strings from words separated by spaces.
fn words(encoder: &mut Encoder<'_>, text: &str) {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    encoder.set(words.len());
    words.iter().for_each(|word| encoder.bulk(word.as_bytes()));
}

fn specify(encoder: &mut Encoder<'_>, spec: KeySpec) {
    encoder.map(3);
    encoder.bulk(b"flags");
    statuses(encoder, spec.access.split(' '), "");
    encoder.bulk(b"begin_search");
    if spec.counted {
        search(encoder, "index", &[("index", spec.first - 1)]);
        encoder.bulk(b"find_keys");
        return search(encoder, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", spec.step)]);
    }
    search(encoder, "index", &[("index", spec.first)]);
    encoder.bulk(b"find_keys");
    search(encoder, "range", &[("lastkey", spec.last), ("keystep", spec.step), ("limit", 0)]);
}

fn search(encoder: &mut Encoder<'_>, kind: &str, numbers: &[(&str, i16)]) {
    encoder.map(2);
    encoder.bulk(b"type");
    encoder.bulk(kind.as_bytes());
    encoder.bulk(b"spec");
    encoder.map(numbers.len());
    for (name, number) in numbers {
        encoder.bulk(name.as_bytes());
        encoder.integer((*number).into());
    }
}
