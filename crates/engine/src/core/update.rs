//! Every write of one key: room first, then the index's critical section, in it the record and its log entry.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;

use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::get::lost;
use super::publish::{Before, Draft, Publisher};
use super::{Awaited, Core, Place, Step, live, note_seen};
use crate::batch;
use crate::decide::{Answer, Decision, NewValue, Old, decide, needs_value};
use crate::op::{Condition, Expiry, Op, OpKind, Span};
use crate::pending::{Known, Wanted};
use crate::record::{Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, Kind, words_for};
use crate::reply::{Meta, OpError, Reply};
use crate::space::{Class, Fetch, Former, Room, Space, Want};

/// Whether an operation stores its record whatever is there, and its answer says nothing of that.
fn is_blind(kind: &OpKind, now_ms: u64) -> bool {
    match kind {
        OpKind::Set { condition: Condition::Always, old_value: false, flags: Some(_), expiry, .. } => {
            match expiry {
                Expiry::Clear => true,
                // One that has passed makes a delete of it.
                Expiry::At(at) => (*at).max(1) > now_ms,
                Expiry::Keep => false,
            }
        }
        _ => false,
    }
}

/// What came of one pass through the critical section.
enum Pass {
    Done(Answer),
    /// The old record is on a device.
    Read(Address),
    /// The record needs this many words.
    Room(usize),
    /// The old value is an extent and its bytes are needed.
    OldExtent(u64),
    /// The new value is too long for a record: store it first. It was computed from this version (0: from nothing), and this was
    /// decided.
    NewExtent(u64, Decision),
}

/// An extent written ahead of the critical section that will refer to it.
struct Ahead {
    /// The version the value was computed from, and what was decided then; `None` if it depends on no old value.
    from: Option<(u64, Decision)>,
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs a write (or a read with a change of expiry) of one key.
    pub(super) fn update(
        &mut self,
        op: &Op,
        key: &Key<'_>,
        argument: &[u8],
        known: &mut Known,
        output: &mut Buffer,
    ) -> Step {
        let limits = self.machine.space.limits();
        // Alone, an edit has nothing handed to it.
        self.scratch.carry.clear();
        if key.bytes.len() > limits.key_bytes.min(KEY_BYTES_MAX) {
            return self.refuse(op, key, known, limits.key_bytes);
        }
        if argument.len() as u64 > limits.value_bytes {
            return Step::Done(Reply::Error(OpError::ValueTooLong(limits.value_bytes)));
        }
        let inline = limits.inline_bytes.min(INLINE_VALUE_BYTES);
        let class = match op.kind {
            OpKind::Delete { .. } | OpKind::Purge => Class::Release,
            _ => Class::Write,
        };
        let mut ahead: Option<Ahead> = None;
        if matches!(op.kind, OpKind::Set { .. }) && argument.len() > inline {
            if let Err(error) = self.write_ahead(Some(argument), None) {
                return Step::Done(Reply::Error(error));
            }
            ahead = Some(Ahead { from: None });
        }
        let mut words = match op.kind {
            OpKind::Delete { .. } | OpKind::Purge => words_for(key.bytes.len(), 0, false),
            _ => {
                let value = if ahead.is_some() { self.description.len() } else { argument.len().min(inline) };
                // What a plain set needs is known; other records may turn out to need more, which the pass then asks for.
                match op.kind {
                    OpKind::Set { expiry: Expiry::Clear, .. } => words_for(key.bytes.len(), value, false),
                    OpKind::Set { .. } => words_for(key.bytes.len(), value, true),
                    _ => words_for(key.bytes.len(), value.max(24), true),
                }
            }
        };
        let start = output.len();
        loop {
            output.truncate(start);
            if let Err(error) = self.make_room(&[words], class) {
                self.drop_ahead(ahead.is_some());
                return Step::Done(Reply::Error(error));
            }
            self.room_words = words;
            let (pass, used_ahead, meta, old_span) =
                self.pass(op, key, argument, inline, known, &ahead, output);
            self.tell_lapsed();
            match pass {
                Pass::Done(answer) => {
                    self.drop_ahead(ahead.is_some() && !used_ahead);
                    self.count_read(&op.kind, old_span);
                    return Step::Done(self.reply(answer, meta, old_span.map(|(span, _)| span), output));
                }
                Pass::Read(address) => {
                    self.drop_ahead(ahead.is_some());
                    return Step::Read(vec![Wanted::record(&self.machine.space, address)]);
                }
                Pass::Room(more) => words = more,
                Pass::OldExtent(version) => {
                    if let Some(Err(loss)) = known.extent(version) {
                        self.drop_ahead(ahead.is_some());
                        return Step::Done(Reply::Error(lost(loss)));
                    }
                    known.forget_extents();
                    let mut bytes = Buffer::new();
                    match self.machine.space.fetch_extent(&self.old, &mut bytes) {
                        Fetch::Match(_) => known.add_extent(version, Ok(bytes)),
                        Fetch::NeedsRead => {
                            self.drop_ahead(ahead.is_some());
                            return Step::Read(vec![Wanted::Extent {
                                description: self.old.to_vec(),
                                version,
                            }]);
                        }
                        Fetch::Damaged(_) | Fetch::Differs => {
                            self.drop_ahead(ahead.is_some());
                            return Step::Done(Reply::Error(OpError::Poisoned));
                        }
                    }
                }
                Pass::NewExtent(version, decision) => {
                    self.drop_ahead(ahead.is_some());
                    if self.scratch.value.len() as u64 > limits.value_bytes {
                        return Step::Done(Reply::Error(OpError::ValueTooLong(limits.value_bytes)));
                    }
                    // What the value was computed from lends it what stays alike.
                    self.former.clear();
                    let former = known.extent(version).and_then(Result::ok);
                    if former.is_some() {
                        self.former.extend_from_slice(&self.old);
                    }
                    if let Err(error) = self.write_ahead(None, former) {
                        return Step::Done(Reply::Error(error));
                    }
                    words = words_for(key.bytes.len(), self.description.len(), true);
                    ahead = Some(Ahead { from: Some((version, decision)) });
                }
            }
        }
    }

    /// One pass through the critical section. Returns also whether the extent written ahead is now referred to, the record's
    /// metadata for an answer, and where the answer shows the old value its span in `output` and its tier.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one operation, split so that borrows stay apart"
    )]
    fn pass(
        &mut self,
        op: &Op,
        key: &Key<'_>,
        argument: &[u8],
        inline: usize,
        known: &Known,
        ahead: &Option<Ahead>,
        output: &mut Buffer,
    ) -> (Pass, bool, Meta, Option<(Span, u8)>) {
        let wants_value = needs_value(&op.kind) || matches!(op.kind, OpKind::Expire { .. });
        let want = if wants_value { Want::Value } else { Want::Head };
        let now_ms = self.now_ms();
        let now_us = self.shared().version_us(self.now_us);
        let slot = self.slot;
        let room_words = self.room_words;
        let found = Cell::new((Head::default(), false));
        self.old.clear();
        let old_bytes = RefCell::new(std::mem::take(&mut self.old));
        let Self { machine, local, writer, last, lapsed, made, seen, touched, scratch, description, .. } =
            self;
        let (space, shared) = (&machine.space, &machine.shared);
        let counters = &shared.counters[slot];
        let mut publisher = Publisher { space, shared, slot, now_us, local, writer, last, seen, touched };
        let mut used_ahead = false;
        let mut meta = Meta::default();
        let mut old_span = None;

        let verify = |address| {
            let mut old = old_bytes.borrow_mut();
            old.clear();
            match known.fetch(space, address, Some(key), want, &mut old) {
                Fetch::Match(head) => {
                    found.set((head, false));
                    known.verdict(space, address)
                }
                Fetch::Damaged(head) => {
                    found.set((head, true));
                    known.verdict(space, address)
                }
                Fetch::Differs => Verdict::Differs,
                Fetch::NeedsRead => Verdict::NeedsRead,
            }
        };
        let tells = shared.tells_expired.load(Relaxed);
        // What is not read may have expired.
        let is_blind = S::BLIND && !machine.index.needs_key() && !tells && is_blind(&op.kind, now_ms);
        let pass = machine.index.update(key, &verify, |looked| {
            // A record that is put beside one that nobody has read.
            let mut beside = None;
            let (place, head, damaged): (Option<Place>, _, _) = match looked {
                Lookup::Absent => (None, Head::default(), false),
                Lookup::Found(address) => (Some((address, found.get().0)), found.get().0, found.get().1),
                // Asked about others since, and what was found of this one may be lost: it is asked once more.
                Lookup::Unread(address)
                    if known.has_read(space, address) && verify(address) == Verdict::NeedsRead =>
                {
                    (Some((address, found.get().0)), found.get().0, found.get().1)
                }
                Lookup::Unread(address)
                    if is_blind && space.takes_unread(address, shared.flushed(key.db)) =>
                {
                    beside = Some(address);
                    (None, Head::default(), false)
                }
                Lookup::Unread(address) => return (Change::Keep, Pass::Read(address)),
            };
            let old_bytes = old_bytes.borrow();
            let counted = beside.is_some() || (place.is_some() && live(shared, &head, damaged));
            if place.is_some() && !damaged {
                note_seen::<S>(publisher.seen, publisher.touched, head.version);
            }
            let replaces = matches!(op.kind, OpKind::Set { .. } | OpKind::Delete { .. });
            if counted && damaged && !replaces {
                return (Change::Keep, Pass::Done(Answer::Error(OpError::Poisoned)));
            }
            let expired = head.expire_at != 0 && head.expire_at <= now_ms;
            let visible = counted && (!expired || matches!(op.kind, OpKind::Purge));
            if let (OpKind::Purge, Some((address, head))) = (&op.kind, place)
                && !counted
                && head.meta.kind() != Kind::Tombstone
            {
                // Forgotten by a whole-database flush: it needs no tombstone, for the flush outlives every copy of it.
                if !damaged && head.meta.kind() == Kind::Extent {
                    space.release_extent(&old_bytes, &[]);
                }
                space.release(address, &head);
                return (Change::Remove, Pass::Done(Answer::Miss));
            }
            let is_extent = place.is_some() && !damaged && head.meta.kind() == Kind::Extent;
            let mut value: &[u8] = &old_bytes;
            if visible && is_extent && needs_value(&op.kind) {
                match known.extent(head.version) {
                    Some(Ok(bytes)) => value = bytes,
                    _ => return (Change::Keep, Pass::OldExtent(head.version)),
                }
            }
            let value = if damaged { &[][..] } else { value };
            let old = visible.then_some(Old { head: &head, value });
            let from = if visible { head.version } else { 0 };
            let decision = match ahead {
                // The scratch buffers still hold what was computed from that version.
                Some(Ahead { from: Some((then, decision)) }) if *then == from => match *decision {
                    Decision::Put { flags, expire_at, state, token, answer, .. } => {
                        Decision::Put { value: NewValue::Argument, flags, expire_at, state, token, answer }
                    }
                    other => other,
                },
                // What was stored ahead is of another version: a value that is short now must not be taken for it.
                Some(Ahead { from: Some(_) }) => match decide(&op.kind, argument, old, now_ms, scratch) {
                    decision @ Decision::Put { value: NewValue::Scratch, .. }
                        if scratch.value.len() > inline =>
                    {
                        return (Change::Keep, Pass::NewExtent(from, decision));
                    }
                    other => other,
                },
                _ => decide(&op.kind, argument, old, now_ms, scratch),
            };
            let shows_old = matches!(
                decision,
                Decision::Put { answer: Answer::Stored { old: true }, .. }
                    | Decision::Delete {
                        answer: Answer::Stored { old: true } | Answer::Deleted { old: true }
                    }
                    | Decision::Delete { answer: Answer::Hit { value: true } }
                    | Decision::Put { answer: Answer::Hit { value: true }, .. }
                    | Decision::Answer(Answer::NotStored { old: true, .. } | Answer::Hit { value: true })
            );
            if visible {
                let inline_bytes = head.meta.value_bytes() as u64;
                let value_bytes = if is_extent { space.extent_bytes(&old_bytes) } else { inline_bytes };
                meta = Meta { value_bytes, ..head.meta_for_answers() };
            }
            let (kind, new_value, beside_it, answer): (Kind, &[u8], _, Answer) = match decision {
                Decision::Answer(answer) => {
                    if tells && !visible && matches!(answer, Answer::Stored { .. }) {
                        // Stored and expired in one.
                        made.push(0);
                    }
                    if shows_old {
                        old_span = Some(batch::push(output, value));
                    }
                    return (Change::Keep, Pass::Done(answer));
                }
                Decision::Delete { answer } => {
                    // Once its time has passed nothing of a key that is alone comes back: it needs no tombstone.
                    // An index on the medium forgets a key by what is in the log alone.
                    let lapsed = matches!(op.kind, OpKind::Purge) && head.life().alone && !S::ADDRESSED;
                    if !S::TOMBSTONES || lapsed {
                        if shows_old {
                            old_span = Some(batch::push(output, value));
                        }
                        let Some((address, head)) = place else {
                            return (Change::Keep, Pass::Done(answer));
                        };
                        space.release(address, &head);
                        if is_extent {
                            space.release_extent(&old_bytes, &[]);
                        }
                        // Stored and expired in one, if it was a set.
                        if matches!(answer, Answer::Edited { .. } | Answer::Stored { .. }) {
                            meta = Meta::default();
                        }
                        counters.keys[usize::from(key.db)].fetch_sub(1, Relaxed);
                        counters.count_expiry(key.db, head.expire_at != 0, false);
                        shared.version_floor.fetch_max(head.version, Relaxed);
                        return (Change::Remove, Pass::Done(answer));
                    }
                    (Kind::Tombstone, &[], (0, 0, 0, 0), answer)
                }
                Decision::Put { value: source, flags, expire_at, state, token, answer } => {
                    let (kind, bytes): (Kind, &[u8]) = match source {
                        NewValue::Argument if ahead.is_some() => (Kind::Extent, description),
                        NewValue::Argument => (Kind::Value, argument),
                        NewValue::Scratch if scratch.value.len() > inline => {
                            return (Change::Keep, Pass::NewExtent(from, decision));
                        }
                        NewValue::Scratch => (Kind::Value, &scratch.value),
                        NewValue::Old => (head.meta.kind(), &old_bytes),
                    };
                    (kind, bytes, (flags, expire_at, state, token), answer)
                }
            };
            let (flags, expire_at, state, token) = beside_it;
            let before = match (place, beside) {
                (Some((address, _)), _) => Before::Record { address, head: &head, counted, damaged },
                (None, Some(unread)) => Before::Unread(unread),
                (None, None) => Before::Nothing,
            };
            let words = words_for(key.bytes.len(), new_value.len(), expire_at != 0) + usize::from(token != 0);
            // The page may have more room than was asked for, the log may not.
            if words > room_words || !space.fits(publisher.local, &[words]) {
                return (Change::Keep, Pass::Room(words));
            }
            if shows_old {
                old_span = Some(batch::push(output, value));
            }
            let draft = Draft { kind, flags, state, expire_at, token, value: new_value };
            let (address, version) = publisher.publish(key, &draft, &before);
            if counted && expired && !matches!(op.kind, OpKind::Purge) {
                counters.expired.fetch_add(1, Relaxed);
                if tells {
                    lapsed.push((key.db, key.bytes.to_vec()));
                }
            }
            if ahead.is_some() && kind == Kind::Extent {
                used_ahead = true;
            }
            meta = Meta { version: version.0, token, expire_at, flags, state, ..meta };
            if kind == Kind::Tombstone && matches!(answer, Answer::Stored { .. }) {
                // Stored and expired in one.
                meta.version = 0;
            }
            if matches!(answer, Answer::Edited { .. }) {
                meta = match decision {
                    Decision::Put { value: NewValue::Old, .. } => meta,
                    Decision::Put { .. } => Meta { value_bytes: scratch.value.len() as u64, ..meta },
                    _ => Meta::default(),
                };
            }
            let deleted = kind == Kind::Tombstone;
            if tells && !visible && !deleted {
                made.push(0);
            }
            let keeps_extent = is_extent && new_value.as_ptr() == old_bytes.as_ptr() && kind == Kind::Extent;
            if let Some((old_address, head)) = place {
                if is_extent && !keeps_extent {
                    let shared = if kind == Kind::Extent { new_value } else { &[] };
                    space.release_extent(&old_bytes, shared);
                }
                if old_address == address {
                    return (Change::Keep, Pass::Done(answer));
                }
                space.release(old_address, &head);
            }
            let change = if beside.is_some() { Change::Insert(address) } else { Change::Set(address) };
            (change, Pass::Done(answer))
        });
        self.old = old_bytes.into_inner();
        (pass, used_ahead, meta, old_span.map(|span| (span, found.get().0.tier)))
    }

    /// A key that is too long can't be there, but may be asked for: reads and deletes miss.
    fn refuse(&mut self, op: &Op, _key: &Key<'_>, _known: &Known, limit: usize) -> Step {
        match op.kind {
            OpKind::Delete { .. } | OpKind::Purge | OpKind::Expire { .. } | OpKind::Get { .. } => {
                Step::Done(Reply::Miss)
            }
            _ => Step::Done(Reply::Error(OpError::KeyTooLong(limit as u64))),
        }
    }

    /// Stores a large value (the argument, or else the scratch buffer); its description goes to `self.description`. It may share pieces
    /// with a value that it was computed from, which `self.former` describes.
    fn write_ahead(&mut self, argument: Option<&[u8]>, former: Option<&[u8]>) -> Result<(), OpError> {
        let mut waited = Awaited::default();
        if former.is_none() {
            self.former.clear();
        }
        loop {
            self.description.clear();
            let Self { machine, local, description, scratch, former: lender, .. } = self;
            let lender = former.map(|value| Former { description: lender, value });
            let value = argument.unwrap_or(&scratch.value);
            match machine.space.write_extent(local, value, lender, description) {
                Ok(()) => return Ok(()),
                Err(None) => return Err(OpError::Io),
                Err(Some(Room::Full)) => self.await_eviction(&mut waited)?,
                Err(Some(_)) => self.stall()?,
            }
        }
    }

    fn drop_ahead(&mut self, unused: bool) {
        if unused {
            self.machine.space.release_extent(&self.description, &self.former);
        }
    }

    /// Counts what asked for the old value: a hit where that lay, or a miss.
    fn count_read(&mut self, kind: &OpKind, old: Option<(Span, u8)>) {
        match (kind, old) {
            (_, Some((_, tier))) => self.hits[usize::from(tier) % 3] += 1,
            (
                OpKind::Set { old_value: true, .. }
                | OpKind::Delete { old_value: true, .. }
                | OpKind::Expire { value: true, .. },
                None,
            ) => self.misses += 1,
            _ => {}
        }
    }

    fn reply(&self, answer: Answer, meta: Meta, old: Option<Span>, output: &mut Buffer) -> Reply {
        match answer {
            Answer::Miss => Reply::Miss,
            Answer::Stored { .. } => Reply::Stored { version: meta.version, old },
            Answer::NotStored { present, .. } => Reply::NotStored { present, old },
            Answer::Deleted { .. } => Reply::Deleted { old },
            Answer::Hit { .. } => Reply::Hit { meta, value: old },
            Answer::Number(n) => Reply::Number(n),
            Answer::Unsigned(n) => Reply::Unsigned(n),
            Answer::FloatInScratch => Reply::Float(batch::push(output, &self.scratch.value)),
            Answer::Edited { changed } => {
                Reply::Edited { answer: batch::push(output, &self.scratch.answer), meta, changed }
            }
            Answer::Aborted => Reply::Aborted,
            Answer::Length(n) => Reply::Length(n),
            Answer::Error(error) => Reply::Error(error),
        }
    }
}
