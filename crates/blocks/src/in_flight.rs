//! The device reads of a session that are under way, and who waits for each.
//!
//! # Invariants
//! * A read is of one use of one slot (`slot`, `seq`): nobody waits for a read of another use, whose bytes may be others.
//! * Whoever joins a read wants nothing outside of it.

use std::ops::Range;

use terrace_media::AlignedBuf;

/// A job that waits for a read, and which of its parts the read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The job.
    pub token: u64,
    /// Which piece of a large value; 0 for a record.
    pub part: usize,
}

/// Whole units of a block that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The slot.
    pub slot: u32,
    /// The use of the slot.
    pub seq: u64,
    /// Which bytes of the block.
    pub bytes: Range<u32>,
}

impl Stretch {
    fn covers(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.seq == other.seq
            && self.bytes.start <= other.bytes.start
            && other.bytes.end <= self.bytes.end
    }
    /// What a read of this stretch brought, from an offset in the block on.
    pub fn from<'a>(&self, buf: &'a AlignedBuf, offset: u32) -> &'a [u8] {
        let (start, end) = (self.bytes.start, self.bytes.end);
        offset
            .checked_sub(start)
            .and_then(|skip| buf.get(skip as usize..(end - start) as usize))
            .unwrap_or_default()
    }
}

/// A read that was submitted and has not been reaped.
pub struct Underway {
    device_token: u64,
    /// What is read.
    pub stretch: Stretch,
    /// The job that it was started for.
    pub starter: Waiter,
    /// Those that came later.
    pub joined: Vec<Waiter>,
}

/// All of a session: as many as its queue holds at most, so they are looked through one by one.
#[derive(Default)]
pub struct InFlight {
    reads: Vec<Underway>,
    last_token: u64,
}

impl InFlight {
    /// Lets somebody wait for a read under way that brings all that is wanted; `false` if there is none.
    pub fn join(&mut self, wanted: &Stretch, waiter: Waiter) -> bool {
        let Some(read) = self.reads.iter_mut().find(|read| read.stretch.covers(wanted)) else { return false };
        read.joined.push(waiter);
        true
    }
    /// The token for the next read.
    pub fn next_token(&self) -> u64 {
        self.last_token + 1
    }
    /// A read was submitted with that token.
    pub fn started(&mut self, stretch: Stretch, starter: Waiter) {
        self.last_token += 1;
        let device_token = self.last_token;
        self.reads.push(Underway { device_token, stretch, starter, joined: Vec::new() });
    }
    /// The read with this token has finished: nobody joins it any more.
    pub fn finished(&mut self, device_token: u64) -> Option<Underway> {
        let at = self.reads.iter().position(|read| read.device_token == device_token)?;
        Some(self.reads.swap_remove(at))
    }
}
