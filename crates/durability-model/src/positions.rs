//! Durable positions, and the answers that wait for them (`engine/src/commit.rs`).

use crate::bug::Bug;
use crate::protocol::Protocol;
use crate::state::*;

/// Against what a position holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Process,
    Power,
}

impl Protocol {
    /// `Level::resolve`: the greatest cut of the physical positions that is closed under dependencies.
    pub(crate) fn settled(&self, state: &State, level: Level) -> Positions {
        let mut cut = physical(state, level);
        loop {
            let mut changed = false;
            for session in 0..SESSIONS {
                for group in state.groups(session) {
                    if state.group_version(group) > cut[session] {
                        break;
                    }
                    if (0..SESSIONS).any(|other| group.needs[other] > cut[other]) {
                        let before = group.before.max(state.dram.base[session]);
                        changed |= before < cut[session];
                        cut[session] = before.min(cut[session]);
                        break;
                    }
                }
            }
            if !changed {
                return cut;
            }
        }
    }

    /// `Core::is_met`.
    fn is_met(&self, state: &State, ticket: &Ticket, process: &Positions, power: &Positions) -> bool {
        let met = |positions: &Positions| {
            positions[usize::from(ticket.session - 1)] >= ticket.own
                && (self.has(Bug::AnswerIgnoresWhatItSaw)
                    || (0..SESSIONS).all(|other| positions[other] >= ticket.seen[other]))
        };
        if self.is_batch() {
            let late = state.dram.unsynced_since == 2 || state.dram.syncing_since == 2;
            met(process) && (!late || self.has(Bug::WindowGrows) || met(power))
        } else {
            met(if self.has(Bug::AnswerWhenWritten) { process } else { power })
        }
    }

    /// Gives every answer that may be given. At once: an answer promises more the earlier it is given.
    pub(crate) fn answer(&self, state: &mut State) {
        let (process, power) = (self.settled(state, Level::Process), self.settled(state, Level::Power));
        for i in 0..TICKETS {
            let ticket = state.dram.tickets[i];
            if ticket.session != 0 && self.is_met(state, &ticket, &process, &power) {
                state.promised |= ticket.promise;
                if !self.is_batch() {
                    state.promised_power |= ticket.promise;
                }
                state.dram.tickets[i] = Ticket::default();
            }
        }
        state.dram.tickets.sort_unstable_by(|a, b| b.cmp(a));
        if self.is_batch() {
            // What was answered and has become safe since must not be taken either.
            for (i, write) in state.writes.iter().enumerate().take_while(|(_, write)| write.version != 0) {
                if power[usize::from(write.session)] >= write.version {
                    state.promised_power |= state.promised & 1 << i;
                }
            }
        }
    }

    /// `Commit::passed`.
    pub(crate) fn passed(&self, state: &State, barrier: &Positions) -> bool {
        let settled = self.settled(state, Level::Power);
        (0..SESSIONS).all(|session| settled[session] >= barrier[session])
    }
}

/// How far each session's log has reached the page cache, or the medium.
pub(crate) fn physical(state: &State, level: Level) -> Positions {
    let mut positions = state.dram.base;
    for (session, position) in positions.iter_mut().enumerate() {
        for group in state.groups(session) {
            match group.at {
                At::Durable | At::Freed | At::Presumed => {}
                At::Written if level == Level::Process => {}
                // An erasure that is not safe is behind what the session goes on from.
                At::Cut => continue,
                _ => break,
            }
            *position = state.group_version(group).max(*position);
        }
    }
    positions
}
