//! Sessions: operations, groups, dependencies, and the syncs that make groups durable.

use crate::bug::Bug;
use crate::positions::{Level, physical};
use crate::protocol::{Action, Op, Protocol};
use crate::state::*;

impl Protocol {
    pub(crate) fn session_actions(&self, state: &State, out: &mut Vec<Action>) {
        let sessions = self.bounds.sessions.min(state.used[0] + 1);
        for number in 0..sessions {
            match state.dram.sessions[usize::from(number)].turn {
                Turn::Idle => self.op_actions(state, number, out),
                Turn::Published if has_log_room(state, usize::from(number)) => {
                    out.push(Action::StartWrite(number));
                }
                Turn::Published => {}
                Turn::Writing => out.push(Action::FinishWrite(number)),
            }
        }
    }

    fn op_actions(&self, state: &State, session: u8, out: &mut Vec<Action>) {
        if state.dram.tickets[TICKETS - 1].session != 0 {
            return;
        }
        // Flushes tell the keys apart.
        let known_keys = if self.bounds.flushes { self.bounds.keys } else { state.used[1] + 1 };
        let keys = self.bounds.keys.min(known_keys);
        let writes = state.count() < self.bounds.writes;
        let known = |key: u8| state.dram.index[usize::from(key)].write != 0 || state.dram.flush != 0;
        for key in 0..keys {
            if state.reads < self.bounds.reads && known(key) {
                out.push(Action::Run(session, Op::Get(key)));
            }
            if !writes {
                continue;
            }
            if self.bounds.slab && self.may_set_blindly(state, usize::from(key)) {
                out.push(Action::Run(session, Op::SetBlindly(key)));
            }
            if self.has_room(state, Some(usize::from(key)), 1) {
                out.push(Action::Run(session, Op::Set(key)));
                if self.bounds.deletes && self.is_live(state, usize::from(key)) {
                    out.push(Action::Run(session, Op::Delete(key)));
                }
            }
        }
        if writes && self.bounds.atomic && self.bounds.keys == 2 && self.has_room(state, None, 2) {
            out.push(Action::Run(session, Op::SetBoth));
        }
        if writes && self.bounds.flushes && state.used[1] > 0 {
            out.push(Action::Run(session, Op::Flush));
        }
    }

    /// Whether a key is there, for readers.
    fn is_live(&self, state: &State, key: usize) -> bool {
        let write = state.dram.index[key].write;
        write != 0
            && state.write(write).kind != Kind::Delete
            && !state.is_flushed(state.dram.flush, write, key)
    }

    /// `Core::update`, `get`, `atomic` and `flush`: one critical section.
    pub(crate) fn run(&self, state: &mut State, session: usize, op: Op) {
        state.used[0] = state.used[0].max(session as u8 + 1);
        let mut seen = Seen::default();
        if state.dram.flush != 0 {
            seen.note(state, state.dram.flush);
        }
        let (keys, kind) = match op {
            Op::Get(key) => (key..key + 1, None),
            Op::Set(key) | Op::SetBlindly(key) => (key..key + 1, Some(Kind::Set)),
            Op::Delete(key) => (key..key + 1, Some(Kind::Delete)),
            Op::SetBoth => (0..2, Some(Kind::SetBoth)),
            Op::Flush => (0..0, Some(Kind::Flush)),
        };
        state.used[1] = state.used[1].max(keys.end);
        let blind = matches!(op, Op::SetBlindly(_));
        for key in keys.clone().filter(|_| !blind) {
            let write = state.dram.index[usize::from(key)].write;
            if write != 0 {
                let miss = kind.is_none() && !self.is_live(state, usize::from(key));
                seen.know(state, write);
                if !(miss && self.has(Bug::MissNotRecorded)) {
                    seen.note(state, write);
                }
            }
        }
        // Under `batch` too: once the window has passed, what is written and not synced must be waited for.
        let process = self.is_batch() && self.has(Bug::WindowIgnoresReaders);
        let settled = self.settled(state, if process { Level::Process } else { Level::Power });
        let mut ticket = Ticket { session: session as u8 + 1, promise: seen.all, ..Ticket::default() };
        for (other, &version) in seen.versions.iter().enumerate() {
            if other == session {
                ticket.own = version;
            } else if version > settled[other] {
                ticket.seen[other] = version;
            }
        }
        let mine = &mut state.dram.sessions[session];
        mine.past |= seen.all;
        if kind.is_some() || !self.has(Bug::EarlierBatchesForgotten) {
            for (need, &version) in mine.need.iter_mut().zip(&seen.versions) {
                *need = version.max(*need);
            }
        }
        match kind {
            None => state.reads += 1,
            Some(kind) => {
                let number = self.publish(state, session, kind, (keys.start, blind));
                ticket.own = state.version(number);
                ticket.promise = only(number) | state.write(number).past;
                if kind == Kind::Flush && self.has(Bug::FlushNotLogged) {
                    ticket.own = 0;
                }
            }
        }
        state.dram.tickets[TICKETS - 1] = ticket;
        state.dram.tickets.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Gives the write a version, puts its records and issues it.
    fn publish(&self, state: &mut State, session: usize, kind: Kind, (key, blind): (u8, bool)) -> Number {
        state.clock += 1;
        let number = state.count() + 1;
        let past = state.dram.sessions[session].past;
        state.writes[usize::from(number) - 1] =
            Write { session: session as u8, kind, key, version: state.clock, past };
        let max_seq = match kind {
            Kind::Set | Kind::Delete if self.bounds.slab => {
                self.slab_put(state, number, usize::from(key), blind)
            }
            Kind::SetBoth if self.bounds.slab => {
                (0..KEYS).fold(0, |round, key| self.slab_put(state, number, key, false).max(round))
            }
            Kind::Set | Kind::Delete => self.put(state, number, usize::from(key), true),
            Kind::SetBoth => self.put(state, number, 0, false).max(self.put(state, number, 1, false)),
            Kind::Flush => {
                state.dram.flush = number;
                state.dram.slab.count[0] = 0;
                0
            }
        };
        state.dram.issued[session] = state.clock;
        let mine = &mut state.dram.sessions[session];
        mine.past |= only(number);
        if kind == Kind::Flush && self.has(Bug::FlushNotLogged) {
            state.dram.base[session] = state.clock;
            return number;
        }
        (mine.turn, mine.write, mine.max_seq) = (Turn::Published, number, max_seq);
        number
    }

    /// `Core::write_log` up to the write: what the group depends on and claims.
    pub(crate) fn start_write(&self, state: &mut State, session: usize) {
        let settled = self.settled(state, Level::Power);
        let last = state.groups(session).filter(|group| !matches!(group.at, At::Lost | At::Cut)).last();
        let last_written = last.map(|group| state.group_version(group));
        let claim = match self.has(Bug::ClaimTooEarly) {
            false => settled[session],
            true => physical(state, Level::Process)[session],
        };
        let mine = &mut state.dram.sessions[session];
        let mut group = Group {
            at: At::InFlight,
            write: mine.write,
            part: 0,
            first: u8::from(last_written.is_none()),
            before: last_written.unwrap_or(state.dram.base[session]),
            claim: claim.min(last_written.unwrap_or(0)),
            needs: Positions::default(),
            max_seq: mine.max_seq,
        };
        for (other, &settled) in settled.iter().enumerate() {
            let need = std::mem::take(&mut mine.need[other]);
            if other != session && need > settled && need > mine.recorded[other] {
                if !self.has(Bug::GroupWithoutDependencies) {
                    group.needs[other] = need;
                }
                mine.recorded[other] = need;
            }
        }
        (mine.turn, mine.write, mine.max_seq) = (Turn::Writing, 0, 0);
        if state.write(group.write).kind == Kind::SetBoth {
            append(state, session, Group { part: 1, ..group });
            let (before, needs) = (state.version(group.write), Positions::default());
            group = Group { part: 2, first: 0, before, needs, ..group };
        }
        append(state, session, group);
    }

    /// `Commit::written`.
    pub(crate) fn finish_write(&self, state: &mut State, session: usize) {
        let at = if self.is_byte() { At::Durable } else { At::Written };
        for group in state.log[session].iter_mut().filter(|group| group.at == At::InFlight) {
            group.at = at;
        }
        state.dram.sessions[session].turn = Turn::Idle;
        if !self.is_byte() {
            state.dram.unsynced_since = state.dram.unsynced_since.max(1);
        }
    }

    pub(crate) fn log_actions(&self, state: &State, out: &mut Vec<Action>) {
        let dram = &state.dram;
        if dram.syncing == 1 {
            out.push(Action::EndSync);
        } else if dram.unsynced_since != 0 || (!self.is_byte() && erasures(state)) {
            out.push(Action::BeginSync);
        }
        if self.is_batch() && (dram.unsynced_since == 1 || dram.syncing_since == 1) {
            out.push(Action::WindowPasses);
        }
        if self.is_byte() {
            let freed = |session: &u8| state.log[usize::from(*session)][0].at == At::Freed;
            out.extend((0..SESSIONS as u8).filter(freed).map(Action::FenceErasure));
        }
    }

    /// `Commit::sync_begins`.
    pub(crate) fn begin_sync(&self, state: &mut State) {
        state.dram.covered = physical(state, Level::Process);
        state.dram.syncing = 1;
        state.dram.syncing_since = std::mem::take(&mut state.dram.unsynced_since);
    }

    /// `Log::sync` has returned, `Commit::synced`.
    pub(crate) fn end_sync(&self, state: &mut State) {
        let covered = std::mem::take(&mut state.dram.covered);
        for (session, &covered) in covered.iter().enumerate() {
            for i in 0..GROUPS {
                let version = match state.log[session][i].write {
                    0 => break,
                    write => state.version(write),
                };
                let group = &mut state.log[session][i];
                match group.at {
                    At::Written | At::Presumed if version <= covered => group.at = At::Durable,
                    At::Written if self.has(Bug::SyncCoversTooMuch) => group.at = At::Presumed,
                    _ => {}
                }
            }
            // Whether they were erased before this sync began makes no difference that can be seen: a later one follows.
            drop_cut(state, session);
            crate::protocol::drop_freed(state, session);
        }
        state.dram.syncing = 0;
        state.dram.syncing_since = 0;
    }

    /// Everything promised so far was promised before this window.
    pub(crate) fn window_passes(&self, state: &mut State) {
        state.earlier = state.promised;
        for since in [&mut state.dram.unsynced_since, &mut state.dram.syncing_since] {
            *since = if *since == 0 { 0 } else { 2 };
        }
    }
}

fn erasures(state: &State) -> bool {
    state.log.iter().flatten().any(|group| matches!(group.at, At::Freed | At::Cut))
}

/// `Writer::reserve_step`: the session's step has its groups before it is written.
fn has_log_room(state: &State, session: usize) -> bool {
    let groups = if state.write(state.dram.sessions[session].write).kind == Kind::SetBoth { 2 } else { 1 };
    state.log[session][GROUPS - groups].at == At::Nowhere
}

/// Takes groups out of a log whose cut is safe.
pub(crate) fn drop_cut(state: &mut State, session: usize) {
    let mut kept = [Group::default(); GROUPS];
    let groups = state.log[session].iter().filter(|group| !matches!(group.at, At::Cut | At::Nowhere));
    for (to, group) in kept.iter_mut().zip(groups) {
        *to = *group;
    }
    state.log[session] = kept;
}

fn append(state: &mut State, session: usize, group: Group) {
    if let Some(place) = state.log[session].iter_mut().find(|place| place.at == At::Nowhere) {
        *place = group;
    }
}

/// What an operation saw.
#[derive(Default)]
struct Seen {
    /// As the protocol notes it: the newest version of each session.
    versions: Positions,
    /// As it is.
    all: Writes,
}

impl Seen {
    fn know(&mut self, state: &State, number: Number) {
        self.all |= state.closure(only(number));
    }
    /// `note_seen`.
    fn note(&mut self, state: &State, number: Number) {
        self.know(state, number);
        let write = state.write(number);
        let newest = &mut self.versions[usize::from(write.session)];
        *newest = write.version.max(*newest);
    }
}
