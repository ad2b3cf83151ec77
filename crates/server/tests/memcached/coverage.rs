//! Every command of `docs/memcached.md` is in the conformance table, with an answer and with an error.

use std::collections::BTreeMap;

/// Commands that never fail.
const NEVER_FAIL: &[&str] = &[
    "quit",
    "stats conns",
    "stats extstore",
    "stats items",
    "stats reset",
    "stats settings",
    "stats sizes",
    "stats slabs",
    "version",
];

/// Commands that fail on any server of the test; the test that has one where they don't.
const ALWAYS_FAIL: &[(&str, &str)] =
    &[("refresh_certs", "nothing has TLS"), ("shutdown", "admin::shutting_down")];

/// Commands that end the connection without an answer, or answer only later.
const SILENT: &[(&str, &str)] =
    &[("quit", "the table says that it closes"), ("watch", "watch::connections_are_told")];

/// The commands of the page, subcommands of `stats` as such.
fn commands() -> Vec<String> {
    let page = include_str!("../../../../docs/memcached.md");
    let row = |name: &str| {
        let row = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        row.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut commands = row("storing, reading");
    commands.extend(row("steering"));
    commands.extend(row("meta"));
    commands.push("stats".to_owned());
    let reports = row("statistics").into_iter().filter(|word| word != "stats");
    commands.extend(reports.map(|word| format!("stats {word}")));
    // What follows are flags.
    commands.retain(|command| command != "noreply" && command.len() > 1 && !command.starts_with("b c f"));
    commands
}

#[test]
fn every_command_is_in_the_table() {
    let commands = commands();
    assert!(commands.len() > 35, "{commands:?}");
    let mut held = BTreeMap::<&str, (bool, bool)>::new();
    let mut asked = "";
    for line in include_str!("table.txt").lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let words = request.replace("\\n\\", " ").replace("\\t", " ");
            let words: Vec<_> = words.split_whitespace().take(2).collect();
            let called = |command: &&String| {
                let n = command.split(' ').count();
                words.len() >= n && words[..n].join(" ") == **command
            };
            // What is none is a value.
            if let Some(command) = commands.iter().filter(called).max_by_key(|command| command.len()) {
                asked = command;
            }
        } else if let Some(answer) = line.strip_prefix("< ") {
            let (answers, errors) = held.entry(asked).or_default();
            let fails = answer.contains("ERROR") || answer.starts_with("Error");
            *(if fails { errors } else { answers }) = true;
        }
    }
    let mut wrong = Vec::new();
    for command in commands.iter().map(String::as_str) {
        let (answers, errors) = held.get(command).copied().unwrap_or_default();
        let excused = ALWAYS_FAIL.iter().chain(SILENT).any(|(excused, _)| *excused == command);
        if !answers && !excused {
            wrong.push(format!("{command}: no answer is stated"));
        }
        if !errors && !NEVER_FAIL.contains(&command) {
            wrong.push(format!("{command}: no error is stated"));
        }
        if answers && excused || errors && NEVER_FAIL.contains(&command) {
            wrong.push(format!("{command}: the table has it, so it is no exception"));
        }
    }
    assert!(wrong.is_empty(), "in the conformance table:\n  {}", wrong.join("\n  "));
}
