//! SUBSCRIBE and its kin.

use std::sync::atomic::Ordering::Relaxed;

use super::super::call::{Call, Outcome};
use super::super::glob;
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
    let names = names(call);
    if topic == Topic::Pattern {
        names.iter().try_for_each(|name| glob::check(name))?;
    }
    if !call.client.entry.subscriptions.lock().have_room(topic, &names) {
        return Err(format!(
            "ERR the names that a connection listens to may take at most {NAME_BYTES_MAX} bytes"
        )
        .into());
    }
    let seen = call.client.access.seen();
    call.about_store(move |answer| {
        let mut subscriptions = answer.entry.subscriptions.lock();
        let confirmed: Vec<Confirmed> = names
            .into_iter()
            .map(|name| {
                let changed = subscriptions.add(topic, &name);
                Confirmed { name: Some(name), changed, count: counted(topic, subscriptions.counts()) }
            })
            .collect();
        drop(subscriptions);
        confirm(answer, topic, true, confirmed);
        answer.ctx.shared.redis.acl.look_again(answer.entry, seen);
    })
}

fn remove(call: &mut Call<'_>, topic: Topic) -> Outcome {
    let names = names(call);
    call.about_store(move |answer| {
        let mut subscriptions = answer.entry.subscriptions.lock();
        let names = if names.is_empty() { subscriptions.names(topic).cloned().collect() } else { names };
        let mut confirmed: Vec<Confirmed> = names
            .into_iter()
            .map(|name| {
                let changed = subscriptions.remove(topic, &name);
                Confirmed { name: Some(name), changed, count: counted(topic, subscriptions.counts()) }
            })
            .collect();
        if confirmed.is_empty() {
            let count = counted(topic, subscriptions.counts());
            confirmed.push(Confirmed { name: None, changed: false, count });
        }
        drop(subscriptions);
        confirm(answer, topic, false, confirmed);
    })
}

fn names(call: &Call<'_>) -> Vec<Name> {
    call.args.from(1).map(Name::from).collect()
}

fn confirm(answer: &mut Answer<'_>, topic: Topic, add: bool, confirmed: Vec<Confirmed>) {
    let (counts, bytes) = {
        let subscriptions = answer.entry.subscriptions.lock();
        (subscriptions.counts(), subscriptions.bytes())
    };
    answer.entry.set(flag::SUBSCRIBED, counts != [0; 3]);
    answer.entry.kept.subscriptions.store(bytes, Relaxed);
    // Before anything reaches it: what is published is written as its confirmation is.
    answer.entry.set_version(answer.encoder.version());
    for line in confirmed {
        write(answer, topic, add, &line);
    }
}

fn write(answer: &mut Answer<'_>, topic: Topic, add: bool, line: &Confirmed) {
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
pub(in super::super) fn unsubscribe_all(answer: &mut Answer<'_>) {
    for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
        let names = answer.entry.subscriptions.lock().take(topic);
        names.iter().for_each(|name| answer.ctx.shared.connections.hub.remove(topic, name, answer.entry));
    }
    answer.entry.set(flag::SUBSCRIBED, false);
    answer.entry.kept.subscriptions.store(0, Relaxed);
    answer.entry.take_pushes(false, answer.encoder.buffer());
}
