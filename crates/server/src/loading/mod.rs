//! The ports while the store is opened: they are bound, and say that it is being recovered.
//!
//! ```text
//!   Loading::start --binds--> listeners, admin port --Server::start_after--> acceptor, admin thread
//!        '-- a thread: for a while it lets clients wait, then it answers LOADING
//! ```
//! A short recovery is seen by nobody: clients that come in the first [`GRACE`] wait in the backlog, and the server takes them
//! from there. Later ones are answered here: by Redis's protocol `LOADING` to whatever they ask (`INFO` tells how far it is, where no
//! login is needed), by memcached's a `SERVER_ERROR`, and are closed when the server begins, so that nothing of what was said before
//! holds then: nobody is logged in here, and nothing can be changed. TLS clients wait in the backlog.

mod client;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use mio::{Events, Interest, Poll, Token, Waker};

use crate::accept::{Listener, MEMCACHED, REDIS, Speaks};
use crate::admin::{Admin, Desk};
use crate::endpoint::Endpoint;
use crate::listener::ListeningSocket;
use crate::options::ServerOptions;
use crate::server::{Addresses, first_tcp, spawn};
use crate::tls::Tls;
use client::{Client, Told};

/// How long clients wait before they are told.
const GRACE: Duration = Duration::from_millis(1000);
/// Clients that are answered at once; each has a few KiB. More are told and closed.
const CLIENTS_MAX: usize = 256;
const WAKE: Token = Token(usize::MAX);

/// How far a recovery is, as it tells: a number of bytes, and how many there are.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Self { done: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// It is so far.
    pub fn set(&self, done: u64, total: u64) {
        self.total.store(total, Relaxed);
        self.done.store(done.min(total), Relaxed);
    }

    /// Bytes done, and all.
    pub fn get(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        match self.get() {
            (_, 0) => "recovering".into(),
            (done, total) => {
                let percent = done as f64 * 100.0 / total as f64;
                format!(
                    "recovering: {percent:.1}% ({} of {})",
                    terrace::human_bytes(done),
                    terrace::human_bytes(total)
                )
            }
        }
    }

    /// What `INFO` tells of it.
    fn info(&self, started: Instant) -> String {
        let (done, total) = self.get();
        let elapsed = started.elapsed();
        let epoch_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let percent = if total == 0 { 0.0 } else { done as f64 * 100.0 / total as f64 };
        let left = elapsed.as_secs_f64() * (total - done.min(total)) as f64 / done.max(1) as f64;
        format!(
            "# Server\r\nredis_version:{}\r\nterrace_version:{}\r\n\r\n# Persistence\r\nloading:1\r\nasync_loading:0\r\n\
             loading_start_time:{}\r\nloading_total_bytes:{total}\r\nloading_loaded_bytes:{done}\r\n\
             loading_loaded_perc:{percent:.2}\r\nloading_eta_seconds:{}\r\n",
            crate::resp::REDIS_VERSION,
            env!("CARGO_PKG_VERSION"),
            epoch_s.saturating_sub(elapsed.as_secs()),
            if done == 0 { 1 } else { left.ceil().max(1.0) as u64 },
        )
    }
}

/// What a server listens on.
pub(crate) struct Bound {
    pub listeners: Vec<Listener>,
    pub admin: Option<Desk>,
    pub addresses: Addresses,
    pub tls: Option<Tls>,
}

impl Bound {
    /// Binds what the options name; the admin port is answered from now on.
    ///
    /// # Errors
    /// If a port can't be bound (the text says which), or certificates can't be loaded.
    pub fn new(options: &ServerOptions, progress: &'static Progress) -> io::Result<Self> {
        let tls = options.tls.clone().map(Tls::load).transpose()?;
        let mut listeners = Vec::new();
        let mut listen = |wanted: &[Endpoint], speaks: &'static Speaks| -> io::Result<Vec<Endpoint>> {
            let mut all = Vec::new();
            for endpoint in wanted {
                if tls.is_none() && matches!(endpoint, Endpoint::Tls(_)) {
                    let why = format!("listening on {endpoint}: TLS needs a certificate and its key");
                    return Err(io::Error::new(ErrorKind::InvalidInput, why));
                }
                let socket = ListeningSocket::bind(endpoint, options.backlog)?;
                all.push(socket.endpoint().clone());
                listeners.push(Listener { socket, speaks });
            }
            Ok(all)
        };
        let all_redis = listen(&options.redis, &REDIS)?;
        let all_memcached = listen(&options.memcached, &MEMCACHED)?;
        let admin = options.admin.map(Admin::bind).transpose()?;
        let addresses = Addresses {
            redis: first_tcp(&all_redis),
            memcached: first_tcp(&all_memcached),
            admin: admin.as_ref().map(Admin::address).transpose()?,
            all_redis,
            all_memcached,
        };
        let admin = admin.map(|admin| admin.serve(progress)).transpose()?;
        Ok(Self { listeners, admin, addresses, tls })
    }
}

/// The ports of a server whose store is being opened. Dropping it closes them.
pub struct Loading {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<Vec<Listener>>>>,
    /// The rest of what is bound; the thread has the listeners.
    bound: Option<Bound>,
}

impl Loading {
    /// Binds the ports that the options name, and answers there until a server takes them.
    ///
    /// # Errors
    /// If a port can't be bound (the text says which), certificates can't be loaded, or a thread can't be started.
    pub fn start(options: &ServerOptions, progress: &'static Progress) -> io::Result<Self> {
        let mut bound = Bound::new(options, progress)?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let stop = Arc::<AtomicBool>::default();
        let room = Room {
            poll,
            listeners: std::mem::take(&mut bound.listeners),
            clients: Vec::new(),
            stop: Arc::clone(&stop),
            told: Told::new(options, progress),
        };
        let thread = spawn("loading".into(), move || room.run())?;
        Ok(Self { stop, waker, thread: Some(thread), bound: Some(bound) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Option<&Addresses> {
        self.bound.as_ref().map(|bound| &bound.addresses)
    }

    /// Ends the answering here, and gives away what is bound.
    pub(crate) fn end(mut self) -> io::Result<Bound> {
        let listeners = self.join()?;
        let bound = self.bound.take().ok_or_else(|| io::Error::other("the ports were given away before"))?;
        Ok(Bound { listeners, ..bound })
    }

    fn join(&mut self) -> io::Result<Vec<Listener>> {
        self.stop.store(true, Relaxed);
        self.waker.wake()?;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(Vec::new()))).unwrap_or_else(|_| Err(io::Error::other("loading panicked")))
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(error) = self.join()
        {
            tracing::debug!(%error, "the ports did not close in order");
        }
    }
}

/// The thread's own.
struct Room {
    poll: Poll,
    listeners: Vec<Listener>,
    clients: Vec<Option<Client>>,
    stop: Arc<AtomicBool>,
    told: Told,
}

impl Room {
    fn run(mut self) -> io::Result<Vec<Listener>> {
        let mut events = Events::with_capacity(64);
        let grace_ends = Instant::now() + GRACE;
        let mut open = false;
        while !self.stop.load(Relaxed) {
            let left = grace_ends.saturating_duration_since(Instant::now());
            // Accepting is tried again now and then: it fails where descriptors are short, and no event tells when they are not.
            let wait = if open { GRACE } else { left };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if self.stop.load(Relaxed) {
                break;
            }
            if !open {
                if grace_ends > Instant::now() {
                    continue;
                }
                open = true;
                self.watch()?;
            }
            let ready: Vec<usize> = events.iter().map(|event| event.token().0).collect();
            self.accept_all();
            for slot in ready {
                self.serve(slot);
            }
        }
        // What came meanwhile is answered as well.
        (0..self.clients.len()).for_each(|slot| self.serve(slot));
        if open {
            for listener in self.listeners.iter_mut().filter(|listener| answers(listener)) {
                self.poll.registry().deregister(listener.socket.source())?;
            }
        }
        Ok(self.listeners)
    }

    fn watch(&mut self) -> io::Result<()> {
        for listener in self.listeners.iter_mut().filter(|listener| answers(listener)) {
            // Its token is no client's: all listeners are asked whatever happened.
            let token = Token(usize::MAX - 1);
            self.poll.registry().register(listener.socket.source(), token, Interest::READABLE)?;
        }
        Ok(())
    }

    fn accept_all(&mut self) {
        for at in 0..self.listeners.len() {
            let listener = &self.listeners[at];
            if !answers(listener) {
                continue;
            }
            while let Ok(accepted) = self.listeners[at].socket.accept() {
                let is_redis = std::ptr::eq(self.listeners[at].speaks, &REDIS);
                let client = Client::new(accepted, is_redis, &self.told);
                let slot = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
                if slot >= CLIENTS_MAX {
                    client.send_away();
                    continue;
                }
                if slot == self.clients.len() {
                    self.clients.push(None);
                }
                let mut client = client;
                let interest = Interest::READABLE | Interest::WRITABLE;
                if self.poll.registry().register(client.source(), Token(slot), interest).is_ok() {
                    self.clients[slot] = Some(client);
                    self.serve(slot);
                }
            }
        }
    }

    fn serve(&mut self, slot: usize) {
        let Some(place) = self.clients.get_mut(slot) else { return };
        // Dropping it closes it.
        if place.as_mut().is_some_and(|client| !client.goes_on(&self.told)) {
            *place = None;
        }
    }
}

/// TLS clients could not read a plain answer.
fn answers(listener: &Listener) -> bool {
    !matches!(listener.socket.endpoint(), Endpoint::Tls(_))
}
