//! Ranges: the records of consecutive keys, fetched in the order of the keys.
//!
//! Keys and addresses come from the index in chunks; the records of a chunk are prefetched while the chunk is taken, and those
//! on a device are all asked for at once. Then the range is run again from its start, as a scan is: what was read is known
//! by then, and what has moved meanwhile is found where it is now.

use std::ops::{Bound, ControlFlow, Range};

use terrace_index::{Address, Index, Inline, Key, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::{Core, Step, is_forgotten, live};
use crate::batch::{self, Batch, Row};
use crate::op::{Direction, RangeStart};
use crate::pending::{Known, Wanted};
use crate::record::{Head, Kind};
use crate::reply::{Meta, OpError, Reply};
use crate::space::{Fetch, Space, Want};

/// Keys taken from the index at a time.
const CHUNK: usize = 128;
/// Rows of one operation at most.
const ROWS_MAX: u32 = 10_000;
/// Keys that an operation looks at: of a range full of expired keys it answers what it has.
const KEYS_MAX: usize = 1 << 16;
/// Once an answer takes more than this, it ends.
const ANSWER_BYTES: usize = 16 << 20;

/// Keys and addresses as the index gave them: a session's memory, used again by each of its ranges.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Values of records that the index holds itself.
    values: Vec<u8>,
    /// The last key that was looked at.
    last: Vec<u8>,
}

/// A key, from where the one before it ends, and where its record is.
struct Entry {
    key_end: usize,
    address: Address,
    held: Option<Held>,
}

/// A record that the index holds itself.
struct Held {
    version: u64,
    tier: u8,
    value: Range<usize>,
}

/// What came of one key.
enum Found {
    Row(Row),
    /// Nothing that shows.
    Nothing,
    Read(Wanted),
    Failed(OpError),
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs a range operation.
    pub(super) fn range(
        &mut self,
        batch: &mut Batch,
        i: usize,
        what: (RangeStart, Direction, bool),
        count: u32,
        known: &Known,
    ) -> Step {
        let mut chunk = std::mem::take(&mut self.chunk);
        let step = self.range_in(&mut chunk, batch, i, what, count, known);
        self.chunk = chunk;
        step
    }

    fn range_in(
        &mut self,
        chunk: &mut Chunk,
        batch: &mut Batch,
        i: usize,
        (from, direction, values): (RangeStart, Direction, bool),
        count: u32,
        known: &Known,
    ) -> Step {
        let machine = self.machine.clone();
        let Some(index) = machine.index.ordered() else {
            return Step::Done(Reply::Error(OpError::Unordered(machine.index.name())));
        };
        let (op, db) = (batch.ops[i], batch.place(&batch.ops[i]));
        let Batch { input, output, ranged, .. } = batch;
        let start_key = &input[op.key.start as usize..][..op.key.len()];
        let count = count.clamp(1, ROWS_MAX) as usize;
        let (output_start, rows_start) = (output.len(), ranged.len());
        let mut unread = Vec::new();
        let Chunk { bytes: chunk_bytes, entries, values: held_values, last } = chunk;
        let (mut rows, mut looked_at) = (0, 0);
        let mut ended = false;
        while !ended
            && rows + unread.len() < count
            && looked_at < KEYS_MAX
            && output.len() - output_start < ANSWER_BYTES
        {
            let bound = match from {
                _ if looked_at > 0 => Bound::Excluded(&last[..]),
                RangeStart::At => Bound::Included(start_key),
                RangeStart::After => Bound::Excluded(start_key),
                RangeStart::Edge => Bound::Unbounded,
            };
            let wanted = CHUNK.min(count - rows - unread.len());
            chunk_bytes.clear();
            held_values.clear();
            entries.clear();
            index.range_with_records(db, bound, direction, &mut |key, address, held| {
                chunk_bytes.extend_from_slice(key);
                let held = held.map(|Inline { version, tier, value }| {
                    let start = held_values.len();
                    held_values.extend_from_slice(value);
                    Held { version, tier, value: start..held_values.len() }
                });
                if held.is_none() {
                    machine.space.touch(address);
                }
                entries.push(Entry { key_end: chunk_bytes.len(), address, held });
                if entries.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            ended = entries.len() < wanted;
            looked_at += entries.len();
            let (mut key_start, mut last_key) = (0, 0..0);
            for Entry { key_end, address, held } in &*entries {
                if output.len() - output_start >= ANSWER_BYTES {
                    ended = false;
                    break;
                }
                last_key = key_start..*key_end;
                key_start = *key_end;
                let bytes = &chunk_bytes[last_key.clone()];
                let found = match held {
                    Some(held) => {
                        self.held_row((db, bytes), held, &held_values[held.value.clone()], values, output)
                    }
                    None => {
                        let key = machine.shared.hasher.key(db, bytes);
                        self.row(&key, *address, values, known, output)
                    }
                };
                match found {
                    Found::Row(row) => {
                        ranged.push((i as u32, row));
                        rows += 1;
                    }
                    Found::Nothing => {}
                    // One extent at a time: an arrival doesn't say which it is.
                    Found::Read(Wanted::Extent { .. }) if unread.iter().any(is_extent) => {}
                    Found::Read(wanted) => unread.push(wanted),
                    Found::Failed(error) => {
                        output.truncate(output_start);
                        ranged.truncate(rows_start);
                        return Step::Done(Reply::Error(error));
                    }
                }
            }
            if !entries.is_empty() {
                last.clear();
                last.extend_from_slice(&chunk_bytes[last_key]);
            }
        }
        if !unread.is_empty() {
            output.truncate(output_start);
            ranged.truncate(rows_start);
            return Step::Read(unread);
        }
        for (_, row) in ranged[rows_start..].iter().filter(|(_, row)| !row.damaged) {
            self.see(row.meta.version);
        }
        let next = (!ended && looked_at > 0).then(|| batch::push(output, last));
        Step::Done(Reply::Ranged { next })
    }

    /// The row of a record that the index holds itself.
    fn held_row(
        &mut self,
        (db, key): (u8, &[u8]),
        held: &Held,
        value: &[u8],
        values: bool,
        output: &mut Buffer,
    ) -> Found {
        let version = held.version;
        if is_forgotten(&self.machine.shared, db, version) {
            self.see(version);
            return Found::Nothing;
        }
        let key = batch::push(output, key);
        let value_bytes = value.len() as u64;
        let value = values.then(|| batch::push(output, value));
        self.hits[usize::from(held.tier) % 3] += 1;
        let meta = Meta { version, value_bytes, ..Meta::default() };
        Found::Row(Row { key, meta, value, damaged: false })
    }

    /// Fetches the record of one key, its key and value going to the end of `output`.
    fn row(
        &mut self,
        key: &Key<'_>,
        address: Address,
        values: bool,
        known: &Known,
        output: &mut Buffer,
    ) -> Found {
        let start = output.len();
        let key_span = batch::push(output, key.bytes);
        let value_start = output.len();
        let found = self.find(key, address, values, known, output);
        let nothing = |output: &mut Buffer| {
            output.truncate(start);
            Found::Nothing
        };
        let (mut head, damaged) = match found {
            Ok(Some((head, damaged))) => (head, damaged),
            Ok(None) => return nothing(output),
            Err(address) => {
                output.truncate(start);
                return Found::Read(Wanted::record(&self.machine.space, address));
            }
        };
        let expired = head.expire_at != 0 && head.expire_at <= self.now_ms();
        if !live(&self.machine.shared, &head, damaged) || (expired && !damaged) {
            if !damaged {
                // That it isn't there rests on this version.
                self.see(head.version);
            }
            return nothing(output);
        }
        let mut value_bytes = head.meta.value_bytes() as u64;
        let mut damaged = damaged;
        if !damaged && head.meta.kind() == Kind::Extent {
            match self.open_extent((key, &mut head), (values, false), known, output, value_start) {
                Ok(bytes) => value_bytes = bytes,
                Err(Step::Read(mut wanted)) => {
                    output.truncate(start);
                    return wanted.pop().map_or(Found::Nothing, Found::Read);
                }
                Err(Step::Done(Reply::Error(OpError::Poisoned))) => damaged = true,
                Err(Step::Done(Reply::Error(error))) => return Found::Failed(error),
                Err(Step::Done(_) | Step::Answered) => return nothing(output),
            }
        }
        if damaged {
            output.truncate(value_start);
            let meta = Meta { version: head.version, ..Meta::default() };
            return Found::Row(Row { key: key_span, meta, value: None, damaged });
        }
        self.hits[usize::from(head.tier) % 3] += 1;
        let meta = Meta { value_bytes, ..head.meta_for_answers() };
        let value = values.then(|| batch::span(value_start, output.len() - value_start));
        Found::Row(Row { key: key_span, meta, value, damaged })
    }

    /// The head of the key's record and whether it is damaged, its value at the end of `output` if it is wanted. `Err`: it must
    /// be read from there first.
    fn find(
        &self,
        key: &Key<'_>,
        address: Address,
        values: bool,
        known: &Known,
        output: &mut Buffer,
    ) -> Result<Option<(Head, bool)>, Address> {
        let (space, start) = (&self.machine.space, output.len());
        let want = if values { Want::Value } else { Want::Head };
        let mut fetch = |address| {
            output.truncate(start);
            known.fetch(space, address, Some(key), want, output)
        };
        match fetch(address) {
            Fetch::Match(head) => return Ok(Some((head, false))),
            Fetch::Damaged(head) => return Ok(Some((head, true))),
            Fetch::NeedsRead => return Err(address),
            // Replaced since the index was asked.
            Fetch::Differs => {}
        }
        let mut found = None;
        let looked = self.machine.index.get(key, |address| match fetch(address) {
            Fetch::Match(head) => {
                found = Some((head, false));
                Verdict::Match
            }
            Fetch::Damaged(head) => {
                found = Some((head, true));
                Verdict::Match
            }
            Fetch::Differs => Verdict::Differs,
            Fetch::NeedsRead => Verdict::NeedsRead,
        });
        match looked {
            Lookup::Found(_) => Ok(found),
            Lookup::Absent => Ok(None),
            Lookup::Unread(address) => Err(address),
        }
    }
}

fn is_extent(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Extent { .. })
}
