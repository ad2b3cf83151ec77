//! Commands on bits.

use super::super::expect::Expect;
use super::store::{Answer, Entry, Form, Run, SYNTAX};
use super::strings::range;

fn offset(run: &Run<'_>) -> Result<usize, Expect> {
    let refused = || Expect::error("ERR bit offset is not an integer or out of range");
    let offset = run.integer(2).map_err(|_| refused())?;
    if (0..512 << 23).contains(&offset) { Ok(offset as usize) } else { Err(refused()) }
}

pub(super) fn getbit(run: &mut Run<'_>) -> Answer {
    let offset = offset(run)?;
    Ok(Expect::int(bit(&run.value(1).unwrap_or_default(), offset)))
}

fn bit(value: &[u8], offset: usize) -> i64 {
    value.get(offset / 8).map_or(0, |byte| i64::from(byte >> (7 - offset % 8) & 1))
}

pub(super) fn setbit(run: &mut Run<'_>) -> Answer {
    let offset = offset(run)?;
    let on = match run.arg(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Expect::error("ERR bit is not an integer or out of range")),
    };
    let before = run.value(1).unwrap_or_default();
    let old = bit(&before, offset);
    // What changes nothing is no write.
    if run.entry().is_none() || before.len() <= offset / 8 || (old != 0) != on {
        run.change(Form::Changed, |value| {
            value.resize(value.len().max(offset / 8 + 1), 0);
            let mask = 0x80 >> (offset % 8);
            if on {
                value[offset / 8] |= mask;
            } else {
                value[offset / 8] &= !mask;
            }
        });
    } else if run.original {
        let key = run.arg(1).to_vec();
        run.store.copied(run.db, &key);
    }
    Ok(Expect::int(old))
}

pub(super) fn bitcount(run: &mut Run<'_>) -> Answer {
    let Some(value) = run.value(1) else { return Ok(Expect::int(0)) };
    if run.args.len() == 2 {
        return Ok(Expect::int(value.iter().map(|byte| i64::from(byte.count_ones())).sum()));
    }
    if run.args.len() < 4 || run.args.len() > 5 {
        return Err(Expect::error(SYNTAX));
    }
    let (start, end) = (run.integer(2)?, run.integer(3)?);
    // Nothing is seen to be nothing before the unit is looked at.
    if start < 0 && end < 0 && start > end {
        return Ok(Expect::int(0));
    }
    let bits = match run.word(4).as_str() {
        "" | "BYTE" => false,
        "BIT" => true,
        _ => return Err(Expect::error(SYNTAX)),
    };
    let unit = if bits { 1 } else { 8 };
    let count = range(start, end, (value.len() * 8 / unit) as i64)
        .map_or(0, |(start, end)| (start * unit..(end + 1) * unit).map(|i| bit(&value, i)).sum());
    Ok(Expect::int(count))
}

pub(super) fn bitop(run: &mut Run<'_>) -> Answer {
    let operation = run.word(1);
    let with: fn(u8, u8) -> u8 = match operation.as_str() {
        "AND" => |a, b| a & b,
        "OR" => |a, b| a | b,
        "XOR" => |a, b| a ^ b,
        "NOT" if run.args.len() == 4 => |a, _| !a,
        "NOT" => return Err(Expect::error("ERR BITOP NOT must be called with a single source key.")),
        _ => return Err(Expect::error(SYNTAX)),
    };
    let sources: Vec<Vec<u8>> = (3..run.args.len()).map(|i| run.value(i).unwrap_or_default()).collect();
    let length = sources.iter().map(Vec::len).max().unwrap_or(0);
    let at = |source: &[u8], i: usize| source.get(i).copied().unwrap_or(0);
    let result: Vec<u8> = (0..length)
        .map(|i| match &sources[..] {
            [one] => {
                if operation == "NOT" {
                    with(at(one, i), 0)
                } else {
                    at(one, i)
                }
            }
            several => several.iter().map(|source| at(source, i)).reduce(with).unwrap_or(0),
        })
        .collect();
    let target = run.arg(2).to_vec();
    if result.is_empty() {
        run.store.remove(run.db, &target);
    } else {
        run.store.put(run.db, &target, Entry { form: Form::Changed, ..Entry::new(&result) });
    }
    Ok(Expect::int(length as i64))
}
