//! A server on a free port of the loopback, with a new directory.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::library::Protocol;

/// Whose servers.
pub enum Origin {
    /// Ours.
    Terrace {
        /// The command.
        program: PathBuf,
        /// More options for `serve`.
        options: Vec<String>,
    },
    /// redis-server and memcached.
    Originals,
    /// Somebody else's; none is started.
    Running,
}

/// Servers start within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    dir: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts one and waits until it listens. The inner error is why there can't be one here.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(protocol: Protocol, origin: &Origin) -> anyhow::Result<Result<Self, String>> {
        let dir = tempfile::tempdir()?;
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let (text, port) = (address.to_string(), address.port().to_string());
        let mut command = match (origin, protocol) {
            (Origin::Terrace { program, options }, _) => {
                let (redis, memcached) = match protocol {
                    Protocol::Redis => (text.as_str(), "off"),
                    Protocol::Memcached => ("off", text.as_str()),
                };
                // Two workers: what one connection does must reach those of the other worker.
                let mut command = Command::new(program.canonicalize()?);
                command.args(["serve", "--redis", redis, "--memcached", memcached, "--threads", "2"]);
                command.args(["--dram", "256MiB", "--ssd", "1GiB", "--dir", "store"]).args(options);
                command
            }
            (Origin::Originals, Protocol::Redis) => {
                let mut command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port]);
                command
            }
            (Origin::Originals, Protocol::Memcached) => {
                let mut command = Command::new("memcached");
                command.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p", &port]);
                command
            }
            (Origin::Running, _) => bail!("a library has no server to run against"),
        };
        let errors = std::fs::File::create(dir.path().join("stderr"))?;
        let spawned = command.current_dir(dir.path()).stdout(Stdio::null()).stderr(errors).spawn();
        let child = match spawned {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Err(format!("no {} on PATH", command.get_program().display())));
            }
            spawned => spawned.with_context(|| format!("starting {command:?}"))?,
        };
        let mut server = Self { child, dir, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(how) = server.ended() {
                bail!("{command:?} ended: {how}");
            }
            if started.elapsed() > PATIENCE {
                bail!("{command:?} does not listen: {}", server.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Ok(server))
    }

    /// How it ended, if it did, and what it said last.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("{status}: {}", self.said()))
    }

    fn said(&self) -> String {
        let said = std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default();
        said.lines().last().unwrap_or("it said nothing").into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
