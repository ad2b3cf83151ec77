//! One command on its way to the store.

use terrace_engine::{Batch, EditFn, OpKind, Reply, Span};
use terrace_protocol::resp::{Args, Encoder, parse_integer};

use super::acl;
use super::client::{Alone, Client};
use super::edited;
use super::error::{self, NOT_AN_INTEGER, Refusal};
use super::mark::Note;
use super::monitor;
use super::pubsub;
use super::stats::{self, Ran};
use super::step::{Answer, Step};
use super::table::{self, Command, Flags, TOP};
use super::{tracking, transaction};
use crate::protocol::Context;
use crate::registry::want;

/// A command's arguments, and what its handler may touch.
///
/// A handler checks everything first, then pushes operations and one step. Returning a refusal answers with that instead;
/// operations pushed before it would still run.
pub(super) struct Call<'a> {
    pub args: Args<'a>,
    pub batch: &'a mut Batch,
    pub ctx: &'a Context<'a>,
    pub client: &'a mut Client,
    pub steps: &'a mut Vec<Step>,
    /// The full name of the command that runs, as errors tell it.
    pub name: &'static str,
    /// What others want to hear of: bits of [`want`].
    pub wants: u32,
}

/// What handlers return.
pub(super) type Outcome = Result<(), Refusal>;

impl<'a> Call<'a> {
    pub fn new(
        args: Args<'a>,
        batch: &'a mut Batch,
        ctx: &'a Context<'a>,
        client: &'a mut Client,
        steps: &'a mut Vec<Step>,
    ) -> Self {
        let wants = ctx.shared.connections.wants();
        Self { args, batch, ctx, client, steps, name: "", wants }
    }

    /// Finds the command, checks whether it may run, and hands over to it.
    pub fn run(&mut self) -> Outcome {
        let command = self.admit()?;
        self.execute(command)
    }

    /// The command, if it may run: all that can be refused without a look at what it is to do.
    pub fn admit(&mut self) -> Result<&'static Command, Refusal> {
        let command = match self.find() {
            Ok(command) => command,
            Err(refusal) if self.arg(0).eq_ignore_ascii_case(b"exec") => {
                return Err(transaction::abort(self.client, &refusal));
            }
            Err(refusal) => {
                self.fail_transaction();
                return Err(refusal);
            }
        };
        self.name = command.full_name;
        if !self.client.access.is_free(&self.ctx.shared.redis.acl)
            && let Err(refusal) = acl::check(self, command)
        {
            self.ctx.shared.redis.stats.rejected(command.id);
            self.fail_transaction();
            return Err(if command.name == "exec" {
                transaction::abort(self.client, &refusal)
            } else {
                refusal
            });
        }
        self.client.last_command = Some(&command.full_name);
        Ok(command)
    }

    /// Hands over to a command that may run, or keeps it for EXEC.
    pub fn execute(&mut self, command: &'static Command) -> Outcome {
        if self.client.transaction.is_some() && !transaction::runs_at_once(command) {
            let kept = transaction::keep(self, command);
            if kept.is_err() {
                self.fail_transaction();
            }
            return kept;
        }
        let first = self.batch.len();
        let redis = &self.ctx.shared.redis;
        self.client.ran.push(Ran { id: command.id, first: first as u32 });
        if command.flags.has(Flags::ADMIN) || command.parent != TOP || redis.settings.keeps_arguments() {
            self.keep_arguments(command);
        }
        let ran = (command.handler)(self);
        if ran.is_err() {
            redis.stats.failed(command.id);
        }
        if self.wants & (want::COMMANDS | want::EVENTS | want::USES) != 0 || self.client.tracks {
            self.tell(command, first);
        }
        ran
    }

    /// Keeps the arguments of a command that runs, for the slow log.
    #[cold]
    fn keep_arguments(&mut self, command: &'static Command) {
        if self.client.kept.len() < stats::KEPT_MAX && !command.flags.has(Flags::SKIP_SLOWLOG) {
            let ran = self.client.ran.len() - 1;
            self.client.kept.push((ran, stats::shortened(command.full_name, self.args)));
        }
    }

    /// Tells others of a command that ran, whose operations are those from `first` on.
    #[cold]
    fn tell(&mut self, command: &'static Command, first: usize) {
        if self.wants & want::COMMANDS != 0 {
            monitor::show(self, command);
        }
        // Those of EXEC are told of one by one.
        let notes = self.wants & (want::EVENTS | want::USES) != 0;
        if notes && self.batch.len() > first && command.name != "exec" {
            let databases = self.client.databases;
            let ops = first..self.batch.len();
            self.client.notes.push(Note { ops, command: command.full_name, databases });
        }
        if self.client.tracks {
            tracking::remember(self, command);
        }
    }

    /// After a command that was refused `EXEC` does nothing.
    fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.client.transaction {
            transaction.failed = true;
        }
    }

    /// The command, its arity checked.
    fn find(&mut self) -> Result<&'static Command, Refusal> {
        let name = self.arg(0);
        match table::find(name) {
            Some(command) => self.find_sub(command),
            None if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") => {
                // A browser that was talked into sending a request here: nothing behind it is a command.
                tracing::warn!(peer = %self.client.peer.remote, "an HTTP request on the Redis port; closing");
                self.client.closing = true;
                Err("ERR this is not an HTTP server".into())
            }
            None => Err(match table::lacks(name) {
                Some(what) => error::lacking(what, name),
                None => error::unknown(name, self.args.from(1)),
            }),
        }
    }

    fn find_sub(&self, command: &'static Command) -> Result<&'static Command, Refusal> {
        if !command.takes(self.args.len()) {
            self.ctx.shared.redis.stats.rejected(command.id);
            return Err(error::arity(command.full_name));
        }
        match self.args.get(1) {
            Some(sub) if command.is_container() => match command.sub(sub) {
                Some(command) => self.find_sub(command),
                None => {
                    let full_name = [command.full_name.as_bytes(), b"|", sub].concat();
                    Err(match table::lacks(&full_name) {
                        Some(what) => error::lacking(what, &full_name),
                        None => error::unknown_sub(command.full_name, sub),
                    })
                }
            },
            _ => {
                pubsub::check(self.client, command)?;
                monitor::check(self.client, command)?;
                Ok(command)
            }
        }
    }

    /// The argument at `index`, 0 being the name; empty if there is none (arity has been checked).
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).unwrap_or_default()
    }

    /// The argument at `index` as a whole number.
    pub fn integer(&self, index: usize) -> Result<i64, Refusal> {
        parse_integer(self.arg(index)).ok_or_else(|| NOT_AN_INTEGER.into())
    }

    /// Adds an operation on a key of the chosen database.
    pub fn push(&mut self, key: &[u8], kind: OpKind) -> u32 {
        self.push_in(self.client.db, key, kind)
    }

    /// Adds an operation on a key of another database.
    pub fn push_in(&mut self, db: u8, key: &[u8], kind: OpKind) -> u32 {
        let is_on_key = !matches!(
            kind,
            OpKind::Flush { .. } | OpKind::Swap { .. } | OpKind::Scan { .. } | OpKind::Range { .. }
        );
        if !is_on_key && self.batch.is_atomic() {
            return self.push_between(db, key, kind);
        }
        self.batch.push(self.client.databases.place(db), key, kind) as u32
    }

    /// Adds an operation on a whole database in the middle of a transaction: between two groups.
    fn push_between(&mut self, db: u8, key: &[u8], kind: OpKind) -> u32 {
        self.batch.end_atomic();
        self.go_on();
        let op = self.batch.push(self.client.databases.place(db), key, kind) as u32;
        self.batch.end_atomic();
        self.go_on();
        op
    }

    /// Begins the next group of a transaction, which happens only if the watched keys are as they were.
    fn go_on(&mut self) {
        self.batch.begin_transaction();
        if let Some(guard) = self.client.guard {
            self.batch.only_after(guard as usize);
        }
    }

    /// Runs `push`, whose operations are one step: an atomic group of their own, or part of a transaction's.
    pub fn atomic(&mut self, push: impl FnOnce(&mut Self)) {
        let alone = !self.batch.is_atomic();
        if alone {
            self.batch.begin_atomic();
        }
        push(self);
        if alone {
            self.batch.end_atomic();
        }
    }

    /// The same for operations that read alone: they may read as much as a transaction may, and each has its own error.
    pub fn reads(&mut self, push: impl FnOnce(&mut Self)) {
        let alone = !self.batch.is_atomic();
        if alone {
            self.batch.begin_transaction();
        }
        push(self);
        if alone {
            self.batch.end_atomic();
        }
    }

    /// Adds an operation whose answer is the command's.
    pub fn one(&mut self, key: &[u8], kind: OpKind, show: fn(&mut Answer<'_>, Reply)) -> Outcome {
        let op = self.push(key, kind);
        self.steps.push(Step::One { op, show });
        Ok(())
    }

    /// Adds the same operation on every argument from `from` on.
    pub fn each(
        &mut self,
        from: usize,
        kind: OpKind,
        show: fn(&mut Answer<'_>, std::ops::Range<usize>),
    ) -> Outcome {
        let first = self.batch.len() as u32;
        for key in self.args.from(from) {
            self.push(key, kind);
        }
        let count = self.batch.len() as u32 - first;
        self.steps.push(Step::Many { first, count, show });
        Ok(())
    }

    /// Adds an edit; its argument is in the batch.
    pub fn push_edit(&mut self, key: &[u8], edit: EditFn, argument: Span) -> u32 {
        self.push(key, OpKind::Edit { edit, argument })
    }

    /// Adds an edit whose answer is the command's.
    pub fn edit(&mut self, key: &[u8], edit: EditFn, argument: &[u8]) -> Outcome {
        let argument = self.batch.bytes(argument);
        self.one(key, OpKind::Edit { edit, argument }, edited::show)
    }

    /// Makes the edits that `push` adds one step, and the first answer that one of them gives the command's.
    pub fn edits(&mut self, push: impl FnOnce(&mut Self)) -> Outcome {
        let first = self.batch.len() as u32;
        self.atomic(push);
        let count = self.batch.len() as u32 - first;
        self.answer(Step::Many { first, count, show: edited::show_first })
    }

    /// Reads a value and answers with what `show` makes of it; it gets `None` if there is none.
    pub fn computed(
        &mut self,
        key: &[u8],
        show: impl FnOnce(&mut Encoder<'_>, Option<&[u8]>) + Send + 'static,
    ) -> Outcome {
        let op = self.push(key, OpKind::Get { value: true }) as usize;
        self.late(move |answer| match answer.reply(op) {
            Reply::Hit { value: Some(span), .. } => {
                let batch = answer.batch;
                show(&mut answer.encoder, Some(batch.output(span)));
            }
            Reply::Miss => show(&mut answer.encoder, None),
            Reply::Error(error) => answer.failed(error),
            other => answer.unexpected(other),
        })
    }

    /// The longest value that a command may make.
    pub fn value_bytes_max(&self) -> usize {
        self.ctx.shared.options.argument_bytes_max
    }

    /// Answers with a step that needs no operation.
    pub fn answer(&mut self, step: Step) -> Outcome {
        self.steps.push(step);
        Ok(())
    }

    /// Answers `OK`.
    pub fn ok(&mut self) -> Outcome {
        self.answer(Step::Simple("OK"))
    }

    /// Answers when the batch has settled, with something about the whole store. What the same connection sent behind it is
    /// executed afterwards, so that the answer knows nothing of that.
    pub fn about_store(&mut self, write: impl FnOnce(&mut Answer<'_>) + Send + 'static) -> Outcome {
        self.client.pausing = true;
        self.late(write)
    }

    /// Answers once everything before it, of all connections, is safe from power loss. In a transaction nothing is waited for:
    /// `false`, and nothing is answered.
    pub fn when_durable(&mut self, write: impl FnOnce(&mut Answer<'_>) + Send + 'static) -> bool {
        let waits = !self.batch.is_atomic();
        if waits {
            self.client.pausing = true;
            self.client.alone = Some(Alone::Answer(Box::new(write)));
        }
        waits
    }

    /// Answers when the batch has settled.
    pub fn late(&mut self, write: impl FnOnce(&mut Answer<'_>) + Send + 'static) -> Outcome {
        let end = self.batch.len() as u32;
        let command = self.client.ran.last().map(|ran| ran.id);
        self.answer(Step::Late { write: Box::new(write), end, command })
    }
}
