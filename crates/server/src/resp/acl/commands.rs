//! The `ACL` commands.

use super::access::Access;
use super::rules::{has_spaces, merge};
use super::selector::{Denied, Selector};
use super::standing::Standing;
use super::user::{DEFAULT, to_hex};
use crate::resp::call::{Call, Outcome};
use crate::resp::error::{Refusal, wrong_arguments};
use crate::resp::options::is;
use crate::resp::step::{Answer, Step};
use crate::resp::table::{CATEGORIES, COMMANDS, category};

/// Bits of a password that nobody has to guess.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;
/// Entries that `ACL LOG` tells unless asked for more.
const LOG_SHOWN: i64 = 10;

fn list_of<T: AsRef<[u8]> + Send + 'static>(call: &mut Call<'_>, items: Vec<T>) -> Outcome {
    call.late(move |answer| strings(answer, &items))
}

fn strings<T: AsRef<[u8]>>(answer: &mut Answer<'_>, items: &[T]) {
    answer.encoder.array(items.len());
    items.iter().for_each(|item| answer.encoder.bulk(item.as_ref()));
}

/// `ACL SETUSER name [rule …]`.
pub(in crate::resp) fn setuser(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if has_spaces(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let words = merge(call.args.from(3)).map_err(|first| {
        Refusal::from(
            [&b"ERR Unmatched parenthesis in acl selector starting at '"[..], &first, b"'."].concat(),
        )
    })?;
    let user = call.ctx.shared.redis.acl.set_user(name, &words)?;
    end_what_may_not_go_on(call, &Standing::of([(user.id, Some(user))]));
    call.ok()
}

/// `ACL DELUSER name …`.
pub(in crate::resp) fn deluser(call: &mut Call<'_>) -> Outcome {
    if call.args.from(2).any(|name| name == DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let deleted = call.ctx.shared.redis.acl.delete_users(call.args.from(2));
    let count = deleted.len();
    end_what_may_not_go_on(call, &Standing::of(deleted.into_iter().map(|number| (number, None))));
    call.answer(Step::Integer(count as i64))
}

/// Ends the connections of users that are no longer there or are others of the same name, and those that listen or watch where their
/// users may not any more; this one behind its answer.
fn end_what_may_not_go_on(call: &mut Call<'_>, standing: &Standing) {
    for entry in call.ctx.shared.connections.all() {
        if standing.may_go_on(&entry) {
            continue;
        }
        if entry.id() == call.client.peer.id {
            call.client.closing = true;
        } else {
            entry.kill();
        }
    }
}

/// `ACL GETUSER name`.
pub(in crate::resp) fn getuser(call: &mut Call<'_>) -> Outcome {
    let user = call.ctx.shared.redis.acl.user(call.arg(2));
    call.late(move |answer| {
        let Some(user) = user else { return answer.encoder.null() };
        answer.encoder.map(6);
        answer.encoder.bulk(b"flags");
        let flags = user.flags();
        answer.encoder.set(flags.len());
        flags.iter().for_each(|flag| answer.encoder.bulk(flag.as_bytes()));
        answer.encoder.bulk(b"passwords");
        strings(answer, &user.hashes());
        selector(answer, &user.root);
        answer.encoder.bulk(b"selectors");
        answer.encoder.array(user.selectors.len());
        for each in &user.selectors {
            answer.encoder.map(3);
            selector(answer, each);
        }
    })
}

fn selector(answer: &mut Answer<'_>, selector: &Selector) {
    answer.encoder.bulk(b"commands");
    answer.encoder.bulk(selector.commands_text().as_bytes());
    answer.encoder.bulk(b"keys");
    answer.encoder.bulk(&selector.keys_text());
    answer.encoder.bulk(b"channels");
    answer.encoder.bulk(&selector.channels_text());
}

/// `ACL LIST`.
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let lines: Vec<Vec<u8>> =
        call.ctx.shared.redis.acl.users.read().values().map(|user| user.text()).collect();
    list_of(call, lines)
}

/// `ACL USERS`.
pub(in crate::resp) fn users(call: &mut Call<'_>) -> Outcome {
    let names: Vec<Box<[u8]>> = call.ctx.shared.redis.acl.users.read().keys().cloned().collect();
    list_of(call, names)
}

/// `ACL WHOAMI`.
pub(in crate::resp) fn whoami(call: &mut Call<'_>) -> Outcome {
    let name = Access::name(&call.client.access).into();
    call.answer(Step::Bulk(Some(name)))
}

/// `ACL CAT [category]`.
pub(in crate::resp) fn cat(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => list_of(call, CATEGORIES.to_vec()),
        3 => {
            let wanted = category(call.arg(2))
                .ok_or_else(|| Refusal::from([b"ERR Unknown category '", call.arg(2), b"'"].concat()))?;
            let names = COMMANDS.iter().filter(|command| command.categories.overlaps(wanted));
            list_of(call, names.map(|command| command.full_name).collect())
        }
        _ => Err(wrong_arguments(call.arg(1), "ACL")),
    }
}

/// `ACL GENPASS [bits]`.
pub(in crate::resp) fn genpass(call: &mut Call<'_>) -> Outcome {
    let bits = match call.args.len() {
        2 => PASSWORD_BITS,
        3 => call.integer(2)?,
        _ => return Err(wrong_arguments(call.arg(1), "ACL")),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err("ERR ACL GENPASS argument must be the number of bits for the output password, \
                    a positive number up to 4096"
            .into());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "the system gives no random bytes");
        Refusal::from("ERR the system gives no random bytes")
    })?;
    let mut password = to_hex(&random);
    password.truncate(digits);
    call.answer(Step::Bulk(Some(password.into_bytes().into())))
}

/// `ACL LOG [count | RESET]`.
pub(in crate::resp) fn log(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.get(2) {
        _ if call.args.len() > 3 => return Err(wrong_arguments(call.arg(1), "ACL")),
        None => LOG_SHOWN,
        Some(word) if is(word, "RESET") => {
            call.ctx.shared.redis.acl.log.lock().clear();
            return call.ok();
        }
        Some(_) => call.integer(2)?,
    };
    let entries = call.ctx.shared.redis.acl.log.lock().last(count.max(0) as usize);
    let now_ms = call.ctx.time.wall_now_ms();
    call.late(move |answer| {
        answer.encoder.array(entries.len());
        for entry in &entries {
            let encoder = &mut answer.encoder;
            encoder.map(10);
            encoder.bulk(b"count");
            encoder.integer(entry.count as i64);
            let context = if entry.in_multi { "multi" } else { "toplevel" };
            for (name, value) in [
                ("reason", entry.reason.name().as_bytes()),
                ("context", context.as_bytes()),
                ("object", &entry.object),
                ("username", &entry.user),
            ] {
                encoder.bulk(name.as_bytes());
                encoder.bulk(value);
            }
            encoder.bulk(b"age-seconds");
            encoder.double(now_ms.saturating_sub(entry.created_ms) as f64 / 1000.0);
            encoder.bulk(b"client-info");
            encoder.bulk(entry.client.trim_end().as_bytes());
            for (name, value) in [
                ("entry-id", entry.id),
                ("timestamp-created", entry.created_ms),
                ("timestamp-last-updated", entry.updated_ms),
            ] {
                encoder.bulk(name.as_bytes());
                encoder.integer(value as i64);
            }
        }
    })
}

/// `ACL DRYRUN user command [argument …]`.
pub(in crate::resp) fn dryrun(call: &mut Call<'_>) -> Outcome {
    let named = |before: &[u8], name: &[u8], behind: &[u8]| Refusal::from([before, name, behind].concat());
    let user = call.ctx.shared.redis.acl.user(call.arg(2));
    let user = user.ok_or_else(|| named(b"ERR User '", call.arg(2), b"' not found"))?;
    let args: Vec<&[u8]> = call.args.from(3).collect();
    let command = crate::resp::command::meant(&args)
        .ok_or_else(|| named(b"ERR Command '", call.arg(3), b"' not found"))?;
    if !command.takes(args.len()) {
        return Err(crate::resp::error::arity(command.full_name));
    }
    let told = |what: &[u8], kind: &str| {
        let before = format!(
            "This user has no permissions to {} '",
            if kind == "command" { "run the" } else { "access the" }
        );
        [before.as_bytes(), what, b"' ", kind.as_bytes()].concat()
    };
    let text = match user.check(command, &args) {
        Ok(()) => return call.ok(),
        Err(Denied::Command) => told(command.full_name.as_bytes(), "command"),
        Err(Denied::Key(at)) => told(args[at], "key"),
        Err(Denied::Channel(at)) => told(args[at], "channel"),
    };
    call.answer(Step::Bulk(Some(text.into())))
}

/// `ACL SAVE`.
pub(in crate::resp) fn save(call: &mut Call<'_>) -> Outcome {
    call.ctx.shared.redis.acl.save().map_err(|why| Refusal::from(format!("ERR {why}")))?;
    call.ok()
}

/// `ACL LOAD`.
pub(in crate::resp) fn load(call: &mut Call<'_>) -> Outcome {
    call.ctx.shared.redis.acl.load().map_err(|why| Refusal::from(format!("ERR {why}")))?;
    let standing = call.ctx.shared.redis.acl.standing();
    end_what_may_not_go_on(call, &standing);
    call.ok()
}
