//! `LCS`.

use terrace_engine::{OpKind, Reply};
use terrace_protocol::resp::{Encoder, parse_integer};

use super::common;
use crate::effort::STEPS_MAX;
use crate::resp::call::{Call, Outcome};
use crate::resp::error::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::resp::options::is;

/// What is asked for.
#[derive(Clone, Copy, Default)]
struct Wanted {
    length: bool,
    matches: bool,
    match_lengths: bool,
    shortest: usize,
}

/// `LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`.
pub(in crate::resp) fn lcs(call: &mut Call<'_>) -> Outcome {
    let wanted = parse(call)?;
    let table_bytes_max = call.value_bytes_max() as u64;
    // The work grows with the product of the lengths: what came behind it waits for the next turn.
    call.client.pausing = true;
    let a = call.batch.len();
    call.atomic(|call| {
        call.push(call.arg(1), OpKind::Get { value: true });
        call.push(call.arg(2), OpKind::Get { value: true });
    });
    call.late(move |answer| {
        let batch = answer.batch;
        let mut values = [&b""[..]; 2];
        for (op, value) in (a..).zip(&mut values) {
            match answer.reply(op) {
                Reply::Miss => {}
                Reply::Hit { value: Some(span), .. } => *value = batch.output(span),
                Reply::Error(error) => return answer.failed(error),
                other => return answer.unexpected(other),
            }
        }
        let [a, b] = values;
        if common::table_bytes(a, b) > table_bytes_max {
            let error = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
            return answer.encoder.error(error.as_bytes());
        }
        // Alone it may take as long as its table allows.
        let alone = answer.effort.left() == STEPS_MAX;
        if !answer.effort.take(common::table_bytes(a, b) / 4) && !alone {
            let error = "ERR LCS takes too long with what came before it in the transaction: send it in one of its own";
            return answer.encoder.error(error.as_bytes());
        }
        tell(&mut answer.encoder, a, b, wanted);
    })
}

fn parse(call: &Call<'_>) -> Result<Wanted, Refusal> {
    let mut wanted = Wanted::default();
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        match () {
            () if is(word, "IDX") => wanted.matches = true,
            () if is(word, "LEN") => wanted.length = true,
            () if is(word, "WITHMATCHLEN") => wanted.match_lengths = true,
            () if is(word, "MINMATCHLEN") && at + 1 < call.args.len() => {
                at += 1;
                let shortest = parse_integer(call.arg(at)).ok_or(NOT_AN_INTEGER)?;
                wanted.shortest = usize::try_from(shortest).unwrap_or(0);
            }
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    if wanted.matches && wanted.length {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(wanted)
}

fn tell(encoder: &mut Encoder<'_>, a: &[u8], b: &[u8], wanted: Wanted) {
    if wanted.length {
        return encoder.integer(common::length(a, b) as i64);
    }
    if !wanted.matches {
        return encoder.bulk(&common::subsequence(a, b));
    }
    let (length, mut matches) = common::matches(a, b);
    matches.retain(|part| part.a.len() >= wanted.shortest);
    encoder.map(2);
    encoder.bulk(b"matches");
    encoder.array(matches.len());
    for part in matches {
        encoder.array(if wanted.match_lengths { 3 } else { 2 });
        for range in [&part.a, &part.b] {
            encoder.array(2);
            encoder.integer(range.start as i64);
            encoder.integer(range.end as i64 - 1);
        }
        if wanted.match_lengths {
            encoder.integer(part.a.len() as i64);
        }
    }
    encoder.bulk(b"len");
    encoder.integer(length as i64);
}
