//! The original Redis, where there is one to compare with.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running Redis; killed when dropped.
pub struct Original {
    child: Child,
    /// Where it may save what it likes.
    _dir: tempfile::TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Original {
    /// Starts the binary that the environment variable `TERRACE_REDIS_ORIGINAL` names; `None` if there is no such variable.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        let binary = std::env::var_os("TERRACE_REDIS_ORIGINAL")?;
        // Another process may take the free port first; then Redis ends without a word of being ready.
        (0..10).find_map(|_| Self::try_start(&binary, None)).or_else(|| panic!("{binary:?} does not start"))
    }

    /// The same, with this snapshot.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with(snapshot: &Path) -> Option<Self> {
        let binary = std::env::var_os("TERRACE_REDIS_ORIGINAL")?;
        let started = (0..10).find_map(|_| Self::try_start(&binary, Some(snapshot)));
        started.or_else(|| panic!("{binary:?} does not start with {snapshot:?}"))
    }

    fn try_start(binary: &std::ffi::OsStr, snapshot: Option<&Path>) -> Option<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let dir = tempfile::tempdir().unwrap();
        if let Some(snapshot) = snapshot {
            std::fs::copy(snapshot, dir.path().join("dump.rdb")).unwrap();
        }
        let mut child = Command::new(binary)
            .current_dir(dir.path())
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(address.port().to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("accept connections")));
        let original = Self { child, _dir: dir, address };
        if !listens {
            return None;
        }
        std::thread::spawn(move || lines.for_each(drop));
        Some(original)
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks the original; as in the conformance table, without it nothing is checked.
///
/// # Panics
/// As the test.
pub fn ask_original(test: fn(SocketAddr)) {
    if let Some(original) = Original::start() {
        test(original.address);
    }
}
