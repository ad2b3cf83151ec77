//! What must hold after a crash.
//!
//! Writes survive as a set S that contains, for each member, all that its session had seen when it wrote, its own earlier
//! writes included. S contains everything that a given answer rested on, as far as the mode promises it against this
//! crash. What is found of each key is its newest write in S. Nothing that an earlier opening found not to have
//! happened is in it. The smallest such S that explains what is found is the closure of that and of the promises, and
//! any other would only ask for newer writes: so one set is enough to decide.

use crate::protocol::Protocol;
use crate::recover::Found;
use crate::state::*;

impl Protocol {
    /// Compares what an opening finds with what was promised.
    pub(crate) fn verdict(&self, state: &State, found: &Found) -> Broken {
        if found.damage {
            return Broken::FalseDamage;
        }
        let promised = if state.power_failed == 1 { state.promised_power } else { state.promised };
        let seen = winners(state, found);
        if seen & state.dead != 0 {
            return Broken::Resurrected;
        }
        let survivors = state.closure(seen | promised);
        for key in 0..KEYS {
            let newest = newest(state, survivors, key);
            let expected = if newest != 0 && matches!(state.write(newest).kind, Kind::Set | Kind::SetBoth) {
                newest
            } else {
                0
            };
            let visible = value(state, found, key);
            if visible == expected {
                continue;
            }
            return if state.closure(promised) & only(newest) != 0 && visible == 0 {
                Broken::Lost
            } else if state.closure(promised) & only(newest) != 0 {
                Broken::Resurrected
            } else {
                Broken::NotClosed
            };
        }
        if state.power_failed == 1 && self.is_batch() {
            let lost = state.promised & !survivors;
            if lost & state.earlier != 0 && lost & !state.earlier != 0 {
                return Broken::Window;
            }
        }
        Broken::Nothing
    }

    /// From now on what was found is what happened: answers may rest on it, and on the rest not having happened.
    pub(crate) fn remember(&self, state: &mut State, found: &Found) {
        let promised = if state.power_failed == 1 { state.promised_power } else { state.promised };
        let survivors = state.closure(winners(state, found) | promised);
        let all = (1u16 << state.count()) - 1;
        state.dead |= all as Writes & !survivors;
        // What was found is as good as answered, in every mode: the window of what came before the crash has passed.
        (state.promised, state.promised_power) = (survivors, survivors);
        state.earlier = 0;
    }
}

/// The key's value for readers: the number of its write, or 0.
fn value(state: &State, found: &Found, key: usize) -> Number {
    let write = found.winners[key].write();
    let live =
        write != 0 && state.write(write).kind != Kind::Delete && !state.is_flushed(found.flush, write, key);
    if live { write } else { 0 }
}

/// The writes that take effect.
fn winners(state: &State, found: &Found) -> Writes {
    let mut all = only(found.flush);
    for (key, winner) in found.winners.iter().enumerate() {
        if !state.is_flushed(found.flush, winner.write(), key) {
            all |= only(winner.write());
        }
    }
    all
}

/// The newest write of a set that concerns a key.
fn newest(state: &State, set: Writes, key: usize) -> Number {
    let concerns = |number: &Number| {
        let write = state.write(*number);
        set & only(*number) != 0 && (write.kind == Kind::SetBoth || usize::from(write.key) == key)
    };
    (1..=state.count()).filter(concerns).max_by_key(|number| (state.version(*number), *number)).unwrap_or(0)
}
