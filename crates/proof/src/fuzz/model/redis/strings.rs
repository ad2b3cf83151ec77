//! Commands on strings.

use super::super::expect::Expect;
use super::store::{Answer, Entry, Form, NOT_AN_INTEGER, Run, SYNTAX, integer, now};

/// Longer values are refused.
const VALUE_BYTES_MAX: i64 = 512 << 20;

pub(super) fn get(run: &mut Run<'_>) -> Answer {
    Ok(run.bulk(run.value(1).as_deref()))
}

pub(super) fn mget(run: &mut Run<'_>) -> Answer {
    Ok(Expect::Array((1..run.args.len()).map(|i| run.bulk(run.value(i).as_deref())).collect()))
}

pub(super) fn strlen(run: &mut Run<'_>) -> Answer {
    Ok(Expect::int(run.value(1).map_or(0, |value| value.len() as i64)))
}

/// An expiry option's milliseconds since the epoch.
fn expiry(run: &Run<'_>, option: &str, index: usize, command: &str) -> Result<i64, Expect> {
    let number = run.integer(index)?;
    let refused = || Expect::error(&format!("ERR invalid expire time in '{command}' command"));
    if number <= 0 {
        return Err(refused());
    }
    let ms = if option.starts_with('P') { Some(number) } else { number.checked_mul(1000) };
    let at = if option.ends_with("AT") { ms } else { ms.and_then(|ms| ms.checked_add(now())) };
    at.ok_or_else(refused)
}

pub(super) fn set(run: &mut Run<'_>) -> Answer {
    let (mut nx, mut xx, mut old, mut keep, mut expires) = (false, false, false, false, None);
    let mut i = 3;
    while i < run.args.len() {
        let word = run.word(i);
        match word.as_str() {
            "NX" if !xx => nx = true,
            "XX" if !nx => xx = true,
            "GET" => old = true,
            "KEEPTTL" if expires.is_none() => keep = true,
            "EX" | "PX" | "EXAT" | "PXAT" if !keep && expires.is_none() && i + 1 < run.args.len() => {
                expires = Some((word, i + 1));
                i += 1;
            }
            _ => return Err(Expect::error(SYNTAX)),
        }
        i += 1;
    }
    let at = match expires {
        Some((option, index)) => expiry(run, &option, index, "set")?,
        None => 0,
    };
    let before = run.entry().cloned();
    let answer = run.bulk(before.as_ref().map(|entry| &entry.value[..]));
    if nx && before.is_some() || xx && before.is_none() {
        return Ok(if old { answer } else { run.null() });
    }
    let at = if keep { before.map_or(0, |entry| entry.at) } else { at };
    run.set(Entry { at, ..Entry::new(run.arg(2)) });
    Ok(if old { answer } else { Expect::ok() })
}

pub(super) fn setnx(run: &mut Run<'_>) -> Answer {
    let absent = run.entry().is_none();
    if absent {
        run.set(Entry::new(run.arg(2)));
    }
    Ok(Expect::int(absent.into()))
}

/// `SETEX`, `PSETEX`.
pub(super) fn setex(run: &mut Run<'_>) -> Answer {
    let name = run.word(0).to_lowercase();
    let option = if name == "setex" { "EX" } else { "PX" };
    let at = expiry(run, option, 2, &name)?;
    run.set(Entry { at, ..Entry::new(run.arg(3)) });
    Ok(Expect::ok())
}

pub(super) fn getset(run: &mut Run<'_>) -> Answer {
    let answer = run.bulk(run.value(1).as_deref());
    run.set(Entry::new(run.arg(2)));
    Ok(answer)
}

pub(super) fn getdel(run: &mut Run<'_>) -> Answer {
    let answer = run.bulk(run.value(1).as_deref());
    run.delete();
    Ok(answer)
}

pub(super) fn getex(run: &mut Run<'_>) -> Answer {
    let at = match (run.args.len(), run.word(2).as_str()) {
        (2, _) => None,
        (3, "PERSIST") => Some(0),
        (4, option @ ("EX" | "PX" | "EXAT" | "PXAT")) => {
            let Some(_) = run.entry() else { return Ok(run.null()) };
            Some(expiry(run, option, 3, "getex")?)
        }
        _ => return Err(Expect::error(SYNTAX)),
    };
    let Some(entry) = run.entry().cloned() else { return Ok(run.null()) };
    let answer = Expect::bulk(&entry.value);
    match at {
        Some(0) if entry.at == 0 => {}
        Some(at) if at != 0 && at < now() => {
            run.delete();
        }
        Some(at) => run.expire(Entry { at, ..entry }),
        None => {}
    }
    Ok(answer)
}

pub(super) fn append(run: &mut Run<'_>) -> Answer {
    let more = run.arg(2).to_vec();
    // A new value is set, not changed in its place.
    let form = if run.entry().is_some() { Form::Changed } else { Form::Set };
    run.change(form, |value| value.extend_from_slice(&more));
    strlen(run)
}

pub(super) fn setrange(run: &mut Run<'_>) -> Answer {
    let offset = run.integer(2)?;
    if offset < 0 {
        return Err(Expect::error("ERR offset is out of range"));
    }
    let part = run.arg(3).to_vec();
    if part.is_empty() {
        return strlen(run);
    }
    if offset.saturating_add(part.len() as i64) > VALUE_BYTES_MAX {
        return Err(Expect::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    let end = offset as usize + part.len();
    run.change(Form::Changed, |value| {
        value.resize(value.len().max(end), 0);
        value[offset as usize..end].copy_from_slice(&part);
    });
    strlen(run)
}

/// What a range of indices, which may count from the end, means: `None` for nothing.
pub(super) fn range(start: i64, end: i64, length: i64) -> Option<(usize, usize)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |i: i64| if i < 0 { (i + length).max(0) } else { i };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    (length > 0 && start <= end).then_some((start as usize, end as usize))
}

pub(super) fn getrange(run: &mut Run<'_>) -> Answer {
    let (start, end) = (run.integer(2)?, run.integer(3)?);
    let value = run.value(1).unwrap_or_default();
    let part = range(start, end, value.len() as i64).map_or(&[][..], |(start, end)| &value[start..=end]);
    Ok(Expect::bulk(part))
}

/// `INCR`, `DECR`, `INCRBY`, `DECRBY`.
pub(super) fn incrby(run: &mut Run<'_>) -> Answer {
    let by = if run.args.len() > 2 { run.integer(2)? } else { 1 };
    let by = if run.word(0).starts_with("DECR") {
        by.checked_neg().ok_or_else(|| Expect::error("ERR decrement would overflow"))?
    } else {
        by
    };
    let old = match run.value(1) {
        Some(value) => integer(&value).ok_or_else(|| Expect::error(NOT_AN_INTEGER))?,
        None => 0,
    };
    let sum =
        old.checked_add(by).ok_or_else(|| Expect::error("ERR increment or decrement would overflow"))?;
    run.change(Form::Set, |value| *value = sum.to_string().into_bytes());
    Ok(Expect::int(sum))
}

/// `INCRBYFLOAT`, of quarters alone: sums of those are exact.
pub(super) fn incrbyfloat(run: &mut Run<'_>) -> Answer {
    let refused = || Expect::error("ERR value is not a valid float");
    let old = run.value(1).map_or(Some(0), |value| quarters(&value)).ok_or_else(refused)?;
    let by = quarters(run.arg(2)).ok_or_else(refused)?;
    let sum = old + by;
    let fraction = [".0", ".25", ".5", ".75"][sum.unsigned_abs() as usize % 4];
    let sign = if sum < 0 { "-" } else { "" };
    let text = format!("{sign}{}{}", sum.unsigned_abs() / 4, if sum % 4 == 0 { "" } else { fraction });
    run.change(Form::Text, |value| *value = text.clone().into_bytes());
    Ok(Expect::bulk(text.as_bytes()))
}

fn quarters(text: &[u8]) -> Option<i64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some((number * 4.0) as i64)
}

pub(super) fn mset(run: &mut Run<'_>) -> Answer {
    if run.args.len().is_multiple_of(2) {
        let name = run.word(0).to_lowercase();
        return Err(Expect::error(&format!("ERR wrong number of arguments for '{name}' command")));
    }
    let only_new = run.word(0) == "MSETNX";
    let keys = || (1..run.args.len()).step_by(2);
    if only_new && keys().any(|i| run.store.get(run.db, &run.args[i]).is_some()) {
        return Ok(Expect::int(0));
    }
    for i in keys() {
        run.store.put(run.db, &run.args[i], Entry::new(&run.args[i + 1]));
    }
    Ok(if only_new { Expect::int(1) } else { Expect::ok() })
}
