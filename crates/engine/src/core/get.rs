//! Reads.

use std::sync::atomic::Ordering::Relaxed;

use terrace_index::{AnyIndex, Index, Key, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::{Core, Step};
use crate::batch;
use crate::pending::{Known, Loss, Wanted};
use crate::record::{Head, Kind};
use crate::reply::{Meta, OpError, Reply};
use crate::space::{Fetch, Space, Want};

/// The tier of what a read brought that completed later.
const DEVICE: u8 = 2;

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Reads a key's value, or its metadata alone, into `output`; with `peeks` as [`Batch::peek`](crate::Batch::peek) says.
    #[inline]
    pub(super) fn get(
        &mut self,
        key: &Key<'_>,
        (value, peeks): (bool, bool),
        known: &Known,
        output: &mut Buffer,
    ) -> Step {
        let start = output.len();
        let want = if value { Want::Value } else { Want::Head };
        let mut head = Head::default();
        let mut damaged = false;
        let space = &self.machine.space;
        let looked = self.machine.index.get(key, |address| {
            output.truncate(start);
            match known.fetch(space, address, Some(key), want, output) {
                Fetch::Match(found) => {
                    (head, damaged) = (found, false);
                    Verdict::Match
                }
                Fetch::Damaged(found) => {
                    (head, damaged) = (found, true);
                    Verdict::Match
                }
                Fetch::Differs => Verdict::Differs,
                Fetch::NeedsRead => Verdict::NeedsRead,
            }
        });
        let address = match looked {
            Lookup::Found(address) => address,
            Lookup::Absent => return self.miss(output, start, peeks),
            Lookup::Unread(address) => {
                output.truncate(start);
                return Step::Read(vec![Wanted::record(space, address)]);
            }
        };
        if !damaged {
            self.see(head.version);
        }
        if !self.is_live(&head, damaged) {
            if !peeks && head.meta.kind() != Kind::Tombstone {
                self.counters().misses_flushed.fetch_add(1, Relaxed);
            }
            return self.miss(output, start, peeks);
        }
        if damaged {
            output.truncate(start);
            return Step::Done(Reply::Error(OpError::Poisoned));
        }
        if head.expire_at != 0 && head.expire_at <= self.now_ms() {
            if !peeks {
                self.counters().misses_expired.fetch_add(1, Relaxed);
            }
            return self.miss(output, start, peeks);
        }
        let mut value_bytes = head.meta.value_bytes() as u64;
        if head.meta.kind() == Kind::Extent {
            match self.open_extent((key, &mut head), (value, peeks), known, output, start) {
                Ok(bytes) => value_bytes = bytes,
                Err(step) => return step,
            }
        }
        if !peeks {
            self.hits[usize::from(head.tier) % 3] += 1;
            let Self { machine, local, .. } = self;
            machine.space.hit(
                local,
                AnyIndex::of(&machine.index),
                key,
                address,
                head.tier,
                known.record(&machine.space, address),
            );
        }
        let meta = Meta { value_bytes, ..head.meta_for_answers() };
        let value = value.then(|| batch::span(start, output.len() - start));
        Step::Done(Reply::Hit { meta, value })
    }

    fn miss(&mut self, output: &mut Buffer, start: usize, peeks: bool) -> Step {
        output.truncate(start);
        self.misses += u64::from(!peeks);
        Step::Done(Reply::Miss)
    }

    /// Replaces the extent's description at `start` by its bytes (or by nothing if they aren't wanted). The record's head learns
    /// which tier they came from: it is they that cost something.
    pub(super) fn open_extent(
        &mut self,
        (key, head): (&Key<'_>, &mut Head),
        (value, peeks): (bool, bool),
        known: &Known,
        output: &mut Buffer,
        start: usize,
    ) -> Result<u64, Step> {
        let space = &self.machine.space;
        self.description.clear();
        self.description.extend_from_slice(&output[start..]);
        output.truncate(start);
        let bytes = space.extent_bytes(&self.description);
        if !value {
            return Ok(bytes);
        }
        match known.extent(head.version) {
            Some(Ok(extent)) => {
                output.extend_from_slice(extent);
                if !peeks {
                    space.keep_extent(key, &self.description, extent);
                }
                head.tier = DEVICE;
                return Ok(bytes);
            }
            Some(Err(loss)) => return Err(Step::Done(Reply::Error(lost(loss)))),
            None => {}
        }
        match space.fetch_extent(&self.description, output) {
            Fetch::Match(Head { tier, .. }) => {
                head.tier = tier;
                Ok(bytes)
            }
            Fetch::NeedsRead => {
                let description = self.description.clone();
                Err(Step::Read(vec![Wanted::Extent { description, version: head.version }]))
            }
            Fetch::Damaged(_) | Fetch::Differs => {
                output.truncate(start);
                Err(Step::Done(Reply::Error(OpError::Poisoned)))
            }
        }
    }
}

pub(super) fn lost(loss: Loss) -> OpError {
    match loss {
        Loss::Damaged => OpError::Poisoned,
        Loss::Failed => OpError::Io,
    }
}
