//! `CLIENT KILL`: by address, as old clients say it, or by filters that must all fit.

use terrace_protocol::resp::parse_integer;

use super::super::call::{Call, Outcome};
use super::super::error::{Refusal, SYNTAX};
use super::super::options::is;
use super::list::Class;
use crate::registry::{Entry, Kind};

/// Which connections are meant. Without a filter of a kind, all of that kind.
#[derive(Debug, Default)]
struct Filters {
    id: Option<u64>,
    addr: Option<Box<[u8]>>,
    laddr: Option<Box<[u8]>>,
    class: Option<Class>,
    user: Option<Box<[u8]>>,
    /// At least so many seconds old.
    max_age: Option<u64>,
    /// Spare the connection that asks.
    skip_me: bool,
}

impl Filters {
    /// From argument 2 on, in pairs.
    fn parse(call: &Call<'_>) -> Result<Self, Refusal> {
        let mut filters = Self { skip_me: true, ..Self::default() };
        let mut at = 2;
        while at < call.args.len() {
            let (word, value) = (call.arg(at), call.args.get(at + 1).ok_or(SYNTAX)?);
            match () {
                () if is(word, "ID") => filters.id = Some(positive(value, "client-id")?),
                () if is(word, "ADDR") => filters.addr = Some(value.into()),
                () if is(word, "LADDR") => filters.laddr = Some(value.into()),
                () if is(word, "TYPE") => filters.class = Some(Class::named(value)?),
                () if is(word, "USER") => filters.user = Some(known_user(value, call)?),
                () if is(word, "MAXAGE") => filters.max_age = Some(positive(value, "maxage")?),
                () if is(word, "SKIPME") && is(value, "yes") => filters.skip_me = true,
                () if is(word, "SKIPME") && is(value, "no") => filters.skip_me = false,
                () => return Err(SYNTAX.into()),
            }
            at += 2;
        }
        Ok(filters)
    }

    fn fit(&self, entry: &Entry, now_ms: u64) -> bool {
        let is = |address: &crate::endpoint::Address, wanted: &Option<Box<[u8]>>| {
            wanted.as_ref().is_none_or(|wanted| address.to_string().as_bytes() == &**wanted)
        };
        let age = now_ms.saturating_sub(entry.peer.since_ms) / 1000;
        self.id.is_none_or(|id| entry.id() == id)
            && is(&entry.peer.remote, &self.addr)
            && is(&entry.peer.local, &self.laddr)
            && self.class.is_none_or(|class| Class::of(entry) == class)
            && self.user.as_ref().is_none_or(|user| entry.labels.lock().user.as_bytes() == &**user)
            && self.max_age.is_none_or(|max| age >= max)
    }
}

fn positive(value: &[u8], name: &str) -> Result<u64, Refusal> {
    let number = parse_integer(value).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| match name {
        "maxage" => Refusal::from("ERR maxage is not an integer or out of range"),
        _ => Refusal::from(format!("ERR {name} should be greater than 0")),
    })
}

/// A user that there is.
fn known_user(name: &[u8], call: &Call<'_>) -> Result<Box<[u8]>, Refusal> {
    if !call.ctx.shared.redis.acl.has(name) {
        return Err([b"ERR No such user '", name, b"'"].concat().into());
    }
    Ok(name.into())
}

/// `CLIENT KILL address` answers OK or that there is none; `CLIENT KILL filter value …` how many were ended.
pub(in super::super) fn kill(call: &mut Call<'_>) -> Outcome {
    let old_form = call.args.len() == 3;
    let filters = match old_form {
        true => Filters { addr: Some(call.arg(2).into()), ..Filters::default() },
        false => Filters::parse(call)?,
    };
    call.about_store(move |answer| {
        let (now_ms, me) = (answer.ctx.now_ms, answer.entry.id());
        let mut killed = 0;
        for entry in answer.ctx.shared.connections.all() {
            let meant = entry.kind == Kind::Redis && !(filters.skip_me && entry.id() == me);
            if meant && filters.fit(&entry, now_ms) {
                // The one that asks is closed behind its answer.
                entry.kill();
                killed += 1;
            }
        }
        match (old_form, killed) {
            (true, 0) => answer.encoder.error(b"ERR No such client"),
            (true, _) => answer.encoder.simple("OK"),
            (false, _) => answer.encoder.integer(killed),
        }
    })
}
