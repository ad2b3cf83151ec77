//! redis-server, where it is installed: what the paper's tables have beside its own systems. It speaks over a socket, and its files lie in
//! shared memory as ours do. Each run takes so many seconds, however fast it is.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};

use super::super::{Figure, Holds, Kind, Row, Settings, each, shared_memory};
use super::bed::{key, value};
use super::inserts::{DIGITS, NS_MAX, PERCENTILES};

/// Seconds of inserts whose latencies are told: a snapshot is begun in the fourth.
const SECONDS: f64 = 8.0;
/// The paper's crashes, in seconds from the start.
const CRASHES: [f64; 4] = [2.5, 5.0, 10.0, 15.0];
/// It is started, and loads what it has saved, in less.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it keeps of what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Snapshots,
    Log,
}

impl Keeps {
    const ALL: [Self; 3] = [Self::Nothing, Self::Snapshots, Self::Log];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "redis-server that keeps nothing",
            Self::Snapshots => "redis-server with a snapshot every 3 s (RDB)",
            Self::Log => "redis-server with a log that is synced at each write (AOF)",
        }
    }
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["--save", "", "--appendonly", "no"],
            Self::Snapshots => &["--save", "3", "1", "--appendonly", "no"],
            Self::Log => &["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
        }
    }
}

/// The one that the variable names, as for the tests that compare with it, or the one in the path.
fn binary() -> OsString {
    std::env::var_os("TERRACE_REDIS_ORIGINAL").unwrap_or_else(|| "redis-server".into())
}

/// Why it can't be started, if so.
fn missing() -> Option<String> {
    let started =
        Command::new(binary()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = started.is_ok_and(|status| status.success());
    (!is_there)
        .then(|| "redis-server is not installed (TERRACE_REDIS_ORIGINAL may name one elsewhere)".to_owned())
}

/// One that runs; it is killed when this is dropped.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        // Who writes a snapshot for it would end that after its death: a machine that loses power loses both.
        let id = self.0.id();
        let writers = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let writers = writers.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?));
        // One that has ended meanwhile is as good.
        for writer in writers {
            let _ = kill_process(writer, Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One that runs, and its client, who waits for each answer.
struct Redis {
    running: Running,
    socket: BufReader<UnixStream>,
    request: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Redis {
    /// Starts one on what a directory holds, and waits until that is loaded.
    fn start(keeps: Keeps, dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("socket");
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        let mut command = Command::new(binary());
        command.args(["--port", "0", "--daemonize", "no", "--unixsocket"]).arg(&path).arg("--dir").arg(dir);
        command.args(keeps.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running(command.spawn().context("starting redis-server")?);
        let from = Instant::now();
        let socket = loop {
            if let Some(status) = running.0.try_wait()? {
                bail!("redis-server ended at its start with {status}");
            }
            if let Ok(socket) = UnixStream::connect(&path) {
                let mut socket = BufReader::new(socket);
                // While it loads, an error.
                if ask(&mut socket, "PING")? == "+PONG" {
                    break socket;
                }
            }
            ensure!(from.elapsed() < PATIENCE, "redis-server does not answer");
            // Polls another process; nothing depends on how long it takes.
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Self { running, socket, request: Vec::new(), key: Vec::new(), value: Vec::new() })
    }

    fn insert(&mut self, record: u64) -> anyhow::Result<()> {
        key(record, &mut self.key);
        value(record, &mut self.value);
        self.request.clear();
        write!(self.request, "*3\r\n$3\r\nSET\r\n${}\r\n", self.key.len())?;
        self.request.extend_from_slice(&self.key);
        write!(self.request, "\r\n${}\r\n", self.value.len())?;
        self.request.extend_from_slice(&self.value);
        self.request.extend_from_slice(b"\r\n");
        self.socket.get_mut().write_all(&self.request)?;
        let answer = line(&mut self.socket)?;
        ensure!(answer == "+OK", "record {record} was answered by {answer}");
        Ok(())
    }

    /// Inserts records for so long; how many were answered.
    fn insert_for(&mut self, time: Duration, mut each: impl FnMut(Duration)) -> anyhow::Result<u64> {
        let start = Instant::now();
        let (mut before, mut records) = (start, 0);
        while before - start < time {
            self.insert(records)?;
            records += 1;
            let now = Instant::now();
            each(now - before);
            before = now;
        }
        Ok(records)
    }

    fn keys(&mut self) -> anyhow::Result<u64> {
        let answer = ask(&mut self.socket, "DBSIZE")?;
        let keys = answer.strip_prefix(':').and_then(|keys| keys.parse().ok());
        keys.with_context(|| format!("DBSIZE was answered by {answer}"))
    }
}

fn ask(socket: &mut BufReader<UnixStream>, command: &str) -> anyhow::Result<String> {
    socket.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
    line(socket)
}

fn line(socket: &mut BufReader<UnixStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    socket.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// No longer than at scale 1, however large that is: what is told does not grow with it.
fn scaled(seconds: f64, settings: &Settings) -> Duration {
    Duration::from_secs_f64(seconds * settings.scale.min(1.0))
}

/// Rows of P3: the percentiles of table 4.
pub(super) fn percentiles(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let paper = |keeps| match keeps {
        Keeps::Nothing => "1 1 2 3 16".into(),
        Keeps::Snapshots => "1 1 1 3 14".into(),
        Keeps::Log => Figure::None,
    };
    let what = |keeps: Keeps| format!("{}, percentiles 50, 90, 99, 99.9, 99.99 in us", keeps.name());
    if let Some(reason) = missing() {
        let row = |keeps| Row::not_measured("P3", what(keeps), paper(keeps), Kind::Measured, &*reason);
        return Ok(Keeps::ALL.map(row).into());
    }
    let time = scaled(SECONDS, settings);
    let found = each("P3 redis", 1, &Keeps::ALL, |keeps| {
        let dir = shared_memory::directory()?;
        let mut latencies = Histogram::<u64>::new_with_bounds(1, NS_MAX, DIGITS)?;
        let mut redis = Redis::start(*keeps, dir.path())?;
        redis.insert_for(time, |took| latencies.saturating_record((took.as_nanos() as u64).max(1)))?;
        Ok(latencies)
    })?;
    let row = |(keeps, latencies): (Keeps, &Histogram<u64>)| {
        let us = |percentile| format!("{:.2}", latencies.value_at_percentile(percentile) as f64 / 1000.0);
        Row {
            id: "P3",
            what: what(keeps),
            setting: format!(
                "{} inserts in {:.1} s, keys 4 to 11 B, values 5 to 13 B; one client that waits for each answer, over a Unix socket; files in \
                 shared memory, no delays",
                latencies.len(),
                time.as_secs_f64()
            ),
            paper: paper(keeps),
            ours: PERCENTILES.map(us).join(" ").into(),
            kind: Kind::Measured,
            holds: Holds::NotJudged(
                "another program, behind a socket; its times depend on the machine".into(),
            ),
        }
    };
    Ok(Keeps::ALL.into_iter().zip(&found).map(row).collect())
}

/// Rows of P5: what it has not kept after a kill.
pub(super) fn lost(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let paper = |keeps| match keeps {
        Keeps::Snapshots => "306752 797239 687864 853219".into(),
        Keeps::Nothing | Keeps::Log => Figure::None,
    };
    // What a snapshot loses goes up and down; of the others one crash tells all.
    let crashes = |keeps| if keeps == Keeps::Snapshots { &CRASHES[..] } else { &CRASHES[..1] };
    let what = |keeps: Keeps| {
        let seconds = crashes(keeps).iter().map(|at| scaled(*at, settings).as_secs_f64().to_string());
        let seconds: Vec<String> = seconds.collect();
        format!(
            "{}, records that were answered and are lost, killed after {} s",
            keeps.name(),
            seconds.join(", ")
        )
    };
    if let Some(reason) = missing() {
        let row = |keeps| Row::not_measured("P5", what(keeps), paper(keeps), Kind::Measured, &*reason);
        return Ok(Keeps::ALL.map(row).into());
    }
    let items: Vec<(Keeps, f64)> =
        Keeps::ALL.into_iter().flat_map(|keeps| crashes(keeps).iter().map(move |at| (keeps, *at))).collect();
    // Answered, and lost of that.
    let found = each("P5 redis", 1, &items, |(keeps, seconds)| {
        let dir = shared_memory::directory()?;
        let mut redis = Redis::start(*keeps, dir.path())?;
        let answered = redis.insert_for(scaled(*seconds, settings), |_| {})?;
        redis.running.kill();
        drop(redis);
        let kept = Redis::start(*keeps, dir.path())?.keys()?;
        ensure!(kept <= answered, "redis-server has {kept} records of {answered}");
        Ok((answered, answered - kept))
    })?;
    let row = |keeps| {
        let all = items.iter().zip(&found).filter(|((of, _), _)| *of == keeps).map(|(_, found)| *found);
        let (answered, lost): (Vec<_>, Vec<_>) =
            all.map(|(all, lost)| (all.to_string(), lost.to_string())).unzip();
        Row {
            id: "P5",
            what: what(keeps),
            setting: format!(
                "of {} records; over a Unix socket; files in shared memory, no delays",
                answered.join(", ")
            ),
            paper: paper(keeps),
            ours: lost.join(" ").into(),
            kind: Kind::Measured,
            holds: Holds::NotJudged(
                "another program: what a snapshot lacks is what was written since".into(),
            ),
        }
    };
    Ok(Keeps::ALL.map(row).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is tried where there is no redis-server.
    #[test]
    fn what_is_kept_is_there_again() {
        if missing().is_some() || shared_memory::missing().is_some() {
            return;
        }
        for (keeps, kept) in [(Keeps::Nothing, 0), (Keeps::Snapshots, 100), (Keeps::Log, 107)] {
            let dir = shared_memory::directory().unwrap();
            let mut redis = Redis::start(keeps, dir.path()).unwrap();
            (0..100).for_each(|record| redis.insert(record).unwrap());
            if keeps == Keeps::Snapshots {
                assert_eq!(ask(&mut redis.socket, "SAVE").unwrap(), "+OK");
            }
            (100..107).for_each(|record| redis.insert(record).unwrap());
            redis.running.kill();
            drop(redis);
            assert_eq!(Redis::start(keeps, dir.path()).unwrap().keys().unwrap(), kept, "{keeps:?}");
        }
    }
}
