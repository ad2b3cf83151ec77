//! Many connections, some of them stalled in the middle of a command and some that never read: what the rest notices.
//!
//! ```text
//!   ordinary connections, asked in turn at a fixed rate --- calm: percentiles of latency
//!     + stalled ones: half a command, then nothing        \
//!     + deaf ones: many large answers asked, none read      --- crowded: the same percentiles, and how often they are the calm ones
//! ```
//! The rate is fixed, so that both are measured at the same load, well below what the server can do.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::built;
use crate::request_cost::server::{Kind, Server};
use crate::request_cost::wire::{self, Protocol, Request};

/// Measures what stalled and deaf connections cost the others.
#[derive(clap::Args)]
pub struct Arguments {
    /// The servers. redis and memcached are Debian's packages.
    #[arg(long, value_delimiter = ',', default_value = "terrace-redis,terrace-memcached")]
    servers: Vec<Kind>,
    /// Connections in all.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Of them, those that stop in the middle of a command.
    #[arg(long, default_value_t = 1000)]
    stalled: usize,
    /// Of them, those that never read.
    #[arg(long, default_value_t = 1000)]
    deaf: usize,
    /// Bytes of answers that each deaf connection asks for.
    #[arg(long, default_value_t = 8 << 20)]
    deaf_bytes: usize,
    /// Requests a second on all ordinary connections together.
    #[arg(long, default_value_t = 5000)]
    rate: u32,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds of calm and crowded.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many times its calm latency the crowded one may be.
    #[arg(long, default_value_t = 2.0)]
    times: f64,
    /// The binary of terrace [default: built in release mode].
    #[arg(long)]
    terrace: Option<PathBuf>,
    /// Where servers keep their data while they are measured.
    #[arg(long, default_value = "target/connections")]
    dir: PathBuf,
    /// More options for `terrace serve`.
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    serve: Vec<String>,
}

/// Files of the process beside its connections.
const OTHER_FILES: u64 = 100;
/// Without an answer, or a place for a connection, for so long a server is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a measurement begins with, uncounted.
const WARM_UP: Duration = Duration::from_millis(500);
/// So much of the rate must be kept.
const RATE_KEPT: f64 = 0.95;
/// How long the bad connections have for their mischief before the others are measured.
const SETTLE: Duration = Duration::from_secs(1);
/// A deaf connection asks for values of this size.
const LARGE_BYTES: usize = 64 << 10;
/// An ordinary one for values of this size, one of so many.
const SMALL_BYTES: usize = 64;
const SMALL_KEYS: u64 = 1000;

/// Runs it and prints a table: medians over the rounds.
///
/// # Errors
/// If a server does not start, or gets stuck, or gives a wrong answer.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let bad = arguments.stalled + arguments.deaf;
    ensure!(arguments.connections > bad, "--connections must be more than --stalled and --deaf together");
    ensure!(arguments.rate > 0 && arguments.rounds > 0, "--rate and --rounds must be at least 1");
    raise_files(arguments.connections as u64 + OTHER_FILES)?;
    let terrace = built::or_build(arguments.terrace.as_deref())?.canonicalize()?;
    let mut kept = true;
    println!("server             calm p50   p99 us   crowded p50   p99 us   times p50   p99");
    for &kind in &arguments.servers {
        let server = Server::start(kind, &terrace, &arguments.dir, &arguments.serve)?;
        let mut calm = [Vec::new(), Vec::new()];
        let mut crowded = [Vec::new(), Vec::new()];
        fill(server.address, kind.protocol())?;
        let mut rest = Rest::connect(server.address, kind.protocol(), arguments.connections - bad)?;
        for _ in 0..arguments.rounds {
            let length = Duration::from_secs_f64(arguments.seconds);
            let [p50, p99] = rest.measure(arguments.rate, length)?;
            (calm[0].push(p50), calm[1].push(p99));
            let _bad = crowd(server.address, kind.protocol(), arguments)?;
            // At a low rate: a server that answers the deaf ones first may take a while.
            rest.measure(1, SETTLE)?;
            let [p50, p99] = rest.measure(arguments.rate, length)?;
            (crowded[0].push(p50), crowded[1].push(p99));
        }
        server.stop()?;
        let (calm, crowded) = (calm.map(median), crowded.map(median));
        let times = [0, 1].map(|i| crowded[i] as f64 / calm[i].max(1) as f64);
        println!(
            "{:<18} {:>8} {:>8} {:>13} {:>8} {:>11.2} {:>5.2}",
            kind.to_string(),
            calm[0],
            calm[1],
            crowded[0],
            crowded[1],
            times[0],
            times[1]
        );
        kept &= times.iter().all(|times| *times <= arguments.times);
    }
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn raise_files(wanted: u64) -> anyhow::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let maximum = maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).with_context(|| {
            format!("{wanted} open files are not allowed: run this as root, or with fewer connections")
        })?;
    }
    Ok(())
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Sets the small values and, under the key behind them, the large one.
fn fill(address: SocketAddr, protocol: Protocol) -> anyhow::Result<()> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    for key in 0..=SMALL_KEYS {
        let value = vec![b'v'; if key == SMALL_KEYS { LARGE_BYTES } else { SMALL_BYTES }];
        request.clear();
        wire::write(protocol, Request::Set, key, &value, &mut request);
        stream.write_all(&request)?;
        let mut answer = vec![0; wire::answer_bytes(protocol, Request::Set, value.len())];
        stream.read_exact(&mut answer).context("setting the keys")?;
    }
    Ok(())
}

/// Opens the stalled and the deaf connections, and sees that the server has heard them.
fn crowd(
    address: SocketAddr,
    protocol: Protocol,
    arguments: &Arguments,
) -> anyhow::Result<Vec<std::net::TcpStream>> {
    let mut all = Vec::new();
    let connect =
        || std::net::TcpStream::connect_timeout(&address, PATIENCE).context("a connection was not accepted");
    let mut half = Vec::new();
    wire::write(protocol, Request::Set, 0, &[b'v'; SMALL_BYTES], &mut half);
    half.truncate(half.len() - SMALL_BYTES / 2);
    for _ in 0..arguments.stalled {
        let mut stream = connect()?;
        stream.write_all(&half)?;
        all.push(stream);
    }
    let mut many = Vec::new();
    for _ in 0..arguments.deaf_bytes.div_ceil(LARGE_BYTES) {
        wire::write(protocol, Request::Get, SMALL_KEYS, b"", &mut many);
    }
    for _ in 0..arguments.deaf {
        let mut stream = connect()?;
        stream.write_all(&many)?;
        all.push(stream);
    }
    Ok(all)
}

/// The ordinary connections.
struct Rest {
    poll: Poll,
    protocol: Protocol,
    all: Vec<Ordinary>,
    /// Those that wait for no answer.
    idle: VecDeque<usize>,
    next_key: u64,
}

struct Ordinary {
    stream: TcpStream,
    sent: Instant,
    missing: usize,
}

impl Rest {
    fn connect(address: SocketAddr, protocol: Protocol, count: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let mut all = Vec::new();
        for i in 0..count {
            let stream = std::net::TcpStream::connect_timeout(&address, PATIENCE)
                .with_context(|| format!("connection {i} was not accepted"))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(i), Interest::READABLE)?;
            all.push(Ordinary { stream, sent: Instant::now(), missing: 0 });
        }
        Ok(Self { poll, protocol, idle: (0..count).collect(), all, next_key: 0 })
    }

    /// Asks at this rate for so long: the median and the 99th percentile of the latency in microseconds.
    fn measure(&mut self, rate: u32, length: Duration) -> anyhow::Result<[u64; 2]> {
        let mut histogram = Histogram::<u64>::new(3)?;
        let mut events = Events::with_capacity(1024);
        let started = Instant::now();
        let (counted_from, end) = (started + WARM_UP, started + WARM_UP + length);
        let mut asked = 0_u32;
        loop {
            let now = Instant::now();
            if now >= end {
                break;
            }
            // In 64 bits: a rate times minutes of nanoseconds.
            let due = (now - started).as_secs_f64() * f64::from(rate);
            while f64::from(asked) < due {
                // With none idle it falls behind, which shows at the end.
                let Some(i) = self.idle.pop_front() else { break };
                self.ask(i)?;
                asked += 1;
            }
            match self.poll.poll(&mut events, Some(Duration::from_millis(1))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                if let Some(latency) = self.hear(event.token().0)?
                    && Instant::now() >= counted_from
                {
                    histogram.record(latency.as_micros() as u64)?;
                }
            }
        }
        let due = f64::from(rate) * (WARM_UP + length).as_secs_f64();
        ensure!(f64::from(asked) >= (due * RATE_KEPT).floor(), "only {asked} of {due} requests were made: choose a lower --rate");
        // What was asked last is heard before the next measurement.
        while self.idle.len() < self.all.len() {
            ensure!(end.elapsed() < PATIENCE, "{} answers do not come", self.all.len() - self.idle.len());
            self.poll.poll(&mut events, Some(Duration::from_millis(10)))?;
            for event in &events {
                self.hear(event.token().0)?;
            }
        }
        Ok([histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99)])
    }

    fn ask(&mut self, i: usize) -> anyhow::Result<()> {
        let mut request = Vec::new();
        self.next_key = (self.next_key + 1) % SMALL_KEYS;
        wire::write(self.protocol, Request::Get, self.next_key, b"", &mut request);
        let one = &mut self.all[i];
        one.sent = Instant::now();
        one.missing = wire::answer_bytes(self.protocol, Request::Get, SMALL_BYTES);
        one.stream.write_all(&request).with_context(|| format!("connection {i} does not take a request"))
    }

    /// Reads what has come; how long it took, if that is all.
    fn hear(&mut self, i: usize) -> anyhow::Result<Option<Duration>> {
        let one = &mut self.all[i];
        let mut buffer = [0; 1024];
        loop {
            match one.stream.read(&mut buffer) {
                Ok(0) => bail!("connection {i} was closed"),
                Ok(n) => {
                    ensure!(n <= one.missing, "connection {i}: more than its answer");
                    one.missing -= n;
                    if one.missing == 0 {
                        self.idle.push_back(i);
                        return Ok(Some(one.sent.elapsed()));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error).with_context(|| format!("connection {i}")),
            }
        }
    }
}
