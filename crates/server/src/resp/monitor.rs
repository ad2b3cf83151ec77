//! `MONITOR`: what commands look like to who watches them.

use std::time::{SystemTime, UNIX_EPOCH};

use terrace_protocol::resp::Args;

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
    let seen = call.client.access.seen();
    call.about_store(move |answer| {
        if !answer.entry.has(flag::MONITOR) {
            answer.entry.set(flag::MONITOR, true);
            answer.encoder.simple("OK");
            answer.ctx.shared.connections.monitor(answer.entry);
            answer.ctx.shared.redis.acl.look_again(answer.entry, seen);
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
    // Who may have no more waiting is closed for it, and need not see the rest.
    let most = call.ctx.shared.connections.push_bytes_max();
    append(call.args, command.full_name, most, &mut line);
    line.extend_from_slice(b"\r\n");
    // With RESET it watches no more.
    let except = (command.name == "reset").then_some(call.client.peer.id);
    call.ctx.shared.connections.show_command(line, except);
}

/// Appends the arguments of the command with this full name, its secrets aside; no more than it takes to be longer than `most`.
fn append(args: Args<'_>, command: &'static str, most: usize, line: &mut Vec<u8>) {
    for arg in secrets::shown(command, args) {
        if line.len() > most {
            return;
        }
        line.push(b' ');
        // What is quoted is no shorter.
        let room = most.saturating_sub(line.len()).saturating_add(1);
        quote(&arg[..arg.len().min(room)], line);
    }
}

/// Bytes in quotes, as Redis writes them for people.
fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'"');
    out.push(b'"');
    let mut rest = bytes;
    loop {
        let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        let Some((&byte, behind)) = rest[plain..].split_first() else { break };
        rest = behind;
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            _ => {
                let digit = |half: u8| DIGITS[usize::from(half)];
                out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
            }
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
    #[test]
    fn a_line_that_nobody_can_get_is_not_made() {
        let bytes = vec![0; 1 << 20];
        let args: Vec<(usize, usize)> = (0..100).map(|_| (0, bytes.len())).collect();
        let mut line = b"+1.0 [0 x]".to_vec();
        append(Args::new(&bytes, &args), "mget", 1000, &mut line);
        assert!((1001..5000).contains(&line.len()), "{}", line.len());
        // What somebody could get is whole.
        let mut line = Vec::new();
        append(Args::new(b"getab", &[(0, 3), (3, 4), (4, 5)]), "get", 10, &mut line);
        assert_eq!(line, b" \"get\" \"a\" \"b\"");
        let mut line = Vec::new();
        append(Args::new(b"authpw", &[(0, 4), (4, 6)]), "auth", usize::MAX, &mut line);
        assert_eq!(line, b" \"auth\" \"(redacted)\"");
    }
}
