//! Channels, and who listens.

use std::collections::BTreeSet;

use super::super::expect::{Expect, Version};
use super::{Model, store::Command};

/// What a connection listens to: channels, patterns, shards' channels.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening([BTreeSet<Vec<u8>>; 3]);

/// The commands of each kind.
const KINDS: [(&str, &str); 3] =
    [("subscribe", "unsubscribe"), ("psubscribe", "punsubscribe"), ("ssubscribe", "sunsubscribe")];

impl Listening {
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    /// What a confirmation counts.
    fn count(&self, kind: usize) -> i64 {
        (if kind == 2 { self.0[2].len() } else { self.0[0].len() + self.0[1].len() }) as i64
    }

    /// How many names there are of the kind that this command ends, which then are told in no order.
    pub fn of(&self, command: &str) -> usize {
        KINDS.iter().zip(&self.0).find(|((_, end), _)| *end == command).map_or(0, |(_, names)| names.len())
    }
}

/// Whether a command is one of those that are allowed to a listener of RESP2.
pub(super) fn is_allowed(name: &str) -> bool {
    name.ends_with("subscribe") || matches!(name, "ping" | "quit" | "reset")
}

/// `SUBSCRIBE` and the like: a confirmation for each name.
pub(super) fn listen(model: &mut Model, client: usize, name: &str, args: &Command) -> Vec<Expect> {
    let Some(kind) = KINDS.iter().position(|(begin, end)| [*begin, *end].contains(&name)) else {
        return Vec::new();
    };
    let begins = KINDS[kind].0 == name;
    let connection = &mut model.clients[client];
    let mut names: Vec<Option<Vec<u8>>> = args[1..].iter().cloned().map(Some).collect();
    if names.is_empty() {
        names = connection.listening.0[kind].iter().cloned().map(Some).collect();
    }
    if names.is_empty() {
        names.push(None);
    }
    let mut told = Vec::new();
    for channel in names {
        if let Some(channel) = &channel {
            if begins {
                connection.listening.0[kind].insert(channel.clone());
            } else {
                connection.listening.0[kind].remove(channel);
            }
        }
        told.push(Expect::push(
            connection.version,
            vec![
                Expect::bulk(name.as_bytes()),
                Expect::bulk_or_null(channel.as_deref(), connection.version),
                Expect::int(connection.listening.count(kind)),
            ],
        ));
    }
    told
}

/// `PUBLISH`, `SPUBLISH`: what each listener gets, and how many they are.
pub(super) fn publish(
    model: &Model,
    shard: bool,
    channel: &[u8],
    message: &[u8],
) -> (Vec<(usize, Expect)>, i64) {
    let mut told = Vec::new();
    for (client, connection) in model.clients.iter().enumerate() {
        let version: Version = connection.version;
        let [channels, patterns, shards] = &connection.listening.0;
        let (names, word) = if shard { (shards, "smessage") } else { (channels, "message") };
        if names.contains(channel) {
            let parts = [word.as_bytes(), channel, message].map(Expect::bulk);
            told.push((client, Expect::push(version, parts.to_vec())));
        }
        let matching = patterns.iter().filter(|pattern| !shard && matches(pattern, channel));
        for pattern in matching {
            let parts = [&b"pmessage"[..], pattern, channel, message].map(Expect::bulk);
            told.push((client, Expect::push(version, parts.to_vec())));
        }
    }
    let count = told.len() as i64;
    (told, count)
}

/// The patterns here end in a star, or match themselves.
fn matches(pattern: &[u8], channel: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(start) => channel.starts_with(start),
        None => pattern == channel,
    }
}
