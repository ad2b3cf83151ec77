//! `SAVE` and `BGSAVE`: a file in the format of Redis's snapshots (RDB, version 10) that shows the store as it was at one moment,
//! written while everything goes on. The store needs none of it: the file is a backup, and a way back to Redis. (It is synced all the
//! same before a snapshot is done: who saves wants to find everything after a restart.)
//!
//! ```text
//!   scan, 16 databases ----------------------------.
//!   keys written meanwhile --noted--> read again --+--> Spill: entries by the hash of their key, the newest counts
//!        ... until few are left; then a moment in which no worker begins a batch: the last ones are read again
//!   Spill --merge--> temp-<pid>.rdb --fsync, rename, fsync of the directory--> dump.rdb
//! ```
//!
//! # Invariants
//! - The moment is when the [`Gate`] is closed: no batch is in flight then, so that no transaction is half done, and whatever was
//!   written since its key was read is noted ([`crate::registry::Noted`]).
//! - One thread reads everything, so a later entry of a key is a newer state of it.
//! - A snapshot that fails or is stopped leaves the old file, and nothing else. The pieces of the spill have no names.
//! - A dump that terrace did not write is kept under another name (`dumps`).
//! - Memory is bounded: one value, some buffers, the hashes of one piece of the spill, and at most
//!   [`crate::registry::NOTED_KEYS_MAX`] noted keys.
//!
//! Databases that are flushed or swapped have it begin anew, a few times. memcached's flags have no place in the file.

mod dumps;
mod gate;
mod rdb;
mod reader;
mod spill;
mod take;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

pub(crate) use gate::Gate;

use crate::registry::Entry;
use crate::shared::{Shared, wall_clock_ms};

/// What is known of a server's snapshots.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// The server, once it runs.
    server: OnceLock<Weak<Shared>>,
    /// Workers wait here for the moment that a snapshot shows.
    pub gate: Gate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Since when one is being taken.
    running: Option<Instant>,
    thread: Option<JoinHandle<()>>,
    /// None is begun any more.
    stopped: bool,
    report: Report,
}

/// What `INFO` tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// How long the one that is being taken has taken so far.
    pub running_s: Option<u64>,
    /// Whether the last one failed.
    pub failed: bool,
    /// How long the last one took.
    pub last_s: Option<u64>,
    /// How many were written.
    pub saves: u64,
}

/// One snapshot, for who waits for it.
#[derive(Default)]
pub(crate) struct Ticket {
    outcome: OnceLock<Result<(), String>>,
    waiting: Mutex<Option<Arc<Entry>>>,
}

impl Ticket {
    /// How it ended; `None` while it is being taken.
    pub fn outcome(&self) -> Option<&Result<(), String>> {
        self.outcome.get()
    }

    /// Has the connection's worker look at it when the snapshot is done. Ask for the [`outcome`](Self::outcome) afterwards.
    pub fn wakes(&self, entry: &Arc<Entry>) {
        *self.waiting.lock() = Some(Arc::clone(entry));
    }
}

/// Why none is begun, as clients are told.
const IN_PROGRESS: &str = "ERR Background save already in progress";
const STOPPING: &str = "ERR the server is shutting down: nothing is saved now";
const NO_SERVER: &str = "ERR no server runs here that could save";
const NO_PLACE: &str = "ERR this server has no directory to save in: start it with --dir";

impl Snapshots {
    /// Snapshots can be taken from now on.
    pub fn serve(&self, shared: &Arc<Shared>) {
        // A server starts once; a second call changes nothing.
        dumps::begin(Path::new(&shared.options.dir), &shared.options.dbfilename);
        let _first = self.server.set(Arc::downgrade(shared));
    }

    /// Begins one.
    ///
    /// # Errors
    /// In words for the client, if there is one already, or can be none.
    pub fn start(&self) -> Result<Arc<Ticket>, String> {
        let shared = self.server.get().and_then(Weak::upgrade).ok_or(NO_SERVER)?;
        if shared.options.dir.is_empty() {
            return Err(NO_PLACE.into());
        }
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Err(IN_PROGRESS.into());
        }
        if state.stopped {
            return Err(STOPPING.into());
        }
        let ticket = Arc::<Ticket>::default();
        let told = Arc::clone(&ticket);
        let run = move || {
            let changes = shared.connections.changes();
            let outcome = Err("its thread panicked".into());
            let mut finish = Finish { shared, ticket: told, changes, outcome };
            finish.outcome = take::take(&finish.shared);
        };
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(run);
        state.thread =
            Some(thread.map_err(|error| format!("ERR no thread can be started to save: {error}"))?);
        state.running = Some(Instant::now());
        Ok(ticket)
    }

    /// Ends what runs, and begins nothing any more. [`Shared::stopping`] must be set.
    pub fn stop(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.stopped = true;
            state.thread.take()
        };
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a snapshot panicked");
        }
    }

    /// What `INFO` tells.
    pub fn report(&self) -> Report {
        let state = self.state.lock();
        Report { running_s: state.running.map(|since| since.elapsed().as_secs()), ..state.report.clone() }
    }
}

/// Says that a snapshot has ended, however it did.
struct Finish {
    shared: Arc<Shared>,
    ticket: Arc<Ticket>,
    /// How many writes there had been when it began.
    changes: u64,
    outcome: Result<(), String>,
}

impl Drop for Finish {
    fn drop(&mut self) {
        let snapshots = &self.shared.snapshots;
        // Before it counts as ended: who sees that asks for this.
        if self.outcome.is_ok() {
            let redis = &self.shared.redis;
            redis.saved_s.store(wall_clock_ms() / 1000, Relaxed);
            redis.saved_changes.store(self.changes, Relaxed);
        }
        {
            let mut state = snapshots.state.lock();
            let took_s = state.running.take().map(|since| since.elapsed().as_secs());
            state.report.last_s = took_s;
            state.report.failed = self.outcome.is_err();
            state.report.saves += u64::from(self.outcome.is_ok());
        }
        if let Err(why) = &self.outcome {
            tracing::error!(%why, "the snapshot failed");
        }
        let _first = self.ticket.outcome.set(std::mem::replace(&mut self.outcome, Ok(())));
        if let Some(entry) = self.ticket.waiting.lock().take() {
            entry.nudge();
        }
    }
}
