//! Commands about the server that touch no key.

mod cluster;
mod debug;
mod durable;
mod memory;
mod scripts;
mod shutdown;

pub(super) use cluster::*;
pub(super) use debug::debug;
pub(super) use durable::*;
pub(super) use memory::*;
pub(super) use scripts::*;
pub(crate) use shutdown::Shutdown;
pub(super) use shutdown::shutdown;

use std::time::{SystemTime, UNIX_EPOCH};

use super::call::{Call, Outcome};
use super::options::is;

/// `TIME`.
pub(super) fn time(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        answer.encoder.array(2);
        answer.encoder.bulk(since.as_secs().to_string().as_bytes());
        answer.encoder.bulk(since.subsec_micros().to_string().as_bytes());
    })
}

/// `LOLWUT [VERSION version]`.
pub(super) fn lolwut(call: &mut Call<'_>) -> Outcome {
    if call.args.len() >= 3 && is(call.arg(1), "VERSION") {
        call.integer(2)?;
    }
    let text = format!(
        "A terrace: hot things in the sun above, cold ones in the cellar below.\nRedis ver. {}\n",
        super::connection::REDIS_VERSION
    );
    call.late(move |answer| answer.encoder.verbatim(text.as_bytes()))
}

/// `ROLE`: there is no replication.
pub(super) fn role(call: &mut Call<'_>) -> Outcome {
    call.late(|answer| {
        answer.encoder.array(3);
        answer.encoder.bulk(b"master");
        answer.encoder.integer(0);
        answer.encoder.array(0);
    })
}

/// `REPLICAOF NO ONE`: so it is; anything else there is not.
pub(super) fn replicaof(call: &mut Call<'_>) -> Outcome {
    if is(call.arg(1), "NO") && is(call.arg(2), "ONE") {
        return call.ok();
    }
    let port = terrace_protocol::resp::parse_integer(call.arg(2));
    if !port.is_some_and(|port| (0..=65_535).contains(&port)) {
        return Err("ERR Invalid master port".into());
    }
    Err("ERR this server has no replication: it can only be the replica of NO ONE".into())
}
