//! Commands that take several turns, such as `KEYS`: each turn does a bounded piece, so that they delay nobody.
//!
//! What the same connection sent behind one is parsed when it is done.

use terrace_engine::{Batch, OpKind, Reply};

use super::call::{Call, Outcome};
use super::step::{Answer, Step};

/// The rest of such a command.
pub(super) trait Task: Send {
    /// The step of the iteration over the database's keys to take next: the cursor, and about how many keys.
    fn step(&self) -> (u64, u32);

    /// Looks at the keys that operation `op` found, behind which the iteration goes on at `next`, 0 at the end. When it is done it
    /// answers the client and says `true`.
    fn look(&mut self, answer: &mut Answer<'_>, op: usize, next: u64) -> bool;
}

/// The operation for a task's next step.
fn scan(task: &dyn Task) -> OpKind {
    let (cursor, count) = task.step();
    OpKind::Scan { cursor, count }
}

/// Looks at what that answered; whether the client was answered.
fn look(task: &mut dyn Task, answer: &mut Answer<'_>, op: usize) -> bool {
    match answer.reply(op) {
        Reply::Scanned { cursor } => return task.look(answer, op, cursor),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    }
    true
}

/// A task between two turns, and the database that it is about.
pub(super) struct Unfinished {
    pub db: u8,
    pub task: Box<dyn Task>,
    /// Its answer is not wanted.
    pub muted: bool,
}

impl Unfinished {
    /// Adds what it asks next.
    pub fn go_on(self, batch: &mut Batch) -> Step {
        let op = batch.push(self.db, b"", scan(&*self.task)) as u32;
        Step::Task { op, task: self }
    }

    /// Looks at what was answered; itself if it is not done.
    pub fn look(mut self, answer: &mut Answer<'_>, op: u32) -> Option<Self> {
        (!look(&mut *self.task, answer, op as usize)).then_some(self)
    }
}

impl Call<'_> {
    /// Begins a task. In a transaction there is one turn only: what would need more is refused.
    pub fn task(&mut self, mut task: impl Task + 'static) -> Outcome {
        self.client.pausing = true;
        if !self.batch.is_atomic() {
            let task = Unfinished { db: self.client.db, task: Box::new(task), muted: false };
            let step = task.go_on(self.batch);
            return self.answer(step);
        }
        let name = self.name;
        let op = self.push(b"", scan(&task)) as usize;
        self.late(move |answer| {
            if !look(&mut task, answer, op) {
                let text = format!(
                    "ERR {name} in a transaction looks at the first keys only, and there are more: use SCAN"
                );
                answer.encoder.error(text.as_bytes());
            }
        })
    }
}
