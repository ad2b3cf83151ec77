//! The product's server as a child process in the guest.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::client::{RespClient, Value};

/// An emulated machine is slow; a server that hangs must end the run all the same.
const STARTS_WITHIN: Duration = Duration::from_secs(90);

/// A running `terrace serve`, killed when dropped.
pub struct Server {
    child: Child,
    /// Redis's port.
    pub redis: SocketAddr,
    /// memcached's port.
    pub memcached: SocketAddr,
    output: PathBuf,
}

/// What starting led to.
pub enum Started {
    /// It answers.
    Ready(Server),
    /// It ended: its status and what it printed.
    Refused(ExitStatus, String),
}

impl Server {
    /// Starts the binary with options for its store, and waits until it answers or ends. Its output goes to a file in
    /// `scratch`. The guest is ours alone, so that `port` and the one after it are free.
    ///
    /// # Errors
    /// If it can't be started, or does neither in time.
    pub fn start(binary: &Path, scratch: &Path, port: u16, options: &[&str]) -> anyhow::Result<Started> {
        let (redis, memcached) =
            (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 1], port + 1)));
        std::fs::create_dir_all(scratch)?;
        let output = scratch.join(format!("server-{port}.txt"));
        let file = File::create(&output).with_context(|| format!("making {}", output.display()))?;
        let child = Command::new(binary)
            .args([
                "serve",
                "--threads",
                "2",
                "--redis",
                &redis.to_string(),
                "--memcached",
                &memcached.to_string(),
            ])
            .args(options)
            .current_dir(scratch)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut server = Self { child, redis, memcached, output };
        let from = Instant::now();
        loop {
            if let Some(status) = server.child.try_wait()? {
                return Ok(Started::Refused(status, server.output()));
            }
            let pong = RespClient::connect(redis).and_then(|mut client| client.text("PING"));
            // The banner is complete a moment after the first answer.
            if pong.is_ok_and(|pong| pong == Value::Simple("PONG".into()))
                && server.output().contains("\nready ")
            {
                return Ok(Started::Ready(server));
            }
            anyhow::ensure!(
                from.elapsed() < STARTS_WITHIN,
                "the server does not answer:\n{}",
                server.output()
            );
            // Polls another process; nothing depends on how long it takes.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// As [`start`](Self::start), where it must become ready.
    ///
    /// # Errors
    /// With what it printed, if it ended.
    pub fn ready(binary: &Path, scratch: &Path, port: u16, options: &[&str]) -> anyhow::Result<Self> {
        match Self::start(binary, scratch, port, options)? {
            Started::Ready(server) => Ok(server),
            Started::Refused(status, output) => {
                anyhow::bail!("the server ended at its start with {status}:\n{output}")
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// What `INFO` says.
    ///
    /// # Errors
    /// If it doesn't answer.
    pub fn info(&self) -> anyhow::Result<String> {
        match RespClient::connect(self.redis)?.text("INFO")? {
            Value::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            other => anyhow::bail!("INFO was answered {other:?}"),
        }
    }

    /// Fails unless both what it printed and what `INFO` says contain `words`; in a field of `INFO` commas are semicolons.
    ///
    /// # Errors
    /// With what is said instead.
    pub fn must_say(&self, words: &str) -> anyhow::Result<()> {
        for (what, text) in [("the banner", self.output()), ("INFO", self.info()?.replace(';', ","))] {
            anyhow::ensure!(text.contains(words), "{words:?} is not in {what}:\n{text}");
        }
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// If it can't be sent.
    pub fn terminate(mut self) -> anyhow::Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
