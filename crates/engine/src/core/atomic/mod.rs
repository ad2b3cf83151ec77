//! Several operations as one step: one critical section over all keys, one step in the log.
//!
//! ```text
//!   operations --plan.rs--> distinct keys, what is wanted of each record
//!     .-> room.rs --> Index::update_many { drafts.rs: each operation in order, over what those before it made
//!     |                                     write.rs:  a record for each key that changed }
//!     '-- a device must be read, a large value stored, more room made: then all is decided again
//! ```
//!
//! # Invariants
//! - Nothing of the group is visible or logged before all of it is decided and fits: a pass that stops has changed nothing.
//! - Records are never written over in place: readers must not see half of the group.

mod drafts;
mod plan;
mod room;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use terrace_index::{Address, AnyIndex, Index, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::face::OUTPUT_BYTES_MAX;
use super::{Awaited, Core, Step, note_seen};
use crate::batch::Batch;
use crate::pending::{Known, Loss, Wanted};
use crate::record::{Head, Kind};
use crate::reply::{OpError, Reply};
use crate::space::{Fetch, Room, Space};
use drafts::{Drafts, Found, Group};
use plan::Plan;
use write::Tools;

/// Why a pass stopped before it wrote anything.
enum Stop {
    /// These must be read first.
    Read(Vec<Wanted>),
    /// Room for records of so many words is needed.
    Room(Vec<usize>),
    /// The old values of these versions are extents, with these descriptions, and their bytes are needed.
    OldExtents(Vec<(u64, Vec<u8>)>),
    /// These values are too long for records: store them first.
    NewExtents(Vec<(usize, Buffer)>),
    /// All of the group is answered so.
    All(Reply),
}

/// A large value that was stored before the critical section that will refer to it.
struct Ahead {
    value: Buffer,
    description: Vec<u8>,
    used: bool,
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs operations `start..end` of the batch as one step, and writes their answers into the batch unless all have the one
    /// that is returned.
    pub(super) fn atomic(&mut self, batch: &mut Batch, start: usize, end: usize, known: &mut Known) -> Step {
        let strict = batch.group_at(start).is_none_or(|group| group.strict);
        let Batch { input, ops, output, replies, bounds, databases, made, .. } = batch;
        // Commands of one step, such as a write of several keys, read what they need.
        let read_bytes_max = if strict { OUTPUT_BYTES_MAX } else { bounds.transaction };
        let limits = self.machine.space.limits();
        let plan = Plan::new((input, *databases), &ops[start..end], &self.shared().hasher, &limits);
        let mut ahead = HashMap::new();
        let output_start = output.len();
        let now_ms = self.now_ms();
        let group = Group { plan: &plan, limits, strict, now_ms, output_start, read_bytes_max };
        let mut sizes = plan.first_sizes(self.short_group_bytes());
        let step = loop {
            output.truncate(output_start);
            if let Err(error) = self.make_group_room(&plan, &sizes) {
                break Step::Done(Reply::Error(error));
            }
            let passed = self.group_pass(&group, known, &mut ahead, &sizes, output);
            self.tell_lapsed();
            match passed {
                Ok(answers) => {
                    replies[start..end].copy_from_slice(&answers);
                    made.extend(self.made.drain(..).map(|at| start as u32 + at));
                    break Step::Answered;
                }
                Err(Stop::Read(unread)) => break Step::Read(unread),
                Err(Stop::All(reply)) => break Step::Done(reply),
                Err(Stop::Room(needed)) => sizes = needed,
                Err(Stop::OldExtents(wanted)) => {
                    if let Err(step) = self.open_old_extents(wanted, &group, known) {
                        break step;
                    }
                }
                Err(Stop::NewExtents(values)) => {
                    if let Err(error) = self.store_ahead(values, &mut ahead) {
                        break Step::Done(Reply::Error(error));
                    }
                }
            }
        };
        if !matches!(step, Step::Answered | Step::Read(_)) {
            output.truncate(output_start);
        }
        for unused in ahead.values().filter(|ahead| !ahead.used) {
            self.machine.space.release_extent(&unused.description, &[]);
        }
        self.give_group_room_back();
        step
    }

    /// One pass through the critical section: the answers, or why it stopped.
    fn group_pass(
        &mut self,
        group: &Group<'_>,
        known: &Known,
        ahead: &mut HashMap<usize, Ahead>,
        sizes: &[usize],
        output: &mut Buffer,
    ) -> Result<Vec<Reply>, Stop> {
        let plan = group.plan;
        let slot = self.slot;
        let now_us = self.shared().version_us(self.now_us);
        let Self { machine, local, writer, last, lapsed, made, seen, touched, scratch, hits, misses, .. } =
            self;
        let (space, shared) = (&machine.space, &machine.shared);
        let found = RefCell::new(plan.keys.iter().map(|_| Found::default()).collect::<Vec<_>>());
        let (found_bytes, too_long) = (Cell::new(0), Cell::new(false));
        let verify = |i: usize, address: Address| {
            if found_bytes.get() > group.read_bytes_max {
                too_long.set(true);
                return Verdict::Match;
            }
            let mut bytes = Buffer::new();
            let fetched = known.fetch(space, address, Some(&plan.keys[i]), plan.wants[i].want(), &mut bytes);
            let (head, damaged): (Head, bool) = match fetched {
                Fetch::Match(head) => (head, false),
                Fetch::Damaged(head) => (head, true),
                Fetch::Differs => return Verdict::Differs,
                Fetch::NeedsRead => return Verdict::NeedsRead,
            };
            let value_bytes = match head.meta.kind() {
                Kind::Extent if !damaged => space.extent_bytes(&bytes),
                _ => head.meta.value_bytes() as u64,
            };
            let found = &mut found.borrow_mut()[i];
            found_bytes.set(found_bytes.get() + bytes.len() - found.bytes.len());
            *found = Found { address: None, head, damaged, bytes, value_bytes };
            known.verdict(space, address)
        };
        let mut read = Vec::new();
        let answers = machine.index.update_many(&plan.keys, &verify, |looked, changes| {
            let mut unread = Vec::new();
            for (i, looked) in looked.iter().enumerate() {
                let address = match *looked {
                    Lookup::Absent => None,
                    Lookup::Found(address) => Some(address),
                    // Asked about others since, and what was found of this one may be lost: it is asked once more.
                    Lookup::Unread(address)
                        if known.has_read(space, address) && verify(i, address) == Verdict::NeedsRead =>
                    {
                        Some(address)
                    }
                    Lookup::Unread(address) => {
                        unread.push(Wanted::record(space, address));
                        continue;
                    }
                };
                found.borrow_mut()[i].address = address;
            }
            // Nothing that was found counts then: what came behind was not looked at.
            if too_long.get() {
                return Err(Stop::All(group.too_long()));
            }
            if !unread.is_empty() {
                return Err(Stop::Read(unread));
            }
            let found = found.borrow();
            for found in found.iter().filter(|found| found.address.is_some() && !found.damaged) {
                // Whatever is answered rests on it.
                note_seen::<S>(seen, touched, found.head.version);
            }
            let mut drafts = Drafts::new(&found, shared, group.now_ms);
            let answers = drafts.decide(group, known, scratch, output)?;
            let now_ms = group.now_ms;
            let mut tools =
                Tools { space, shared, slot, now_us, now_ms, local, writer, last, lapsed, seen, touched };
            tools.write(plan, &mut drafts, ahead, sizes, changes)?;
            let (mut answered, reads) = (answers, drafts.reads());
            drafts.patch(plan, &mut answered);
            *misses += reads.misses;
            read = reads.hits;
            *made = std::mem::take(&mut drafts.made);
            Ok(answered)
        })?;
        for (i, address, tier) in read {
            hits[usize::from(tier) % 3] += 1;
            let read = known.record(&machine.space, address);
            machine.space.hit(local, AnyIndex::of(&machine.index), &plan.keys[i], address, tier, read);
        }
        Ok(answers)
    }

    /// Brings old values' bytes to `known`; `Err`: what the operations come to instead.
    fn open_old_extents(
        &mut self,
        wanted: Vec<(u64, Vec<u8>)>,
        group: &Group<'_>,
        known: &mut Known,
    ) -> Result<(), Step> {
        for (version, description) in wanted {
            if known.extents_bytes() > group.read_bytes_max {
                return Err(Step::Done(group.too_long()));
            }
            self.open_old_extent(version, description, known)?;
        }
        Ok(())
    }

    fn open_old_extent(&mut self, version: u64, description: Vec<u8>, known: &mut Known) -> Result<(), Step> {
        let mut bytes = Buffer::new();
        match self.machine.space.fetch_extent(&description, &mut bytes) {
            Fetch::Match(_) => {
                known.add_extent(version, Ok(bytes));
                Ok(())
            }
            // One at a time: an arrival doesn't say which it is.
            Fetch::NeedsRead => Err(Step::Read(vec![Wanted::Extent { description, version }])),
            Fetch::Damaged(_) | Fetch::Differs => {
                known.add_extent(version, Err(Loss::Damaged));
                Ok(())
            }
        }
    }

    /// Stores large values, by the members that they are of; what was stored for the same before, from what they were then, is given
    /// back.
    fn store_ahead(
        &mut self,
        values: Vec<(usize, Buffer)>,
        ahead: &mut HashMap<usize, Ahead>,
    ) -> Result<(), OpError> {
        for (member, value) in values {
            if let Some(stale) = ahead.remove(&member) {
                self.machine.space.release_extent(&stale.description, &[]);
            }
            let description = self.extent_for(&value)?;
            ahead.insert(member, Ahead { value, description, used: false });
        }
        Ok(())
    }

    fn extent_for(&mut self, value: &[u8]) -> Result<Vec<u8>, OpError> {
        let mut waited = Awaited::default();
        loop {
            let mut description = Vec::new();
            match self.machine.space.write_extent(&mut self.local, value, None, &mut description) {
                Ok(()) => return Ok(description),
                Err(None) => return Err(OpError::Io),
                Err(Some(Room::Full)) => self.await_eviction(&mut waited)?,
                Err(Some(_)) => self.stall()?,
            }
        }
    }
}
