//! The queue of a block file, whichever way it reads.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::Shared;
use super::crew::CrewQueue;
use super::ring::Ring;
use super::signal::Signal;
use crate::{AlignedBuf, BlockQueue, Completion};

/// Asynchronous reads of one thread from a [`BlockFile`](crate::BlockFile). Dropping it waits for those in flight.
pub struct FileQueue {
    reader: Reader,
    shared: Arc<Shared>,
    depth: usize,
    /// Reads that can't be: they complete with an error at the next reap.
    refused: Vec<Completion>,
}

pub(super) enum Reader {
    Ring(Box<Ring>),
    Crew(CrewQueue),
}

impl FileQueue {
    pub(super) fn new(reader: Reader, shared: Arc<Shared>, depth: usize) -> Self {
        Self { reader, shared, depth, refused: Vec::new() }
    }

    fn signal(&self) -> &Signal {
        match &self.reader {
            Reader::Ring(ring) => ring.signal(),
            Reader::Crew(crew) => crew.signal(),
        }
    }
}

impl BlockQueue for FileQueue {
    fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf> {
        if self.in_flight() >= self.depth {
            return Err(buf);
        }
        if let Err(error) = self.shared.check(offset, buf.len()) {
            self.refused.push(Completion { token, buf, result: Err(error) });
            self.signal().raise();
            return Ok(());
        }
        let len = buf.len();
        match &mut self.reader {
            Reader::Ring(ring) => ring.submit(token, offset, buf)?,
            Reader::Crew(crew) => crew.submit(token, offset, buf)?,
        }
        self.shared.count_read(len);
        Ok(())
    }

    fn reap(&mut self, wait: bool, out: &mut Vec<Completion>) {
        let wait = wait && self.refused.is_empty();
        match &mut self.reader {
            Reader::Ring(ring) => ring.reap(wait, out),
            Reader::Crew(crew) => crew.reap(wait, out),
        }
        if !self.refused.is_empty() {
            out.append(&mut self.refused);
            self.signal().clear();
            // It may have been cleared for a read that completed just now.
            if self.in_flight() > 0 {
                self.signal().raise();
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.refused.len()
            + match &self.reader {
                Reader::Ring(ring) => ring.in_flight(),
                Reader::Crew(crew) => crew.in_flight(),
            }
    }

    fn event_fd(&self) -> Option<RawFd> {
        Some(self.signal().raw())
    }
}

impl std::fmt::Debug for FileQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reader = match &self.reader {
            Reader::Ring(_) => "io_uring",
            Reader::Crew(_) => "reader threads",
        };
        write!(f, "FileQueue({reader}, {} of {} in flight)", self.in_flight(), self.depth)
    }
}
