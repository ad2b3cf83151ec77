//! Commands in a transaction whose keys are watched, which change the server or the connection and no key: their handlers run when
//! it is known that the transaction happens. (Those that choose how the commands behind them run, such as `SELECT`, run with these,
//! and are undone: [`transaction::Before`](super::transaction::Before).)

use terrace_engine::{Batch, Reply, Settled};
use terrace_protocol::resp::Args;

use super::Resp;
use super::call::Call;
use super::options::is;
use super::step::Step;
use super::transaction::Transaction;
use crate::protocol::Context;

/// Containers of commands whose handlers take effect at once, and push no operations.
const CONTAINERS: [&str; 5] = ["ACL", "CLIENT", "CONFIG", "LATENCY", "SLOWLOG"];

/// Whether a command has to wait. `CLIENT CACHING` is about the commands behind it, and about nothing else.
pub(super) fn is_deferred(args: Args<'_>) -> bool {
    let arg = |index| args.get(index).unwrap_or_default();
    CONTAINERS.iter().any(|name| is(arg(0), name)) && !is(arg(1), "CACHING")
}

/// The step of such a command.
pub(super) fn step(args: Args<'_>) -> Step {
    let mut command = Box::<Transaction>::default();
    command.keep(args);
    Step::Deferred(command)
}

/// Runs what waits in transactions that happen.
#[cold]
pub(super) fn run(resp: &mut Resp, batch: &Batch, proof: &Settled, ctx: &Context<'_>) {
    let Resp { steps, client, .. } = resp;
    for step in steps {
        let Step::Transaction(planned) = step else { continue };
        let ended =
            |guard: u32| matches!(batch.reply(guard as usize, proof), Reply::Aborted | Reply::Error(_));
        if planned.guard.is_some_and(ended) {
            continue;
        }
        let waiting = std::mem::take(&mut planned.steps);
        for step in waiting {
            let Step::Deferred(command) = step else {
                planned.steps.push(step);
                continue;
            };
            let before = planned.steps.len();
            let mut none = Batch::new();
            for args in command.commands() {
                let mut call = Call::new(args, &mut none, ctx, client, &mut planned.steps);
                if let Err(refusal) = call.run() {
                    planned.steps.truncate(before);
                    planned.steps.push(Step::Error(refusal));
                }
            }
            debug_assert!(none.is_empty(), "a command that waits touches no key");
            // It ran behind all operations.
            let end = client.ran_end;
            client.ran.iter_mut().rev().take(1).for_each(|ran| ran.first = end);
        }
    }
}
