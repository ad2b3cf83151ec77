//! `HELP` of every container, told from the table.

use super::call::{Call, Outcome};
use super::table;

/// Tells the subcommands of the container whose `HELP` was called.
pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    let name = call.name.split('|').next().unwrap_or_default();
    let Some(container) = table::find(name.as_bytes()) else { return call.ok() };
    call.late(move |answer| {
        let mut lines =
            vec![format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase())];
        for sub in container.subcommands() {
            let space = if sub.syntax.is_empty() { "" } else { " " };
            lines.push(format!("{}{space}{}", sub.name.to_uppercase(), sub.syntax));
            lines.push(format!("    {}", sub.summary));
        }
        answer.encoder.array(lines.len());
        lines.iter().for_each(|line| answer.encoder.simple(line));
    })
}
