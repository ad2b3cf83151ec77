//! PUBSUB: who listens to what.

use super::super::call::{Call, Outcome};
use super::super::error::Refusal;
use super::super::glob;
use super::super::step::Answer;
use crate::effort::TOO_MUCH;
use crate::registry::Topic;

pub(in super::super) fn channels(call: &mut Call<'_>) -> Outcome {
    names(call, Topic::Channel)
}

pub(in super::super) fn shardchannels(call: &mut Call<'_>) -> Outcome {
    names(call, Topic::Shard)
}

pub(in super::super) fn numsub(call: &mut Call<'_>) -> Outcome {
    counts(call, Topic::Channel)
}

pub(in super::super) fn shardnumsub(call: &mut Call<'_>) -> Outcome {
    counts(call, Topic::Shard)
}

pub(in super::super) fn numpat(call: &mut Call<'_>) -> Outcome {
    call.late(|answer: &mut Answer<'_>| {
        answer.encoder.integer(answer.ctx.shared.connections.hub.patterns() as i64);
    })
}

fn names(call: &mut Call<'_>, topic: Topic) -> Outcome {
    if call.args.len() > 3 {
        let text = b"ERR unknown subcommand or wrong number of arguments for '";
        return Err(Refusal::from([text, call.arg(1), b"'. Try PUBSUB HELP."].concat()));
    }
    let pattern = call.args.get(2).map(glob::read).transpose()?;
    call.about_store(move |answer| {
        let names = answer.ctx.shared.connections.hub.names(topic, pattern.as_ref(), answer.effort);
        if answer.effort.is_over() {
            return answer.encoder.error(TOO_MUCH.as_bytes());
        }
        answer.bounded(|encoder| encoder.array(names.len()), &names, |encoder, name| encoder.bulk(name));
    })
}

fn counts(call: &mut Call<'_>, topic: Topic) -> Outcome {
    let names: Vec<Box<[u8]>> = call.args.from(2).map(Into::into).collect();
    call.late(move |answer| {
        let hub = &answer.ctx.shared.connections.hub;
        answer.encoder.array(names.len() * 2);
        for name in names {
            answer.encoder.bulk(&name);
            answer.encoder.integer(hub.count(topic, &name) as i64);
        }
    })
}
