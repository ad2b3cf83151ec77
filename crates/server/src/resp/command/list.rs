//! `COMMAND COUNT` and `COMMAND LIST`.

use crate::resp::call::{Call, Outcome};
use crate::resp::error::SYNTAX;
use crate::resp::glob;
use crate::resp::options::is;
use crate::resp::step::Step;
use crate::resp::table::{COMMANDS, Command, category, top_level};

pub(in crate::resp) fn count(call: &mut Call<'_>) -> Outcome {
    call.answer(Step::Integer(top_level().len() as i64))
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`; subcommands are listed too.
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let found: Vec<&Command> = match call.args.len() {
        2 => COMMANDS.iter().collect(),
        5 if is(call.arg(2), "FILTERBY") => {
            let (by, what) = (call.arg(3), call.arg(4));
            if is(by, "MODULE") {
                Vec::new()
            } else if is(by, "ACLCAT") {
                let category = category(what);
                let fits = |command: &&Command| {
                    category.is_some_and(|category| command.categories.overlaps(category))
                };
                COMMANDS.iter().filter(fits).collect()
            } else if is(by, "PATTERN") {
                let pattern = glob::read(&what.to_ascii_lowercase())?;
                let effort = &mut call.client.effort;
                COMMANDS
                    .iter()
                    .filter(|command| pattern.matches(command.full_name.as_bytes(), effort))
                    .collect()
            } else {
                return Err(SYNTAX.into());
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    call.late(move |answer| {
        answer.encoder.array(found.len());
        found.iter().for_each(|command| answer.encoder.bulk(command.full_name.as_bytes()));
    })
}
