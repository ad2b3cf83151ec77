//! Redis's protocol on a connection: requests to operations, answers to RESP2 or RESP3.
//!
//! ```text
//!   bytes --Parser--> Args --table::find--> handler --> operations in the Batch + Steps
//!   bytes <--Encoder-- Step::write <------------------- settled Batch
//! ```
//! [`table`] is the one list of commands: it dispatches, checks arity, and is what `COMMAND` tells.

mod acl;
mod admin;
mod bits;
mod bounded;
mod call;
mod client;
mod command;
mod config;
mod connection;
mod counters;
mod deferred;
mod edited;
mod error;
mod expiry;
mod float;
mod generic;
pub(crate) mod glob;
mod help;
mod hyperloglog;
mod info;
mod keys;
mod mark;
mod monitor;
mod options;
mod part;
mod patterns;
pub(crate) mod payload;
mod pubsub;
mod scan;
mod secrets;
mod settings;
mod state;
mod stats;
mod step;
mod strings;
mod syntax;
mod table;
mod task;
mod text;
mod time;
mod tracking;
mod transaction;
mod uses;

use std::sync::Arc;

use terrace_engine::{Batch, OpKind, Settled};
use terrace_protocol::resp::{Encoder, Limits, Parser, ProtocolError};

use crate::effort::Effort;
use crate::output::Output;
use crate::protocol::{Answered, Context, Next, Parsed, Peer, Protocol};
use crate::registry::{Entry, flag, want};
use crate::snapshot::Ticket;
use call::Call;
use client::{Alone, Client};
use error::Refusal;
use mark::Mark;
use step::{Answer, Step};
use task::Unfinished;

pub(crate) use config::start_with;
pub use config::{check_parameter, is_without_meaning};
pub use connection::REDIS_VERSION;
pub(crate) use state::State;

/// Room for this many steps is kept from turn to turn.
const KEEP_STEPS: usize = 64;

/// A new connection's protocol.
pub(crate) fn connect(peer: Peer) -> Box<dyn Protocol> {
    Box::new(Resp {
        parser: None,
        client: Client::new(peer),
        steps: Vec::new(),
        unfinished: None,
        marks: Vec::new(),
    })
}

/// One connection that speaks RESP.
struct Resp {
    /// Made at the first bytes, when the limits are known.
    parser: Option<Parser>,
    client: Client,
    /// The plan: a step for each command, in order.
    steps: Vec<Step>,
    /// A command that goes on before anything else does.
    unfinished: Option<Unfinished>,
    /// Commands that need more than their steps, in order.
    marks: Vec<Mark>,
}

impl Protocol for Resp {
    fn parse(&mut self, input: &[u8], batch: &mut Batch, ctx: &Context<'_>) -> Parsed {
        if let Some(task) = self.unfinished.take() {
            self.client.effort = Effort::default();
            if task.muted {
                self.marks.push(Mark { steps: (0, 1), muted: true, notes_end: 0 });
            }
            self.steps.push(task.go_on(batch));
            return Parsed { consumed: 0, commands: 1, next: Next::Again };
        }
        if let Some(alone) = self.client.alone.take() {
            if let Alone::Save(waits) = alone {
                return self.save(waits, ctx);
            }
            if self.client.replies.are_muted() {
                self.marks.push(Mark { steps: (0, 1), muted: true, notes_end: 0 });
            }
            match alone {
                Alone::Answer(write) => self.steps.push(Step::Late { write, end: 0, command: None }),
                swap => self.client.alone = Some(swap),
            }
            return Parsed { consumed: 0, commands: 1, next: Next::Alone };
        }
        let parser = self.parser.get_or_insert_with(|| {
            let bulk_bytes_max = ctx.shared.options.argument_bytes_max;
            Parser::new(Limits { bulk_bytes_max, ..Limits::default() })
        });
        let acl = &ctx.shared.redis.acl;
        self.client.pausing = false;
        self.client.effort = Effort::default();
        self.client.look();
        let mut parsed = Parsed { consumed: 0, commands: 0, next: Next::Read };
        while parsed.next == Next::Read {
            // Commands without operations are bounded too.
            let full = ctx.full(batch) || parsed.commands >= ctx.shared.options.turn_operations;
            if parsed.commands > 0 && (full || self.client.pausing) {
                parsed.next = Next::Again;
                break;
            }
            let rest = &input[parsed.consumed..];
            parser
                .set_stranger(!self.client.access.is_free(acl) && !self.client.access.is_authenticated(acl));
            match parser.next(rest) {
                Ok(None) => break,
                Ok(Some(consumed)) => {
                    let args = parser.args(rest);
                    if args.is_empty() {
                        parsed.consumed += consumed;
                        continue;
                    }
                    let before = self.steps.len();
                    self.client.replies.begin();
                    let mut call = Call::new(args, batch, ctx, &mut self.client, &mut self.steps);
                    let admitted = call.admit();
                    if call.wants & want::PAUSE != 0
                        && admitted.as_ref().is_ok_and(|command| client::is_held(&call, command))
                    {
                        parsed.next = Next::Hold;
                        break;
                    }
                    parsed.consumed += consumed;
                    parsed.commands += 1;
                    let ran = admitted.and_then(|command| call.execute(command));
                    // Confirmations are no answers: they come with what was subscribed to.
                    let name = call.name;
                    let listens = ran.is_ok() && name.ends_with("subscribe");
                    if let Err(refusal) = ran {
                        self.steps.truncate(before);
                        self.steps.push(Step::Error(refusal));
                    }
                    if self.client.wants_marks() {
                        let muted = self.client.replies.end() && !listens;
                        let notes_end = self.client.notes.len();
                        self.marks.push(Mark { steps: (before, self.steps.len()), muted, notes_end });
                    }
                    if self.client.tracks {
                        tracking::end_command(&self.client, name);
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
        self.client.tell();
        self.client.ran_end = batch.len() as u32;
        parsed
    }

    fn answer(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Output) -> Answered {
        if !batch.is_whole()
            && let Some(rest) = part::answer(self, batch, proof, ctx, out)
        {
            return Answered::Part(rest);
        }
        self.write(batch, proof, ctx, out);
        self.client.defers = false;
        stats::note(&mut self.client, batch, ctx);
        Answered::All
    }

    fn push_alone(&mut self, batch: &mut Batch) {
        if let Some(Alone::Swap(a, b)) = self.client.alone.take() {
            let op = batch.push(a, b"", OpKind::Swap { with: b }) as u32;
            self.steps.push(Step::One { op, show: keys::done });
        }
    }

    fn entry(&self) -> &Arc<Entry> {
        &self.client.entry
    }

    fn is_subscribed(&self) -> bool {
        self.client.entry.has(flag::SUBSCRIBED | flag::MONITOR)
    }

    fn wanted(&self) -> usize {
        self.parser.as_ref().map_or(0, Parser::wanted)
    }

    fn is_authenticated(&mut self, ctx: &Context<'_>) -> bool {
        let acl = &ctx.shared.redis.acl;
        self.client.access.is_free(acl) || self.client.access.is_authenticated(acl)
    }
}

impl Resp {
    /// Begins a snapshot, or looks whether the one that it waits for is done; the connection sleeps while it is not.
    fn save(&mut self, waits: Option<Arc<Ticket>>, ctx: &Context<'_>) -> Parsed {
        let begin = || {
            let ticket = ctx.shared.snapshots.start()?;
            ticket.wakes(&self.client.entry);
            Ok::<_, String>(ticket)
        };
        let step = match waits.map_or_else(begin, Ok) {
            Err(why) => Step::Error(Refusal::from(why)),
            Ok(ticket) => match ticket.outcome() {
                Some(Ok(())) => Step::Simple("OK"),
                Some(Err(why)) => Step::Error(Refusal::from(format!("ERR {why}"))),
                None => {
                    self.client.alone = Some(Alone::Save(Some(ticket)));
                    return Parsed { consumed: 0, commands: 0, next: Next::Asleep };
                }
            },
        };
        if self.client.replies.are_muted() {
            self.marks.push(Mark { steps: (0, 1), muted: true, notes_end: 0 });
        }
        self.steps.push(step);
        Parsed { consumed: 0, commands: 1, next: Next::Again }
    }

    /// Writes the answers of all steps.
    fn write(&mut self, batch: &Batch, proof: &Settled, ctx: &Context<'_>, out: &mut Output) {
        if self.client.defers {
            deferred::run(self, batch, proof, ctx);
        }
        let mut answer = Answer {
            batch,
            proof,
            ctx,
            encoder: Encoder::new(&mut out.bytes, self.client.answering),
            lent: &mut out.lent,
            effort: &mut self.client.effort,
            entry: &self.client.entry,
            ran: &self.client.ran,
            watching: Vec::new(),
            undone: None,
            unfinished: None,
        };
        if self.marks.is_empty() {
            for step in self.steps.drain(..) {
                step.write(&mut answer);
            }
        } else {
            mark::write(&mut self.steps, &mut self.marks, &mut self.client.notes, &mut answer);
        }
        let Answer { mut watching, unfinished, undone, encoder, .. } = answer;
        self.client.answering = encoder.version();
        if !watching.is_empty() {
            self.client.watched.append(&mut watching);
            self.client.tell_watched();
        }
        self.unfinished = unfinished;
        if let Some(before) = undone {
            before.restore(&mut self.client);
        }
        self.client.entry.set_version(self.client.answering);
        self.steps.shrink_to(KEEP_STEPS);
    }
}

fn protocol_error(error: ProtocolError) -> Refusal {
    Refusal::from(format!("ERR {error}"))
}
