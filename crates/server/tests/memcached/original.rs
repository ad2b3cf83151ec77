//! The original memcached, where there is one to compare with.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// A running memcached; killed when dropped.
pub struct Original {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Original {
    /// Starts the binary that the environment variable `TERRACE_MEMCACHED_ORIGINAL` names, else the `memcached` of the search
    /// path if it is a 1.6.45, whose answers the table states; `None` if there is neither.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        let binary = std::env::var_os("TERRACE_MEMCACHED_ORIGINAL").or_else(Self::installed)?;
        // Another process may take the free port first; then memcached ends without a word of listening.
        (0..10).find_map(|_| Self::try_start(&binary)).or_else(|| panic!("{binary:?} does not start"))
    }

    fn installed() -> Option<std::ffi::OsString> {
        let told = Command::new("memcached").arg("-V").output().ok()?;
        told.stdout.starts_with(b"memcached 1.6.45\n").then(|| "memcached".into())
    }

    fn try_start(binary: &std::ffi::OsStr) -> Option<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut child = Command::new(binary)
            .args(["-vv", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-p"])
            .arg(address.port().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("server listening")));
        let original = Self { child, address };
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
