//! `docs/commands.md`, made from the table. The test fails when the file is not what the table says; with
//! `TERRACE_WRITE_DOCS` set it writes the file (`cargo xtask docs`).

use std::fmt::Write;

use crate::resp::table::{Command, top_level};

const HEAD: &str = "# Commands of Redis's protocol\n\n\
    <!-- Made by `cargo xtask docs` from the table in crates/server/src/resp/table; edit that. -->\n\n\
    Of a command that Redis 7 has and that is not here, the answer is an error that says what the server lacks\n\
    (`this server has no lists yet`); what Redis does not have, either, is answered as an unknown command. Syntax: words in\n\
    capitals are meant as themselves, brackets hold what may be left out, a bar separates alternatives, three dots repeat.\n\
    *Since* is the version of Redis that first had it; the answers are those of 7.2, and a conformance table states them\n\
    byte for byte (`crates/server/tests/redis`).\n";

fn page() -> String {
    let mut groups: Vec<&str> = top_level().iter().map(|command| command.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut text = String::from(HEAD);
    for group in groups {
        let mut commands: Vec<&Command> =
            top_level().iter().filter(|command| command.group == group).collect();
        commands.sort_unstable_by_key(|command| command.name);
        write!(text, "\n## {group}\n\n| Command | Since | Cost | What it does |\n|---|---|---|---|\n")
            .unwrap();
        for command in commands {
            if command.is_container() {
                let mut subs: Vec<&Command> = command.subcommands().iter().collect();
                subs.sort_unstable_by_key(|sub| sub.name);
                if command.arity.unsigned_abs() == 1 {
                    row(&mut text, command);
                }
                subs.iter().for_each(|sub| row(&mut text, sub));
            } else {
                row(&mut text, command);
            }
        }
    }
    text
}

fn row(text: &mut String, command: &Command) {
    let bar = |text: &str| text.replace('|', "\\|");
    let name = command.full_name.replace('|', " ").to_uppercase();
    let space = if command.syntax.is_empty() { "" } else { " " };
    let old = command
        .deprecated
        .map_or(String::new(), |(since, instead)| format!(" Redis advises {instead} since {since}."));
    let cost = command.cost.split(". ").next().unwrap_or_default();
    writeln!(
        text,
        "| `{name}{space}{}` | {} | {} | {}{} |",
        bar(command.syntax),
        command.since,
        bar(cost),
        bar(command.summary),
        bar(&old)
    )
    .unwrap();
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    let page = page();
    if std::env::var_os("TERRACE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/commands.md is not what the table says: run `cargo xtask docs`");
}
