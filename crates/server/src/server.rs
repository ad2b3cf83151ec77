//! A running server: its threads, its ports, its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace::OpenStore;

use crate::accept::Acceptor;
use crate::endpoint::Endpoint;
use crate::loading::{Bound, Loading, Progress};
use crate::options::ServerOptions;
use crate::pressure;
use crate::resp;
use crate::shared::Shared;
use crate::worker::{Inbox, Worker};

/// Batches hold 4 GiB; one command beyond a full turn must fit as well.
const COMMAND_BYTES_MAX: usize = 1 << 30;

/// Workers end at the end of the time for answering, at their next turn; one that takes longer than this for it is not waited for.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at whether they have.
const LOOK: Duration = Duration::from_millis(1);

/// A server that serves from [`start`](Self::start) to [`shutdown`](Self::shutdown). Dropping it shuts it down too.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Addresses,
    wakers: Vec<mio::Waker>,
    inboxes: Vec<Arc<Inbox>>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    /// The threads of the acceptor and the admin port, which `wakers` wake, and the one that watches the store's numbers.
    others: Vec<JoinHandle<io::Result<()>>>,
}

/// Where a server listens, with the ports that port 0 became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The first TCP port of Redis's protocol, without TLS.
    pub redis: Option<SocketAddr>,
    /// The first TCP port of memcached's text protocol, without TLS.
    pub memcached: Option<SocketAddr>,
    /// `/metrics` and `/health`.
    pub admin: Option<SocketAddr>,
    /// Everything on which Redis's protocol is spoken.
    pub all_redis: Vec<Endpoint>,
    /// Everything on which memcached's protocol is spoken.
    pub all_memcached: Vec<Endpoint>,
}

impl Server {
    /// Binds the ports, opens a session for each worker and starts serving.
    ///
    /// # Errors
    /// If a port can't be bound (the text says which), the store has too few sessions, or a thread can't be started.
    pub fn start(store: OpenStore, options: ServerOptions) -> io::Result<Self> {
        // Nobody sees it: the store is open.
        static DONE: Progress = Progress::new();
        let bound = Bound::new(&options, &DONE)?;
        Self::start_on(bound, store, options)
    }

    /// The same on ports that were bound while the store was opened.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_after(loading: Loading, store: OpenStore, options: ServerOptions) -> io::Result<Self> {
        Self::start_on(loading.end()?, store, options)
    }

    fn start_on(bound: Bound, store: OpenStore, mut options: ServerOptions) -> io::Result<Self> {
        options.threads = options.threads.max(1);
        options.batches_in_flight = options.batches_in_flight.max(1);
        options.turn_operations = options.turn_operations.max(1);
        options.connection_operations = options.connection_operations.clamp(1, options.turn_operations);
        options.turn_bytes = options.turn_bytes.clamp(1, COMMAND_BYTES_MAX);
        options.command_bytes_max = options.command_bytes_max.min(COMMAND_BYTES_MAX);
        let Bound { listeners, admin, addresses, tls } = bound;
        // With the ports that it got.
        options.memcached = addresses.all_memcached.clone();
        let shared = Arc::new(Shared {
            run_id: run_id(),
            redis_port: addresses.redis.map_or(0, |address| address.port()),
            tls,
            ..Shared::alone(store, options)?
        });
        resp::start_with(&shared, &shared.options.parameters)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        // From here on an error must end the threads that run already: the server's drop does.
        let mut server = Self {
            shared: Arc::clone(&shared),
            addresses,
            wakers: Vec::new(),
            inboxes: Vec::new(),
            workers: Vec::new(),
            others: Vec::new(),
        };
        for i in 0..shared.options.threads {
            let session = shared.store.session().map_err(io::Error::other)?;
            let (worker, inbox) = Worker::new(Arc::clone(&shared), session)?;
            shared.connections.add_worker(Arc::clone(&inbox));
            server.inboxes.push(inbox);
            server.workers.push(spawn(format!("worker-{i}"), move || worker.run())?);
        }
        shared.hear_of_removals();
        shared.snapshots.serve(&shared);
        let (acceptor, waker) = Acceptor::new(Arc::clone(&shared), listeners, server.inboxes.clone())?;
        server.wakers.push(waker);
        server.others.push(spawn("accept".into(), move || acceptor.run())?);
        let watched = Arc::clone(&shared);
        server.others.push(spawn("pressure".into(), move || {
            pressure::watch(&watched);
            Ok(())
        })?);
        if let Some(admin) = admin {
            let (waker, thread) = admin.open(shared, server.inboxes.clone())?;
            server.wakers.push(waker);
            server.others.push(thread);
        }
        Ok(server)
    }

    /// Sets what happens when a client asks the server to end (Redis's `SHUTDOWN`); without it such a client is refused.
    /// `hook` is called on a worker's thread: it must not wait for the server, only tell somebody to call
    /// [`shutdown`](Self::shutdown).
    pub fn on_shutdown_request(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.shared.redis.shutdown.on_request(Box::new(hook));
    }

    /// Tells the server how much anonymous memory the process has; to be called several times a second. Where records lie on the heap,
    /// gaps of the allocator and clients' buffers are room that they don't get. It may outlive the server.
    pub fn memory_watch(&self) -> impl Fn(u64) + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        // Other engines keep records in pages of their own, and count all of them.
        let is_on_heap = self.shared.store.stats().engine == "dram";
        move |bytes| {
            if let Some(shared) = shared.upgrade().filter(|_| is_on_heap) {
                shared.process_has(bytes);
            }
        }
    }

    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Loads the files with certificates again; connections that come from now on get them.
    ///
    /// # Errors
    /// If there are none, or they can't be loaded; those in force stay so.
    pub fn reload_tls(&self) -> io::Result<()> {
        self.shared.reload_tls()
    }

    /// Whether all its workers run. One that ended (it found an invariant broken, and its log says which) closed its
    /// connections; the others go on.
    pub fn is_healthy(&self) -> bool {
        self.inboxes.iter().all(|inbox| !inbox.is_dead())
    }

    /// Stops: no new connections; what has been received is executed, answered and sent, for at most
    /// [`ServerOptions::drain`]; then connections are closed, sessions dropped and threads joined. The store stays open.
    ///
    /// # Errors
    /// If a thread ended with an error before, or panicked; or a worker is busy with one command long beyond that time. That one then
    /// keeps its session, so that the store can't be closed.
    pub fn shutdown(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        self.shared.stopping.store(true, Relaxed);
        self.shared.store.on_removal(None);
        for waker in &self.wakers {
            result = result.and(waker.wake());
        }
        // Those that no waker wakes are parked.
        self.others.iter().for_each(|other| other.thread().unpark());
        result = result.and(join(&mut self.others));
        self.shared.snapshots.stop();
        // Nobody hands over connections any more: those that the workers have now are all.
        self.shared.draining.store(true, Relaxed);
        for inbox in &self.inboxes {
            result = result.and(inbox.wake());
        }
        let patience = self.shared.options.drain.saturating_add(GRACE);
        result.and(join_until(&mut self.workers, Instant::now().checked_add(patience)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "the server did not stop cleanly");
        }
    }
}

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<T>>> {
    std::thread::Builder::new().name(name).spawn(run)
}

/// Waits for all; the first error is told.
fn join(threads: &mut Vec<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    let mut result = Ok(());
    for thread in threads.drain(..) {
        let name = thread.thread().name().unwrap_or("thread").to_owned();
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other(format!("{name} panicked"))));
        result = result.and(ended);
    }
    result
}

/// The same, but who has not ended then is left alone: a worker that is in the middle of something long.
fn join_until(threads: &mut Vec<JoinHandle<io::Result<()>>>, deadline: Option<Instant>) -> io::Result<()> {
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    while !is_over() && threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(LOOK);
    }
    let late: Vec<_> = threads.extract_if(.., |thread| !thread.is_finished()).collect();
    let result = join(threads);
    match late.first() {
        Some(thread) => {
            let name = thread.thread().name().unwrap_or("thread");
            let text = format!(
                "{name} is busy with one command beyond the time for answering, and is not waited for"
            );
            result.and(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
        }
        None => result,
    }
}

/// The first address that is plain TCP.
pub(crate) fn first_tcp(all: &[Endpoint]) -> Option<SocketAddr> {
    all.iter().find_map(|endpoint| match endpoint {
        Endpoint::Tcp(address) => Some(*address),
        Endpoint::Tls(_) | Endpoint::Unix { .. } => None,
    })
}

/// 40 hexadecimal digits that tell this run from others.
fn run_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's hasher is seeded from the system's randomness once per process and counts up from there.
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_back_is_not_waited_for() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let stuck = spawn("worker-1".into(), move || {
            let _released = held.recv();
            Ok(())
        });
        let ended = spawn("worker-0".into(), || Ok(()));
        let mut threads = vec![ended.unwrap(), stuck.unwrap()];
        while !threads[0].is_finished() {
            std::thread::yield_now();
        }
        let error = join_until(&mut threads, Some(Instant::now())).unwrap_err().to_string();
        assert!(error.starts_with("worker-1 is busy"), "{error}");
        assert!(threads.is_empty(), "nobody waits for it later");
        drop(release);
        let mut threads = vec![spawn("worker-0".into(), || Ok(())).unwrap()];
        join_until(&mut threads, None).unwrap();
    }
}
