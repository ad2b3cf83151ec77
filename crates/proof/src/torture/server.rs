//! A server as a child process: started, watched, cut off.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::load::Wire;

/// No phase takes nearly as long; a server that hangs fails its round instead of stalling it.
const PHASE_WITHIN: Duration = Duration::from_secs(60);
/// Which planted bug the server has, where this program was built with the library of them (`planted`).
const PLANTED: &str = "TERRACE_PLANTED";
/// How long a debugger may take to list a hanging server's stacks.
const STACKS_WITHIN: &str = "30";

/// A server process, in whatever phase.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    /// Everything that it wrote to standard error.
    errors: PathBuf,
    started: Instant,
    /// Whether it was told to end itself; otherwise an abort is an error like any other.
    may_abort: bool,
}

/// Where a server listens, and what its opening took.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    pub redis: SocketAddr,
    pub memcached: SocketAddr,
    /// From the start of the process.
    pub opened_in: Duration,
    /// Fences and syncs of the opening.
    pub fences: u64,
}

impl Serving {
    pub fn redis(&self) -> std::io::Result<Wire> {
        Wire::redis(self.redis)
    }
    pub fn memcached(&self) -> std::io::Result<Wire> {
        Wire::memcached(self.memcached)
    }
}

/// How a server that was told to stop went on.
pub enum Stopped {
    /// It ended in order, after so many fences and syncs.
    InOrder { fences: u64 },
    /// It was cut off before.
    Cut,
}

impl Server {
    /// Starts the program's own `torture-server` with these options.
    pub fn start(options: &[String], dir: &Path) -> anyhow::Result<Self> {
        let errors = dir.join("errors.txt");
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        // The caller's variables are no options of the server. A planted bug is none: the server is what must have it.
        let ours = std::env::vars_os().map(|(name, _)| name);
        let option = |name: &OsString| name.to_string_lossy().starts_with("TERRACE_") && name != PLANTED;
        ours.filter(option).for_each(|name| {
            command.env_remove(name);
        });
        let mut child = command
            .arg("torture-server")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()
            .context("starting a server")?;
        let (tell, lines) = channel();
        let output = child.stdout.take().context("the server's output is ours")?;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let may_abort = options.iter().any(|option| option.starts_with("--die-"));
        Ok(Self { child, lines, errors, started: Instant::now(), may_abort })
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// If it ends or hangs instead.
    pub fn serving(&mut self) -> anyhow::Result<Serving> {
        self.phase("opening")?;
        let open = self.phase("open ")?;
        let opened_in = self.started.elapsed();
        let serving = self.phase("serving ")?;
        let (redis, memcached) = serving.split_once(' ').context("two addresses")?;
        Ok(Serving { redis: redis.parse()?, memcached: memcached.parse()?, opened_in, fences: open.parse()? })
    }

    /// Waits for a line; what follows its beginning.
    fn phase(&mut self, beginning: &str) -> anyhow::Result<String> {
        match self.lines.recv_timeout(PHASE_WITHIN) {
            Ok(line) => match line.strip_prefix(beginning) {
                Some(rest) => Ok(rest.into()),
                None => anyhow::bail!("the server said {line:?} instead of {beginning:?}"),
            },
            Err(RecvTimeoutError::Timeout) => {
                anyhow::bail!("the server hangs before {beginning:?}; {}", self.stacks())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                anyhow::bail!("the server ended before {beginning:?} with {status}:\n{}", self.errors())
            }
        }
    }

    /// Waits for it to end by itself within its opening, as it was told to. Whether it did; it may have come to serve.
    pub fn ends_opening(&mut self) -> anyhow::Result<bool> {
        loop {
            match self.lines.recv_timeout(PHASE_WITHIN) {
                Ok(line) if line.starts_with("serving") => return Ok(false),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("the server hangs in its opening; {}", self.stacks())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    // An error would be one of the product.
                    anyhow::ensure!(
                        self.was_cut(status),
                        "the server ended with {status}:\n{}",
                        self.errors()
                    );
                    return Ok(true);
                }
            }
        }
    }

    /// Whether it has come to serve by now.
    pub fn serves_by_now(&mut self) -> bool {
        self.lines.try_iter().any(|line| line.starts_with("serving"))
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// If it had ended by itself, in error.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        let status = self.child.wait()?;
        anyhow::ensure!(self.was_cut(status), "the server had ended with {status}:\n{}", self.errors());
        Ok(())
    }

    /// SIGTERM.
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("sending SIGTERM")
    }

    /// After SIGTERM: waits for the end, and brings it about after `patience`.
    pub fn stopped(mut self, patience: Option<Duration>) -> anyhow::Result<Stopped> {
        let patience = patience.unwrap_or(PHASE_WITHIN);
        let until = Instant::now() + patience;
        let mut fences = 0;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(count) = line.strip_prefix("closed ") {
                        fences = count.parse()?;
                    }
                }
                Err(RecvTimeoutError::Timeout) if patience == PHASE_WITHIN => {
                    anyhow::bail!("the server hangs in its orderly stop; {}", self.stacks())
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill()?;
                    self.child.wait()?;
                    return Ok(Stopped::Cut);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    if self.was_cut(status) {
                        return Ok(Stopped::Cut);
                    }
                    anyhow::ensure!(
                        status.success(),
                        "SIGTERM ended the server with {status}:\n{}",
                        self.errors()
                    );
                    return Ok(Stopped::InOrder { fences });
                }
            }
        }
    }

    /// Whether it ended by a cut, its own or ours, and nothing had gone wrong in it before.
    fn was_cut(&self, status: ExitStatus) -> bool {
        let cut = match status.signal() {
            Some(signal) if signal == Signal::KILL.as_raw() => true,
            Some(signal) if signal == Signal::ABORT.as_raw() => self.may_abort,
            _ => false,
        };
        cut && !self.errors().contains("panicked")
    }

    /// Standard error so far.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Lists all its stacks beside its errors, if there is a debugger; says where.
    pub fn stacks(&self) -> String {
        let path = self.errors.with_file_name("stacks.txt");
        let listed = Command::new("timeout")
            .args([STACKS_WITHIN, "gdb", "-batch", "-ex", "thread apply all backtrace", "-p"])
            .arg(self.child.id().to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match listed.and_then(|listed| std::fs::write(&path, listed.stdout)) {
            Ok(()) => format!("its stacks are in {}", path.display()),
            Err(error) => format!("its stacks could not be listed: {error}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
