//! `CLIENT TRACKING` and what belongs to it: [`crate::registry::Tracking`] keeps the keys.
//!
//! Tracking begins and ends when its command is answered; what is behind it is parsed afterwards.

mod tell;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(super) use tell::{getredir, trackinginfo};

use super::call::{Call, Outcome};
use super::client::Client;
use super::error::{Refusal, SYNTAX};
use super::options::is;
use super::table::{self, Command, Flags};
use crate::registry::{Name, PREFIXES_OF_ALL_MAX, TrackingOptions, flag};

const OTHER_BROADCAST: &str = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                               re-enabling it with a different mode.";
const OTHER_OPT: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
                         it with a different mode.";

/// Prefixes of one connection: each is compared with the others, and looked at with every write.
const PREFIXES_MAX: usize = 1024;
/// Bytes that they take.
const PREFIX_BYTES_MAX: usize = 1 << 20;

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix …] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`.
pub(super) fn tracking(call: &mut Call<'_>) -> Outcome {
    let options = parse(call)?;
    let (word, entry) = (call.arg(2), &call.client.entry);
    if is(word, "OFF") {
        return call.about_store(|answer| {
            answer.ctx.shared.connections.untrack(answer.entry);
            answer.encoder.simple("OK");
        });
    }
    if !is(word, "ON") {
        return Err(SYNTAX.into());
    }
    let has = |bit| options.flags & bit != 0;
    if !has(flag::BROADCAST) && !options.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if entry.has(flag::TRACKING) && entry.has(flag::BROADCAST) != has(flag::BROADCAST) {
        return Err(OTHER_BROADCAST.into());
    }
    if has(flag::BROADCAST) && has(flag::OPT_IN | flag::OPT_OUT) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if has(flag::OPT_IN) && has(flag::OPT_OUT) {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if has(flag::OPT_IN) && entry.has(flag::OPT_OUT) || has(flag::OPT_OUT) && entry.has(flag::OPT_IN) {
        return Err(OTHER_OPT.into());
    }
    if entry.prefixes.lock().len() + options.prefixes.len() > PREFIXES_MAX {
        return Err(format!("ERR a connection may track at most {PREFIXES_MAX} prefixes").into());
    }
    let kept = entry.kept.prefixes.load(Relaxed);
    if kept + options.prefixes.iter().map(|prefix| prefix.len()).sum::<usize>() > PREFIX_BYTES_MAX {
        return Err(format!(
            "ERR the prefixes that a connection tracks may take at most {PREFIX_BYTES_MAX} bytes"
        )
        .into());
    }
    disjoint(&options.prefixes, call.client)?;
    call.about_store(move |answer| {
        answer.entry.set_version(answer.encoder.version());
        if answer.ctx.shared.connections.track(answer.entry, options) {
            answer.encoder.simple("OK");
        } else {
            let text = format!(
                "ERR all clients together may track at most {PREFIXES_OF_ALL_MAX} different prefixes: every write is \
                 compared with each"
            );
            answer.encoder.error(text.as_bytes());
        }
    })
}

/// The options, from argument 3 on.
fn parse(call: &Call<'_>) -> Result<TrackingOptions, Refusal> {
    let mut options = TrackingOptions::default();
    let mut at = 3;
    while at < call.args.len() {
        let (word, more) = (call.arg(at), at + 1 < call.args.len());
        match () {
            () if is(word, "REDIRECT") && more => {
                if options.redirect != 0 {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = call.integer(at + 1)?;
                let known =
                    u64::try_from(id).ok().filter(|id| call.ctx.shared.connections.find(*id).is_some());
                options.redirect = known.ok_or("ERR The client ID you want redirect to does not exist")?;
                at += 1;
            }
            () if is(word, "PREFIX") && more => {
                options.prefixes.push(call.arg(at + 1).into());
                at += 1;
            }
            () if is(word, "BCAST") => options.flags |= flag::BROADCAST,
            () if is(word, "OPTIN") => options.flags |= flag::OPT_IN,
            () if is(word, "OPTOUT") => options.flags |= flag::OPT_OUT,
            () if is(word, "NOLOOP") => options.flags |= flag::NO_LOOP,
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok(options)
}

/// No prefix of a connection may begin with another: it would hear twice of a write.
fn disjoint(prefixes: &[Name], client: &Client) -> Outcome {
    let overlap = |one: &Name, other: &Name| one.starts_with(other) || other.starts_with(one);
    let refuse = |prefix: &Name, words: &str, other: &Name| {
        let words = format!("' overlaps with {words} prefix '");
        let behind = b"'. Prefixes for a single client must not overlap.";
        Err(Refusal::from([b"ERR Prefix '", &**prefix, words.as_bytes(), other, behind].concat()))
    };
    let own = client.entry.prefixes.lock();
    for (i, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = own.iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "an existing", other);
        }
        if let Some(other) = prefixes[i + 1..].iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// `CLIENT CACHING YES|NO`: whether the keys of the next command are tracked.
pub(super) fn caching(call: &mut Call<'_>) -> Outcome {
    let (word, entry) = (call.arg(2), Arc::clone(&call.client.entry));
    if !entry.has(flag::TRACKING) {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
            .into());
    }
    match () {
        () if is(word, "YES") && entry.has(flag::OPT_IN) => {}
        () if is(word, "NO") && entry.has(flag::OPT_OUT) => {}
        () if is(word, "YES") => {
            return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
        }
        () if is(word, "NO") => {
            return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
        }
        () => return Err(SYNTAX.into()),
    }
    entry.set(flag::CACHING, true);
    call.ok()
}

/// Remembers the keys that a command of a tracking connection is about to read.
pub(super) fn remember(call: &Call<'_>, command: &'static Command) {
    let entry = &call.client.entry;
    let caching = entry.has(flag::CACHING);
    let wanted = (!entry.has(flag::OPT_IN) || caching) && !(entry.has(flag::OPT_OUT) && caching);
    if !wanted || !command.flags.has(Flags::READONLY) {
        return;
    }
    let args: Vec<&[u8]> = call.args.from(0).collect();
    for (at, _) in table::keys_of(command, &args) {
        call.ctx.shared.connections.remember(args[at], entry);
    }
}

/// A command of a tracking connection has ended: `CLIENT CACHING` was for this one, or for the whole transaction.
pub(super) fn end_command(client: &Client, name: &str) {
    if client.transaction.is_none() && !name.starts_with("client") {
        client.entry.set(flag::CACHING, false);
    }
}
