//! Redis's protocol on a connection: requests to operations, answers to RESP2 or RESP3.
//!
//! ```text
//!   bytes --Parser--> Args --table::find--> handler --> operations in the Batch + Steps
//!   bytes <--Encoder-- Step::write <------------------- settled Batch
//! ```
//! [`table`] is the one list of commands: it dispatches, checks arity, and is what `COMMAND` tells.

mod call;
mod client;
mod command;
mod config;
mod connection;
mod counters;
mod error;
mod expiry;
mod glob;
mod help;
mod info;
mod keys;
mod options;
mod scan;
mod step;
mod strings;
mod syntax;
mod table;
mod time;

use terrace_engine::{Batch, Settled};
use terrace_protocol::resp::{Encoder, Limits, Parser, ProtocolError};

use crate::protocol::{Context, Next, Parsed, Peer, Protocol};
use call::Call;
use client::Client;
use error::Refusal;
use step::{Answer, Step};

/// Room for this many steps is kept from turn to turn.
const KEEP_STEPS: usize = 64;

/// A new connection's protocol.
pub(crate) fn connect(peer: Peer) -> Box<dyn Protocol> {
    Box::new(Resp { parser: None, client: Client::new(peer), steps: Vec::new() })
}

/// One connection that speaks RESP.
struct Resp {
    /// Made at the first bytes, when the limits are known.
    parser: Option<Parser>,
    client: Client,
    /// The plan: a step for each command, in order.
    steps: Vec<Step>,
}

impl Protocol for Resp {
    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed {
        let parser = self.parser.get_or_insert_with(|| {
            let bulk_bytes_max = ctx.shared.options.argument_bytes_max;
            Parser::new(Limits { bulk_bytes_max, ..Limits::default() })
        });
        self.client.pausing = false;
        let mut parsed = Parsed { consumed: 0, commands: 0, next: Next::Read };
        while parsed.next == Next::Read {
            // Commands without operations are bounded too.
            let full = ctx.full(batch) || parsed.commands >= ctx.shared.options.turn_operations;
            if parsed.commands > 0 && (full || self.client.pausing) {
                parsed.next = Next::Again;
                break;
            }
            let rest = &input[parsed.consumed..];
            match parser.next(rest) {
                Ok(None) => break,
                Ok(Some(consumed)) => {
                    parsed.consumed += consumed;
                    let args = parser.args(rest);
                    if args.is_empty() {
                        continue;
                    }
                    parsed.commands += 1;
                    let before = self.steps.len();
                    let mut call = Call::new(args, batch, ctx, &mut self.client, &mut self.steps);
                    if let Err(refusal) = call.run() {
                        self.steps.truncate(before);
                        self.steps.push(Step::Error(refusal));
                    }
                    if self.client.closing {
                        parsed.next = Next::Close;
                    }
                }
                Err(error) => {
                    self.steps.push(Step::Error(protocol_error(error)));
                    parsed.commands += 1;
                    parsed.consumed = input.len();
                    parsed.next = Next::Close;
                }
            }
        }
        parsed
    }

    fn answer(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Vec<u8>) {
        let mut answer = Answer { batch, proof, ctx, encoder: Encoder::new(out, self.client.answering) };
        for step in self.steps.drain(..) {
            step.write(&mut answer);
        }
        self.client.answering = answer.encoder.version();
        self.steps.shrink_to(KEEP_STEPS);
    }
}

fn protocol_error(error: ProtocolError) -> Refusal {
    Refusal::from(format!("ERR {error}"))
}
