//! Random commands on few keys: our server and the original answer the same, and end with the same values.
//!
//! Needs the original (see [`Original::start`]). `TERRACE_DIFFERENTIAL_STEPS` asks for more commands than the few of every run,
//! `TERRACE_DIFFERENTIAL_SEED` for others.

use std::net::SocketAddr;

use terrace_protocol::resp::{Value, write_request};
use terrace_server::ServerOptions;

use crate::client::Client;
use crate::original::Original;
use crate::ours::Ours;
use crate::random::{Group, Random};

/// Commands sent at a time.
const PIPELINE: usize = 32;

#[test]
fn strings() {
    compare(Group::Strings);
}

#[test]
fn bits() {
    compare(Group::Bits);
}

#[test]
fn hyperloglogs() {
    compare(Group::HyperLogLogs);
}

#[test]
fn keys_and_transactions() {
    compare(Group::Keys);
}

/// What either server dumps the other one restores.
#[test]
fn dumps_are_exchanged() {
    let Some(original) = Original::start() else { return };
    let ours = Ours::start();
    let mut clients = [Client::connect(original.address), Client::connect(ours.address)];
    let mut random = Random::new(seed());
    for _ in 0..steps() / 10 {
        let value = random.value();
        for (from, to) in [(0, 1), (1, 0)] {
            ask(&mut clients[from], &[b"SET", b"k", &value]);
            let Value::Bulk(dump) = ask(&mut clients[from], &[b"DUMP", b"k"]) else { panic!("no dump") };
            ask(&mut clients[to], &[b"RESTORE", b"r", b"0", &dump, b"REPLACE"]);
            assert_eq!(ask(&mut clients[to], &[b"GET", b"r"]), Value::Bulk(value.clone()));
        }
    }
    drop(clients);
    ours.stop();
}

/// What `COMMAND INFO` tells of commands on keys: arity, flags, which arguments are keys, categories, tips, key specifications.
#[test]
fn commands_on_keys_are_described_alike() {
    let Some(original) = Original::start() else { return };
    let ours = Ours::start();
    let mut clients = [Client::connect(original.address), Client::connect(ours.address)];
    let (mut compared, mut differ) = (0, Vec::new());
    for category in ["string", "bitmap", "hyperloglog", "keyspace"] {
        let filter = [&b"COMMAND"[..], b"LIST", b"FILTERBY", b"ACLCAT", category.as_bytes()];
        let Value::Array(names) = ask(&mut clients[1], &filter) else { panic!("no list") };
        for name in names {
            let Value::Bulk(name) = name else { panic!("{name:?}") };
            let infos = clients.each_mut().map(|client| sorted(ask(client, &[b"COMMAND", b"INFO", &name])));
            // The original has no such command, or refuses what the reason says that ours does.
            if infos[0] == Value::Array(vec![Value::Null]) || name.starts_with(b"sort") {
                continue;
            }
            compared += 1;
            let [theirs, ours] = infos.map(|info| shown_value(&info));
            if theirs != ours {
                differ.push(format!("{ours}\n{theirs}\n"));
            }
        }
    }
    assert!(differ.is_empty(), "ours, and the original's:\n{}", differ.concat());
    assert!(compared > 50, "most commands were not compared");
    drop(clients);
    ours.stop();
}

/// An answer in which lists of words are in order, without notes for people.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(mut values) => {
            if values.first() == Some(&Value::Bulk(b"notes".to_vec())) {
                values.drain(..2);
            }
            let mut values: Vec<Value> = values.into_iter().map(sorted).collect();
            if values.iter().all(|value| matches!(value, Value::Simple(_))) {
                values.sort_by_key(shown_value);
            }
            Value::Array(values)
        }
        other => other,
    }
}

fn compare(group: Group) {
    compare_with(group, ServerOptions { threads: 2, ..ServerOptions::default() });
    // In parts that end behind every answer that has bytes.
    compare_with(group, ServerOptions { turn_answer_bytes: 0, ..ServerOptions::default() });
}

fn compare_with(group: Group, options: ServerOptions) {
    let Some(original) = Original::start() else { return };
    let ours = Ours::start_with(options);
    let mut random = Random::new(seed());
    let mut sides = [Side::new(original.address), Side::new(ours.address)];
    let mut done = 0;
    while done < steps() {
        let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
        while commands.len() < PIPELINE {
            random.commands(group, &mut commands);
        }
        // What they come to.
        commands.extend(random.keys().map(|key| vec![b"GET".to_vec(), key]));
        let [theirs, ours] = sides.each_mut().map(|side| side.answers(&commands));
        for (i, command) in commands.iter().enumerate() {
            let shown: Vec<String> = command.iter().map(|arg| arg.escape_ascii().to_string()).collect();
            assert!(
                theirs[i] == ours[i],
                "seed {}, about command {}: {}\nthe original {}\nours         {}\nbefore it: {:?}",
                seed(),
                done + i,
                shown.join(" "),
                shown_value(&theirs[i]),
                shown_value(&ours[i]),
                commands[i.saturating_sub(16)..i]
                    .iter()
                    .map(|command| command.join(&b' ').escape_ascii().to_string())
                    .collect::<Vec<_>>()
            );
        }
        done += commands.len();
    }
    drop(sides);
    ours.stop();
}

/// An answer, readable.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) | Value::Error(bytes) => bytes.escape_ascii().to_string(),
        Value::Array(values) => values.iter().map(|value| shown_value(value) + ", ").collect(),
        other => format!("{other:?}"),
    }
}

struct Side(Client);

impl Side {
    fn new(address: SocketAddr) -> Self {
        Self(Client::connect(address))
    }

    fn answers(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        let mut request = Vec::new();
        commands.iter().for_each(|command| write_request(command, &mut request));
        self.0.send(&request);
        commands.iter().map(|_| self.0.answer()).collect()
    }
}

fn ask(client: &mut Client, args: &[&[u8]]) -> Value {
    let mut request = Vec::new();
    write_request(args, &mut request);
    client.send(&request);
    client.answer()
}

fn steps() -> usize {
    number("TERRACE_DIFFERENTIAL_STEPS").map_or(4000, |steps| steps as usize)
}

fn seed() -> u64 {
    number("TERRACE_DIFFERENTIAL_SEED").unwrap_or(1)
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}
