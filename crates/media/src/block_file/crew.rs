//! Reads by a few threads, where io_uring is refused.
//!
//! # Thread safety
//! A crew serves all queues of a file. Locks: `Work::state` and `Inbox::done`, never both at once.
//!
//! # Invariants
//! A completion is in the inbox before its signal is raised, and the signal is cleared before the inbox is emptied.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::io_loop::read_full;
use super::signal::Signal;
use crate::{AlignedBuf, Completion};

/// Enough to keep an SSD busy when the kernel gives nothing better.
const THREADS: usize = 8;

struct Job {
    token: u64,
    offset: u64,
    buf: AlignedBuf,
    file: Arc<Shared>,
    to: Arc<Inbox>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Work {
    state: Mutex<State>,
    ready: Condvar,
}

struct Inbox {
    done: Mutex<Vec<Completion>>,
    arrived: Condvar,
    signal: Signal,
}

/// The threads; they end when the last handle is dropped.
pub(super) struct Crew {
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(super) fn start() -> io::Result<Self> {
        let work = Arc::new(Work::default());
        // Built up front, so that dropping it ends the threads that did start if one does not.
        let mut crew = Self { work, threads: Vec::new() };
        for i in 0..THREADS {
            let work = crew.work.clone();
            let builder = std::thread::Builder::new().name(format!("block-read-{i}"));
            crew.threads.push(builder.spawn(move || work.run())?);
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.work.state.lock().closed = true;
        self.work.ready.notify_all();
        for thread in self.threads.drain(..) {
            // A reader that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(&self) {
        while let Some(mut job) = self.next() {
            let result = read_full(&job.file.file, &mut job.buf, job.offset);
            job.to.done.lock().push(Completion { token: job.token, buf: job.buf, result });
            job.to.arrived.notify_one();
            job.to.signal.raise();
        }
    }

    /// Waits for a job; `None` when the crew is closed and nothing is left.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.ready.wait(&mut state);
        }
    }
}

/// One thread's reads.
pub(super) struct CrewQueue {
    shared: Arc<Shared>,
    crew: Arc<Crew>,
    inbox: Arc<Inbox>,
    /// Submitted and not yet handed over.
    queued: Vec<Job>,
    in_flight: usize,
    depth: usize,
}

impl CrewQueue {
    pub(super) fn new(shared: Arc<Shared>, crew: Arc<Crew>, depth: usize) -> io::Result<Self> {
        let (done, arrived) = (Mutex::default(), Condvar::new());
        let inbox = Arc::new(Inbox { done, arrived, signal: Signal::new()? });
        Ok(Self { shared, crew, inbox, queued: Vec::new(), in_flight: 0, depth })
    }

    pub(super) fn submit(&mut self, token: u64, offset: u64, buf: AlignedBuf) -> Result<(), AlignedBuf> {
        if self.in_flight == self.depth {
            return Err(buf);
        }
        self.in_flight += 1;
        self.queued.push(Job { token, offset, buf, file: self.shared.clone(), to: self.inbox.clone() });
        Ok(())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.inbox.signal
    }

    pub(super) fn reap(&mut self, wait: bool, out: &mut Vec<Completion>) {
        if !self.queued.is_empty() {
            self.crew.work.state.lock().jobs.extend(self.queued.drain(..));
            self.crew.work.ready.notify_all();
        }
        self.inbox.signal.clear();
        let mut done = self.inbox.done.lock();
        while wait && done.is_empty() && self.in_flight > 0 {
            self.inbox.arrived.wait(&mut done);
        }
        self.in_flight -= done.len();
        out.append(&mut done);
    }
}

impl Drop for CrewQueue {
    fn drop(&mut self) {
        // What was never handed over needn't be waited for.
        self.in_flight -= self.queued.len();
        self.queued.clear();
        let mut unread = Vec::new();
        while self.in_flight > 0 {
            self.reap(true, &mut unread);
        }
    }
}
