//! Puts, blind ones included, what becomes of their unread candidates, and the count of records.

use super::{Hot, PAGES, Step, content};
use crate::bug::Bug;
use crate::protocol::Protocol;
use crate::state::*;

impl Protocol {
    /// Whether a set may go without reading: nothing of the key is in DRAM, and a candidate lies on a page.
    pub(crate) fn may_set_blindly(&self, state: &State, key: usize) -> bool {
        self.bounds.blind && state.dram.slab.hot[key].write == 0 && self.candidate(state, key).is_some()
    }

    /// What a lookup that does not read finds first: the key's own record, or another one with the same hash.
    fn candidate(&self, state: &State, key: usize) -> Option<Record> {
        let low = &state.dram.slab.low;
        let keys = [key, KEYS - 1 - key];
        let found = keys[..1 + usize::from(self.bounds.collide)].iter().map(|key| low[*key]);
        found.into_iter().find(|location| *location >= PAGES).map(|location| content(state, location))
    }

    /// Whether a record counts: no tombstone, and not forgotten.
    fn is_counted(&self, state: &State, record: Record) -> bool {
        let (write, key) = parts(record);
        write != 0
            && state.write(write).kind != Kind::Delete
            && !state.is_flushed(state.dram.flush, write, key)
    }

    /// `Records::put`: in place of the record in DRAM, whose home is given up; else new. Returns the round.
    pub(crate) fn slab_put(&self, state: &mut State, write: Number, key: usize, blind: bool) -> u8 {
        let old = state.dram.slab.hot[key];
        let low = content(state, state.dram.slab.low[key]);
        let candidate = self.candidate(state, key);
        let round = state.dram.slab.round.max(1);
        state.dram.slab.round = round;
        let mut new = Hot { write, stamp: round, ..Hot::default() };
        let mut counted = false;
        if old.write != 0 {
            counted = self.is_counted(state, record(old.write, key));
            let forgotten = state.is_flushed(state.dram.flush, old.write, key);
            (new.unsettled, new.half) = (old.unsettled, old.half);
            new.assumed_live = old.assumed_live & u8::from(!forgotten || self.has(Bug::FlushKeepsAssumption));
            if self.has(Bug::FlagLostByDelete) && state.write(write).kind == Kind::Delete {
                (new.unsettled, new.assumed_live) = (0, 0);
            }
        } else if let Some(unread) = candidate.filter(|_| blind) {
            counted = self.is_counted(state, unread);
            (new.unsettled, new.assumed_live) = (1, u8::from(counted));
        } else {
            counted |= self.is_counted(state, low);
            state.dram.slab.low[key] = 0;
        }
        let now = self.is_counted(state, record(write, key));
        let slab = &mut state.dram.slab;
        slab.count[key] += i8::from(now) - i8::from(counted);
        slab.hot[key] = new;
        round
    }

    pub(super) fn blind_steps(&self, state: &State, out: &mut Vec<Step>) {
        for (key, hot) in state.dram.slab.hot.iter().enumerate() {
            if hot.unsettled == 1 {
                out.push(Step::Settle(key as u8));
            }
            let write = super::current(state, key);
            if write != 0 && state.is_flushed(state.dram.flush, write, key) {
                out.push(Step::Purge(key as u8));
            }
        }
    }

    /// The candidates are read: an older version of the key leaves the index, and the count is put right.
    pub(super) fn settle_key(&self, state: &mut State, key: usize) {
        let hot = state.dram.slab.hot[key];
        let low = content(state, state.dram.slab.low[key]);
        let found = low != 0 && self.is_counted(state, low);
        let forgotten = state.is_flushed(state.dram.flush, hot.write, key);
        let slab = &mut state.dram.slab;
        if !forgotten || self.has(Bug::ForgottenRecounted) {
            slab.count[key] += hot.assumed_live as i8 - i8::from(found);
        }
        slab.low[key] = 0;
        (slab.hot[key].unsettled, slab.hot[key].assumed_live) = (0, 0);
    }
}
