//! The real server as a child process, for every test that needs one.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::client::{RespClient, Value};

/// A start, recovery included, takes far less; a server that hangs fails the test instead of stalling it.
const STARTS_WITHIN: Duration = Duration::from_secs(120);
/// Attempts to start on ports that nobody else took in between.
const PORT_ATTEMPTS: usize = 5;

/// Runs each of these functions as a test, once for every engine with tiers.
macro_rules! on_every_engine {
    ($($test:ident),+ $(,)?) => {
        mod hetermm {
            $(#[test] fn $test() { super::$test("hetermm"); })+
        }
        mod tac {
            $(#[test] fn $test() { super::$test("tac"); })+
        }
    };
}
pub(crate) use on_every_engine;

/// A running `terrace serve`.
pub struct Server {
    child: Child,
    pub redis: SocketAddr,
    pub memcached: SocketAddr,
    /// From the start of the process to the first answer.
    pub started_in: Duration,
    output: PathBuf,
}

impl Server {
    /// Starts a server of an engine on a directory, with sizes and modes from `options`, and waits until it answers.
    pub fn start(dir: &Path, engine: &str, options: &[&str]) -> Self {
        for _ in 0..PORT_ATTEMPTS {
            if let Some(server) = Self::try_start(dir, engine, options) {
                return server;
            }
        }
        panic!("no free ports in {PORT_ATTEMPTS} attempts");
    }

    /// `None` if somebody took the ports.
    fn try_start(dir: &Path, engine: &str, options: &[&str]) -> Option<Self> {
        let (redis, memcached) = (free_address(), free_address());
        let output = dir.join("output.txt");
        let file = File::create(&output).unwrap();
        let from = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        // The test's own variables are no options of the server, and the caller's would change what is tested.
        let ours = std::env::vars_os().map(|(name, _)| name);
        ours.filter(|name| name.to_string_lossy().starts_with("TERRACE_")).for_each(|name| {
            command.env_remove(name);
        });
        let child = command
            .arg("serve")
            .arg("--dir")
            .arg(dir.join("data"))
            .args(["--redis", &redis.to_string(), "--memcached", &memcached.to_string()])
            .args(["--threads", "2", "--engine", engine])
            .args(options)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let mut server = Self { child, redis, memcached, started_in: Duration::ZERO, output };
        loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                let output = server.output();
                if output.contains("in use") {
                    return None;
                }
                panic!("the server ended at its start with {status}:\n{output}");
            }
            let pong = RespClient::connect(redis).and_then(|mut client| client.text("PING"));
            if pong.is_ok_and(|pong| pong == Value::Simple("PONG".into())) {
                server.started_in = from.elapsed();
                return Some(server);
            }
            assert!(from.elapsed() < STARTS_WITHIN, "the server does not answer:\n{}", server.output());
            // Polling another process; nothing depends on how long this takes.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(mut self) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        (status, self.output())
    }

    /// What it printed so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

/// The process, for tests that ask the system about it.
impl AsRef<Child> for Server {
    fn as_ref(&self) -> &Child {
        &self.child
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port on a loopback address that no other server of any test uses: where listeners may share a port, a free port
/// alone would not keep two of them apart.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Relaxed));
    TcpListener::bind((own, 0)).and_then(|listener| listener.local_addr()).unwrap()
}
