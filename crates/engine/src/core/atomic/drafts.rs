//! What a group makes of its records, before any of it is written: each operation sees what those before it made.

use std::sync::atomic::Ordering::Relaxed;

use terrace_index::Address;
use terrace_media::Buffer;

use super::plan::{Plan, Step};
use super::{super::get::lost, super::live, Stop};
use crate::batch;
use crate::decide::{Answer, Decision, NewValue, Old, Scratch, decide};
use crate::op::OpKind;
use crate::pending::Known;
use crate::record::{Head, Kind, RecordMeta};
use crate::reply::{Meta, OpError, Reply};
use crate::shared::Shared;
use crate::space::Limits;

/// What was found of a key.
#[derive(Default)]
pub(super) struct Found {
    /// Where its record is, if it has one.
    pub address: Option<Address>,
    pub head: Head,
    pub damaged: bool,
    /// Its value if that was wanted, or the description of its extent.
    pub bytes: Buffer,
    /// The length of its value.
    pub value_bytes: u64,
}

impl Found {
    pub fn is_extent(&self) -> bool {
        self.address.is_some() && !self.damaged && self.head.meta.kind() == Kind::Extent
    }
}

/// What stays the same from pass to pass.
pub(super) struct Group<'a> {
    pub plan: &'a Plan<'a>,
    pub limits: Limits,
    /// One operation's error is that of all, and nothing is done.
    pub strict: bool,
    pub now_ms: u64,
    /// Where its answers begin.
    pub output_start: usize,
    /// What it may read, and answer with.
    pub read_bytes_max: usize,
}

impl Group<'_> {
    /// The answer if it reads more.
    pub fn too_long(&self) -> Reply {
        Reply::Error(OpError::TransactionTooLong(self.read_bytes_max as u64))
    }
}

/// Where a drafted value is.
pub(super) enum Bytes<'a> {
    /// What was found.
    Old,
    Argument(&'a [u8]),
    Computed(Buffer),
}

/// A key's record as the operations so far left it.
pub(super) struct Draft<'a> {
    pub found: &'a Found,
    /// A live record that counts as a key was found, expired or damaged as it may be.
    pub counted: bool,
    pub present: bool,
    pub damaged: bool,
    /// Flags, expiry and state, if present.
    pub head: Head,
    pub bytes: Bytes<'a>,
    /// It differs from what was found.
    pub changed: bool,
    /// The version that it was written with.
    pub version: u64,
    /// A read of the group found it as it was.
    hit: bool,
}

/// Reads to be counted.
pub(super) struct Reads {
    /// Member, address and tier.
    pub hits: Vec<(usize, Address, u8)>,
    pub misses: u64,
}

/// See the module.
pub(super) struct Drafts<'a> {
    pub drafts: Vec<Draft<'a>>,
    misses: u64,
    /// Somebody wants to know which operations make a key.
    tells: bool,
    /// Those that do.
    pub made: Vec<u32>,
}

/// What operations that ask for versions are told of a record that is only drafted.
const DRAFTED: u64 = u64::MAX;

impl<'a> Drafts<'a> {
    pub fn new(found: &'a [Found], shared: &Shared, now_ms: u64) -> Self {
        let draft = |found: &'a Found| {
            let head = found.head;
            let counted = found.address.is_some() && live(shared, &head, found.damaged);
            let expired = head.expire_at != 0 && head.expire_at <= now_ms;
            Draft {
                found,
                counted,
                present: counted && !expired,
                damaged: counted && found.damaged,
                head,
                bytes: Bytes::Old,
                changed: false,
                version: head.version,
                hit: false,
            }
        };
        let tells = shared.tells_expired.load(Relaxed);
        Self { drafts: found.iter().map(draft).collect(), misses: 0, tells, made: Vec::new() }
    }

    /// Decides each operation in order; the answers of those that wrote are given their versions by [`patch`](Self::patch).
    pub fn decide(
        &mut self,
        group: &Group<'a>,
        known: &Known,
        scratch: &mut Scratch,
        output: &mut Buffer,
    ) -> Result<Vec<Reply>, Stop> {
        // Each pass would copy what is known once more, to end at the next value that is not.
        if known.extents_bytes() > 0 {
            let unknown = self.unknown(group, known, 0);
            if !unknown.is_empty() {
                return Err(Stop::OldExtents(unknown));
            }
        }
        scratch.carry.clear();
        let mut replies = Vec::with_capacity(group.plan.steps.len());
        for (i, step) in group.plan.steps.iter().enumerate() {
            let was_absent = step.member.is_some_and(|member| !self.drafts[member].present);
            let reply = match step.member {
                None => too_long(&step.kind, group.limits.key_bytes),
                Some(_) if step.argument.len() as u64 > group.limits.value_bytes => {
                    Reply::Error(OpError::ValueTooLong(group.limits.value_bytes))
                }
                Some(_) if output.len() - group.output_start > group.read_bytes_max => {
                    return Err(Stop::All(group.too_long()));
                }
                Some(member) => match self.one(member, step, group, known, scratch, output) {
                    Err(Stop::OldExtents(mut wanted)) => {
                        let (first, _) = wanted[0];
                        let others = self.unknown(group, known, i + 1).into_iter();
                        wanted.extend(others.filter(|(version, _)| *version != first));
                        return Err(Stop::OldExtents(wanted));
                    }
                    reply => reply?,
                },
            };
            if self.tells && was_absent && step.member.is_some_and(|member| self.is_made(member, reply)) {
                self.made.push(i as u32);
            }
            if let Reply::Error(_) = reply {
                if group.strict {
                    return Err(Stop::All(reply));
                }
                scratch.carry.clear();
            }
            replies.push(reply);
        }
        Ok(replies)
    }

    /// Whether a key that was absent is there now, if only for a moment: a set may have passed its deadline.
    fn is_made(&self, member: usize, reply: Reply) -> bool {
        self.drafts[member].present || matches!(reply, Reply::Stored { .. })
    }

    /// The old values that operations from this one on are asked for, whatever those before them do, and whose bytes are not known:
    /// of the keys that are read before anything else is done to them.
    fn unknown(&self, group: &Group<'a>, known: &Known, from: usize) -> Vec<(u64, Vec<u8>)> {
        let mut met = vec![false; self.drafts.len()];
        let mut unknown = Vec::new();
        for step in &group.plan.steps[from..] {
            let Some(member) = step.member else { continue };
            let is_first = !std::mem::replace(&mut met[member], true);
            let draft = &self.drafts[member];
            let is_extent = draft.present
                && !draft.damaged
                && matches!(draft.bytes, Bytes::Old)
                && draft.found.is_extent();
            let version = draft.found.head.version;
            if is_first
                && is_extent
                && matches!(step.kind, OpKind::Get { value: true })
                && known.extent(version).is_none()
            {
                unknown.push((version, draft.found.bytes.to_vec()));
            }
        }
        unknown
    }

    fn one(
        &mut self,
        member: usize,
        step: &Step<'a>,
        group: &Group<'a>,
        known: &Known,
        scratch: &mut Scratch,
        output: &mut Buffer,
    ) -> Result<Reply, Stop> {
        let draft = &mut self.drafts[member];
        let replaces = matches!(step.kind, OpKind::Set { .. } | OpKind::Delete { .. });
        if draft.present && draft.damaged && !replaces {
            return Ok(Reply::Error(OpError::Poisoned));
        }
        let value: &[u8] = match &draft.bytes {
            Bytes::Argument(bytes) => bytes,
            Bytes::Computed(bytes) => bytes,
            Bytes::Old if draft.damaged => &[],
            Bytes::Old if draft.found.is_extent() && draft.present && group.plan.wants[member].value => {
                match known.extent(draft.found.head.version) {
                    Some(Ok(bytes)) => bytes,
                    Some(Err(loss)) => return Ok(Reply::Error(lost(loss))),
                    None => {
                        let (version, description) = (draft.found.head.version, draft.found.bytes.to_vec());
                        return Err(Stop::OldExtents(vec![(version, description)]));
                    }
                }
            }
            Bytes::Old => &draft.found.bytes,
        };
        let old = draft.present.then_some(Old { head: &draft.head, value });
        let decision = decide(&step.kind, step.argument, old, group.now_ms, scratch);
        if let Decision::Put { value: NewValue::Scratch, .. } = decision
            && scratch.value.len() as u64 > group.limits.value_bytes
        {
            return Ok(Reply::Error(OpError::ValueTooLong(group.limits.value_bytes)));
        }
        let answer = match decision {
            Decision::Put { answer, .. } | Decision::Delete { answer } | Decision::Answer(answer) => answer,
        };
        let shows_old = matches!(
            answer,
            Answer::Stored { old: true }
                | Answer::NotStored { old: true, .. }
                | Answer::Deleted { old: true }
                | Answer::Hit { value: true }
        );
        let span = shows_old.then(|| batch::push(output, value));
        let value_bytes = match &draft.bytes {
            Bytes::Old => draft.found.value_bytes,
            Bytes::Argument(_) | Bytes::Computed(_) => value.len() as u64,
        };
        let mut meta = match draft.present {
            true => Meta { value_bytes, ..draft.head.meta_for_answers() },
            false => Meta::default(),
        };
        if let Decision::Put { value, flags, expire_at, state, token, .. } = decision {
            match value {
                NewValue::Old => {}
                NewValue::Argument => draft.bytes = Bytes::Argument(step.argument),
                NewValue::Scratch if answer == Answer::FloatInScratch => {
                    let mut text = Buffer::new();
                    text.extend_from_slice(&scratch.value);
                    draft.bytes = Bytes::Computed(text);
                }
                NewValue::Scratch => draft.bytes = Bytes::Computed(std::mem::take(&mut scratch.value)),
            }
            let new_bytes = match &draft.bytes {
                Bytes::Old => value_bytes,
                Bytes::Argument(bytes) => bytes.len() as u64,
                Bytes::Computed(bytes) => bytes.len() as u64,
            };
            let record_meta = RecordMeta::of_state(state);
            draft.head = Head { version: DRAFTED, meta: record_meta, flags, expire_at, token, tier: 0 };
            (draft.present, draft.damaged, draft.changed) = (true, false, true);
            meta = Meta { version: DRAFTED, token, flags, expire_at, value_bytes: new_bytes, state };
        } else if let Decision::Delete { .. } = decision {
            draft.bytes = Bytes::Argument(&[]);
            (draft.present, draft.damaged, draft.changed) = (false, false, true);
            if matches!(answer, Answer::Edited { .. }) {
                meta = Meta::default();
            } else if matches!(answer, Answer::Stored { .. }) {
                meta.version = 0;
            }
        }
        if matches!(step.kind, OpKind::Get { .. }) {
            match answer {
                Answer::Hit { .. } => draft.hit |= !draft.changed,
                _ => self.misses += 1,
            }
        }
        Ok(match answer {
            Answer::Miss => Reply::Miss,
            Answer::Stored { .. } => Reply::Stored { version: meta.version, old: span },
            Answer::NotStored { present, .. } => Reply::NotStored { present, old: span },
            Answer::Deleted { .. } => Reply::Deleted { old: span },
            Answer::Hit { .. } => Reply::Hit { meta, value: span },
            Answer::Number(n) => Reply::Number(n),
            Answer::Unsigned(n) => Reply::Unsigned(n),
            Answer::FloatInScratch => Reply::Float(batch::push(output, &scratch.value)),
            Answer::Length(n) => Reply::Length(n),
            Answer::Error(error) => Reply::Error(error),
            Answer::Edited { changed } => {
                Reply::Edited { answer: batch::push(output, &scratch.answer), meta, changed }
            }
            Answer::Aborted => return Err(Stop::All(Reply::Aborted)),
        })
    }

    /// Gives answers about drafted records the versions that these were written with.
    pub fn patch(&self, plan: &Plan<'_>, replies: &mut [Reply]) {
        for (step, reply) in plan.steps.iter().zip(replies) {
            let Some(member) = step.member else { continue };
            if let Reply::Stored { version, .. }
            | Reply::Hit { meta: Meta { version, .. }, .. }
            | Reply::Edited { meta: Meta { version, .. }, .. } = reply
                && *version == DRAFTED
            {
                *version = self.drafts[member].version;
            }
        }
    }

    /// Reads to be counted.
    pub fn reads(&self) -> Reads {
        let hit = |(i, draft): (usize, &Draft<'_>)| {
            let address = draft.found.address.filter(|_| draft.hit && !draft.changed)?;
            Some((i, address, draft.found.head.tier))
        };
        Reads { hits: self.drafts.iter().enumerate().filter_map(hit).collect(), misses: self.misses }
    }
}

/// A key that is too long can't be there, but may be asked for: reads and deletes miss.
fn too_long(kind: &OpKind, limit: usize) -> Reply {
    match kind {
        OpKind::Delete { .. } | OpKind::Expire { .. } | OpKind::Get { .. } => Reply::Miss,
        _ => Reply::Error(OpError::KeyTooLong(limit as u64)),
    }
}
