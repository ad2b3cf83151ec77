//! Every command that the server knows is in the conformance tables: with what the original answers, and with what it
//! says when it is called wrongly.

use std::collections::{BTreeMap, BTreeSet};

use terrace_protocol::resp::Value;

use crate::client::Client;
use crate::ours::Ours;
use crate::table::FILES;

/// Commands whose answer no table can hold; the test that checks it, and why.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("acl|load", "acl::users_from_a_file", "needs a server with an ACL file"),
    ("acl|save", "acl::users_from_a_file", "needs a server with an ACL file"),
    (
        "config|rewrite",
        "admin::settings_are_changed_all_or_none_and_written_to_the_file",
        "needs a file of settings",
    ),
    ("debug", "admin::debug_does_what_clients_tests_need", "needs a server that allows it"),
    ("latency|graph", "admin::slow_commands_are_logged_with_their_arguments_where_all_are", "draws times"),
    ("shutdown", "admin::a_client_may_end_the_server_where_somebody_listens", "ends the server"),
];

/// Commands that the original lacks, or answers otherwise, and why; the tables hold our own answer.
const OURS: &[(&str, &str)] = &[
    ("bgrewriteaof", "the original's answer depends on what else goes on"),
    ("bgsave", "the original's answer depends on what else goes on"),
    ("client|no-touch", "7.0 lacks it"),
    ("client|setinfo", "7.0 lacks it"),
    ("delex", "7.0 lacks it"),
    ("delifeq", "7.0 lacks it"),
    ("digest", "7.0 lacks it"),
    ("increx", "7.0 lacks it"),
    ("msetex", "7.0 lacks it"),
    ("sort", "refused"),
    ("sort_ro", "refused"),
    ("waitaof", "7.0 lacks it"),
];

/// Commands that succeed nowhere that has no cluster and runs no scripts.
const ALWAYS_FAIL: &[&str] = &[
    "asking",
    "cluster|countkeysinslot",
    "cluster|getkeysinslot",
    "cluster|help",
    "cluster|info",
    "cluster|keyslot",
    "cluster|myid",
    "cluster|nodes",
    "cluster|shards",
    "cluster|slots",
    "function|kill",
    "readonly",
    "readwrite",
    "script|kill",
];

/// Commands that no arguments make fail.
const NEVER_FAIL: &[&str] = &[
    "command|docs",
    "command|info",
    "info",
    "latency|histogram",
    "latency|reset",
    "pubsub|numsub",
    "pubsub|shardnumsub",
    "punsubscribe",
    "quit",
    "sunsubscribe",
    "unsubscribe",
];

/// What the tables hold of a command.
#[derive(Clone, Copy, Default)]
struct Held {
    answer: bool,
    error: bool,
}

#[test]
fn every_command_is_in_the_tables() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let names = names(&client.ask(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"]));
    drop(client);
    ours.stop();
    assert!(names.len() > 200, "most commands are not listed: {}", names.len());

    let (theirs, ours) = (held(&names, false), held(&names, true));
    let (theirs, ours) = (|name: &str| theirs.get(name).copied(), |name: &str| ours.get(name).copied());
    let mut wrong = Vec::new();
    for name in names.iter().map(String::as_str) {
        let is_container = names.iter().any(|sub| sub.starts_with(&format!("{name}|")));
        let own = OURS.iter().any(|(own, _)| *own == name);
        let stated = theirs(name).unwrap_or_default();
        if own && stated.answer && stated.error {
            wrong.push(format!("{name}: a table has the original's answers, so it is no exception"));
        }
        let held = if own { ours(name).unwrap_or_default() } else { stated };
        let elsewhere = ELSEWHERE.iter().any(|(other, ..)| *other == name);
        let fails = ALWAYS_FAIL.contains(&name);
        if !(held.answer || elsewhere || fails || is_container || own && held.error) {
            wrong.push(format!("{name}: no answer is stated"));
        }
        if !(held.error || NEVER_FAIL.contains(&name) || own && held.answer) {
            wrong.push(format!("{name}: no error is stated"));
        }
        if held.answer && (elsewhere || fails) || held.error && NEVER_FAIL.contains(&name) {
            wrong.push(format!("{name}: a table has it, so it is no exception"));
        }
    }
    assert!(wrong.is_empty(), "in the conformance tables:\n  {}", wrong.join("\n  "));
}

#[test]
fn the_exceptions_name_tests() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis");
    for (command, test, why) in ELSEWHERE {
        let (file, function) = test.split_once("::").unwrap();
        let source = std::fs::read_to_string(format!("{dir}/{file}.rs")).unwrap();
        assert!(source.contains(&format!("fn {function}(")), "{command}: no test {test}");
        let word = command.rsplit('|').next().unwrap().to_ascii_uppercase();
        assert!(source.contains(&word), "{command}: {file}.rs does not send it");
        assert!(!why.is_empty(), "{command}");
    }
}

fn names(list: &Value) -> BTreeSet<String> {
    let Value::Array(names) = list else { panic!("{list:?}") };
    let text = |name: &Value| match name {
        Value::Bulk(name) => String::from_utf8(name.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    names.iter().map(text).collect()
}

/// What the tables hold of each command: what the original answers, or what is ours alone.
fn held(names: &BTreeSet<String>, is_ours_alone: bool) -> BTreeMap<String, Held> {
    let mut held = BTreeMap::<String, Held>::new();
    for conversation in FILES.iter().flat_map(|(_, text)| text.split("\n\n")) {
        if conversation.lines().any(|line| line == "@ ours") != is_ours_alone {
            continue;
        }
        let mut asked: Option<String> = None;
        for line in conversation.lines() {
            if let Some(request) = line.strip_prefix("> ") {
                asked = command_of(request, names);
            } else if let Some(answer) = line.strip_prefix("< ")
                && let Some(name) = asked.take()
            {
                let held = held.entry(name).or_default();
                held.error |= answer.starts_with('-');
                // What is only queued is not answered yet.
                held.answer |= !answer.starts_with('-') && answer != "+QUEUED";
            }
        }
    }
    held
}

/// The command that a line of a table calls.
fn command_of(request: &str, names: &BTreeSet<String>) -> Option<String> {
    let mut words = request.split(' ').map(str::to_ascii_lowercase);
    let command = words.next()?;
    let sub = words.next().map(|word| format!("{command}|{word}"));
    sub.filter(|sub| names.contains(sub)).or_else(|| names.contains(&command).then_some(command))
}
