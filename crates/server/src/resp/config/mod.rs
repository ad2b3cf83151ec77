//! `CONFIG`: redis.conf's names for what can be told, and changed, while the server runs.

mod parameters;
mod rewrite;
mod value;

pub(super) use parameters::policy;
pub(super) use rewrite::rewrite;

use super::call::{Call, Outcome};
use super::error::Refusal;
use super::glob;
use parameters::{PARAMETERS, Parameter, find};
use value::{Change, Value};

/// `CONFIG GET pattern …`.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let wanted = |name: &str| {
        call.args.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    // As it is now: what follows in the same batch may set it anew.
    let found: Vec<_> = PARAMETERS
        .iter()
        .filter(|parameter| wanted(parameter.name))
        .map(|parameter| (parameter.name, (parameter.get)(call.ctx.shared)))
        .collect();
    call.late(move |answer| {
        answer.encoder.map(found.len());
        for (name, value) in &found {
            answer.encoder.bulk(name.as_bytes());
            answer.encoder.bulk(value.as_bytes());
        }
    })
}

/// `CONFIG SET name value …`: all or nothing. What was changed before something failed is changed back.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    let wanted = read(call)?;
    let shared = call.ctx.shared;
    let mut done: Vec<(&Parameter, Value)> = Vec::new();
    for (parameter, value) in wanted {
        let before = (parameter.get)(shared);
        if let Err(why) = parameter.change.apply(shared, &value) {
            for (parameter, before) in done.iter().rev() {
                // It was the value a moment ago.
                let _restored = parameter.change.apply(shared, before);
            }
            return Err(failed(parameter.name.as_bytes(), &why));
        }
        shared.redis.settings.note_changed(parameter.name);
        if let Ok(before) = parameter.change.read(before.as_bytes()) {
            done.push((parameter, before));
        }
    }
    call.ok()
}

/// What is to be set; nothing has changed yet.
fn read(call: &Call<'_>) -> Result<Vec<(&'static Parameter, Value)>, Refusal> {
    let mut wanted: Vec<(&Parameter, Value)> = Vec::new();
    for at in (2..call.args.len()).step_by(2) {
        let (name, text) = (call.arg(at), call.arg(at + 1));
        let unknown =
            || [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat();
        let parameter = find(name).ok_or_else(unknown)?;
        if wanted.iter().any(|(other, _)| other.name == parameter.name) {
            return Err(failed(name, "duplicate parameter"));
        }
        let value = parameter.change.read(text).map_err(|why| failed(name, &why))?;
        let resizes =
            |parameter: &Parameter| matches!(parameter.change, Change::Memory(..) | Change::Tier(_));
        if resizes(parameter) && wanted.iter().any(|(other, _)| resizes(other)) {
            // The second might be refused when the first has changed, and that could not be undone at once.
            return Err(failed(name, "maxmemory, pmem-size and ssd-size are set one at a time"));
        }
        wanted.push((parameter, value));
    }
    Ok(wanted)
}

fn failed(name: &[u8], why: &str) -> Refusal {
    let before = b"ERR CONFIG SET failed (possibly related to argument '";
    [&before[..], name, b"') - ", why.as_bytes()].concat().into()
}

/// `CONFIG RESETSTAT`: what `INFO` counts begins anew.
pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    let totals = super::stats::totals(call.ctx.shared);
    call.ctx.shared.redis.stats.reset(totals.into_iter());
    call.ok()
}
