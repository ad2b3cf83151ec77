//! Replies to answers.

use terrace_engine::{OpError, Reply, Span};
use terrace_protocol::memcached::binary::{Status, answer, refuse};
use terrace_protocol::memcached::unsigned;

use super::plan::{Planned, What};
use crate::memcached::DATABASE;
use crate::memcached::answer::Answers;
use crate::memcached::meta;
use crate::memcached::state::Count;
use crate::memcached::stats;
use crate::output;

impl Answers<'_> {
    /// Appends the answer of one request.
    pub(super) fn binary(&mut self, planned: Planned) {
        let Planned { asked, quiet, what } = planned;
        match what {
            What::Get { op, key } => self.read(&planned, op, key, true, false),
            What::Touch { op, value, key } => self.read(&planned, op, key, value, true),
            What::Store { op, otherwise, checked } => self.wrote(&planned, op, otherwise, checked),
            What::Join { op } => self.joined(&planned, op),
            What::Number { op, down } => self.counted(&planned, op, down),
            What::Delete { op } => self.removed(&planned, op),
            What::Flush { op } => {
                self.tally.add(Count::CmdFlush);
                match self.reply(op) {
                    Reply::Error(error) => self.failed(&planned, error),
                    _ => self.done(&planned, 0),
                }
            }
            What::Text(text) if !quiet => {
                answer(self.out, asked, Status::Success, 0, (b"", b"", text.len()));
                self.out.extend_from_slice(text);
            }
            What::Text(_) => {}
            What::Login { known } => {
                self.tally.add(Count::AuthCmds);
                if !known {
                    self.tally.add(Count::AuthErrors);
                    return refuse(self.out, asked, Status::Auth);
                }
                const TEXT: &[u8] = b"Authenticated";
                answer(self.out, asked, Status::Success, 0, (b"", b"", TEXT.len()));
                self.out.extend_from_slice(TEXT);
            }
            What::Stats(report) => self.report(&planned, report),
            What::TooLarge => {
                self.tally.add(Count::StoreTooLarge);
                refuse(self.out, asked, Status::TooLarge);
            }
            What::Refused { status, .. } => refuse(self.out, asked, status),
            What::Quit => self.done(&planned, 0),
        }
    }

    /// What was done, unless the client wants to hear of errors alone.
    fn done(&mut self, planned: &Planned, cas: u64) {
        if !planned.quiet {
            answer(self.out, planned.asked, Status::Success, cas, (b"", b"", 0));
        }
    }

    fn failed(&mut self, planned: &Planned, error: OpError) {
        let status = match error {
            OpError::Full => {
                self.tally.add(Count::StoreNoMemory);
                Status::OutOfMemory
            }
            OpError::ValueTooLong(_) => {
                self.tally.add(Count::StoreTooLarge);
                Status::TooLarge
            }
            OpError::KeyTooLong(_) => Status::Invalid,
            OpError::NotInteger | OpError::Overflow => Status::NotANumber,
            _ => Status::Internal,
        };
        refuse(self.out, planned.asked, status);
    }

    fn read(&mut self, planned: &Planned, op: usize, shows_key: bool, shows_value: bool, touches: bool) {
        let (command, hits, misses) = if touches {
            (Count::CmdTouch, Count::TouchHits, Count::TouchMisses)
        } else {
            (Count::CmdGet, Count::GetHits, Count::GetMisses)
        };
        self.tally.add(command);
        let key = self.batch.input(self.batch.op(op).key);
        let shown = if shows_key { key } else { &[] };
        match self.reply(op) {
            Reply::Hit { meta, value } => {
                self.tally.add(hits);
                if let Some(accesses) = self.accesses {
                    accesses.fetched(DATABASE, key, self.ctx.now_ms);
                }
                let value: Span = value.filter(|_| shows_value).unwrap_or_default();
                let flags = meta.flags.to_be_bytes();
                let parts = (&flags[..], shown, value.len());
                answer(self.out, planned.asked, Status::Success, meta.cas(), parts);
                output::append(self.batch, value, self.out, self.lent);
                self.found(op, value.len() as u64);
            }
            Reply::Error(error) => self.failed(planned, error),
            _ => {
                self.tally.add(misses);
                self.missed(op);
                match planned.quiet {
                    true => {}
                    false if shows_key => {
                        answer(self.out, planned.asked, Status::NotFound, 0, (b"", shown, 0));
                    }
                    false => refuse(self.out, planned.asked, Status::NotFound),
                }
            }
        }
    }

    fn wrote(&mut self, planned: &Planned, op: usize, otherwise: Status, checked: bool) {
        self.tally.add(Count::CmdSet);
        let (status, count, told) = match self.reply(op) {
            Reply::Stored { version, .. } => {
                self.stored(op);
                self.mutated(op, "stored");
                if checked {
                    self.tally.add(Count::CasHits);
                }
                return self.done(planned, version);
            }
            Reply::Error(error) => return self.failed(planned, error),
            Reply::NotStored { present: true, .. } if checked => {
                (Status::Exists, Some(Count::CasBadval), "exists")
            }
            _ if checked => (otherwise, Some(Count::CasMisses), "not_found"),
            _ => (otherwise, None, "not_stored"),
        };
        if let Some(count) = count {
            self.tally.add(count);
        }
        self.mutated(op, told);
        refuse(self.out, planned.asked, status);
    }

    fn joined(&mut self, planned: &Planned, op: usize) {
        self.tally.add(Count::CmdSet);
        let (status, told) = match self.reply(op) {
            Reply::Edited { answer, meta, .. } => match meta::joined(self.batch.output(answer)) {
                meta::Joined::Done => {
                    self.stored(op);
                    self.mutated(op, "stored");
                    return self.done(planned, meta.cas());
                }
                meta::Joined::Mismatch => (Status::Exists, "exists"),
                meta::Joined::NotDone => (Status::NotStored, "not_stored"),
            },
            Reply::Error(error) => return self.failed(planned, error),
            _ => (Status::NotStored, "not_stored"),
        };
        self.mutated(op, told);
        refuse(self.out, planned.asked, status);
    }

    fn counted(&mut self, planned: &Planned, op: usize, down: bool) {
        let (hits, misses) =
            if down { (Count::DecrHits, Count::DecrMisses) } else { (Count::IncrHits, Count::IncrMisses) };
        let (answered, meta) = match self.reply(op) {
            Reply::Edited { answer, meta, .. } => (self.batch.output(answer), meta),
            Reply::Error(error) => return self.failed(planned, error),
            _ => return refuse(self.out, planned.asked, Status::Internal),
        };
        match meta::added(answered) {
            meta::Added::Number { digits, created } => {
                self.tally.add(if created { misses } else { hits });
                if created {
                    self.stored(op);
                }
                if planned.quiet {
                    return;
                }
                let number = unsigned(digits).unwrap_or(0).to_be_bytes();
                answer(self.out, planned.asked, Status::Success, meta.cas(), (b"", b"", number.len()));
                self.out.extend_from_slice(&number);
            }
            meta::Added::Absent => {
                self.tally.add(misses);
                refuse(self.out, planned.asked, Status::NotFound);
            }
            meta::Added::Mismatch => refuse(self.out, planned.asked, Status::Exists),
            meta::Added::NotANumber => refuse(self.out, planned.asked, Status::NotANumber),
        }
    }

    fn removed(&mut self, planned: &Planned, op: usize) {
        let status = match self.reply(op) {
            Reply::Deleted { .. } => {
                self.tally.add(Count::DeleteHits);
                return self.done(planned, 0);
            }
            Reply::Error(error) => return self.failed(planned, error),
            Reply::NotStored { .. } => Status::Exists,
            _ => {
                self.tally.add(Count::DeleteMisses);
                Status::NotFound
            }
        };
        refuse(self.out, planned.asked, status);
    }

    /// The text protocol's report, an answer for each of its lines and an empty one at the end.
    fn report(&mut self, planned: &Planned, report: stats::Report) {
        let mut text = Vec::new();
        self.stats_into(report, &mut text);
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(pair) = line.strip_prefix(b"STAT ") else { continue };
            let at = pair.iter().position(|byte| *byte == b' ').unwrap_or(pair.len());
            let (name, value) = (&pair[..at], pair.get(at + 1..).unwrap_or_default());
            answer(self.out, planned.asked, Status::Success, 0, (b"", name, value.len()));
            self.out.extend_from_slice(value);
        }
        answer(self.out, planned.asked, Status::Success, 0, (b"", b"", 0));
    }
}
