//! Commands on keys.

use super::super::expect::Expect;
use super::payload::{PLAIN_BYTES_MAX, is_payload, payload};
use super::store::{Answer, DATABASES, Entry, Form, Run, SYNTAX, integer, now};

const NO_SUCH_KEY: &str = "ERR no such key";
const SAME: &str = "ERR source and destination objects are the same";
/// Answers with a time to live may come so much later than the command was made, in milliseconds.
const LATE_MS: i64 = 60_000;

pub(super) fn del(run: &mut Run<'_>) -> Answer {
    let keys = &run.args[1..];
    Ok(Expect::int(keys.iter().filter(|key| run.store.remove(run.db, key).is_some()).count() as i64))
}

/// `EXISTS`, `TOUCH`.
pub(super) fn exists(run: &mut Run<'_>) -> Answer {
    let keys = &run.args[1..];
    Ok(Expect::int(keys.iter().filter(|key| run.store.get(run.db, key).is_some()).count() as i64))
}

pub(super) fn type_of(run: &mut Run<'_>) -> Answer {
    Ok(Expect::simple(if run.entry().is_some() { "string" } else { "none" }))
}

pub(super) fn dbsize(run: &mut Run<'_>) -> Answer {
    Ok(Expect::int(run.store.len(run.db) as i64))
}

/// `KEYS *`.
pub(super) fn keys(run: &mut Run<'_>) -> Answer {
    Ok(Expect::AnyOrder(run.store.keys(run.db)))
}

pub(super) fn flushdb(run: &mut Run<'_>) -> Answer {
    run.store.flush(run.db);
    Ok(Expect::ok())
}

pub(super) fn flushall(run: &mut Run<'_>) -> Answer {
    (0..DATABASES).for_each(|db| run.store.flush(db));
    Ok(Expect::ok())
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT` with a condition or none.
pub(super) fn expire(run: &mut Run<'_>) -> Answer {
    let condition = match (run.args.len(), run.word(3).as_str()) {
        (3, _) => "",
        (4, "NX") => "NX",
        (4, "XX") => "XX",
        (4, "GT") => "GT",
        (4, "LT") => "LT",
        _ => {
            let option = String::from_utf8_lossy(run.arg(3)).into_owned();
            return Err(Expect::error(&format!("ERR Unsupported option {option}")));
        }
    };
    let number = run.integer(2)?;
    let name = run.word(0).to_lowercase();
    let ms = if name.starts_with('p') { Some(number) } else { number.checked_mul(1000) };
    let at = if name.ends_with("at") { ms } else { ms.and_then(|ms| ms.checked_add(now())) };
    let at = at.ok_or_else(|| Expect::error(&format!("ERR invalid expire time in '{name}' command")))?;
    let Some(entry) = run.entry().cloned() else { return Ok(Expect::int(0)) };
    let applies = match condition {
        "NX" => entry.at == 0,
        "XX" => entry.at != 0,
        "GT" => entry.at != 0 && at > entry.at,
        "LT" => entry.at == 0 || at < entry.at,
        _ => true,
    };
    if applies && at <= now() {
        run.delete();
    } else if applies {
        run.expire(Entry { at, ..entry });
    }
    Ok(Expect::int(applies.into()))
}

pub(super) fn persist(run: &mut Run<'_>) -> Answer {
    let expires = run.entry().is_some_and(|entry| entry.at != 0);
    if let (true, Some(entry)) = (expires, run.entry().cloned()) {
        run.set(Entry { at: 0, ..entry });
    }
    Ok(Expect::int(expires.into()))
}

/// `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`.
pub(super) fn ttl(run: &mut Run<'_>) -> Answer {
    let name = run.word(0);
    let unit = if name.starts_with('P') { 1 } else { 1000 };
    let Some(entry) = run.entry() else { return Ok(Expect::int(-2)) };
    if entry.at == 0 {
        return Ok(Expect::int(-1));
    }
    let ms = if name.ends_with("TIME") { entry.at } else { entry.at - now() };
    Ok(Expect::Between((ms - LATE_MS) / unit, (ms + LATE_MS) / unit))
}

/// `RENAME`, `RENAMENX`.
pub(super) fn rename(run: &mut Run<'_>) -> Answer {
    let only_new = run.word(0) == "RENAMENX";
    let (from, to) = (run.arg(1).to_vec(), run.arg(2).to_vec());
    let entry = run.entry().cloned().ok_or_else(|| Expect::error(NO_SUCH_KEY))?;
    if from == to || only_new && run.store.get(run.db, &to).is_some() {
        return Ok(if only_new { Expect::int(0) } else { Expect::ok() });
    }
    run.store.remove(run.db, &from);
    run.store.put(run.db, &to, entry);
    Ok(if only_new { Expect::int(1) } else { Expect::ok() })
}

/// The database that an argument names. Those beyond the model's are not asked for, only those beyond the server's.
pub(super) fn database(run: &Run<'_>, index: usize) -> Result<usize, Expect> {
    let db = run.integer(index)?;
    usize::try_from(db)
        .ok()
        .filter(|db| *db < DATABASES)
        .ok_or_else(|| Expect::error("ERR DB index is out of range"))
}

/// `COPY from to [DB database] [REPLACE]`.
pub(super) fn copy(run: &mut Run<'_>) -> Answer {
    let (mut db, mut replace, mut i) = (run.db, false, 3);
    while i < run.args.len() {
        match run.word(i).as_str() {
            "REPLACE" => replace = true,
            "DB" if i + 1 < run.args.len() => {
                i += 1;
                db = database(run, i)?;
            }
            _ => return Err(Expect::error(SYNTAX)),
        }
        i += 1;
    }
    let to = run.arg(2).to_vec();
    if db == run.db && run.arg(1) == to {
        return Err(Expect::error(SAME));
    }
    let Some(entry) = run.entry().cloned() else { return Ok(Expect::int(0)) };
    let fits = replace || run.store.get(db, &to).is_none();
    if fits {
        run.store.put(db, &to, entry);
    }
    Ok(Expect::int(fits.into()))
}

pub(super) fn move_to(run: &mut Run<'_>) -> Answer {
    let db = database(run, 2)?;
    if db == run.db {
        return Err(Expect::error(SAME));
    }
    let key = run.arg(1).to_vec();
    let Some(entry) = run.entry().cloned() else { return Ok(Expect::int(0)) };
    let fits = run.store.get(db, &key).is_none();
    if fits {
        run.store.remove(run.db, &key);
        run.store.put(db, &key, entry);
    }
    Ok(Expect::int(fits.into()))
}

/// `OBJECT ENCODING`.
pub(super) fn encoding(run: &mut Run<'_>) -> Answer {
    let Some(Entry { value, form, .. }) = run.store.get(run.db, run.arg(2)) else { return Ok(run.null()) };
    // We don't tell what INCRBYFLOAT wrote from what was set.
    let form = if *form == Form::Text && !run.original { Form::Set } else { *form };
    let is_number = value.len() <= 20 && integer(value).is_some();
    Ok(Expect::bulk(match form {
        Form::Set if is_number => b"int",
        Form::Set | Form::Text if value.len() <= 44 => b"embstr",
        _ => b"raw",
    }))
}

pub(super) fn dump(run: &mut Run<'_>) -> Answer {
    Ok(match run.value(1) {
        None => run.null(),
        Some(value) if value.len() <= PLAIN_BYTES_MAX => Expect::bulk(&payload(&value)),
        Some(_) => Expect::Dump,
    })
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL]`, where the value is known from the payload.
pub(super) fn restore(run: &mut Run<'_>) -> Answer {
    let (mut replace, mut absolute) = (false, false);
    for i in 4..run.args.len() {
        match run.word(i).as_str() {
            "REPLACE" => replace = true,
            "ABSTTL" => absolute = true,
            _ => return Err(Expect::error(SYNTAX)),
        }
    }
    if !replace && run.entry().is_some() {
        return Err(Expect::error("BUSYKEY Target key name already exists."));
    }
    let ttl = run.integer(2)?;
    if ttl < 0 {
        return Err(Expect::error("ERR Invalid TTL value, must be >= 0"));
    }
    if !is_payload(run.arg(3)) {
        return Err(Expect::error("ERR DUMP payload version or checksum are wrong"));
    }
    let at = if ttl == 0 || absolute { ttl } else { ttl + now() };
    let value = super::payload::value(run.arg(3)).ok_or_else(|| Expect::error("ERR Bad data format"))?;
    if at != 0 && at <= now() {
        run.delete();
        return Ok(Expect::ok());
    }
    run.set(Entry { at, ..Entry::new(&value) });
    Ok(Expect::ok())
}
