//! One client: a connection, a window of open calls, and what it saw.
//!
//! # Thread safety
//! A client belongs to one thread at a time. All share [`Shared`], whose clock is sequentially consistent: if a call was
//! answered before another one was made, its stamp is lower.
//!
//! # Invariants
//! A call is stamped before the first of its bytes can be sent and again after all of its answer was read. At most one call
//! of a client is open on a key, so that no key has more open calls than clients (two each while both names of a pair are read).

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use terrace_testkit::linearize::{Action, Answer, Call, Entry, Outcome, parts};
use terrace_testkit::rng::Rng;

use super::plan::{self, Known};
use super::request::{Reply, Request, Wire};
use super::value::Kind;

/// What the clients of a round share.
pub struct Shared {
    /// Stamps.
    pub clock: AtomicU64,
    /// Calls answered, over all rounds.
    pub answered: AtomicU64,
    /// At so many the server is crashed.
    pub target: u64,
    /// The server was crashed, or is about to be: connections may fail.
    pub crashing: AtomicBool,
    /// Keys.
    pub keys: u64,
    /// Most calls of a client that are open at once.
    pub depth: u64,
    /// Where the server listens.
    pub redis: SocketAddr,
    /// And for memcached.
    pub memcached: SocketAddr,
}

/// A call that was made and not yet answered.
struct Open {
    request: Request,
    invoke: u64,
}

/// A client, over all rounds.
pub struct Client {
    number: u32,
    clients: u32,
    rng: Rng,
    written: i64,
    known: HashMap<u64, Known>,
    /// The oldest one first, which is answered first.
    open: VecDeque<Open>,
    /// Calls that were answered, since they were last taken.
    pub calls: Vec<Call>,
    /// Calls that a full store refused.
    pub refused: u64,
}

impl Client {
    /// Client `number` of `clients`; odd ones speak memcached's protocol.
    pub fn new(number: u32, clients: u32, seed: u64) -> Self {
        let rng = Rng::new(seed ^ (u64::from(number) + 1) << 40);
        Self {
            number,
            clients,
            rng,
            written: 0,
            known: HashMap::new(),
            open: VecDeque::new(),
            calls: Vec::new(),
            refused: 0,
        }
    }

    fn connect(&self, shared: &Shared) -> io::Result<Wire> {
        Wire::connect(plan::speaks_memcached(self.number), shared.redis, shared.memcached)
    }

    /// Reads every key of this client's share, all its names.
    ///
    /// # Errors
    /// If the server does not answer, or what it answers makes no sense.
    pub fn sweep(&mut self, shared: &Shared) -> io::Result<()> {
        let mut wire = self.connect(shared)?;
        let share = (u64::from(self.number)..shared.keys).step_by(self.clients as usize);
        let names = share.flat_map(|key| (0..plan::names(key).len()).map(move |name| (key, name)));
        let requests: Vec<Request> = names
            .map(|(key, name)| Request { key, name, action: Action::Get, number: 0, token: 0 })
            .collect();
        for window in requests.chunks(shared.depth as usize) {
            self.window(&mut wire, shared, window)?;
        }
        Ok(())
    }

    /// Makes calls until the connection breaks; `reached` is called once somebody reaches the target.
    ///
    /// # Errors
    /// If the connection broke before the server was crashed, or an answer makes no sense.
    pub fn load(&mut self, shared: &Shared, reached: &dyn Fn()) -> io::Result<()> {
        let mut wire = match self.connect(shared) {
            Ok(wire) => wire,
            Err(_) if shared.crashing.load(SeqCst) => return Ok(()),
            Err(error) => return Err(error),
        };
        loop {
            let requests = self.draw(shared);
            match self.window(&mut wire, shared, &requests) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) if shared.crashing.load(SeqCst) => return Ok(()),
                Err(error) => return Err(error),
            }
            if shared.answered.load(Relaxed) >= shared.target && !shared.crashing.swap(true, SeqCst) {
                reached();
            }
        }
    }

    /// The server is gone: what was not answered has taken effect before `crash`, or never will.
    pub fn crashed(&mut self, crash: u64) {
        for Open { request, invoke } in std::mem::take(&mut self.open) {
            self.calls.push(self.call(&request, invoke, Outcome::Lost(crash)));
        }
    }

    fn call(&self, request: &Request, invoke: u64, outcome: Outcome) -> Call {
        Call::new(&Entry { key: request.key, client: self.number, invoke, outcome, action: request.action })
    }

    /// Calls on different keys.
    fn draw(&mut self, shared: &Shared) -> Vec<Request> {
        let mut keys = HashSet::new();
        let depth = self.rng.between(1, shared.depth).min(shared.keys);
        let mut requests = Vec::with_capacity(depth as usize);
        while requests.len() < depth as usize {
            let key = plan::draw_key(&mut self.rng, shared.keys);
            if !keys.insert(key) {
                continue;
            }
            self.written += 1;
            let unique = self.written * i64::from(self.clients) + i64::from(self.number);
            let known = self.known.get(&key).copied().unwrap_or_default();
            let kind = plan::kind(key);
            let action = plan::draw_action(&mut self.rng, kind, self.number, unique, &known);
            let name = if kind == Kind::Pair { self.rng.below(3) as usize } else { 0 };
            let token = known.token.map_or(0, |(_, token)| token);
            requests.push(Request { key, name, action, number: unique, token });
        }
        requests
    }

    /// Makes calls, all at once, and reads their answers.
    fn window(&mut self, wire: &mut Wire, shared: &Shared, requests: &[Request]) -> io::Result<()> {
        // No stamp is used twice, and a pair read at once takes two.
        let mut invoke = shared.clock.fetch_add(requests.len() as u64 * 2, SeqCst);
        for request in requests {
            wire.queue(request);
            self.open.push_back(Open { request: *request, invoke });
            invoke += 2;
        }
        wire.flush()?;
        while let Some(Open { request, invoke }) = self.open.front() {
            let (request, invoke) = (*request, *invoke);
            let reply = wire.receive(&request)?;
            let end = shared.clock.fetch_add(2, SeqCst);
            self.open.pop_front();
            match reply {
                Reply::Answer(answer) => self.answered(&request, invoke, end, answer, None),
                Reply::WithToken(answer, token) => self.answered(&request, invoke, end, answer, Some(token)),
                Reply::Both(first, second) => {
                    self.answered(&request, invoke, end, first, None);
                    self.answered(&request, invoke + 1, end + 1, second, None);
                }
                Reply::Refused => self.refused += 1,
            }
            shared.answered.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn answered(&mut self, request: &Request, invoke: u64, end: u64, answer: Answer, token: Option<u64>) {
        self.calls.push(self.call(request, invoke, Outcome::Answered(end, answer)));
        let known = self.known.entry(request.key).or_default();
        match (plan::kind(request.key), request.action, answer) {
            (Kind::List, Action::Get, Answer::Value(list)) => known.list = list.unwrap_or(0),
            (Kind::List, Action::Set(list), _) => known.list = list,
            (Kind::List, _, Answer::Number(parts)) => known.list = parts,
            (Kind::List, _, Answer::Stored) => known.list = parts(known.list) + 1,
            (Kind::Blob, Action::Get, Answer::Value(Some(number))) => {
                known.token = token.map(|token| (number, token));
            }
            (Kind::Blob, Action::Cas { .. }, _) => known.token = None,
            _ => {}
        }
    }
}
