//! Rounds: load, crash, restart, read everything; and the history of it all.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use terrace_testkit::client::{RespClient, Value};
use terrace_testkit::linearize::{Answer, Call, History, Outcome};
use terrace_testkit::rng::Rng;

use super::client::{Client, Shared};
use super::server::{Launch, Running};

/// How often the bar moves, and how exactly is known when a call was answered.
const TICK: Duration = Duration::from_millis(10);
/// A server that answers nobody for so long hangs; clients give up before.
const SILENCE: Duration = Duration::from_secs(120);

/// Of so many starts the first attempt is crashed,
const STARTS_CUT_PERCENT: u64 = 25;
/// within so many milliseconds: an ordinary start takes about as long.
const START_MS: u64 = 60;

/// How much of what is recorded.
#[derive(Clone, Debug, clap::Args)]
pub struct Recording {
    /// Operations in all, about.
    #[arg(long, default_value_t = 1_000_000)]
    pub operations: u64,
    /// Crashes.
    #[arg(long, default_value_t = 20)]
    pub crashes: u64,
    /// Clients, a thread each; every second one speaks memcached's protocol.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub clients: u32,
    /// Keys.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u64).range(16..))]
    pub keys: u64,
    /// Most calls of a client that are open at once.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..))]
    pub depth: u64,
    /// The seed of loads and crashes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What was recorded.
pub struct Recorded {
    /// The history.
    pub history: History,
    /// Calls that a full store refused: they are no part of the history.
    pub refused: u64,
    /// Starts that were crashed too, besides the crashes under load.
    pub starts_cut: u64,
    /// Reads of the sweeps after restarts that the tier below DRAM answered.
    pub cold: u64,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} starts cut off too, {} cold reads in sweeps, {} refused by a full store; recorded in {:.0?}",
            self.starts_cut, self.cold, self.refused, self.took
        )
    }
}

struct Recorder<'a> {
    recording: &'a Recording,
    launch: &'a dyn Launch,
    clients: Vec<Client>,
    history: History,
    clock: u64,
    answered: u64,
    cold: u64,
    bar: ProgressBar,
}

/// Records a history; what it shows is for the checker to say.
///
/// # Errors
/// If the server can't be started, stops answering, or answers something that makes no sense; if it counts other keys in the
/// end than there are.
pub fn record(recording: &Recording, launch: &dyn Launch) -> anyhow::Result<Recorded> {
    let from = Instant::now();
    let bar = ProgressBar::new(recording.operations);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} calls, {msg}, {eta} left")?);
    let mut history = History::default();
    history.calls.reserve(recording.operations as usize + recording.operations as usize / 4);
    let clients = (0..recording.clients).map(|i| Client::new(i, recording.clients, recording.seed)).collect();
    let mut recorder = Recorder { recording, launch, clients, history, clock: 1, answered: 0, cold: 0, bar };
    let mut rng = Rng::new(recording.seed);
    let mut server = launch.start()?;
    let mut starts_cut = 0;
    for crash in 0..recording.crashes.max(1) {
        // Crashes lie evenly, each anywhere within its share of the calls that are left.
        let left = recording.crashes.max(1) - crash;
        let share = recording.operations.saturating_sub(recorder.answered) / left;
        let target = recorder.answered + if left == 1 { share } else { share / 2 + rng.below(share + 1) };
        recorder.bar.set_message(format!("{crash} crashes"));
        if let Err(error) = recorder.round(&mut server, target) {
            return Err(
                error.context(format!("after {crash} crashes; the server printed:\n{}", server.output()))
            );
        }
        if rng.percent(STARTS_CUT_PERCENT) {
            launch.start_and_crash(Duration::from_millis(rng.below(START_MS)))?;
            starts_cut += 1;
        }
        server = launch.start()?;
    }
    recorder.end(&server)?;
    recorder.bar.finish_and_clear();
    let refused = recorder.clients.iter().map(|client| client.refused).sum();
    Ok(Recorded { history: recorder.history, refused, starts_cut, cold: recorder.cold, took: from.elapsed() })
}

impl Recorder<'_> {
    fn shared(&self, server: &Running, target: u64) -> Shared {
        Shared {
            clock: AtomicU64::new(self.clock),
            answered: AtomicU64::new(self.answered),
            target,
            crashing: AtomicBool::new(false),
            keys: self.recording.keys,
            depth: self.recording.depth,
            redis: server.redis,
            memcached: server.memcached,
        }
    }

    /// Reads everything, loads, crashes.
    fn round(&mut self, server: &mut Running, target: u64) -> anyhow::Result<()> {
        let shared = self.shared(server, target);
        let mut marks = Marks::new(&shared);
        self.sweep(&shared)?;
        marks.mark(&shared);
        self.cold += cold_reads(server)?;
        let (tell, told) = mpsc::channel();
        let (results, safe) =
            std::thread::scope(|scope| -> anyhow::Result<(Vec<std::io::Result<()>>, u64)> {
                let shared = &shared;
                let mut threads = Vec::new();
                for client in &mut self.clients {
                    let tell = tell.clone();
                    threads.push(scope.spawn(move || {
                        // The round may be over when the last one tells.
                        let result = client.load(shared, &|| tell.send(()).unwrap_or_default());
                        tell.send(()).unwrap_or_default();
                        result
                    }));
                }
                // Somebody reached the target, or failed.
                let mut marks = Marks::new(shared);
                let waited = wait(&told, shared, &self.bar, &mut marks);
                shared.crashing.store(true, SeqCst);
                // The marks' age is taken before the crash: it can only be more at the crash itself.
                let safe = self.launch.window().map_or(u64::MAX, |window| marks.before(window));
                let killed = server.kill();
                let results = threads.into_iter().map(|thread| thread.join());
                let results =
                    results.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                let results = results.collect();
                waited.and(killed).map(|()| (results, safe))
            })?;
        for (i, result) in results.into_iter().enumerate() {
            result.map_err(|error| anyhow!(error).context(format!("client {i} got no answer")))?;
        }
        self.launch.crashed()?;
        // Every answer that the server sent has been read by now.
        let crash = shared.clock.load(SeqCst);
        (self.clock, self.answered) = (crash + 1, shared.answered.load(SeqCst));
        self.history.crashes.push(crash);
        for client in &mut self.clients {
            client.crashed(crash);
            client.calls.iter_mut().filter(|call| call.ended() >= safe).for_each(Call::make_undoable);
            self.history.calls.append(&mut client.calls);
        }
        Ok(())
    }

    fn sweep(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let results: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
            let sweep = |client| scope.spawn(move || Client::sweep(client, shared));
            let threads: Vec<_> = self.clients.iter_mut().map(sweep).collect();
            let results = threads.into_iter().map(|thread| thread.join());
            results.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for (i, result) in results.into_iter().enumerate() {
            result.map_err(|error| anyhow!(error).context(format!("client {i}, reading every key")))?;
        }
        Ok(())
    }

    /// Reads everything a last time, and compares how many keys the server counts.
    fn end(&mut self, server: &Running) -> anyhow::Result<()> {
        let shared = self.shared(server, u64::MAX);
        let crash = shared.clock.load(SeqCst);
        self.sweep(&shared)?;
        for client in &mut self.clients {
            self.history.calls.append(&mut client.calls);
        }
        let found = |call: &&Call| {
            call.invoked() >= crash
                && matches!(
                    call.entry().map(|entry| entry.outcome),
                    Some(Outcome::Answered(_, Answer::Value(Some(_))))
                )
        };
        let present = self.history.calls.iter().filter(found).count() as i64;
        match RespClient::connect(server.redis)?.text("DBSIZE")? {
            Value::Integer(counted) => {
                ensure!(counted == present, "the server counts {counted} keys, {present} were found");
            }
            other => bail!("DBSIZE was answered {other:?}"),
        }
        Ok(())
    }
}

/// Reads that tiers below DRAM have answered since the server started.
fn cold_reads(server: &Running) -> anyhow::Result<u64> {
    let Value::Bulk(info) = RespClient::connect(server.redis)?.text("INFO")? else {
        bail!("INFO was answered otherwise than with a text")
    };
    let info = String::from_utf8_lossy(&info);
    let tiers = info.lines().filter(|line| line.contains(":medium=") && !line.starts_with("dram:"));
    let hits = tiers.filter_map(|line| line.rsplit_once("hits=")?.1.trim().parse::<u64>().ok());
    Ok(hits.sum())
}

/// What the clock showed when.
struct Marks(Vec<(Instant, u64)>);

impl Marks {
    fn new(shared: &Shared) -> Self {
        Self(vec![(Instant::now(), shared.clock.load(SeqCst))])
    }
    fn mark(&mut self, shared: &Shared) {
        self.0.push((Instant::now(), shared.clock.load(SeqCst)));
    }
    /// A stamp no later than what the clock showed so long ago; 0 if that is not known.
    fn before(&self, time: Duration) -> u64 {
        let old = |(at, _): &&(Instant, u64)| at.elapsed() >= time;
        self.0.iter().rev().find(old).map_or(0, |(_, stamp)| *stamp)
    }
}

/// Until somebody tells that it is time.
fn wait(
    told: &mpsc::Receiver<()>,
    shared: &Shared,
    bar: &ProgressBar,
    marks: &mut Marks,
) -> anyhow::Result<()> {
    let mut last = (shared.answered.load(Relaxed), Instant::now());
    loop {
        match told.recv_timeout(TICK) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        marks.mark(shared);
        let answered = shared.answered.load(Relaxed);
        bar.set_position(answered);
        if answered > last.0 {
            last = (answered, Instant::now());
        }
        ensure!(last.1.elapsed() < SILENCE, "nobody was answered for {SILENCE:?}");
    }
}
