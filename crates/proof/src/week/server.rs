//! The real `terrace` as a child process, and what the system says of it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::setting::{Setting, Speaks};

/// A start takes far less, recovery included; a server that hangs ends the week.
const STARTS_WITHIN: Duration = Duration::from_secs(120);
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// How often its memory is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(10);

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGTERM.
    Ordered,
    /// SIGKILL.
    Killed,
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    watch: Watch,
}

/// Bytes that were read from something and written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub read: u64,
    pub written: u64,
}

impl Traffic {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
    }
}

impl Server {
    /// Starts one on a directory and waits until it serves.
    ///
    /// # Errors
    /// If it does not; the text has what it said.
    pub fn start(terrace: &Path, setting: &Setting, dir: &Path, memory: &Path) -> anyhow::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let output = dir.join("output.txt");
        let file = File::options().create(true).append(true).open(&output)?;
        let mut command = Command::new(terrace);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TERRACE_"))
        {
            command.env_remove(name);
        }
        match setting.speaks {
            Speaks::Redis => {
                let address = address.to_string();
                command.args(["serve", "--redis", &address, "--memcached", "off", "--threads", "2", "--dir"]);
                command.arg(dir.join("data"));
            }
            Speaks::Memcached => {
                command.args(["memcached", "-t", "2", "-l", "127.0.0.1", "-p", &address.port().to_string()]);
            }
        }
        command.args(setting.options(memory)).stdin(Stdio::null());
        let child = command.stdout(file.try_clone()?).stderr(file).spawn().context("starting terrace")?;
        let watch = Watch::over(child.id());
        let mut server = Self { child, address, watch };
        server.wait_until_ready(setting, &output)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, setting: &Setting, output: &Path) -> anyhow::Result<()> {
        let started = Instant::now();
        while !answers(self.address, setting.speaks) {
            let ended = self.child.try_wait()?;
            if ended.is_some() || started.elapsed() > STARTS_WITHIN {
                let said = std::fs::read_to_string(output).unwrap_or_default();
                bail!("{} does not serve ({ended:?}):\n{said}", setting.name);
            }
            // Another process is looked at; nothing depends on how long this takes.
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What the system counted so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn traffic(&self) -> anyhow::Result<Traffic> {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let field = |name: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)).context("a line of /proc/PID/io")?;
            line.trim().parse::<u64>().context("a number of /proc/PID/io")
        };
        Ok(Traffic { read: field("read_bytes:")?, written: field("write_bytes:")? })
    }

    /// The most anonymous memory that it was seen with, in bytes.
    pub fn most_memory(&self) -> u64 {
        self.watch.most.load(Relaxed)
    }

    /// Ends it, and waits until it has ended.
    ///
    /// # Errors
    /// If it does not end.
    pub fn end(mut self, how: End) -> anyhow::Result<()> {
        match how {
            End::Ordered => kill_process(Pid::from_child(&self.child), Signal::TERM)?,
            End::Killed => self.child.kill()?,
        }
        let told = Instant::now();
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(told.elapsed() < ENDS_WITHIN, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        self.watch.stop();
    }
}

/// Whether it serves: a server that still loads listens, and says so.
fn answers(address: SocketAddr, speaks: Speaks) -> bool {
    use terrace_testkit::client::{MemcachedClient, RespClient, Value};
    if TcpStream::connect(address).is_err() {
        return false;
    }
    match speaks {
        Speaks::Redis => RespClient::connect(address)
            .and_then(|mut client| client.text("DBSIZE"))
            .is_ok_and(|answer| matches!(answer, Value::Integer(_))),
        Speaks::Memcached => MemcachedClient::connect(address)
            .and_then(|mut client| client.command("mn"))
            .is_ok_and(|answer| answer == "MN"),
    }
}

/// A thread that looks at a process's anonymous memory.
struct Watch {
    most: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn over(process: u32) -> Self {
        let (most, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, stop) = (most.clone(), ended.clone());
        let path = PathBuf::from(format!("/proc/{process}/status"));
        let thread = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                if let Some(bytes) = anonymous_bytes(&path) {
                    seen.fetch_max(bytes, Relaxed);
                }
                std::thread::sleep(WATCH_EVERY);
            }
        });
        Self { most, ended, thread: Some(thread) }
    }

    fn stop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

fn anonymous_bytes(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
