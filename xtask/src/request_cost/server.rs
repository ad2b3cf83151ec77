//! A server under measurement, alone on a free port of the loopback.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::wire::Protocol;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours, asked in Redis's protocol.
    TerraceRedis,
    /// Ours, asked in memcached's.
    TerraceMemcached,
    /// redis-server, which keeps nothing on disk.
    Redis,
    /// redis-server with its log, synced every second: the durability nearest to terrace's default.
    RedisAof,
    /// memcached.
    Memcached,
    /// The kernel's share: an event loop on epoll that keeps nothing (`crates/media/examples/event_loops.rs`).
    LoopEpoll,
    /// The same on io_uring.
    LoopUring,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TerraceRedis => "terrace-redis",
            Self::TerraceMemcached => "terrace-memcached",
            Self::Redis => "redis",
            Self::RedisAof => "redis-aof",
            Self::Memcached => "memcached",
            Self::LoopEpoll => "loop-epoll",
            Self::LoopUring => "loop-uring",
        })
    }
}

impl Kind {
    /// What it speaks.
    pub fn protocol(self) -> Protocol {
        match self {
            Self::TerraceRedis | Self::Redis | Self::RedisAof | Self::LoopEpoll | Self::LoopUring => {
                Protocol::Redis
            }
            Self::TerraceMemcached | Self::Memcached => Protocol::Memcached,
        }
    }
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Servers start and end within this time.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// Starts one with nothing in it and waits until it listens.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(kind: Kind, terrace: &Path, dir: &Path, serve: &[String]) -> anyhow::Result<Self> {
        let dir = dir.join(kind.to_string());
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let (text, port) = (address.to_string(), address.port().to_string());
        let mut command = match kind {
            Kind::TerraceRedis | Kind::TerraceMemcached => {
                let (redis, memcached) =
                    if kind == Kind::TerraceRedis { (text.as_str(), "off") } else { ("off", text.as_str()) };
                let mut command = Command::new(terrace);
                command.args(["serve", "--redis", redis, "--memcached", memcached, "--threads", "1"]);
                command.args(["--dram", "1GiB", "--ssd", "4GiB", "--dir"]).arg(&dir).args(serve);
                command
            }
            Kind::Redis | Kind::RedisAof => {
                let mut command = Command::new("redis-server");
                let log = if kind == Kind::RedisAof { "yes" } else { "no" };
                command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", log, "--port", &port]);
                command.args(["--appendfsync", "everysec"]);
                command
            }
            Kind::LoopEpoll | Kind::LoopUring => {
                // Built beside terrace.
                let mut command = Command::new(terrace.with_file_name("examples").join("event_loops"));
                command.args([if kind == Kind::LoopEpoll { "epoll" } else { "uring" }, &text]);
                command
            }
            Kind::Memcached => {
                let mut command = Command::new("memcached");
                command.args([
                    "-l",
                    "127.0.0.1",
                    "-U",
                    "0",
                    "-t",
                    "1",
                    "-m",
                    "1024",
                    "-u",
                    "root",
                    "-p",
                    &port,
                ]);
                command
            }
        };
        let errors = std::fs::File::create(dir.join("stderr"))?;
        let child = command.current_dir(&dir).stdout(Stdio::null()).stderr(errors).spawn();
        let mut server = Self { child: child.with_context(|| format!("starting {kind}"))?, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait()?;
            if ended.is_some() || started.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(dir.join("stderr")).unwrap_or_default();
                bail!("{kind} does not listen ({ended:?}): {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The CPU time of all its threads so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // Time on a processor, time waited for one, and turns.
            let account = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let on_processor = account.split(' ').next().context("an empty account")?;
            nanoseconds += on_processor.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it can't be ended.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
