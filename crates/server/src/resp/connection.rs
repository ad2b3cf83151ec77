//! Commands about the connection itself.

use terrace_engine::DATABASES;
use terrace_protocol::resp::{Version, parse_integer};

use super::acl;
use super::call::{Call, Outcome};
use super::client::check_client_name;
use super::error::arity;
use super::options::is;
use super::pubsub;
use super::step::Step;
use crate::registry::flag;

/// The Redis whose answers these commands follow.
pub const REDIS_VERSION: &str = "7.4.2";

const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
                           <pass> option can be used to authenticate the client and select the RESP protocol version at the \
                           same time";

/// A container without a subcommand; its arity does not let that happen.
pub(super) fn container(call: &mut Call<'_>) -> Outcome {
    Err(arity(call.name))
}

pub(super) fn ping(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 | 2 if call.client.is_subscribed && call.client.version == Version::Resp2 => pubsub::pong(call),
        1 => call.answer(Step::Simple("PONG")),
        2 => echo(call),
        _ => Err(arity(call.name)),
    }
}

pub(super) fn echo(call: &mut Call<'_>) -> Outcome {
    call.answer(Step::Bulk(Some(call.arg(1).into())))
}

pub(super) fn quit(call: &mut Call<'_>) -> Outcome {
    call.client.closing = true;
    call.ok()
}

pub(super) fn select(call: &mut Call<'_>) -> Outcome {
    let db = call.integer(1)?;
    call.client.db = u8::try_from(db)
        .ok()
        .filter(|db| usize::from(*db) < DATABASES)
        .ok_or("ERR DB index is out of range")?;
    call.ok()
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    call.client.reset();
    call.about_store(|answer| {
        pubsub::unsubscribe_all(answer);
        let connections = &answer.ctx.shared.connections;
        connections.untrack(answer.entry);
        connections.unmonitor(answer.entry);
        answer.entry.set(flag::MONITOR, false);
    })?;
    call.answer(Step::Version(Version::Resp2))?;
    call.answer(Step::Simple("RESET"))
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
pub(super) fn hello(call: &mut Call<'_>) -> Outcome {
    let mut version = call.client.version;
    if let Some(number) = call.args.get(1) {
        version =
            match parse_integer(number).ok_or("ERR Protocol version is not an integer or out of range")? {
                2 => Version::Resp2,
                3 => Version::Resp3,
                _ => return Err("NOPROTO unsupported protocol version".into()),
            };
    }
    let mut name = None;
    let mut at = 2;
    while at < call.args.len() {
        let (word, left) = (call.arg(at), call.args.len() - at - 1);
        if is(word, "AUTH") && left >= 2 {
            acl::authenticate(call, call.arg(at + 1), call.arg(at + 2), "HELLO")?;
            at += 3;
        } else if is(word, "SETNAME") && left >= 1 {
            let given = call.arg(at + 1);
            check_client_name(given)?;
            name = Some(given);
            at += 2;
        } else {
            return Err([b"ERR Syntax error in HELLO option '", word, b"'"].concat().into());
        }
    }
    if !call.client.access.is_authenticated(&call.ctx.shared.redis.acl) {
        return Err(HELLO_FIRST.into());
    }
    if let Some(name) = name {
        call.client.set_name(name);
    }
    call.client.version = version;
    call.answer(Step::Version(version))?;
    let id = call.client.peer.id;
    call.late(move |answer| {
        let encoder = &mut answer.encoder;
        encoder.map(7);
        for (key, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"proto");
        encoder.integer(encoder.version().number());
        encoder.bulk(b"id");
        encoder.integer(id as i64);
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"modules");
        encoder.array(0);
    })
}
