//! Crashes: what power loss and the death of the process leave.
//!
//! Power loss: of every unsynced group, block, cleared header, erasure and manifest by itself, the old or the new state
//! arrives; a block may arrive in part. The death of the process: of a log write under way, all or nothing; what was
//! written stays visible, and is as unsafe from power loss as before.

use crate::protocol::Protocol;
use crate::state::*;
use crate::tier::settle;

/// Takes a choice apart, and counts how many there are.
struct Choice {
    rest: u16,
    of: u16,
}

impl Choice {
    fn pick(&mut self, ways: u16) -> u16 {
        let picked = self.rest % ways;
        self.rest /= ways;
        self.of *= ways;
        picked
    }
}

impl Protocol {
    pub(crate) fn crash_actions(&self, state: &State, out: &mut Vec<crate::protocol::Action>) {
        use crate::protocol::Action::{PowerFails, ProcessDies};
        if state.phase == Phase::Refused
            || state.crashes >= self.bounds.crashes
            || (state.crashes == 0 && state.clock == 0)
        {
            return;
        }
        let mut choice = Choice { rest: 0, of: 1 };
        lose_power(&mut state.clone(), &mut choice);
        out.extend((0..choice.of).map(PowerFails));
        if state.phase != Phase::Down {
            let mut choice = Choice { rest: 0, of: 1 };
            kill(&mut state.clone(), &mut choice);
            out.extend((0..choice.of).map(ProcessDies));
        }
    }

    pub(crate) fn power_fails(&self, state: &mut State, choice: u16) {
        lose_power(state, &mut Choice { rest: choice, of: 1 });
        state.power_failed = 1;
        go_down(state);
    }

    pub(crate) fn process_dies(&self, state: &mut State, choice: u16) {
        kill(state, &mut Choice { rest: choice, of: 1 });
        go_down(state);
    }
}

fn go_down(state: &mut State) {
    state.crashes += 1;
    state.dram = Dram::default();
    state.phase = Phase::Down;
}

fn lose_power(state: &mut State, choice: &mut Choice) {
    for log in &mut state.log {
        let freed = log.iter().take_while(|group| group.at == At::Freed).count();
        // A freed header that arrived says that everything older is dead too: the newest may be the only ones to come back.
        let gone = freed - usize::from(choice.pick(freed as u16 + 1));
        for (i, group) in log.iter_mut().enumerate() {
            group.at = match group.at {
                At::Freed if i < gone => At::Nowhere,
                At::Freed => At::Durable,
                At::InFlight | At::Written | At::Presumed => [At::Lost, At::Durable][choice.pick(2) as usize],
                At::Cut => [At::Lost, At::Durable][choice.pick(2) as usize],
                at => at,
            };
        }
        tidy(log);
    }
    for place in &mut state.tier {
        match place.change {
            Change::None => {}
            Change::Image => match choice.pick(3) {
                0 => {}
                arrived => {
                    settle(place);
                    if arrived == 2 {
                        (place.durable.torn, place.durable.records) = (1, [0; RECORDS]);
                    }
                }
            },
            Change::Cleared => {
                if choice.pick(2) == 1 {
                    settle(place);
                }
            }
        }
        *place = Place { durable: place.durable, ..Place::default() };
    }
    for cell in &mut state.cells {
        cell.lose_power(&mut |ways| choice.pick(ways));
    }
    if state.manifest_new.0 == 1 && choice.pick(2) == 1 {
        state.manifest = state.manifest_new.1;
    }
    state.manifest_new = Default::default();
}

fn kill(state: &mut State, choice: &mut Choice) {
    for log in &mut state.log {
        for group in log.iter_mut() {
            group.at = match group.at {
                At::InFlight => [At::Lost, At::Written][choice.pick(2) as usize],
                At::Presumed => At::Written,
                at => at,
            };
        }
        tidy(log);
    }
}

/// Closes up what is not there, and forgets lost groups that nothing follows.
pub(crate) fn tidy(log: &mut [Group; GROUPS]) {
    let mut kept = [Group::default(); GROUPS];
    let groups = log.iter().filter(|group| group.at != At::Nowhere);
    for (to, group) in kept.iter_mut().zip(groups) {
        *to = *group;
    }
    while let Some(last) = kept.iter_mut().rev().find(|group| group.at != At::Nowhere)
        && last.at == At::Lost
    {
        *last = Group::default();
    }
    *log = kept;
}
