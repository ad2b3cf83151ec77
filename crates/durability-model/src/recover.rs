//! Opening after a crash, step by step, so that it can be cut off too (`log/src/open.rs`, `judge.rs`,
//! `engine/src/recover.rs`, `blocks/src/scan.rs`).

use crate::bug::Bug;
use crate::crash::tidy;
use crate::protocol::{Protocol, drop_freed};
use crate::state::*;
use crate::tier::{settle, visible};

/// Where a key's newest record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Winner {
    None,
    Block { write: Number, slot: usize },
    Slot { write: Number, slot: usize },
    Log { write: Number },
}

impl Winner {
    pub(crate) fn write(self) -> Number {
        match self {
            Winner::None => 0,
            Winner::Block { write, .. } | Winner::Slot { write, .. } | Winner::Log { write } => write,
        }
    }
}

/// What an opening finds.
pub(crate) struct Found {
    /// By session, which of its groups count.
    pub counts: [[bool; GROUPS]; SESSIONS],
    /// By key; those that a whole-database flush has forgotten too.
    pub winners: [Winner; KEYS],
    /// The newest whole-database flush.
    pub flush: Number,
    /// What was safe once seems to be damaged.
    pub damage: bool,
    /// The newest version found anywhere.
    pub newest: u8,
    /// The highest sequence number found.
    pub last_seq: u8,
}

impl Protocol {
    /// The next step.
    pub(crate) fn open(&self, state: &mut State) {
        match state.phase {
            Phase::Open | Phase::Refused => {}
            Phase::Down => {
                let found = self.find(state);
                if found.damage && state.rotten == 1 {
                    state.phase = Phase::Refused;
                    return;
                }
                state.broken = self.verdict(state, &found);
                for (log, counts) in state.log.iter_mut().zip(&found.counts) {
                    for (group, counts) in log.iter_mut().zip(counts) {
                        if !counts && matches!(group.at, At::Written | At::Durable) {
                            group.at = At::Cut;
                        }
                    }
                }
                state.phase = Phase::Judged;
            }
            Phase::Judged => {
                self.sync_log(state);
                state.phase = Phase::LogReady;
            }
            Phase::LogReady => {
                state.dram.last_seq = self.find(state).last_seq;
                if !self.has(Bug::FoundBlocksNotPersisted) {
                    settle_all(state);
                }
                self.secure_slots(state);
                clear_torn(state);
                state.phase = Phase::Trusting;
            }
            Phase::Trusting => {
                self.sync_opening(state, false);
                self.trust_found(state);
                self.clear_unadopted(state);
                state.phase = Phase::Clearing;
            }
            Phase::Clearing => {
                self.sync_opening(state, false);
                self.fence_cleared_slots(state);
                state.phase = Phase::TierReady;
            }
            Phase::TierReady => {
                let found = self.find(state);
                let manifest = seen_manifest(state);
                let flush = if found.flush != 0 { found.flush } else { manifest.flush };
                let persisted = manifest.persisted.max(state.dram.last_seq);
                state.manifest_new = (1, Manifest { persisted, flush, ..manifest });
                state.phase = Phase::Storing;
            }
            Phase::Storing => {
                self.sync_opening(state, true);
                self.go_on(state);
            }
        }
    }

    /// What the media hold.
    pub(crate) fn find(&self, state: &State) -> Found {
        let manifest = seen_manifest(state);
        let (counts, mut damage) = self.judge(state, manifest.floor);
        let mut found = Found {
            counts,
            winners: [Winner::None; KEYS],
            flush: manifest.flush,
            damage: false,
            newest: 0,
            last_seq: manifest.persisted,
        };
        self.find_in_slots(state, &mut found);
        damage |= found.damage;
        let Found { mut winners, mut newest, mut last_seq, .. } = found;
        for (slot, place) in state.tier.iter().enumerate() {
            let image = visible(place);
            last_seq = last_seq.max(image.seq);
            damage |= image.torn == 1 && image.seq <= manifest.persisted;
            if image.torn == 1 {
                continue;
            }
            for &held in image.records.iter().filter(|held| **held != 0) {
                let (write, key) = parts(held);
                newest = newest.max(state.version(write));
                // Which of two equal versions it is depends on where they lie: the newer page's is the worse.
                let tie = matches!(winners[key], Winner::Block { write: w, slot } if w == write
                        && visible(&state.tier[slot]).seq < image.seq);
                if tie || state.version(winners[key].write()) < state.version(write) {
                    winners[key] = Winner::Block { write, slot };
                }
            }
        }
        let mut flush = manifest.flush;
        for (log, counts) in state.log.iter().zip(&counts) {
            for (group, _) in log.iter().zip(counts).filter(|(_, counts)| **counts) {
                let Write { kind, version, key, .. } = *state.write(group.write);
                newest = newest.max(version);
                if kind == Kind::Flush && version > state.version(flush) {
                    flush = group.write;
                }
                let keys = match (kind, group.part) {
                    (Kind::Flush, _) => 0..0,
                    (Kind::SetBoth, 0) => 0..2,
                    (Kind::SetBoth, part) => usize::from(part) - 1..usize::from(part),
                    _ => usize::from(key)..usize::from(key) + 1,
                };
                for key in keys {
                    let prefer_block =
                        self.has(Bug::OlderVersionServed) && matches!(winners[key], Winner::Block { .. });
                    let newer = state.version(winners[key].write()) < version && !prefer_block;
                    if version > manifest.floor && newer {
                        winners[key] = Winner::Log { write: group.write };
                    }
                }
            }
        }
        Found { counts, winners, flush, damage, newest, last_seq }
    }

    /// `SlotScan::new` and `cut`: the groups that count, and whether a claim says that something is missing.
    fn judge(&self, state: &State, floor: u8) -> ([[bool; GROUPS]; SESSIONS], bool) {
        let mut counts = [[false; GROUPS]; SESSIONS];
        let mut positions = Positions::default();
        for session in 0..SESSIONS {
            let (mut last, mut is_open) = (None, false);
            let mut lost = false;
            for (i, group) in state.groups(session).enumerate() {
                lost |= group.at == At::Lost;
                if !matches!(group.at, At::Written | At::Durable) {
                    continue;
                }
                let follows = match last {
                    // Its predecessor was freed, or there never was one.
                    None => !lost || group.first == 1,
                    // Each record of a step has a version of its own: nothing else follows half of one.
                    Some(last) => group.before == last && (!is_open || group.part == 2),
                };
                if !follows {
                    break;
                }
                counts[session][i] = true;
                positions[session] = state.group_version(group);
                (last, is_open) = (Some(positions[session]), group.part == 1);
            }
            self.cut_open(state, session, &mut counts[session], &mut positions[session]);
        }
        loop {
            let mut changed = false;
            for session in (0..SESSIONS).rev() {
                let unmet = |(i, group): &(usize, &Group)| {
                    let met = |other: usize| {
                        let need = group.needs[other];
                        need <= floor.max(positions[other])
                    };
                    counts[session][*i] && !(0..SESSIONS).all(met)
                };
                if let Some((first, group)) = state.groups(session).enumerate().find(unmet) {
                    positions[session] = group.before;
                    counts[session][first..].fill(false);
                    self.cut_open(state, session, &mut counts[session], &mut positions[session]);
                    changed = true;
                }
            }
            if !changed || self.has(Bug::CutNotTransitive) {
                break;
            }
        }
        let damage = |session: usize| {
            let whole = state.groups(session).filter(|group| matches!(group.at, At::Written | At::Durable));
            if positions[session] == 0 {
                // Nothing says where the slot stood, but for a group that claims all before it.
                return whole.into_iter().any(|group| group.claim > 0 && group.claim >= group.before);
            }
            whole.map(|group| group.claim).max().unwrap_or(0) > positions[session]
        };
        (counts, (0..SESSIONS).any(damage))
    }

    /// `SlotScan::cut_open`: the last group counts only if its step ends with it.
    fn cut_open(&self, state: &State, session: usize, counts: &mut [bool; GROUPS], position: &mut u8) {
        let last = state.groups(session).enumerate().filter(|(i, _)| counts[*i]).last();
        if let Some((i, group)) = last
            && group.part == 1
            && !self.has(Bug::HalfGroup)
        {
            counts[i] = false;
            *position = group.before;
        }
    }

    /// `Log::open`: what was found is made safe, and so is the cut.
    fn sync_log(&self, state: &mut State) {
        for session in 0..SESSIONS {
            drop_freed(state, session);
            for group in &mut state.log[session] {
                match group.at {
                    At::Written if !self.has(Bug::FoundLogNotPersisted) => group.at = At::Durable,
                    At::Cut if !self.has(Bug::CutNotDurable) => group.at = At::Nowhere,
                    // Nothing that follows it is left.
                    At::Lost => group.at = At::Nowhere,
                    _ => {}
                }
            }
            tidy(&mut state.log[session]);
        }
    }

    /// A sync or fence of an opening. A fence covers what this process stored, not what the dead one did.
    fn sync_opening(&self, state: &mut State, manifest: bool) {
        if !(self.is_byte() && self.has(Bug::FoundBlocksNotPersisted)) {
            let cleared = state.tier.iter().any(|place| place.change == Change::Cleared);
            if manifest || cleared {
                settle_all(state);
            }
            return;
        }
        for place in state.tier.iter_mut().filter(|place| place.change == Change::Cleared) {
            settle(place);
        }
        if manifest {
            state.manifest = state.manifest_new.1;
            state.manifest_new = Default::default();
        }
    }

    /// The manifest trusts the pages that were found before anything is cleared on their account.
    fn trust_found(&self, state: &mut State) {
        if !self.has(Bug::FoundClearedBeforeTrust) {
            state.manifest.persisted = state.manifest.persisted.max(state.dram.last_seq);
        }
    }

    /// `Blocks::clear_unadopted`: blocks that no winner lies in.
    fn clear_unadopted(&self, state: &mut State) {
        let found = self.find(state);
        self.clear_unadopted_slots(state, &found);
        for slot in 0..SLOTS {
            let adopted = |(key, winner): (usize, &Winner)| {
                matches!(winner, Winner::Block { write, slot: at }
                    if *at == slot && !state.is_flushed(found.flush, *write, key))
            };
            if visible(&state.tier[slot]).seq != 0 && !found.winners.iter().enumerate().any(adopted) {
                let place = &mut state.tier[slot];
                (place.change, place.new) = (Change::Cleared, Image::default());
            }
        }
    }

    /// The end of `Machine::open`: DRAM is made, sessions go on.
    fn go_on(&self, state: &mut State) {
        let found = self.find(state);
        let last_seq = found.last_seq.max(state.manifest.persisted);
        state.dram = Dram { last_seq, flush: found.flush, ..Dram::default() };
        if self.has(Bug::VersionFloorLost) {
            state.clock = found.newest.max(state.version(found.flush));
        }
        for (slot, place) in state.tier.iter().enumerate() {
            let Image { seq, records, .. } = visible(place);
            if seq != 0 {
                state.dram.slots[slot] = Slot { state: Use::Sealed, seq, records };
            }
        }
        if self.bounds.slab {
            self.go_on_with_slots(state, &found);
            self.resume(state, &found);
            return;
        }
        let mut restored: [(u8, usize, Number); KEYS] = Default::default();
        for (key, winner) in found.winners.iter().enumerate() {
            if state.is_flushed(found.flush, winner.write(), key) {
                continue;
            }
            match *winner {
                Winner::Block { write, slot } => {
                    state.dram.index[key] = Entry { write, seq: state.dram.slots[slot].seq };
                }
                Winner::Log { write } => restored[key] = (state.version(write), key, write),
                Winner::None | Winner::Slot { .. } => {}
            }
        }
        restored.sort_unstable();
        for (_, key, write) in restored.into_iter().filter(|(version, ..)| *version != 0) {
            let slot = self.append_record(state, record(write, key));
            state.dram.index[key] = Entry { write, seq: state.dram.slots[slot].seq };
        }
        let retired = if self.has(Bug::ReplayRetiredEarly) { 0 } else { state.dram.last_seq };
        for group in state.log.iter_mut().flatten().filter(|group| group.at != At::Nowhere) {
            group.max_seq = retired;
        }
        self.resume(state, &found);
    }

    /// Sessions go on from what was found.
    fn resume(&self, state: &mut State, found: &Found) {
        state.dram.base = [state.clock; SESSIONS];
        state.dram.issued = state.dram.base;
        self.remember(state, found);
        state.power_failed = 0;
        state.phase = Phase::Open;
    }
}

/// Torn pages are no pages, and must not be trusted as such.
/// `Blocks::clear_torn`.
fn clear_torn(state: &mut State) {
    for place in state.tier.iter_mut().filter(|place| visible(place).torn == 1) {
        (place.change, place.new) = (Change::Cleared, Image::default());
    }
}

fn settle_all(state: &mut State) {
    state.tier.iter_mut().for_each(settle);
    state.manifest = seen_manifest(state);
    state.manifest_new = Default::default();
}

/// The newest manifest that can be read.
fn seen_manifest(state: &State) -> Manifest {
    if state.manifest_new.0 == 1 { state.manifest_new.1 } else { state.manifest }
}
