//! What all threads of one server share.
//!
//! # Thread safety
//! Counters are statistics: relaxed, each correct by itself, no order between them. `stopping` and `draining` are set
//! once and read by threads that were woken after they were set; the waker's system call orders the two.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use terrace::OpenStore;
use terrace_engine::{Removal, StoreError};

use crate::accesses::Accesses;
use crate::limits::Limits;
use crate::options::ServerOptions;
use crate::pressure::Pressure;
use crate::registry::{Registry, want};
use crate::snapshot::Snapshots;
use crate::tls::Tls;
use crate::withheld::Withheld;

/// One server's store, options and counters.
pub(crate) struct Shared {
    /// The store.
    pub store: OpenStore,
    /// As started.
    pub options: ServerOptions,
    /// The budget of DRAM, in bytes; 0 for none. Clients may change it.
    pub dram_budget_bytes: AtomicU64,
    /// What the store does not get of it.
    pub withheld: Mutex<Withheld>,
    /// When the server started.
    pub started: Instant,
    /// 40 hexadecimal digits that tell this run from others (`INFO`'s `run_id`).
    pub run_id: String,
    /// The port of the Redis listener, for `INFO`; 0 if there is none.
    pub redis_port: u16,
    /// Set when the server shuts down: no more is accepted.
    pub stopping: AtomicBool,
    /// Set after that: workers finish what they have received, and end.
    pub draining: AtomicBool,
    /// Counters.
    pub counters: Counters,
    /// What Redis's connections share.
    pub redis: crate::resp::State,
    /// The connections, and what they want of each other.
    pub connections: Registry,
    /// Snapshots.
    pub snapshots: Snapshots,
    /// What the store has too little of.
    pub pressure: Pressure,
    /// Bounds on connections.
    pub limits: Limits,
    /// Certificates, if there are any.
    pub tls: Option<Tls>,
}

impl Shared {
    /// The shared part of a server without threads.
    ///
    /// # Errors
    /// As [`resp::State::new`](crate::resp::State::new).
    pub fn alone(store: OpenStore, options: ServerOptions) -> std::io::Result<Self> {
        let redis = crate::resp::State::new(&options)?;
        let limits = Limits::new(&options);
        Ok(Self {
            store,
            dram_budget_bytes: AtomicU64::new(options.dram_budget_bytes),
            withheld: Mutex::default(),
            connections: Registry::new(Arc::clone(&limits.subscriber_output_bytes)),
            limits,
            tls: None,
            options,
            started: Instant::now(),
            run_id: String::new(),
            redis_port: 0,
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            counters: Counters::default(),
            redis,
            snapshots: Snapshots::default(),
            pressure: Pressure::default(),
        })
    }

    /// Loads the files with certificates again; connections that come from now on get them.
    ///
    /// # Errors
    /// If there are none, or they can't be loaded; those in force stay so.
    pub fn reload_tls(&self) -> io::Result<()> {
        let tls = self.tls.as_ref().ok_or_else(|| io::Error::other("TLS is not in use"))?;
        tls.replace(tls.options())?;
        tracing::info!("certificates are loaded again");
        Ok(())
    }

    /// Has the connections hear of keys that the store deletes by itself, until the server ends.
    pub fn hear_of_removals(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        let hearing = shared.clone();
        self.connections.on_hearing(Box::new(move |each| {
            if let Some(shared) = hearing.upgrade() {
                shared.store.hear_expired(each);
            }
        }));
        self.store.on_removal(Some(Arc::new(move |why, db, key| {
            if let Some(shared) = shared.upgrade() {
                match why {
                    Removal::Expired => shared.connections.key_expired(db, key),
                    Removal::Evicted => {
                        shared.connections.key_evicted(db, key);
                        shared.counters.memcached.evicted(db, key, &shared);
                    }
                }
            }
        })));
    }

    /// From now on it is kept when keys are used.
    pub fn keep_accesses(&self, now_ms: u64) {
        if self.counters.accesses.get().is_none() {
            self.counters.accesses.get_or_init(|| Accesses::new(now_ms));
            self.connections.want(want::USES, true);
        }
    }

    /// Makes the workers look at their connections anew, after [`Shared::limits`] have changed.
    pub fn wake_workers(&self) {
        self.connections.recheck();
    }

    /// The store's time, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.store.time().now_ms
    }

    /// The budget of DRAM, in bytes.
    pub fn dram_budget(&self) -> u64 {
        self.dram_budget_bytes.load(Relaxed)
    }

    /// Gives the store another one.
    ///
    /// # Errors
    /// As [`Store::resize_dram`](terrace_engine::Store::resize_dram).
    pub fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        let mut withheld = self.withheld.lock();
        self.store.resize_dram(bytes)?;
        *withheld = Withheld::default();
        self.dram_budget_bytes.store(bytes, Relaxed);
        tracing::info!(bytes, "a client has changed the budget of DRAM");
        Ok(())
    }

    /// The process of a store whose records lie on the heap has so many bytes of anonymous memory.
    pub fn process_has(&self, bytes: u64) {
        if self.dram_budget() == 0 || self.stopping.load(Relaxed) {
            return;
        }
        let stats = self.store.stats();
        let buffers = self.store.buffers_of(self.dram_budget());
        let counted = stats.index_bytes + stats.dram_other_bytes + buffers;
        let mut withheld = self.withheld.lock();
        if let Some(withheld) = withheld.look(bytes, counted, self.dram_budget())
            && let Err(error) = self.store.resize_dram_without(self.dram_budget(), withheld)
        {
            tracing::debug!(%error, withheld, "the store keeps what it has");
        }
    }
}

impl Shared {
    /// Gives the SSD tier another size.
    ///
    /// # Errors
    /// As [`OpenStore::resize_ssd`].
    pub fn resize_ssd(&self, bytes: u64) -> Result<(), StoreError> {
        self.store.resize_ssd(bytes)?;
        tracing::info!(bytes, "a client has changed the size of the SSD tier");
        Ok(())
    }
}

impl Shared {
    /// Gives the tier in byte-addressable memory another size.
    ///
    /// # Errors
    /// As [`OpenStore::resize_pmem`].
    pub fn resize_pmem(&self, bytes: u64) -> Result<(), StoreError> {
        self.store.resize_pmem(bytes)?;
        tracing::info!(bytes, "a client has changed the size of the PMem tier");
        Ok(())
    }
}

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Counters {
    /// Connections open now.
    pub connected: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub rejected: AtomicU64,
    /// Connections refused by the protected mode.
    pub denied: AtomicU64,
    /// TLS connections whose handshake failed.
    pub tls_failed: AtomicU64,
    /// Connections closed because they were silent, or did not log in, for too long.
    pub closed_idle: AtomicU64,
    /// Connections closed because an unfinished command was too long.
    pub closed_query: AtomicU64,
    /// Connections closed because they did not read their answers.
    pub closed_output: AtomicU64,
    /// Connections closed because the buffers of all held too much.
    pub closed_memory: AtomicU64,
    /// Commands taken from connections, wrong ones included.
    pub commands: AtomicU64,
    /// Batches executed.
    pub batches: AtomicU64,
    /// Times that bytes came from a connection.
    pub reads: AtomicU64,
    /// Times that bytes were sent to one.
    pub writes: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Bytes sent.
    pub bytes_out: AtomicU64,
    /// When keys were last used, once somebody has asked.
    pub accesses: OnceLock<Accesses>,
    /// What memcached's connections share.
    pub memcached: crate::memcached::State,
}

impl Counters {
    /// Adds to one of them.
    pub fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Relaxed);
    }

    /// Reads one of them.
    pub fn read(counter: &AtomicU64) -> u64 {
        counter.load(Relaxed)
    }
}

/// The wall clock in milliseconds since the Unix epoch; 0 if it stands before that.
pub(crate) fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
