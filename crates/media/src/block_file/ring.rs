//! Reads through io_uring.
//!
//! # Thread safety
//! A ring belongs to one thread; the kernel fills buffers and the completion queue beside it.
//!
//! # Invariants
//! - A buffer that the kernel may write to stays in its slot until its completion was seen; dropping the ring waits
//!   for all of them.
//! - A slot has one entry in the submission queue at most, and there are no more slots than entries, so a push
//!   always finds room. `unsubmitted` lists, in order, the slots whose entries the kernel hasn't taken.
//! - The signal is cleared *before* completions are collected: one that arrives in between leaves it raised.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, types};

use super::Shared;
use super::io_loop::resume;
use super::signal::Signal;
use crate::{AlignedBuf, Completion};

/// One read asks for this much at most; what is left is asked for afterwards.
const READ_BYTES_MAX: usize = 1 << 30;

struct Slot {
    token: u64,
    offset: u64,
    buf: AlignedBuf,
    /// Bytes of `buf` that are filled.
    done: usize,
}

pub(super) struct Ring {
    ring: IoUring,
    shared: Arc<Shared>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    unsubmitted: VecDeque<usize>,
    /// The kernel refused to take entries: nothing is submitted any more, because it might take stale ones.
    broken: bool,
    signal: Signal,
    /// The signal may be raised for completions that were collected already.
    signal_stale: bool,
}

/// Whether this system lets us make rings and use them (kernels, containers and security policies may not).
pub(super) fn available() -> bool {
    let attempt = || -> io::Result<bool> {
        let mut ring = IoUring::new(2)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        // SAFETY: a no-op refers to no memory.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        Ok(probe.is_supported(opcode::Read::CODE))
    };
    attempt().unwrap_or(false)
}

impl Ring {
    pub(super) fn new(shared: Arc<Shared>, depth: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth.max(1).next_power_of_two()).map_err(io::Error::other)?;
        let ring = IoUring::builder().dontfork().build(entries)?;
        let signal = Signal::new()?;
        ring.submitter().register_eventfd(signal.raw())?;
        let slots = (0..depth).map(|_| None).collect();
        let (free, unsubmitted) = ((0..depth).rev().collect(), VecDeque::with_capacity(depth));
        Ok(Self { ring, shared, slots, free, unsubmitted, broken: false, signal, signal_stale: false })
    }

    pub(super) fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf> {
        let Some(at) = self.free.pop() else { return Err(buf) };
        self.slots[at] = Some(Slot { token, offset, buf, done: 0 });
        self.push(at);
        Ok(())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    pub(super) fn reap(&mut self, wait: bool, out: &mut Vec<Completion>) {
        if self.in_flight() == 0 && !self.signal_stale {
            return;
        }
        self.signal.clear();
        self.signal_stale = false;
        let before = out.len();
        self.enter(0, out);
        self.collect(out);
        loop {
            let must_wait = wait && out.len() == before && self.in_flight() > 0;
            if !must_wait && self.unsubmitted.is_empty() {
                break;
            }
            self.enter(usize::from(must_wait), out);
            self.collect(out);
        }
    }

    /// Queues the rest of a slot's read.
    fn push(&mut self, at: usize) {
        self.unsubmitted.push_back(at);
        let Some(slot) = &mut self.slots[at] else { return };
        if self.broken {
            return;
        }
        let fd = types::Fd(self.shared.file.as_raw_fd());
        let rest = &mut slot.buf[slot.done..];
        let len = rest.len().min(READ_BYTES_MAX) as u32;
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), len)
            .offset(slot.offset + slot.done as u64)
            .build()
            .user_data(at as u64);
        // SAFETY: the slot keeps the buffer, and `shared` the file, until the completion was collected.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        debug_assert!(pushed.is_ok(), "no more slots than entries");
        self.broken |= pushed.is_err();
    }

    /// Hands entries over, and waits for `want` completions. Fails what can't be handed over.
    fn enter(&mut self, want: usize, out: &mut Vec<Completion>) {
        if self.broken {
            for at in std::mem::take(&mut self.unsubmitted) {
                self.finish(at, Err(io::Error::other("io_uring refused to take reads")), out);
            }
            // What the kernel has taken it completes by itself.
            std::thread::yield_now();
            return;
        }
        if self.unsubmitted.is_empty() && want == 0 {
            return;
        }
        match self.ring.submit_and_wait(want) {
            Ok(taken) => drop(self.unsubmitted.drain(..taken.min(self.unsubmitted.len()))),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // Short of memory, or completions must be collected first: the caller does and comes back.
                Some(libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                _ => self.broken = true,
            },
        }
    }

    fn collect(&mut self, out: &mut Vec<Completion>) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            self.signal_stale = true;
            let (at, result) = (entry.user_data() as usize, entry.result());
            let Some(slot) = self.slots.get_mut(at).and_then(Option::as_mut) else { continue };
            match usize::try_from(result) {
                Err(_) if matches!(-result, libc::EINTR | libc::EAGAIN) => self.push(at),
                Err(_) => self.finish(at, Err(io::Error::from_raw_os_error(-result)), out),
                Ok(moved) => match resume(slot.done, moved, slot.buf.len()) {
                    None => self.finish(at, Err(io::ErrorKind::UnexpectedEof.into()), out),
                    Some(done) if done == slot.buf.len() => self.finish(at, Ok(()), out),
                    Some(done) => {
                        slot.done = done;
                        self.push(at);
                    }
                },
            }
        }
    }

    fn finish(&mut self, at: usize, result: io::Result<()>, out: &mut Vec<Completion>) {
        if let Some(slot) = self.slots[at].take() {
            self.free.push(at);
            out.push(Completion { token: slot.token, buf: slot.buf, result });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut unread = Vec::new();
        while self.in_flight() > 0 {
            self.reap(true, &mut unread);
        }
    }
}
