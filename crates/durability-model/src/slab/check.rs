//! What must hold in every state of an open store.

use super::current;
use crate::protocol::Protocol;
use crate::state::*;

impl Protocol {
    /// The index yields the newest version of each key, and what is settled is counted right.
    pub(crate) fn check_slab(&self, state: &mut State) {
        for key in 0..KEYS {
            let write = current(state, key);
            state.dram.index[key].write = write;
            let newest = newest(state, key);
            let gone = newest == 0
                || state.write(newest).kind == Kind::Delete
                || state.is_flushed(state.dram.flush, newest, key);
            if write != newest && !(write == 0 && gone) {
                state.broken = Broken::Stale;
            }
            let slab = &state.dram.slab;
            if slab.hot[key].unsettled == 0 && slab.count[key] != i8::from(!gone) {
                state.broken = Broken::Count;
            }
        }
    }
}

/// The newest write of a key that happened.
fn newest(state: &State, key: usize) -> Number {
    let concerns = |number: &Number| {
        let write = state.write(*number);
        state.dead & only(*number) == 0
            && write.kind != Kind::Flush
            && (write.kind == Kind::SetBoth || usize::from(write.key) == key)
    };
    (1..=state.count()).filter(concerns).max_by_key(|number| state.version(*number)).unwrap_or(0)
}
