//! SUBSCRIBE and its kin.

use std::sync::Arc;

use super::super::call::{Call, Outcome};
use super::super::step::Answer;
use crate::registry::{NAME_BYTES_MAX, Name, Topic, flag};

pub(in super::super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    add(call, Topic::Channel)
}

pub(in super::super) fn psubscribe(call: &mut Call<'_>) -> Outcome {
    add(call, Topic::Pattern)
}

pub(in super::super) fn ssubscribe(call: &mut Call<'_>) -> Outcome {
    add(call, Topic::Shard)
}

pub(in super::super) fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Topic::Channel)
}

pub(in super::super) fn punsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Topic::Pattern)
}

pub(in super::super) fn sunsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Topic::Shard)
}

/// One line of an answer.
struct Confirmed {
    /// `None`: there was nothing to unsubscribe from.
    name: Option<Name>,
    /// Whether it changed anything.
    changed: bool,
    /// Subscriptions left, of the kinds that are counted together.
    count: usize,
}

fn word(topic: Topic, add: bool) -> &'static str {
    match (topic, add) {
        (Topic::Channel, true) => "subscribe",
        (Topic::Pattern, true) => "psubscribe",
        (Topic::Shard, true) => "ssubscribe",
        (Topic::Channel, false) => "unsubscribe",
        (Topic::Pattern, false) => "punsubscribe",
        (Topic::Shard, false) => "sunsubscribe",
    }
}

/// Shard channels are counted by themselves.
fn counted(topic: Topic, [channels, patterns, shards]: [usize; 3]) -> usize {
    if topic == Topic::Shard { shards } else { channels + patterns }
}

fn add(call: &mut Call<'_>, topic: Topic) -> Outcome {
    let mut confirmed = Vec::new();
    let mut fits = true;
    {
        let mut subscriptions = call.client.entry.subscriptions.lock();
        for name in call.args.from(1) {
            let name: Name = name.into();
            let added = subscriptions.add(topic, &name);
            fits &= added != Some(false);
            let count = counted(topic, subscriptions.counts());
            confirmed.push(Confirmed { name: Some(name), changed: added == Some(true), count });
        }
        if !fits {
            // Nothing of the command is done.
            for line in confirmed.iter().filter(|line| line.changed) {
                subscriptions.remove(topic, line.name.as_deref().unwrap_or_default());
            }
        }
    }
    if !fits {
        return Err(
            format!("ERR a connection may subscribe to at most {NAME_BYTES_MAX} bytes of names").into()
        );
    }
    confirm(call, topic, true, confirmed)
}

fn remove(call: &mut Call<'_>, topic: Topic) -> Outcome {
    let mut confirmed = Vec::new();
    {
        let mut subscriptions = call.client.entry.subscriptions.lock();
        let names: Vec<Name> = if call.args.len() > 1 {
            call.args.from(1).map(Name::from).collect()
        } else {
            subscriptions.names(topic).cloned().collect()
        };
        for name in names {
            let changed = subscriptions.remove(topic, &name);
            let count = counted(topic, subscriptions.counts());
            confirmed.push(Confirmed { name: Some(name), changed, count });
        }
        if confirmed.is_empty() {
            let count = counted(topic, subscriptions.counts());
            confirmed.push(Confirmed { name: None, changed: false, count });
        }
    }
    confirm(call, topic, false, confirmed)
}

fn confirm(call: &mut Call<'_>, topic: Topic, add: bool, confirmed: Vec<Confirmed>) -> Outcome {
    let counts = call.client.entry.subscriptions.lock().counts();
    call.client.is_subscribed = counts != [0; 3];
    call.client.entry.set(flag::SUBSCRIBED, call.client.is_subscribed);
    call.late(move |answer| {
        // Before anything reaches it: what is published is written as its confirmation is.
        answer.entry.set_version(answer.encoder.version());
        for line in confirmed {
            write(answer, topic, add, line);
        }
    })
}

fn write(answer: &mut Answer<'_>, topic: Topic, add: bool, line: Confirmed) {
    let hub = &answer.ctx.shared.connections.hub;
    match &line.name {
        Some(name) if line.changed && add => hub.add(topic, name, answer.entry),
        Some(name) if line.changed => {
            hub.remove(topic, name, answer.entry);
            // What was published before it comes before it.
            answer.entry.take_pushes(false, answer.encoder.buffer());
        }
        _ => {}
    }
    answer.encoder.push(3);
    answer.encoder.bulk(word(topic, add).as_bytes());
    match &line.name {
        Some(name) => answer.encoder.bulk(name),
        None => answer.encoder.null(),
    }
    answer.encoder.integer(line.count as i64);
}

/// For RESET: nothing is said.
pub(in super::super) fn unsubscribe_all(call: &mut Call<'_>) -> Outcome {
    let entry = Arc::clone(&call.client.entry);
    let names: Vec<(Topic, Name)> = {
        let mut subscriptions = entry.subscriptions.lock();
        [Topic::Channel, Topic::Pattern, Topic::Shard]
            .into_iter()
            .flat_map(|topic| subscriptions.take(topic).into_iter().map(move |name| (topic, name)))
            .collect()
    };
    call.client.is_subscribed = false;
    entry.set(flag::SUBSCRIBED, false);
    if names.is_empty() {
        return Ok(());
    }
    call.late(move |answer| {
        for (topic, name) in &names {
            answer.ctx.shared.connections.hub.remove(*topic, name, answer.entry);
        }
        answer.entry.take_pushes(false, answer.encoder.buffer());
    })
}
