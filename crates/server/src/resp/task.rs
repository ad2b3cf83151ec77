//! Commands that take several turns, such as `KEYS`: each turn does a bounded piece, so that they delay nobody.
//!
//! What the same connection sent behind one is parsed when it is done.

use terrace_engine::{Batch, OpKind, Reply};

use super::call::{Call, Outcome};
use super::step::{Answer, Step};

/// The rest of such a command.
pub(super) trait Task: Send {
    /// What to ask the store next.
    fn ask(&mut self) -> OpKind;

    /// Looks at what it answered; at the end answers the client and says `true`.
    fn look(&mut self, answer: &mut Answer<'_>, op: usize) -> bool;
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
    pub fn go_on(mut self, batch: &mut Batch) -> Step {
        let op = batch.push(self.db, b"", self.task.ask()) as u32;
        Step::Task { op, task: self }
    }

    /// Looks at what was answered; itself if it is not done.
    pub fn look(mut self, answer: &mut Answer<'_>, op: u32) -> Option<Self> {
        let op = op as usize;
        match answer.reply(op) {
            Reply::Error(error) => {
                answer.failed(error);
                None
            }
            _ => (!self.task.look(answer, op)).then_some(self),
        }
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
        let op = self.push(b"", task.ask()) as usize;
        self.late(move |answer| match answer.reply(op) {
            Reply::Error(error) => answer.failed(error),
            _ if task.look(answer, op) => {}
            _ => {
                let text = format!(
                    "ERR {name} in a transaction looks at the first keys only, and there are more: use SCAN"
                );
                answer.encoder.error(text.as_bytes());
            }
        })
    }
}
