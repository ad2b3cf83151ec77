//! Pending operations: started reads, finished reads, and operations queued behind another on the same key.

use terrace_index::Index;
use terrace_log::LogDevice;

use super::{Core, Step};
use crate::batch::Batch;
use crate::op::OpKind;
use crate::pending::{Known, Pending, Wanted};
use crate::reply::{OpError, Reply};
use crate::space::{Arrived, Space};

/// Operations of one key that are pending.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Their positions, in order.
    orders: Vec<u64>,
    /// The most that one of them is expected to read: about what each of the others will bring.
    bytes: usize,
}

/// Whether this changes whole databases. It waits for the operations before it in its batch, and those behind wait for it.
pub(super) fn is_barrier(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Flush { .. } | OpKind::Swap { .. })
}

fn is_pending_barrier(batch: &Batch, pending: &Pending) -> bool {
    is_barrier(&batch.ops[pending.ops.0 as usize].kind)
}

/// Whether a change of whole databases is pending in this batch.
pub(super) fn barrier_waits(batch: &Batch) -> bool {
    batch.pending.iter().any(|pending| is_pending_barrier(batch, pending))
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Whether an earlier operation on this key is still pending.
    #[inline]
    pub(super) fn is_busy(&self, hash: u64) -> bool {
        !self.busy.is_empty() && self.busy.contains_key(&hash)
    }

    /// Makes operations pending that need `reads`, or that must wait behind others.
    pub(super) fn suspend(
        &mut self,
        batch: &mut Batch,
        ops: (usize, usize),
        hashes: Vec<u64>,
        reads: Vec<Wanted>,
        known: Known,
    ) {
        let order = self.order();
        let space = &self.machine.space;
        let length = |wanted: &Wanted| match wanted {
            Wanted::Record(address, _) => space.read_bytes(*address),
            Wanted::Extent { description, .. } => space.extent_bytes(description) as usize,
        };
        let read: usize = reads.iter().map(length).sum();
        for &hash in &hashes {
            let queue = self.busy.entry(hash).or_default();
            queue.orders.push(order);
            queue.bytes = queue.bytes.max(read);
            if reads.is_empty() {
                // It reads nothing itself, and answers with what those before it bring.
                batch.awaited_bytes += queue.bytes;
            }
        }
        batch.awaited_bytes += read;
        for i in ops.0..ops.1 {
            batch.replies[i] = Reply::Pending;
        }
        let ops = (ops.0 as u32, ops.1 as u32);
        let mut pending = Pending { ops, order, hashes, reads: Vec::new(), unstarted: reads, known };
        self.start(&mut pending);
        batch.pending.push(pending);
    }

    fn start(&mut self, pending: &mut Pending) {
        while let Some(wanted) = pending.unstarted.pop() {
            self.next_token += 1;
            let token = self.next_token;
            let (space, local) = (&self.machine.space, &mut self.local);
            let (place, started) = match &wanted {
                Wanted::Record(address, generation) => {
                    let started = space.start_read(local, Some(*address), &[], token);
                    (Some((*address, *generation)), started)
                }
                Wanted::Extent { description, version } => {
                    pending.known.extent_version = *version;
                    (None, space.start_read(local, None, description, token))
                }
            };
            if !started {
                pending.unstarted.push(wanted);
                self.starved = true;
                return;
            }
            pending.reads.push((token, place));
        }
    }

    /// Goes on with the batch's pending operations; with `wait`, waits for a device first if reads are in flight.
    pub(super) fn resume(&mut self, batch: &mut Batch, wait: bool) {
        let mut wait = wait && batch.pending.iter().any(|p| !p.reads.is_empty()) && self.arrived.is_empty();
        let starved = std::mem::take(&mut self.starved);
        let mut reaped = false;
        loop {
            reaped |= self.reap(wait);
            let mut waiting = std::mem::take(&mut batch.pending);
            self.enter();
            let mut behind_barrier = false;
            for mut pending in waiting.drain(..) {
                if behind_barrier || !self.resume_one(batch, &mut pending) {
                    behind_barrier |= is_pending_barrier(batch, &pending);
                    batch.pending.push(pending);
                }
            }
            self.machine.space.rest(&mut self.local);
            self.leave();
            wait = false;
            // Reads that were started just now must be handed to the device, or nobody would be woken for them.
            if batch.pending.is_empty() || !self.reap(false) {
                break;
            }
            reaped = true;
        }
        self.starved |= starved;
        self.pass_on(reaped);
        let failed = !self.write_log();
        self.fill(&mut batch.ticket);
        batch.ticket.failed |= failed;
    }

    /// Hands started reads to the device and takes in finished ones; whether there were any.
    fn reap(&mut self, wait: bool) -> bool {
        self.machine.space.reap(&mut self.local, wait, &mut self.arrivals);
        let any = !self.arrivals.is_empty();
        for arrival in self.arrivals.drain(..) {
            self.arrived.insert(arrival.token, arrival.outcome);
        }
        any
    }

    /// What came for other batches of this session was taken from the device here, or made room for reads of theirs that it
    /// had none for: the device's event is spent, so give another.
    fn pass_on(&mut self, reaped: bool) {
        if !self.arrived.is_empty() || (reaped && std::mem::take(&mut self.starved)) {
            self.wake_self();
        }
    }

    /// Other batches of this session should be polled.
    fn wake_self(&self) {
        if let Some(waker) = &self.waker {
            // A full counter means that it is readable already.
            let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
        }
    }

    /// Whether the operation is answered now.
    fn resume_one(&mut self, batch: &mut Batch, pending: &mut Pending) -> bool {
        let mut failed = false;
        let (arrived, space) = (&mut self.arrived, &self.machine.space);
        pending.reads.retain(|(token, place)| match arrived.remove(token) {
            None => true,
            Some(outcome) => {
                // Where the place was reused before the read was over, or even before it began, it says nothing of the
                // record: neither that it is damaged nor that it can't be read.
                let reused = place.is_some_and(|(address, then)| space.generation(address) != then);
                let outcome = if reused { Arrived::Moved } else { outcome };
                failed |= pending.known.learn(*place, outcome).is_err();
                false
            }
        });
        // Left over from an earlier epoch for want of room in the queue.
        pending.unstarted.retain(|wanted| !wanted.has_moved(space));
        self.start(pending);
        if !pending.reads.is_empty() || !pending.unstarted.is_empty() {
            return false;
        }
        let first = |hash: &u64| {
            self.busy.get(hash).is_some_and(|queue| queue.orders.first() == Some(&pending.order))
        };
        if !pending.hashes.iter().all(first) {
            return false;
        }
        let (start, end) = (pending.ops.0 as usize, pending.ops.1 as usize);
        let mut known = std::mem::take(&mut pending.known);
        let step = if failed {
            Step::Done(Reply::Error(OpError::Io))
        } else {
            self.run(batch, start, end, &mut known)
        };
        match step {
            done @ (Step::Done(_) | Step::Answered) => {
                if let Step::Done(reply) = done {
                    batch.replies[start..end].fill(reply);
                }
                let mut followed = false;
                for hash in &pending.hashes {
                    if let Some(queue) = self.busy.get_mut(hash) {
                        queue.orders.retain(|order| *order != pending.order);
                        if queue.orders.is_empty() {
                            self.busy.remove(hash);
                        } else {
                            followed = true;
                        }
                    }
                }
                if followed {
                    // What waits behind it may be in a batch that was polled before this one, and no device will call.
                    self.wake_self();
                }
                true
            }
            Step::Read(reads) => {
                pending.known = known;
                pending.unstarted = reads;
                self.start(pending);
                false
            }
        }
    }
}
