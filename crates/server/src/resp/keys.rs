//! Commands on keys, whatever their value.

use terrace_engine::{Condition, DATABASES, OpKind, Reply};
use terrace_protocol::resp::parse_integer;

use super::call::{Call, Outcome};
use super::client::Alone;
use super::error::SYNTAX;
use super::options::is;
use super::step::{Answer, Step};

/// `DEL` and `UNLINK`: values are small or unlinked by the engine, so that both cost the same.
pub(super) fn del(call: &mut Call<'_>) -> Outcome {
    let kind = OpKind::Delete { condition: Condition::Always, old_value: false };
    call.each(1, kind, |answer, ops| {
        let deleted = ops.filter(|op| matches!(answer.reply(*op), Reply::Deleted { .. })).count();
        answer.encoder.integer(deleted as i64);
    })
}

/// `EXISTS` and `TOUCH`; a key given twice counts twice.
pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    call.each(1, OpKind::Get { value: false }, |answer, ops| {
        let present = ops.filter(|op| matches!(answer.reply(*op), Reply::Hit { .. })).count();
        answer.encoder.integer(present as i64);
    })
}

pub(super) fn type_of(call: &mut Call<'_>) -> Outcome {
    call.one(call.arg(1), OpKind::Get { value: false }, |answer, reply| match reply {
        Reply::Hit { .. } => answer.encoder.simple("string"),
        Reply::Miss => answer.encoder.simple("none"),
        other => answer.unexpected(other),
    })
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Outcome {
    let db = call.client.db;
    call.about_store(move |answer| answer.encoder.integer(answer.ctx.shared.store.len(db) as i64))
}

pub(super) fn flushall(call: &mut Call<'_>) -> Outcome {
    flush(call, None)
}

pub(super) fn flushdb(call: &mut Call<'_>) -> Outcome {
    let db = call.client.db;
    flush(call, Some(db))
}

/// Both ways to flush cost the same here: a new generation, and space that is reclaimed behind it.
fn flush(call: &mut Call<'_>, db: Option<u8>) -> Outcome {
    match call.args.len() {
        1 => {}
        2 if is(call.arg(1), "ASYNC") || is(call.arg(1), "SYNC") => {}
        _ => return Err(SYNTAX.into()),
    }
    let db = db.map(|db| call.client.databases.place(db));
    call.one(b"", OpKind::Flush { db }, done)
}

/// `SWAPDB index1 index2`: in a turn of its own, for it changes what every connection means by a number. In a transaction it lies
/// between two groups as a flush does, and the commands behind it are for the databases that it gave their numbers to.
pub(super) fn swapdb(call: &mut Call<'_>) -> Outcome {
    let number = |index: usize| parse_integer(call.arg(index)).and_then(|number| i32::try_from(number).ok());
    let first = number(1).ok_or("ERR invalid first DB index")?;
    let second = number(2).ok_or("ERR invalid second DB index")?;
    let database = |number: i32| u8::try_from(number).ok().filter(|db| usize::from(*db) < DATABASES);
    let (Some(first), Some(second)) = (database(first), database(second)) else {
        return Err("ERR DB index is out of range".into());
    };
    call.client.pausing = true;
    if !call.batch.is_atomic() {
        call.client.alone = Some(Alone::Swap(first, second));
        return Ok(());
    }
    call.batch.sync();
    let with = call.client.databases.place(second);
    let op = call.push_in(first, b"", OpKind::Swap { with });
    call.client.databases = call.client.databases.swapped(first, second);
    call.answer(Step::One { op, show: done })
}

/// The answer of what changes whole databases.
pub(super) fn done(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Done => answer.encoder.simple("OK"),
        other => answer.unexpected(other),
    }
}
