//! A service manager that waits until its service is ready.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of a service manager (systemd's `Type=notify`).
#[derive(Debug)]
pub struct Supervisor(SocketAddr);

impl Supervisor {
    /// The one that started this process, if it waits to hear of it.
    pub fn find() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET")?;
        Self::at(&name).ok()
    }

    fn at(name: &OsStr) -> io::Result<Self> {
        // A name that begins with @ lies in no file system.
        match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
            _ => SocketAddr::from_pathname(name),
        }
        .map(Self)
    }

    /// Says how it is, such as `READY=1`. Where nobody hears it the log says so.
    pub fn tell(&self, state: &str) {
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(state.as_bytes(), &self.0));
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager can't be told {state}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        Supervisor::at(path.as_os_str()).unwrap().tell("READY=1");
        let mut heard = [0; 64];
        let len = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..len], b"READY=1");
    }

    #[test]
    fn a_manager_may_lie_in_no_file_system() {
        let name = format!("terrace-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Supervisor::at(OsStr::new(&format!("@{name}"))).unwrap().tell("STOPPING=1");
        let mut heard = [0; 64];
        let len = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..len], b"STOPPING=1");
    }
}
