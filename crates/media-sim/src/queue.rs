//! A queue of reads whose completions appear at `reap`, in order or as a seed says.

use std::os::fd::RawFd;

use terrace_media::{AlignedBuf, BlockDevice, BlockQueue, Completion, IO_ALIGN};

use crate::block::SimBlock;
use crate::rng::Rng;

/// When reads complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// All at the next reap, as submitted.
    InOrder,
    /// Some at each reap, in any order; a read may happen at once or as late as its completion.
    Shuffled {
        /// Of the choices; each queue of a device draws its own.
        seed: u64,
    },
}

/// The queue of a [`SimBlock`].
pub struct SimQueue {
    device: SimBlock,
    depth: usize,
    rng: Option<Rng>,
    pending: Vec<Submitted>,
}

struct Submitted {
    completion: Completion,
    offset: u64,
    /// Whether the device served it when it was submitted.
    early: bool,
    /// Reaps that must pass before it completes.
    late: u32,
}

impl SimQueue {
    pub(crate) fn new(device: SimBlock, depth: usize, order: QueueOrder, number: u64) -> Self {
        let rng = match order {
            QueueOrder::InOrder => None,
            QueueOrder::Shuffled { seed } => Some(Rng::new(seed ^ number.wrapping_mul(0x9e37_79b9))),
        };
        Self { device, depth, rng, pending: Vec::new() }
    }
}

impl BlockQueue for SimQueue {
    fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf> {
        debug_assert!(offset.is_multiple_of(IO_ALIGN as u64));
        if self.pending.len() >= self.depth {
            return Err(buf);
        }
        let mut completion = Completion { token, buf, result: Ok(()) };
        let early = self.rng.as_mut().is_some_and(|rng| rng.one_in(2));
        if early {
            completion.result = self.device.read_at(offset, &mut completion.buf);
        }
        let late = self.device.late(offset, completion.buf.len());
        self.pending.push(Submitted { completion, offset, early, late });
        Ok(())
    }

    fn reap(&mut self, wait: bool, out: &mut Vec<Completion>) {
        let mut ready: Vec<Submitted> = self.pending.extract_if(.., |read| read.late == 0).collect();
        if wait && ready.is_empty() {
            // Time passes until the first of the late ones is there.
            let least = self.pending.iter().map(|read| read.late).min().unwrap_or(0);
            self.pending.iter_mut().for_each(|read| read.late -= least);
            ready = self.pending.extract_if(.., |read| read.late == 0).collect();
        }
        self.pending.iter_mut().for_each(|read| read.late -= 1);
        let mut keep = 0;
        if let Some(rng) = &mut self.rng {
            rng.shuffle(&mut ready);
            let most = ready.len() as u64;
            keep = rng.below(most + 1);
            if wait {
                keep = keep.min(most.saturating_sub(1));
            }
        }
        let done = ready.len() - keep as usize;
        for Submitted { mut completion, offset, early, .. } in ready.drain(..done) {
            if !early {
                completion.result = self.device.read_at(offset, &mut completion.buf);
            }
            out.push(completion);
        }
        self.pending.splice(..0, ready);
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    fn event_fd(&self) -> Option<RawFd> {
        None
    }
}
