//! `CLIENT PAUSE`, `UNPAUSE` and `UNBLOCK`.

use terrace_protocol::resp::{Args, parse_integer};

use super::super::call::{Call, Outcome};
use super::super::error::Refusal;
use super::super::options::is;
use super::super::step::Step;
use super::super::table::{self, Command, Flags};
use crate::registry::want;

const NOT_A_TIMEOUT: &str = "ERR timeout is not an integer or out of range";

/// `CLIENT PAUSE milliseconds [WRITE|ALL]`.
pub(in super::super) fn pause(call: &mut Call<'_>) -> Outcome {
    let writes_only = match call.args.len() {
        3 => false,
        4 if is(call.arg(3), "WRITE") => true,
        4 if is(call.arg(3), "ALL") => false,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(Refusal::from(wrong_subcommand("PAUSE"))),
    };
    let milliseconds = parse_integer(call.arg(2)).ok_or(NOT_A_TIMEOUT)?;
    let milliseconds = u64::try_from(milliseconds).map_err(|_| "ERR timeout is negative")?;
    let (connections, now_ms) = (&call.ctx.shared.connections, call.ctx.now_ms);
    // While parsing: it holds what stands behind it in the same input, too.
    connections.pause.begin(now_ms.saturating_add(milliseconds), writes_only, now_ms);
    connections.want(want::PAUSE, true);
    // What a pause is for: keys stay as they are, until another server has them.
    call.ctx.shared.store.hold_expiry(connections.pause.until_ms(now_ms));
    call.ok()
}

fn wrong_subcommand(name: &str) -> String {
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP.")
}

pub(in super::super) fn unpause(call: &mut Call<'_>) -> Outcome {
    let connections = &call.ctx.shared.connections;
    connections.pause.end();
    connections.want(want::PAUSE, false);
    call.ctx.shared.store.hold_expiry(0);
    connections.wake_all();
    call.ok()
}

/// Whether a command that may run has to wait for the end of a pause.
pub(in super::super) fn is_held(call: &Call<'_>, command: &Command) -> bool {
    let (pause, now_ms) = (&call.ctx.shared.connections.pause, call.ctx.now_ms);
    if pause.until_ms(now_ms) == 0 {
        call.ctx.shared.connections.want(want::PAUSE, false);
        return false;
    }
    // EXEC writes if a command does that it executes.
    let queued = call.client.transaction.as_ref().filter(|_| command.name == "exec");
    let queued_writes = |args: Args<'_>| args.get(0).and_then(table::find).is_some_and(may_write);
    let writes = may_write(command) || queued.is_some_and(|queued| queued.commands().any(queued_writes));
    pause.holds(writes, now_ms)
}

/// Whether it writes, or would reach replicas if there were any.
fn may_write(command: &Command) -> bool {
    command.flags.has(Flags::WRITE) || ["publish", "spublish", "pfcount"].contains(&command.name)
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`: no command here blocks, so nobody is ever unblocked.
pub(in super::super) fn unblock(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        3 => {}
        4 if is(call.arg(3), "TIMEOUT") || is(call.arg(3), "ERROR") => {}
        4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(Refusal::from(wrong_subcommand("UNBLOCK"))),
    }
    call.integer(2)?;
    call.answer(Step::Integer(0))
}
