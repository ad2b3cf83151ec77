//! A server as a child process: its start, and its end by a crash.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;
use terrace::engine::Durability;
use terrace_testkit::client::{RespClient, Value};
use terrace_testkit::sweep::MediaKind;

use crate::subjects;

/// A start, recovery included, takes far less.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(120);
/// Attempts to start on ports that nobody else took in between.
const PORT_ATTEMPTS: usize = 5;

/// How servers are started, and what a crash leaves.
pub trait Launch: Sync {
    /// Starts a server on what the last crash left.
    ///
    /// # Errors
    /// If it can't be started.
    fn start(&self) -> anyhow::Result<Running>;
    /// Starts a server on the same and crashes it after `wait`, wherever its start is by then.
    ///
    /// # Errors
    /// If it can't be started.
    fn start_and_crash(&self, wait: Duration) -> anyhow::Result<()>;
    /// The server's process was just killed: turns its media into what the crash leaves of them.
    ///
    /// # Errors
    /// If the media can't be read or written.
    fn crashed(&self) -> anyhow::Result<()>;
    /// Calls answered within this time before a crash may be undone by it, with all that rests on them: the window of
    /// `batch` for a power cut, nothing for the death of the process.
    fn window(&self) -> Option<Duration> {
        None
    }
    /// Leaves the store where it is when this ends, and says where.
    fn keep(&self) -> PathBuf;
}

/// SIGKILL: whatever the process wrote is there.
pub struct Kill(pub Launcher);

impl Launch for Kill {
    fn start(&self) -> anyhow::Result<Running> {
        self.0.start()
    }
    fn start_and_crash(&self, wait: Duration) -> anyhow::Result<()> {
        self.0.start_and_kill(wait)
    }
    fn crashed(&self) -> anyhow::Result<()> {
        Ok(())
    }
    fn keep(&self) -> PathBuf {
        self.0.keep()
    }
}

/// What the server keeps its records on, and what it promises.
#[derive(Clone, Debug, clap::Args)]
pub struct Tiers {
    /// The engine, or `heap-object`: engine heap-hybrid with `--heap object`.
    #[arg(long, default_value = "hetermm")]
    pub engine: String,
    /// The kind of media: byte (a mapped file on tmpfs stands in), block or tiered (both together).
    #[arg(long, default_value = "block")]
    pub media: MediaKind,
    /// When writes are answered: batch:MS or sync.
    #[arg(long, default_value = "batch:100")]
    pub durability: Durability,
    /// The server's memory; with power cuts, that of records alone.
    #[arg(long, default_value = "6MiB")]
    pub dram: String,
    /// The tier below.
    #[arg(long, default_value = "48MiB")]
    pub lower: String,
    /// On both kinds of media: the memory, for the log and a tier between.
    #[arg(long, default_value = "16MiB")]
    pub middle: String,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

impl fmt::Display for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, media, durability, dram, lower, middle, .. } = self;
        write!(f, "{engine}, {media} media, durability {durability}, {dram} over ")?;
        if *media == MediaKind::Tiered {
            write!(f, "{middle} over ")?;
        }
        f.write_str(lower)
    }
}

/// Starts a program on a directory of its own.
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
    dir: Mutex<Option<TempDir>>,
    at: PathBuf,
    /// On tmpfs, for byte-addressable media.
    _memory: Option<TempDir>,
}

impl Launcher {
    /// Servers of the `terrace` command.
    ///
    /// # Errors
    /// If no directory can be made.
    pub fn terrace(program: &Path, tiers: &Tiers) -> anyhow::Result<Self> {
        Self::new(program, "serve", tiers)
    }
    /// Servers in a child process of `terrace-proof`.
    ///
    /// # Errors
    /// As [`terrace`](Self::terrace).
    pub fn child(program: &Path, tiers: &Tiers) -> anyhow::Result<Self> {
        Self::new(program, "histories-server", tiers)
    }

    fn new(program: &Path, command: &str, tiers: &Tiers) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("no directory for the store")?;
        let mut arguments: Vec<OsString> = vec![command.into()];
        let (engine, heap) = subjects::opened_with(&tiers.engine);
        let (threads, durability) = (tiers.threads.to_string(), tiers.durability.to_string());
        let options = [
            ("--engine", engine),
            ("--dram", &tiers.dram),
            ("--durability", &durability),
            ("--threads", &threads),
        ];
        options.iter().for_each(|(name, value)| arguments.extend([(*name).into(), (*value).into()]));
        if let Some(heap) = heap {
            arguments.extend(["--heap".into(), heap.to_string().into()]);
        }
        let mut memory = None;
        let (pmem, ssd) = match tiers.media {
            MediaKind::Byte => (Some(&tiers.lower), None),
            MediaKind::Block => (None, Some(&tiers.lower)),
            MediaKind::Tiered => (Some(&tiers.middle), Some(&tiers.lower)),
        };
        if let Some(bytes) = ssd {
            arguments.extend(["--ssd".into(), bytes.into()]);
        }
        if let Some(bytes) = pmem {
            let on = tempfile::tempdir_in("/dev/shm").context("no directory on tmpfs")?;
            let mut place = OsString::from(format!("{bytes}@"));
            place.push(on.path());
            arguments.extend(["--pmem".into(), place, "--profile".into(), "dram".into()]);
            memory = Some(on);
        }
        let at = dir.path().to_owned();
        Ok(Self { program: program.to_owned(), arguments, dir: Mutex::new(Some(dir)), at, _memory: memory })
    }

    /// The directory that servers are started on.
    pub fn directory(&self) -> PathBuf {
        self.at.join("data")
    }

    /// Leaves the store where it is when this ends.
    pub fn keep(&self) -> PathBuf {
        let dir = self.dir.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        dir.map_or_else(|| self.at.clone(), TempDir::keep)
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If it ends before, or takes too long, with what it printed.
    pub fn start(&self) -> anyhow::Result<Running> {
        for _ in 0..PORT_ATTEMPTS {
            if let Some(running) = self.try_start()? {
                return Ok(running);
            }
        }
        bail!("no free ports in {PORT_ATTEMPTS} attempts")
    }

    /// Starts a server, kills it after `wait`, wherever it is by then.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start_and_kill(&self, wait: Duration) -> anyhow::Result<()> {
        let mut running = self.spawn()?;
        // A random moment of its start is what is wanted.
        std::thread::sleep(wait);
        running.kill()
    }

    fn spawn(&self) -> anyhow::Result<Running> {
        let (redis, memcached) = (free_address()?, free_address()?);
        let output = self.at.join("output.txt");
        let file = File::create(&output)?;
        let mut command = Command::new(&self.program);
        // The caller's variables would change what is tested.
        let ours = std::env::vars_os().map(|(name, _)| name);
        ours.filter(|name| name.to_string_lossy().starts_with("TERRACE_")).for_each(|name| {
            command.env_remove(name);
        });
        command.args(&self.arguments).arg("--dir").arg(self.directory());
        command.args(["--redis", &redis.to_string(), "--memcached", &memcached.to_string()]);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("can't run {}", self.program.display()))?;
        Ok(Running::new(child, redis, memcached, output))
    }

    /// `None` if somebody took the ports.
    fn try_start(&self) -> anyhow::Result<Option<Running>> {
        let from = Instant::now();
        let mut running = self.spawn()?;
        loop {
            if let Some(status) = running.child.try_wait()? {
                let output = running.output();
                if output.contains("in use") && !output.contains("in use by process") {
                    return Ok(None);
                }
                bail!("the server ended at its start with {status}:\n{output}");
            }
            let pong = RespClient::connect(running.redis).and_then(|mut client| client.text("PING"));
            if pong.is_ok_and(|pong| pong == Value::Simple("PONG".into())) {
                return Ok(Some(running));
            }
            if from.elapsed() > STARTS_WITHIN {
                bail!("the server does not answer within {STARTS_WITHIN:?}:\n{}", running.output());
            }
            // Polling another process; nothing depends on how long this takes.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A running server. Dropping it kills it.
pub struct Running {
    child: Child,
    /// Where it speaks Redis's protocol.
    pub redis: SocketAddr,
    /// Where it speaks memcached's.
    pub memcached: SocketAddr,
    output: PathBuf,
}

impl Running {
    /// A server that answers. Its output goes to a file.
    pub(super) fn new(child: Child, redis: SocketAddr, memcached: SocketAddr, output: PathBuf) -> Self {
        Self { child, redis, memcached, output }
    }
    /// SIGKILL; returns when the process is gone.
    ///
    /// # Errors
    /// If it can't be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("can't kill the server")?;
        self.child.wait().context("can't wait for the server")?;
        Ok(())
    }
    /// What it printed so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port on a loopback address that no other server of any test uses.
fn free_address() -> std::io::Result<SocketAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Relaxed));
    TcpListener::bind((own, 0))?.local_addr()
}
