//! What the operations of a settled batch changed, read off their answers: so nothing that writes has to say so itself.

use terrace_engine::{Delta, Expiry, OpKind, Reply};

use super::notify::class;

/// Whether an operation changed its key. One that may have is taken for one that has.
pub(super) fn is_change(kind: &OpKind, reply: Reply) -> bool {
    match (kind, reply) {
        (_, Reply::Edited { changed, .. }) => changed,
        (OpKind::Expire { expiry, .. }, Reply::Hit { .. }) => *expiry != Expiry::Keep,
        (_, Reply::Stored { .. } | Reply::Deleted { .. } | Reply::Length(_)) => true,
        (_, Reply::Number(_) | Reply::Unsigned(_) | Reply::Float(_)) => true,
        _ => false,
    }
}

/// An event's class and its name.
pub(super) type Event = (u32, &'static str);

/// There was no such key.
pub(super) const NEW: Event = (class::NEW, "new");

/// Whether a command has deleted what was there before it wrote, as Redis tells it.
pub(super) fn is_made_anew(reply: Reply, command: &str) -> bool {
    matches!(command, "rename" | "copy" | "restore")
        && match reply {
            Reply::Edited { changed, meta, .. } => changed && meta.version != 0,
            Reply::Stored { .. } => true,
            _ => false,
        }
}

/// What else Redis says happened to the key of an operation, in order. `command` is the one that pushed it, empty if it was none of
/// Redis's.
pub(super) fn events(kind: &OpKind, reply: Reply, command: &str, now_ms: u64, mut say: impl FnMut(Event)) {
    const EXPIRE: Event = (class::GENERIC, "expire");
    const DELETE: Event = (class::GENERIC, "del");
    match (kind, reply) {
        (OpKind::Set { expiry, .. }, Reply::Stored { version, .. }) => {
            say(written(command).unwrap_or((class::STRING, "set")));
            if matches!(expiry, Expiry::At(_)) {
                say(EXPIRE);
                // Stored and expired in one: no record is left of which background work would tell.
                if version == 0 {
                    say((class::EXPIRED, "expired"));
                }
            }
        }
        (OpKind::Delete { .. }, Reply::Deleted { .. }) => say(deleted(command)),
        (OpKind::Incr { by: Delta::Float(_) }, Reply::Float(_)) => say((class::STRING, "incrbyfloat")),
        (OpKind::Incr { .. }, Reply::Number(_) | Reply::Unsigned(_)) => say((class::STRING, "incrby")),
        (OpKind::Append { .. }, Reply::Length(_)) => say((class::STRING, "append")),
        (OpKind::Expire { expiry, .. }, Reply::Hit { .. }) => match expiry {
            Expiry::Keep => {}
            Expiry::Clear => say((class::GENERIC, "persist")),
            Expiry::At(at) if *at <= now_ms => say(DELETE),
            Expiry::At(_) => say(EXPIRE),
        },
        // They keep an estimate, or keep the same in another form.
        (OpKind::Edit { .. }, Reply::Edited { .. }) if matches!(command, "pfcount" | "pfdebug") => {}
        (OpKind::Edit { .. }, Reply::Edited { changed: true, meta, .. }) if meta.version == 0 => {
            say(deleted(command));
        }
        (OpKind::Edit { .. }, Reply::Edited { changed: true, meta, .. }) => {
            say(written(command).unwrap_or((class::STRING, "set")));
            if matches!(command, "set" | "setex" | "psetex" | "ms" | "msetex") && meta.expire_at != 0 {
                say(EXPIRE);
            }
        }
        (
            OpKind::Get { .. } | OpKind::Delete { old_value: true, .. } | OpKind::Expire { value: true, .. },
            Reply::Miss,
        ) if !matches!(
            command,
            "watch" | "object|encoding" | "object|freq" | "object|idletime" | "object|refcount"
        ) =>
        {
            say((class::KEY_MISS, "keymiss"));
        }
        _ => {}
    }
}

/// The event of a record that a command wrote; `None`: as SET.
fn written(command: &str) -> Option<Event> {
    Some(match command {
        "append" => (class::STRING, "append"),
        "setrange" => (class::STRING, "setrange"),
        "setbit" | "bitfield" => (class::STRING, "setbit"),
        "incr" | "decr" | "incrby" | "decrby" | "increx" => (class::STRING, "incrby"),
        "incrbyfloat" => (class::STRING, "incrbyfloat"),
        "pfadd" | "pfmerge" => (class::STRING, "pfadd"),
        "rename" | "renamenx" => (class::GENERIC, "rename_to"),
        "move" => (class::GENERIC, "move_to"),
        "copy" => (class::GENERIC, "copy_to"),
        "restore" => (class::GENERIC, "restore"),
        "expire" | "pexpire" | "expireat" | "pexpireat" | "getex" => (class::GENERIC, "expire"),
        "persist" => (class::GENERIC, "persist"),
        _ => return None,
    })
}

/// The event of a record that a command deleted.
fn deleted(command: &str) -> Event {
    (
        class::GENERIC,
        match command {
            "rename" | "renamenx" => "rename_from",
            "move" => "move_from",
            _ => "del",
        },
    )
}
