//! The space: pages, blocks, the manifest, reclamation of log and blocks (`space-hybrid-log`, `engine/src/machine.rs`).

use crate::bug::Bug;
use crate::positions::Level;
use crate::protocol::{Action, Protocol, Written};
use crate::state::*;

impl Protocol {
    /// Whether `records` records fit in the open page, a new one, or in place of a key's old record.
    pub(crate) fn has_room(&self, state: &State, key: Option<usize>, records: usize) -> bool {
        if self.bounds.slab {
            return true;
        }
        let in_place = key.is_some_and(|key| mutable(state, state.dram.index[key].seq).is_some());
        in_place
            || open_page(state, records).is_some()
            || (self.may_begin(state) && self.free_slot(state).is_some())
    }

    fn free_slot(&self, state: &State) -> Option<usize> {
        let slots = &state.dram.slots[..usize::from(self.bounds.slots)];
        slots.iter().position(|slot| slot.state == Use::Free)
    }

    fn may_begin(&self, state: &State) -> bool {
        self.bounds.pages == 0 || state.dram.last_seq < self.bounds.pages
    }

    /// `HybridLog::put_record`: in place of the old record if its page is mutable, else appended. Returns the page's number.
    pub(crate) fn put(&self, state: &mut State, write: Number, key: usize, in_place: bool) -> u8 {
        let old = state.dram.index[key];
        let new = record(write, key);
        let slot = mutable(state, old.seq).filter(|_| in_place && old.write != 0);
        let slot = match slot {
            Some(slot) => {
                let records = &mut state.dram.slots[slot].records;
                records.iter_mut().filter(|r| **r == record(old.write, key)).for_each(|r| *r = new);
                slot
            }
            None => self.append_record(state, new),
        };
        let seq = state.dram.slots[slot].seq;
        state.dram.index[key] = Entry { write, seq };
        seq
    }

    /// Appends to the open page, or begins one; there is room.
    pub(crate) fn append_record(&self, state: &mut State, new: Record) -> usize {
        let slot = open_page(state, 1).unwrap_or_else(|| {
            let slot = self.free_slot(state).unwrap_or(SLOTS - 1);
            state.dram.last_seq += 1;
            let seq = state.dram.last_seq;
            state.dram.slots[slot] = Slot { state: Use::Mutable, seq, ..Slot::default() };
            slot
        });
        let records = &mut state.dram.slots[slot].records;
        if let Some(place) = records.iter_mut().find(|record| **record == 0) {
            *place = new;
        }
        slot
    }

    /// `HybridLog::persisted_seq`.
    pub(crate) fn persisted(&self, state: &State) -> u8 {
        let early = self.has(Bug::PersistedEarly) && state.dram.flushing.written == 1;
        let skip = if early { state.dram.flushing.what } else { 0 };
        let unsealed = |slot: &(usize, &Slot)| {
            matches!(slot.1.state, Use::Mutable | Use::ReadOnly) && slot.0 + 1 != usize::from(skip)
        };
        let oldest = state.dram.slots.iter().enumerate().filter(unsealed).map(|(_, slot)| slot.seq).min();
        oldest.map_or(state.dram.last_seq, |seq| seq - 1)
    }

    pub(crate) fn tier_actions(&self, state: &State, out: &mut Vec<Action>) {
        let dram = &state.dram;
        if dram.flushing.what == 0 {
            if oldest_mutable(state).is_some() {
                out.push(Action::TurnReadOnly);
            }
        } else if dram.flushing.written == 0
            && (self.has(Bug::SealWithoutBarrier) || self.passed(state, &dram.flushing.barrier))
        {
            out.push(Action::WriteBlock);
        }
        self.sync_actions(state, out);
        if state.manifest_new.0 == 0 {
            let now = self.manifest_now(state);
            if now != state.manifest {
                out.push(Action::WriteManifest);
            }
            let persisted = self.has(Bug::FloorEarly) || self.persisted(state) >= dram.floor.seq;
            if dram.floor.what != 0 && persisted && self.passed(state, &dram.floor.barrier) {
                out.push(Action::WriteFloor);
            }
        }
        if dram.floor.what == 0 && state.clock > state.manifest.floor {
            out.push(Action::TakeFloor);
        }
        for session in 0..SESSIONS {
            if self.may_free_group(state, session) {
                out.push(Action::FreeGroup(session as u8));
            }
        }
        for key in 0..KEYS {
            if self.may_drop_tombstone(state, key) {
                out.push(Action::DropTombstone(key as u8));
            }
        }
        for (number, slot) in dram.slots.iter().enumerate() {
            if slot.state != Use::Sealed || dram.freeing.what != 0 {
                continue;
            }
            let live = self.live(state, slot);
            if live == 0 {
                out.push(Action::BeginFreeing(number as u8));
            } else if slot.records.iter().filter(|record| **record != 0).count() > live
                && (open_page(state, live).is_some()
                    || (self.may_begin(state) && self.free_slot(state).is_some()))
            {
                out.push(Action::MoveLive(number as u8));
            }
        }
        if dram.freeing.what != 0 && dram.freeing.written == 0 {
            let moved = self.has(Bug::MovedNotPersisted) || dram.freeing.seq <= state.manifest.persisted;
            let safe = self.has(Bug::ClearedWithoutBarrier) || self.passed(state, &dram.freeing.barrier);
            if moved && safe {
                out.push(Action::ClearBlock);
            }
        }
    }

    fn sync_actions(&self, state: &State, out: &mut Vec<Action>) {
        let block = state.dram.flushing.written == 1;
        let clearing = state.dram.freeing.written == 1;
        let manifest = state.manifest_new.0 == 1;
        if self.is_byte() {
            let each =
                [(block, Written::Block), (clearing, Written::Clearing), (manifest, Written::Manifest)];
            out.extend(each.into_iter().filter(|(is, _)| *is).map(|(_, what)| Action::SyncTier(what)));
        } else if block || clearing || manifest || state.tier.iter().any(|place| place.change != Change::None)
        {
            out.push(Action::SyncTier(Written::All));
        }
    }

    /// Records of a slot that the index refers to and no whole-database flush has forgotten.
    fn live(&self, state: &State, slot: &Slot) -> usize {
        let is_live = |record: &&Record| {
            let (write, key) = parts(**record);
            write != 0
                && state.dram.index[key] == (Entry { write, seq: slot.seq })
                && !state.is_flushed(state.dram.flush, write, key)
        };
        slot.records.iter().filter(is_live).count()
    }

    pub(crate) fn turn_read_only(&self, state: &mut State) {
        if let Some(slot) = oldest_mutable(state) {
            state.dram.slots[slot].state = Use::ReadOnly;
            let barrier = state.dram.issued;
            state.dram.flushing = Pending { what: slot as u8 + 1, barrier, ..Pending::default() };
        }
    }

    /// `Blocks::draw` and `Lower::write`.
    pub(crate) fn write_block(&self, state: &mut State) {
        let slot = usize::from(state.dram.flushing.what - 1);
        let Slot { seq, records, .. } = state.dram.slots[slot];
        state.tier[slot].change = Change::Image;
        state.tier[slot].new = Image { seq, torn: 0, records };
        state.dram.flushing.written = 1;
        state.dram.flushing.barrier = Positions::default();
    }

    /// `Lower::sync`, and what each caller does when it returns.
    pub(crate) fn sync_tier(&self, state: &mut State, what: Written) {
        let all = what == Written::All;
        if all {
            for place in &mut state.tier {
                settle(place);
            }
        }
        if (all || what == Written::Block) && state.dram.flushing.written == 1 {
            let slot = usize::from(state.dram.flushing.what - 1);
            settle(&mut state.tier[slot]);
            state.dram.slots[slot].state = Use::Sealed;
            state.dram.flushing = Pending::default();
        }
        if (all || what == Written::Clearing) && state.dram.freeing.written == 1 {
            let slot = usize::from(state.dram.freeing.what - 1);
            settle(&mut state.tier[slot]);
            state.dram.slots[slot] = Slot::default();
            state.dram.freeing = Pending::default();
        }
        if (all || what == Written::Manifest) && state.manifest_new.0 == 1 {
            state.manifest = state.manifest_new.1;
            state.manifest_new = Default::default();
        }
    }

    /// `Machine::save_manifest`: what is true now.
    pub(crate) fn manifest_now(&self, state: &State) -> Manifest {
        let mut manifest = state.manifest;
        manifest.persisted = manifest.persisted.max(self.persisted(state));
        let flush = state.dram.flush;
        if flush != 0 {
            let settled = self.settled(state, Level::Power)[usize::from(state.write(flush).session)];
            if settled >= state.version(flush) || self.has(Bug::FlushStoredEarly) {
                manifest.flush = flush;
            }
        }
        manifest
    }

    pub(crate) fn write_manifest(&self, state: &mut State, floor: bool) {
        let mut manifest = self.manifest_now(state);
        if floor {
            if manifest.flush == state.dram.flush || self.has(Bug::FlushReclaimed) {
                manifest.floor = manifest.floor.max(state.dram.floor.what - 1);
            }
            state.dram.floor = Pending::default();
        }
        state.manifest_new = (1, manifest);
    }

    /// `Machine::floor_step`: all versions up to now lie in pages up to the newest one.
    pub(crate) fn take_floor(&self, state: &mut State) {
        let seq = if self.bounds.slab { state.dram.slab.round } else { state.dram.last_seq };
        let barrier = state.dram.issued;
        state.dram.floor = Pending { what: state.clock + 1, written: 0, seq, barrier };
    }

    /// `Table::may_free`, `Machine::free_log`.
    pub(crate) fn may_free_group(&self, state: &State, session: usize) -> bool {
        let mut groups = state.groups(session).skip_while(|group| group.at == At::Freed);
        let Some(group) = groups.next() else { return false };
        let mut persisted = self.persisted(state).min(state.manifest.persisted);
        if self.bounds.slab {
            // Of `tac`, groups know the round of their records.
            persisted = state.dram.slab.retired;
        }
        if self.has(Bug::LogFreedEarly) && state.dram.flushing.written == 1 {
            persisted = state.dram.slots[usize::from(state.dram.flushing.what - 1)].seq;
        }
        let flush_stored = state.manifest.flush == state.dram.flush || self.has(Bug::FlushReclaimed);
        let known = match groups.next() {
            Some(next) => matches!(next.at, At::Durable | At::Presumed),
            None => state.group_version(group) <= state.manifest.floor,
        };
        group.at == At::Durable && group.max_seq <= persisted && flush_stored && known
    }

    pub(crate) fn free_group(&self, state: &mut State, session: usize) {
        if let Some(group) = state.log[session].iter_mut().find(|group| group.at != At::Freed) {
            group.at = At::Freed;
            let write = group.write;
            let base = state.version(write);
            state.dram.base[session] = state.dram.base[session].max(base);
        }
    }

    /// `Blocks::sweep_step`: collect, strike off, drop.
    fn may_drop_tombstone(&self, state: &State, key: usize) -> bool {
        let Entry { write, seq } = state.dram.index[key];
        if write == 0 || state.write(write).kind != Kind::Delete {
            return false;
        }
        let version = state.version(write);
        let sealed = state.dram.slots.iter().any(|slot| slot.seq == seq && slot.state == Use::Sealed);
        let below = version <= state.manifest.floor || self.has(Bug::TombstoneAboveFloor);
        let older = |record: &Record| {
            let (write, of) = parts(*record);
            write != 0 && of == key && state.version(write) < version
        };
        let in_dram = state.dram.slots.iter().flat_map(|slot| &slot.records).any(older);
        let on_medium = state.tier.iter().any(|place| visible(place).records.iter().any(older));
        sealed && below && (self.has(Bug::TombstoneDroppedEarly) || !(in_dram || on_medium))
    }

    pub(crate) fn begin_freeing(&self, state: &mut State, slot: usize) {
        let seq = state.dram.slots[slot].seq;
        for entry in state.dram.index.iter_mut().filter(|entry| entry.seq == seq) {
            // Forgotten by a whole-database flush: purged.
            *entry = Entry::default();
        }
        state.dram.slots[slot].state = Use::Freeing;
        let (seq, barrier) = (state.dram.moved_seq, state.dram.issued);
        state.dram.freeing = Pending { what: slot as u8 + 1, written: 0, seq, barrier };
    }

    /// `Blocks::free_ready`, up to its sync.
    pub(crate) fn clear_block(&self, state: &mut State) {
        let slot = usize::from(state.dram.freeing.what - 1);
        state.tier[slot].change = Change::Cleared;
        state.tier[slot].new = Image::default();
        if self.has(Bug::ReusedBeforeCleared) {
            state.dram.slots[slot] = Slot::default();
            state.dram.freeing = Pending::default();
        } else {
            state.dram.freeing.written = 1;
        }
    }

    /// `HybridLog::move_live`, then `begin_freeing`.
    pub(crate) fn move_live(&self, state: &mut State, slot: usize) {
        let Slot { seq, records, .. } = state.dram.slots[slot];
        for old in records {
            let (write, key) = parts(old);
            if write == 0
                || state.dram.index[key] != (Entry { write, seq })
                || state.is_flushed(state.dram.flush, write, key)
            {
                continue;
            }
            let to = self.append_record(state, old);
            let seq = state.dram.slots[to].seq;
            state.dram.index[key] = Entry { write, seq };
            state.dram.moved_seq = state.dram.moved_seq.max(seq);
        }
        self.begin_freeing(state, slot);
    }
}

/// What reading a place gives while the machine runs.
pub(crate) fn visible(place: &Place) -> Image {
    match place.change {
        Change::None => place.durable,
        Change::Image | Change::Cleared => place.new,
    }
}

/// What was written to a place is safe now.
pub(crate) fn settle(place: &mut Place) {
    *place = Place { durable: visible(place), ..Place::default() };
}

fn mutable(state: &State, seq: u8) -> Option<usize> {
    let is = |slot: &Slot| seq != 0 && slot.seq == seq && slot.state == Use::Mutable;
    state.dram.slots.iter().position(is)
}

fn open_page(state: &State, records: usize) -> Option<usize> {
    let fits = |slot: &Slot| {
        slot.state == Use::Mutable && slot.records.iter().filter(|record| **record == 0).count() >= records
    };
    state.dram.slots.iter().position(fits)
}

fn oldest_mutable(state: &State) -> Option<usize> {
    let slots = state.dram.slots.iter().enumerate();
    slots.filter(|(_, slot)| slot.state == Use::Mutable).min_by_key(|(_, slot)| slot.seq).map(|(i, _)| i)
}
