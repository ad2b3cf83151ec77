//! What a daemon does with its process: background, another user, a file with its number, limits.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set for the process in the background; it tells the one in the foreground when it is ready.
const CHILD: &str = "_TERRACE_IN_BACKGROUND";
/// The line that it says then.
const READY: &str = "ready";

/// Whether this is the process in the background.
pub fn is_background() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts this program once more in the background, in a session of its own, and waits until it serves or has failed. Unlike a
/// fork it is a new program, so that no thread and no lock is left behind. What it says while it starts is shown; afterwards
/// it is silent, unless `verbose`. `asked` is the option that asks for it.
pub fn to_background(asked: &str, verbose: bool) -> anyhow::Result<ExitCode> {
    let told = |what: &str| format!("{asked}: {what}");
    let program = std::env::current_exe().with_context(|| told("this program's file can't be found"))?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let mut child = command
        .args(arguments)
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(if verbose { Stdio::inherit() } else { Stdio::piped() })
        .spawn()
        .with_context(|| told("the process in the background could not be started"))?;
    let mut shown = None;
    if let Some(mut errors) = child.stderr.take() {
        // Ends with this process: what comes later is nobody's.
        let copy = std::thread::Builder::new().spawn(move || io::copy(&mut errors, &mut io::stderr()));
        shown = Some(copy?);
    }
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            if line.with_context(|| told("the process in the background can't be heard"))? == READY {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    let status = child.wait()?;
    if let Some(copy) = shown {
        // Its last words: they end with it.
        let _copied = copy.join();
    }
    anyhow::bail!("{asked}: it did not start: {status}")
}

/// Leaves the terminal's session.
pub fn leave_session() -> anyhow::Result<()> {
    rustix::process::setsid().map(drop).context("no session of its own could be had in the background")
}

/// Tells the process in the foreground that all is well.
pub fn tell_ready() {
    crate::say::announce(READY);
}

/// Whether this may become another user.
pub fn is_root() -> bool {
    use nix::unistd::{geteuid, getuid};
    getuid().is_root() || geteuid().is_root()
}

/// Becomes another user, if this is root. Before any thread is started.
pub fn become_user(name: &str) -> anyhow::Result<()> {
    use nix::unistd::{User, initgroups, setgid, setuid};
    if !is_root() {
        return Ok(());
    }
    let user = User::from_name(name)
        .with_context(|| format!("-u {name}: the user can't be looked up"))?
        .with_context(|| format!("can't find the user {name} to switch to"))?;
    let c_name = std::ffi::CString::new(name).context("-u: the name has a zero in it")?;
    initgroups(&c_name, user.gid)
        .and_then(|()| setgid(user.gid))
        .and_then(|()| setuid(user.uid))
        .with_context(|| format!("failed to assume identity of user {name}"))
}

/// A file with the process's number, which goes when this goes.
pub struct PidFile {
    path: PathBuf,
    text: String,
}

impl PidFile {
    /// Writes it. Where that can't be done the log says so, and the server goes on without, as memcached does.
    pub fn write_or_warn(path: &Path) -> Option<Self> {
        Self::write(path).inspect_err(|error| tracing::warn!("{error:#}: going on without the file")).ok()
    }

    /// Writes it, whole or not at all.
    fn write(path: &Path) -> anyhow::Result<Self> {
        // Its directory may not be the current one by the end.
        let path = std::path::absolute(path).context("the file with the process's number")?;
        let text = format!("{}\n", std::process::id());
        write_whole(&path, &text)
            .with_context(|| format!("can't write the process's number to {}", path.display()))?;
        Ok(Self { path, text })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let is_ours = std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the pid file");
        }
    }
}

/// Writes a file that nobody sees half written. The directory may belong to somebody who is trusted less than this process:
/// a link that lies in the way is removed and not followed.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(&beside)?.write_all(text.as_bytes())?;
    std::fs::rename(beside, path)
}

/// Keeps all memory from being swapped out, once it is used: what is only reserved (the index has room for far more than there
/// is) is not made resident. A kernel before Linux 4.4 knows only to lock all at once.
pub fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    let locked = match mlockall(all | MlockAllFlags::ONFAULT) {
        Err(rustix::io::Errno::INVAL) => mlockall(all),
        locked => locked,
    };
    if let Err(error) = locked {
        tracing::warn!(%error, "-k: failed to lock memory");
    }
}

/// Allows core files as large as may be.
pub fn allow_core() {
    let limit = getrlimit(Resource::Core);
    for maximum in [None, limit.maximum] {
        if setrlimit(Resource::Core, Rlimit { current: maximum, maximum }).is_ok() {
            return;
        }
    }
    tracing::warn!("-r: the limit on core files could not be raised");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("pid"), dir.path().join("precious"));
        std::fs::write(&precious, "data").unwrap();
        std::os::unix::fs::symlink(&precious, dir.path().join("pid.tmp")).unwrap();
        write_whole(&path, "5\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5\n");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "data");
    }
}
