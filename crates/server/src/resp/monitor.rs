//! `MONITOR`: what commands look like to who watches them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::call::{Call, Outcome};
use super::client::Client;
use super::secrets;
use super::table::{Command, Flags};
use crate::registry::flag;

/// `MONITOR`: every command of others, and its own, is shown from now on. Said again it is not even answered, as in Redis.
pub(super) fn monitor(call: &mut Call<'_>) -> Outcome {
    if call.batch.is_atomic() {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    call.about_store(|answer| {
        if !answer.entry.has(flag::MONITOR) {
            answer.entry.set(flag::MONITOR, true);
            answer.encoder.simple("OK");
            answer.ctx.shared.connections.monitor(answer.entry);
        }
    })
}

/// A connection that monitors is no place for commands on keys.
pub(super) fn check(client: &Client, command: &Command) -> Outcome {
    let keyspace = command.flags.has(Flags::READONLY)
        || command.flags.has(Flags::WRITE)
        || matches!(command.name, "publish" | "spublish");
    if client.monitors && keyspace {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    Ok(())
}

/// Shows a command to all who watch, unless it is one of an administrator's.
pub(super) fn show(call: &Call<'_>, command: &Command) {
    if command.flags.has(Flags::ADMIN) || command.flags.has(Flags::SKIP_MONITOR) {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (db, peer) = (call.client.db, call.client.peer.remote.clone());
    let mut line = format!("+{}.{:06} [{db} {peer}]", now.as_secs(), now.subsec_micros()).into_bytes();
    for arg in secrets::shown(command.full_name, call.args) {
        line.push(b' ');
        quote(arg, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    // With RESET it watches no more.
    let except = (command.name == "reset").then_some(call.client.peer.id);
    call.ctx.shared.connections.show_command(line, except);
}

/// Bytes in quotes, as Redis writes them for people.
fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_quoted_as_redis_does() {
        let mut out = Vec::new();
        quote(b"a b\"\\\r\n\t\x07\x08\x00\xff~", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#""a b\"\\\r\n\t\a\b\x00\xff~""#);
    }
}
