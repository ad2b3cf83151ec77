//! A batch's way through a session.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use rustix::event::EventfdFlags;
use terrace_index::{Index, Key};
use terrace_log::LogDevice;

use super::waiting::{barrier_waits, is_barrier};
use super::{Ahead, Core, Step};
use crate::batch::{Batch, Settled};
use crate::databases::Databases;
use crate::op::OpKind;
use crate::pending::Known;
use crate::reply::{OpError, Reply};
use crate::session::Session;
use crate::space::Space;

/// Operations whose index buckets and records are prefetched together.
const WINDOW: usize = 32;
/// Once the answers of a batch take more than this, its further operations are refused. Spans have 32 bits: no operation alone
/// adds as much as is left to 4 GiB.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1 << 30;

impl<I: Index, S: Space, D: LogDevice> Session for Core<I, S, D> {
    fn execute(&mut self, batch: &mut Batch) {
        self.enter();
        if batch.stopped_at == 0 {
            batch.databases = self.machine.shared.databases();
        }
        self.execute_entered(batch);
    }

    fn poll(&mut self, batch: &mut Batch) -> bool {
        if !batch.pending.is_empty() {
            // The event descriptor is not read here: what it says may be for another batch, looked at before this one.
            self.resume(batch, false);
        }
        batch.pending.is_empty()
    }

    fn settled(&mut self, batch: &Batch) -> Option<Settled> {
        if !batch.pending.is_empty() {
            return None;
        }
        let failed = batch.ticket.failed;
        if failed || self.is_settled(&batch.ticket) {
            let failed = failed || (self.writer.is_given() && self.shared().log_failed.load(Relaxed));
            return Some(Settled { failed: failed.then(|| self.shared().log_error()) });
        }
        None
    }

    fn wait(&mut self, batch: &mut Batch) -> Settled {
        loop {
            if !batch.pending.is_empty() {
                self.resume(batch, true);
            }
            if let Some(settled) = self.settled(batch) {
                return settled;
            }
            if batch.pending.is_empty() {
                self.machine.work();
            }
        }
    }

    fn event_fds(&mut self) -> Vec<RawFd> {
        let mut fds: Vec<RawFd> = self.machine.space.read_fd(&self.local).into_iter().collect();
        if self.waker.is_none()
            && let Ok(fd) = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        {
            let fd = Arc::new(fd);
            self.machine.set_waker(self.slot, Some(fd.clone()));
            self.waker = Some(fd);
        }
        fds.extend(self.waker.as_ref().map(|fd| fd.as_raw_fd()));
        fds
    }

    fn acknowledge_events(&mut self) {
        self.drain_waker();
    }
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs a batch of operations that name databases by where they lie.
    pub(super) fn execute_internal(&mut self, batch: &mut Batch) {
        self.enter();
        batch.databases = Databases::default();
        self.execute_entered(batch);
    }

    /// Runs a batch, the session being inside its epoch.
    fn execute_entered(&mut self, batch: &mut Batch) {
        let count = batch.ops.len();
        let mut start = std::mem::take(&mut batch.stopped_at);
        self.ahead.hashes.clear();
        batch.replies.truncate(start);
        batch.replies.resize(count, Reply::Pending);
        batch.awaited_bytes = 0;
        let mut next_atomic = batch.atomic.partition_point(|group| (group.start as usize) < start);
        while start < count {
            if batch.stops_at(start) {
                batch.stopped_at = start;
                break;
            }
            // A window ends where an atomic group begins.
            let mut limit = count;
            let atomic =
                batch.atomic.get(next_atomic).map(|group| (group.start as usize, group.end as usize));
            if let Some((from, to)) = atomic {
                if from == start {
                    self.execute_ops(batch, from, to);
                    next_atomic += 1;
                    start = to;
                    continue;
                }
                limit = from;
            }
            start = self.execute_window(batch, start, limit);
        }
        self.machine.space.rest(&mut self.local);
        self.leave();
        self.scratch.trim();
        let failed = !self.write_log();
        self.fill(&mut batch.ticket);
        if batch.syncs {
            self.wait_for_all(&mut batch.ticket);
        }
        batch.ticket.failed |= failed;
        if !batch.pending.is_empty() {
            self.resume(batch, false);
        }
    }

    fn drain_waker(&mut self) {
        if let Some(waker) = &self.waker {
            let mut count = [0u8; 8];
            // Nothing to read is the common case; the event descriptor can't fail otherwise.
            let _ = rustix::io::read(waker, &mut count);
        }
    }

    /// Runs independent operations before `limit`, as many as a window takes, their records prefetched; returns how far it came.
    /// Buckets are prefetched one window ahead: to wait for those of this one would take as long as to work on them.
    fn execute_window(&mut self, batch: &mut Batch, start: usize, limit: usize) -> usize {
        let end = (start + WINDOW).min(limit);
        if self.ahead.start != start || self.ahead.hashes.is_empty() {
            self.look_ahead(batch, start, end);
        }
        std::mem::swap(&mut self.hashes, &mut self.ahead.hashes);
        if end - start > 1 {
            let (ops, hashes) = (&batch.ops[start..end], &self.hashes[..end - start]);
            let key = |i: usize| {
                let op = &ops[i];
                Key { hash: hashes[i], db: batch.place(op), bytes: batch.input(op.key) }
            };
            let space = &self.machine.space;
            let (mut touched, mut count) = ([None; WINDOW], 0);
            self.machine.index.touch_batch(ops.len(), key, |at| {
                space.touch(at);
                if S::TOUCHES_TWICE
                    && let Some(place) = touched.get_mut(count)
                {
                    *place = Some(at);
                    count += 1;
                }
            });
            touched[..count].iter().flatten().for_each(|at| space.touch_again(*at));
        }
        if end < limit {
            self.look_ahead(batch, end, (end + WINDOW).min(limit));
        }
        let mut behind_barrier = barrier_waits(batch);
        for i in start..end {
            if batch.stops_at(i) {
                return i;
            }
            let hash = self.hashes[i - start];
            if batch.pending.is_empty() && self.busy.is_empty() && self.run_plain(batch, i, hash) {
                continue;
            }
            // Operations on a whole database have no key to wait behind, though they carry an empty one.
            let keyless = matches!(
                batch.ops[i].kind,
                OpKind::Flush { .. } | OpKind::Swap { .. } | OpKind::Scan { .. } | OpKind::Range { .. }
            );
            let hashes = || if keyless { Vec::new() } else { vec![hash] };
            if behind_barrier || (!keyless && self.is_busy(hash)) {
                self.suspend(batch, (i, i + 1), hashes(), Vec::new(), Known::default());
                continue;
            }
            let mut known = Known::default();
            match self.run_one(batch, i, hash, &mut known) {
                Step::Done(reply) => batch.replies[i] = reply,
                Step::Answered => {}
                Step::Read(reads) => {
                    behind_barrier = is_barrier(&batch.ops[i].kind);
                    self.suspend(batch, (i, i + 1), hashes(), reads, known);
                }
            }
        }
        end
    }

    /// Hashes the keys of the next window's operations and prefetches their buckets.
    fn look_ahead(&mut self, batch: &Batch, start: usize, end: usize) {
        let Ahead { start: at, hashes } = &mut self.ahead;
        *at = start;
        hashes.clear();
        for op in &batch.ops[start..end] {
            let key = self.machine.shared.hasher.key(batch.place(op), batch.input(op.key));
            if end - start > 1 {
                self.machine.index.prefetch(&key);
            }
            hashes.push(key.hash);
        }
    }

    fn hash_of(&self, batch: &Batch, i: usize) -> u64 {
        let op = &batch.ops[i];
        self.machine.shared.hasher.key(batch.place(op), batch.input(op.key)).hash
    }

    fn execute_ops(&mut self, batch: &mut Batch, start: usize, end: usize) {
        let guard = batch.group_at(start).and_then(|group| group.after);
        // It is looked at once the guard has been decided: it waits behind that, should a device be read for it.
        let with_key = |i: &usize| {
            let kind = &batch.ops[*i].kind;
            !is_barrier(kind) && !matches!(kind, OpKind::Scan { .. } | OpKind::Range { .. })
        };
        let of_group = (start..end).chain(guard.map(|guard| guard as usize)).filter(with_key);
        let mut hashes: Vec<u64> = of_group.map(|i| self.hash_of(batch, i)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut known = Known::default();
        if barrier_waits(batch) || hashes.iter().any(|&hash| self.is_busy(hash)) {
            self.suspend(batch, (start, end), hashes, Vec::new(), known);
            return;
        }
        match self.run(batch, start, end, &mut known) {
            Step::Done(reply) => batch.replies[start..end].fill(reply),
            Step::Answered => {}
            Step::Read(reads) => self.suspend(batch, (start, end), hashes, reads, known),
        }
    }

    /// Runs one operation, or several as one step.
    pub(super) fn run(&mut self, batch: &mut Batch, start: usize, end: usize, known: &mut Known) -> Step {
        if batch.is_aborted_at(start) {
            return Step::Done(Reply::Aborted);
        }
        if end - start > 1 {
            return self.atomic(batch, start, end, known);
        }
        let hash = self.hash_of(batch, start);
        self.run_one(batch, start, hash, known)
    }

    #[inline]
    fn run_one(&mut self, batch: &mut Batch, i: usize, hash: u64, known: &mut Known) -> Step {
        let op = batch.ops[i];
        let (key_bytes, db) = (op.key, batch.place(&op));
        if batch.output.len() > OUTPUT_BYTES_MAX {
            return Step::Done(Reply::Error(OpError::OutputTooLong(OUTPUT_BYTES_MAX as u64)));
        }
        if let OpKind::Get { value } = op.kind {
            let Batch { input, output, peeks, .. } = batch;
            let bytes = &input[key_bytes.start as usize..][..key_bytes.len()];
            let key = terrace_index::Key { hash, db, bytes };
            return self.get(&key, (value, *peeks), known, output);
        }
        // Earlier operations of this batch come first. They may wait behind other batches of this session, so that waiting for them
        // here might never end.
        if is_barrier(&op.kind) && !batch.pending.is_empty() {
            return Step::Read(Vec::new());
        }
        if let OpKind::Flush { db } = op.kind {
            let place = db.map(|db| batch.databases.place(db));
            return self.flush(place);
        }
        if let OpKind::Swap { with } = op.kind {
            return self.swap(db, batch.databases.place(with));
        }
        if let Some(step) = self.scan_op(batch, i, known) {
            return step;
        }
        if let OpKind::Range { from, direction, count, values } = op.kind {
            // Whatever comes before it in its batch may be in the range.
            if !batch.pending.is_empty() {
                return Step::Read(Vec::new());
            }
            return self.range(batch, i, (from, direction, values), count, known);
        }
        let Batch { input, output, .. } = batch;
        let slice = |span: crate::op::Span| &input[span.start as usize..][..span.len()];
        let key = terrace_index::Key { hash, db, bytes: slice(key_bytes) };
        let argument = match op.kind {
            OpKind::Set { value, .. } | OpKind::Append { value, .. } => slice(value),
            OpKind::Edit { argument, .. } => slice(argument),
            _ => &[],
        };
        let step = self.update(&op, &key, argument, known, output);
        if !self.made.is_empty() {
            batch.made.extend(self.made.drain(..).map(|at| i as u32 + at));
        }
        step
    }
}

impl Settled {
    /// What to answer in place of a reply: the reply itself, unless the log failed under it.
    pub(crate) fn admit(&self, reply: Reply) -> Reply {
        self.failed.map_or(reply, Reply::Error)
    }
}
