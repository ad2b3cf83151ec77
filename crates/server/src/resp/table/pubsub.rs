//! Commands about channels.

use super::keyspec::KeySpec;
use super::{ALL, Command, NONE, ONE, command, container, sub};
use crate::resp::{connection, help, pubsub};

/// Shard channels are told like keys, so that a cluster's clients find their node.
const SHARDS: &[KeySpec] = &[KeySpec::run(1, -1, 1, "not_key")];
const SHARD: &[KeySpec] = &[KeySpec::run(1, 0, 1, "not_key")];

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("psubscribe", -2, "pubsub noscript loading stale", NONE, "pubsub", pubsub::psubscribe, "Listens to the channels that patterns match.")
        .since("2.0.0").cost("O(N) where N is the number of patterns the client is already subscribed to.").syntax("pattern..."),
    command("publish", 3, "pubsub loading stale fast", NONE, "pubsub", pubsub::publish, "Sends a message to all who listen to a channel.")
        .since("2.0.0").cost("O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).").syntax("channel message"),
    container(command("pubsub", -2, "", NONE, "pubsub", connection::container, "Tells who listens to what.")
        .since("2.8.0").categories(""), PUBSUB),
    command("punsubscribe", -1, "pubsub noscript loading stale", NONE, "pubsub", pubsub::punsubscribe, "Listens to patterns no more.")
        .since("2.0.0").cost("O(N+M) where N is the number of patterns the client is already subscribed and M is the number of total patterns subscribed in the system (by any client).").syntax("[pattern...]"),
    command("spublish", 3, "pubsub loading stale fast", ONE, "pubsub", pubsub::spublish, "Sends a message to all who listen to a shard channel.")
        .since("7.0.0").cost("O(N) where N is the number of clients subscribed to the receiving shard channel.").syntax("shardchannel message").specs(SHARD),
    command("ssubscribe", -2, "pubsub noscript loading stale", ALL, "pubsub", pubsub::ssubscribe, "Listens to shard channels.")
        .since("7.0.0").cost("O(N) where N is the number of shard channels to subscribe to.").syntax("shardchannel...").specs(SHARDS),
    command("subscribe", -2, "pubsub noscript loading stale", NONE, "pubsub", pubsub::subscribe, "Listens to channels.")
        .since("2.0.0").cost("O(N) where N is the number of channels to subscribe to.").syntax("channel..."),
    command("sunsubscribe", -1, "pubsub noscript loading stale", ALL, "pubsub", pubsub::sunsubscribe, "Listens to shard channels no more.")
        .since("7.0.0").cost("O(N) where N is the number of clients already subscribed to a shard channel.").syntax("[shardchannel...]").specs(SHARDS),
    command("unsubscribe", -1, "pubsub noscript loading stale", NONE, "pubsub", pubsub::unsubscribe, "Listens to channels no more.")
        .since("2.0.0").cost("O(N) where N is the number of clients already subscribed to a channel.").syntax("[channel...]"),
];

#[rustfmt::skip]
const PUBSUB: &[Command] = &[
    sub("pubsub|channels", -2, pubsub::channels, "Tells the channels that somebody listens to.").flags("pubsub loading stale")
        .since("2.8.0").cost("O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)").syntax("[pattern]"),
    sub("pubsub|help", 2, help::help, "Tells the subcommands.")
        .since("6.2.0").categories(""),
    sub("pubsub|numpat", 2, pubsub::numpat, "Counts the patterns that somebody listens to.").flags("pubsub loading stale")
        .since("2.8.0"),
    sub("pubsub|numsub", -2, pubsub::numsub, "Counts who listens to channels.").flags("pubsub loading stale")
        .since("2.8.0").cost("O(N) for the NUMSUB subcommand, where N is the number of requested channels").syntax("[channel...]"),
    sub("pubsub|shardchannels", -2, pubsub::shardchannels, "Tells the shard channels that somebody listens to.").flags("pubsub loading stale")
        .since("7.0.0").cost("O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).").syntax("[pattern]"),
    sub("pubsub|shardnumsub", -2, pubsub::shardnumsub, "Counts who listens to shard channels.").flags("pubsub loading stale")
        .since("7.0.0").cost("O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels").syntax("[shardchannel...]"),
];
