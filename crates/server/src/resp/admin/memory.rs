//! `MEMORY`.

use terrace_engine::{OpKind, Reply};
use terrace_protocol::resp::parse_integer;

use super::super::call::{Call, Outcome};
use super::super::error::{NOT_AN_INTEGER, SYNTAX};
use super::super::info::process_memory;
use super::super::options::is;

/// What a record takes beside its key and value: its header, and its place in the index.
const RECORD_OVERHEAD_BYTES: u64 = 40;

/// `MEMORY USAGE key [SAMPLES count]`: bytes of the record wherever it lies, its place in the index included.
pub(in crate::resp) fn memory_usage(call: &mut Call<'_>) -> Outcome {
    let mut at = 3;
    while at < call.args.len() {
        let count = call.args.get(at + 1).filter(|_| is(call.arg(at), "SAMPLES")).ok_or(SYNTAX)?;
        if parse_integer(count).ok_or(NOT_AN_INTEGER)? < 0 {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    let key_bytes = call.arg(2).len() as u64;
    let op = call.push(call.arg(2), OpKind::Get { value: false }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Hit { meta, .. } => {
            answer.encoder.integer((RECORD_OVERHEAD_BYTES + key_bytes + meta.value_bytes) as i64);
        }
        Reply::Miss => answer.encoder.null(),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}

/// `MEMORY STATS`.
pub(in crate::resp) fn memory_stats(call: &mut Call<'_>) -> Outcome {
    call.about_store(|answer| {
        let stats = answer.ctx.shared.store.stats();
        let (resident, anonymous) = process_memory();
        let overhead = stats.index_bytes + stats.dram_other_bytes;
        let dataset = anonymous.saturating_sub(overhead);
        let numbers = [
            ("peak.allocated", anonymous),
            ("total.allocated", anonymous),
            ("startup.allocated", 0),
            ("replication.backlog", 0),
            ("clients.slaves", 0),
            ("clients.normal", 0),
            ("cluster.links", 0),
            ("aof.buffer", 0),
            ("lua.caches", 0),
            ("functions.caches", 0),
            ("overhead.total", overhead),
            ("keys.count", stats.keys),
            ("keys.bytes-per-key", anonymous.checked_div(stats.keys).unwrap_or(0)),
            ("dataset.bytes", dataset),
            ("allocator.allocated", anonymous),
            ("allocator.active", anonymous),
            ("allocator.resident", resident),
        ];
        answer.encoder.map(numbers.len() + 1);
        for (name, number) in numbers {
            answer.encoder.bulk(name.as_bytes());
            answer.encoder.integer(number as i64);
        }
        answer.encoder.bulk(b"dataset.percentage");
        answer.encoder.double(if anonymous == 0 { 0.0 } else { dataset as f64 * 100.0 / anonymous as f64 });
    })
}

/// `MEMORY DOCTOR`.
pub(in crate::resp) fn memory_doctor(call: &mut Call<'_>) -> Outcome {
    call.about_store(|answer| {
        let shared = answer.ctx.shared;
        let stats = shared.store.stats();
        let (_, anonymous) = process_memory();
        let mut text = format!(
            "{} of DRAM in use, {} of it by the index, {} by the engine beside it.\n",
            terrace::human_bytes(anonymous),
            terrace::human_bytes(stats.index_bytes),
            terrace::human_bytes(stats.dram_other_bytes)
        );
        let budget = shared.dram_budget();
        if budget > 0 && anonymous > budget + budget / 4 {
            text += &format!(
                "That is more than the budget of {} by a quarter: look at INFO tiers.\n",
                terrace::human_bytes(budget)
            );
        }
        answer.encoder.verbatim(text.as_bytes());
    })
}

/// `MEMORY MALLOC-STATS`.
pub(in crate::resp) fn memory_malloc_stats(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| {
        let (resident, anonymous) = process_memory();
        let text = format!("The allocator keeps no books. resident:{resident} anonymous:{anonymous}\n");
        answer.encoder.verbatim(text.as_bytes());
    })
}

/// `MEMORY PURGE`: memory that is free goes back to the system, before the answer.
pub(in crate::resp) fn memory_purge(call: &mut Call<'_>) -> Outcome {
    if let Some(give_back) = call.ctx.shared.options.give_back {
        give_back();
    }
    call.ok()
}
