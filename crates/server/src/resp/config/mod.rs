//! `CONFIG`: redis.conf's names for what can be told, and changed, while the server runs.

mod foreign;
mod parameters;
mod rewrite;
mod value;

pub(super) use parameters::policy;
pub(super) use rewrite::rewrite;

use super::call::{Call, Outcome};
use super::error::Refusal;
use super::glob;
use foreign::{FOREIGN, Foreign, PERCENTILES};
use parameters::{PARAMETERS, Parameter, find};
use value::{Change, Value};

use crate::shared::Shared;

/// Checks a value for [`ServerOptions::parameters`](crate::ServerOptions::parameters).
///
/// # Errors
/// If there is no such parameter, or it takes other values; the text says which, in Redis's words.
pub fn check_parameter(name: &str, value: &str) -> Result<(), String> {
    match (find(name.as_bytes()), Foreign::find(name.as_bytes())) {
        (Some(parameter), _) => parameter.change.read(value.as_bytes()).map(drop),
        (None, Some(foreign)) => foreign.read(value).map(drop),
        (None, None) => Err(format!("there is no parameter {name}")),
    }
}

/// Whether a parameter is one of redis.conf's that mean nothing here: it may be given, unless it would promise something, and changes
/// nothing.
pub fn is_without_meaning(name: &str) -> bool {
    name != PERCENTILES && Foreign::find(name.as_bytes()).is_some()
}

/// Sets what a server is started with.
///
/// # Errors
/// As of [`check_parameter`], and if a value can't be set.
pub(crate) fn start_with(shared: &Shared, parameters: &[(String, String)]) -> Result<(), String> {
    for (name, text) in parameters {
        let told = |why: String| format!("{name} {text:?}: {why}");
        if let Some(foreign) = Foreign::find(name.as_bytes()) {
            foreign.keep(shared, &foreign.read(text).map_err(told)?);
            continue;
        }
        let parameter = find(name.as_bytes()).ok_or_else(|| format!("there is no parameter {name}"))?;
        let value = parameter.change.read(text.as_bytes()).map_err(told)?;
        parameter.change.apply(shared, &value).map_err(told)?;
    }
    Ok(())
}

/// The percentiles that INFO tells, as they were set.
pub(super) fn percentiles(shared: &Shared) -> String {
    let default =
        || Foreign::find(PERCENTILES.as_bytes()).map_or(String::new(), |foreign| foreign.default.into());
    shared.redis.settings.foreign(PERCENTILES).unwrap_or_else(default)
}

/// `CONFIG GET pattern …`.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let wanted = |name: &str| {
        call.args.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    // As it is now: what follows in the same batch may set it anew.
    let shared = call.ctx.shared;
    let ours = PARAMETERS
        .iter()
        .filter(|parameter| wanted(parameter.name))
        .map(|parameter| (parameter.name, (parameter.get)(shared)));
    let others = FOREIGN.iter().filter(|foreign| wanted(foreign.name)).map(|foreign| {
        let set = shared.redis.settings.foreign(foreign.name);
        (foreign.name, set.unwrap_or_else(|| foreign.default.to_owned()))
    });
    let found: Vec<_> = ours.chain(others).collect();
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
    let shared = call.ctx.shared;
    let Wanted { ours, foreign } = read(call)?;
    let (tls, others): (Vec<_>, Vec<_>) =
        ours.into_iter().partition(|(parameter, _)| matches!(parameter.change, Change::Tls(..)));
    let mut done: Vec<(&Parameter, Value)> = Vec::new();
    for (parameter, value) in others {
        let before = (parameter.get)(shared);
        if let Err(why) = parameter.change.apply(shared, &value) {
            undo(shared, &done);
            return Err(failed(parameter.name.as_bytes(), &why));
        }
        shared.redis.settings.note_changed(parameter.name);
        if let Ok(before) = parameter.change.read(before.as_bytes()) {
            done.push((parameter, before));
        }
    }
    // Together, since a certificate is none without its key; and last, so that there is never one to be undone.
    if let Some((first, _)) = tls.first() {
        if let Err(why) = change_tls(shared, &tls) {
            undo(shared, &done);
            return Err(failed(first.name.as_bytes(), &why));
        }
        tls.iter().for_each(|(parameter, _)| shared.redis.settings.note_changed(parameter.name));
    }
    for (foreign, text) in foreign {
        tracing::info!("CONFIG SET {} is taken and told, and changes nothing here", foreign.name);
        foreign.keep(shared, &text);
    }
    call.ok()
}

/// What `CONFIG SET` is to set.
#[derive(Default)]
struct Wanted {
    ours: Vec<(&'static Parameter, Value)>,
    foreign: Vec<(&'static Foreign, String)>,
}

/// Sets what was changed to what it was a moment ago.
fn undo(shared: &Shared, done: &[(&Parameter, Value)]) {
    for (parameter, before) in done.iter().rev() {
        let _restored = parameter.change.apply(shared, before);
    }
}

/// Loads the certificates anew with other options; those in force stay if that fails. To what it is, an option is set to see
/// files that have changed.
fn change_tls(shared: &Shared, wanted: &[(&Parameter, Value)]) -> Result<(), String> {
    let tls = shared.tls.as_ref().ok_or("TLS is not in use: start the server with --tls-cert-file")?;
    let mut options = tls.options();
    for (parameter, value) in wanted {
        if let (Change::Tls(_, set), Value::Text(text)) = (parameter.change, value) {
            set(&mut options, text)?;
        }
    }
    tls.replace(options).map_err(|error| error.to_string())
}

/// What is to be set; nothing has changed yet.
fn read(call: &Call<'_>) -> Result<Wanted, Refusal> {
    let Wanted { ours: mut wanted, mut foreign } = Wanted::default();
    for at in (2..call.args.len()).step_by(2) {
        let (name, text) = (call.arg(at), call.arg(at + 1));
        let unknown =
            || [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat();
        if let Some(other) = Foreign::find(name) {
            if foreign.iter().any(|(known, _): &(&Foreign, _)| known.name == other.name) {
                return Err(failed(name, "duplicate parameter"));
            }
            foreign.push((other, other.change(text).map_err(|why| failed(name, &why))?));
            continue;
        }
        let parameter = find(name).ok_or_else(unknown)?;
        if wanted.iter().any(|(other, _)| other.name == parameter.name) {
            return Err(failed(name, "duplicate parameter"));
        }
        let value = parameter.change.read(text).map_err(|why| failed(name, &why))?;
        let resizes =
            |parameter: &Parameter| matches!(parameter.change, Change::Budget(..) | Change::Tier(_));
        if resizes(parameter) && wanted.iter().any(|(other, _)| resizes(other)) {
            // The second might be refused when the first has changed, and that could not be undone at once.
            return Err(failed(name, "maxmemory, pmem-size and ssd-size are set one at a time"));
        }
        wanted.push((parameter, value));
    }
    Ok(Wanted { ours: wanted, foreign })
}

fn failed(name: &[u8], why: &str) -> Refusal {
    let before = b"ERR CONFIG SET failed (possibly related to argument '";
    [&before[..], name, b"') - ", why.as_bytes()].concat().into()
}

/// `CONFIG RESETSTAT`: what `INFO` counts begins anew.
pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    super::stats::reset(call.ctx.shared);
    call.ok()
}
