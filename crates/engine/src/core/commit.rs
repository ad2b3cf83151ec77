//! The end of a batch: its log group, and what its answers rest on.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::{LogDevice, LogError};

use super::{Core, note_seen};
use crate::commit::Ticket;
use crate::space::Space;

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Writes what is buffered as a log group. `false` if the log failed, now or before.
    pub(super) fn write_log(&mut self) -> bool {
        let Self { machine, writer, carried, seen, touched, dependencies, recorded, .. } = self;
        let shared = &machine.shared;
        let Some(writer) = writer.keeper_mut() else { return true };
        if shared.log_failed.load(Relaxed) {
            return false;
        }
        if writer.is_empty() {
            return true;
        }
        let power = shared.commit.power();
        // What earlier batches saw counts too: a session's log is cut as a whole, its batches are not.
        for (_, version) in carried.drain(..) {
            note_seen::<S>(seen, touched, version);
        }
        dependencies.clear();
        for &other in touched.iter() {
            let other_slot = usize::from(other);
            let seen = seen[other_slot];
            if other_slot != self.slot && seen > power.settled(other_slot) && seen > recorded[other_slot] {
                dependencies.push((other, seen));
                recorded[other_slot] = seen;
            }
        }
        // A log entry may outlive power loss before any sync: the extent that it describes must be there by then.
        if let Err(error) = machine.space.sync() {
            shared.fail_log("syncing large values on the lower tier", &error);
            machine.wake_waiters();
            return false;
        }
        shared.commit.writing(self.slot, self.last.0, self.logged, dependencies);
        loop {
            match writer.write(power.settled(self.slot), dependencies) {
                Ok(_) => break,
                Err(LogError::Full) => {
                    // Log blocks are freed once the pages they stand for are persisted. What this session published is
                    // still only in its buffer, but nothing that is older depends on it.
                    shared.flush_wanted.fetch_max(machine.space.last_seq().saturating_sub(1).max(1), SeqCst);
                    shared.notify_work();
                    if !machine.work_for_log() {
                        return false;
                    }
                }
                Err(error) => {
                    shared.fail_log("writing the log", &error);
                    machine.wake_waiters();
                    return false;
                }
            }
        }
        self.logged = self.last.0;
        if shared.commit.written(self.slot, self.last.0, shared.clock_us()) {
            machine.wake_waiters();
        }
        true
    }

    /// Notes in the ticket what the answers given so far rest on, and forgets it here.
    pub(super) fn fill(&mut self, ticket: &mut Ticket) {
        let counters = &self.machine.shared.counters[self.slot];
        for (shared, mine) in counters.hits.iter().zip(&mut self.hits) {
            if *mine != 0 {
                shared.fetch_add(std::mem::take(mine), Relaxed);
            }
        }
        if self.misses != 0 {
            counters.misses.fetch_add(std::mem::take(&mut self.misses), Relaxed);
        }
        if !self.writer.is_given() {
            for other in self.touched.drain(..) {
                self.seen[usize::from(other)] = 0;
            }
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for other in touched.drain(..) {
            let seen = std::mem::take(&mut self.seen[usize::from(other)]);
            if usize::from(other) == self.slot {
                ticket.own = ticket.own.max(seen);
                continue;
            }
            if seen <= self.machine.shared.commit.power().settled(usize::from(other)) {
                continue;
            }
            // Under `batch` too, although it may be written already: once the window has passed, an answer waits until what
            // it rests on is safe from power loss, whoever wrote that.
            ticket.seen.push((other, seen));
            if seen > self.recorded[usize::from(other)] {
                match self.carried.iter_mut().find(|(carried, _)| *carried == other) {
                    Some((_, newest)) => *newest = seen.max(*newest),
                    None => self.carried.push((other, seen)),
                }
            }
        }
        self.touched = touched;
    }

    /// Makes the ticket rest on everything that was published so far, by all sessions, and that against power loss.
    pub(super) fn wait_for_all(&mut self, ticket: &mut Ticket) {
        if !self.writer.is_given() {
            return;
        }
        let commit = &self.machine.shared.commit;
        ticket.power = true;
        for slot in 0..self.seen.len() {
            let issued = commit.issued(slot);
            if slot == self.slot {
                ticket.own = ticket.own.max(issued);
            } else if issued > commit.power().settled(slot) {
                ticket.seen.push((slot as u16, issued));
            }
        }
    }

    /// Whether what the ticket stands for is as durable as was promised; if not, the session is woken when it may be.
    pub(super) fn is_settled(&mut self, ticket: &Ticket) -> bool {
        !self.writer.is_given() || self.shared().is_settled(self.slot, ticket)
    }
}
