//! Publish and subscribe.
//!
//! All of it happens when a command is answered: nothing published reaches a client before its subscription is confirmed,
//! and a PUBLISH comes after the writes in front of it have settled. What is behind a command that subscribes is parsed
//! afterwards, because it may no longer be allowed. What a client publishes to itself follows the answer of its PUBLISH.

mod listen;
mod tell;

pub(super) use listen::{
    psubscribe, punsubscribe, ssubscribe, subscribe, sunsubscribe, unsubscribe, unsubscribe_all,
};
pub(super) use tell::{channels, numpat, numsub, shardchannels, shardnumsub};

use terrace_protocol::resp::Version;

use super::call::{Call, Outcome};
use super::client::Client;
use super::error::Refusal;
use super::table::Command;
use crate::effort::{Effort, TOO_MUCH};

/// `PUBLISH channel message`: how many get it.
pub(super) fn publish(call: &mut Call<'_>) -> Outcome {
    let (channel, message) = message(call);
    // One that takes long has a turn of its own; many in a transaction take from one effort.
    let shares = call.batch.is_atomic();
    call.client.pausing |= call.ctx.shared.connections.hub.may_take_long(&channel);
    call.late(move |answer| {
        let connections = &answer.ctx.shared.connections;
        let mut own = Effort::default();
        let effort = if shares { &mut *answer.effort } else { &mut own };
        match connections.hub.publish(&channel, &message, connections, effort) {
            Some(count) => answer.encoder.integer(count as i64),
            None => answer.encoder.error(TOO_MUCH.as_bytes()),
        }
    })
}

/// `SPUBLISH channel message`.
pub(super) fn spublish(call: &mut Call<'_>) -> Outcome {
    let (channel, message) = message(call);
    call.late(move |answer| {
        let connections = &answer.ctx.shared.connections;
        let count = connections.hub.publish_to_shard(&channel, &message, connections);
        answer.encoder.integer(count as i64);
    })
}

fn message(call: &Call<'_>) -> (Box<[u8]>, Box<[u8]>) {
    (call.arg(1).into(), call.arg(2).into())
}

/// Refuses what RESP2 can't answer between messages.
pub(super) fn check(client: &Client, command: &Command) -> Outcome {
    let allowed = [
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "subscribe",
        "sunsubscribe",
        "unsubscribe",
        "ping",
        "quit",
        "reset",
    ];
    if !client.is_subscribed || client.version != Version::Resp2 || allowed.contains(&command.name) {
        return Ok(());
    }
    Err(Refusal::from(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    )))
}

/// PING of a client that has subscribed and speaks RESP2.
pub(super) fn pong(call: &mut Call<'_>) -> Outcome {
    let text: Box<[u8]> = call.arg(1).into();
    call.late(move |answer| {
        answer.encoder.array(2);
        answer.encoder.bulk(b"pong");
        answer.encoder.bulk(&text);
    })
}
