//! One process a store: a directory is locked against a second opener.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// The file in a store's directory that is locked. It stays when the lock goes.
pub const LOCK_FILE: &str = "LOCK";

/// Holds a directory until dropped, or until the process ends in whatever way: the lock is the kernel's.
#[derive(Debug)]
pub struct DirLock {
    /// Closing it gives the lock up.
    _file: File,
}

/// Why a directory can't be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody has the store open.
    #[error("{} is in use by {}: only one process may have a store open", dir.display(), holder(*pid))]
    Held {
        /// The store's directory.
        dir: PathBuf,
        /// Who, if it had written its number down.
        pid: Option<u32>,
    },
    /// The lock file can't be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("process {pid}"))
}

impl DirLock {
    /// Locks a device that holds a store, by itself: it has no directory of its own. Who has it is not written down.
    ///
    /// # Errors
    /// [`LockError::Held`] if another opener has it, also one in this process.
    pub fn device(path: &Path) -> Result<Self, LockError> {
        let io_error = |source| LockError::Io { path: path.into(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io_error)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held { dir: path.into(), pid: None }),
            Err(error) => Err(io_error(error.into())),
        }
    }

    /// Locks a directory, which must exist, and writes this process's number into its lock file.
    ///
    /// # Errors
    /// [`LockError::Held`] if another opener has it, also one in this process.
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join(LOCK_FILE);
        let io_error = |source| LockError::Io { path: path.clone(), source };
        // Not truncated at opening: until it is locked, what is in it is the holder's.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(LockError::Held { dir: dir.into(), pid: written_pid(&mut file) });
            }
            Err(error) => return Err(io_error(error.into())),
        }
        let write_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        match write_pid(&mut file) {
            // The number is for people. A disk that is full must not keep a store from being opened.
            Err(error) if !is_full(&error) => Err(io_error(error)),
            _ => Ok(Self { _file: file }),
        }
    }

    /// Holds a directory against openers that would write, beside others who only look: nothing is written, and nothing is made.
    /// `None` if there is no lock file: then no process has the store open.
    ///
    /// # Errors
    /// [`LockError::Held`] if somebody has it open, also in this process.
    pub fn look(dir: &Path) -> Result<Option<Self>, LockError> {
        let path = dir.join(LOCK_FILE);
        match Self::look_at(&path) {
            Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(LockError::Held { pid, .. }) => Err(LockError::Held { dir: dir.into(), pid }),
            looked => looked.map(Some),
        }
    }

    /// The same for a device, which is locked by itself.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_at(path: &Path) -> Result<Self, LockError> {
        let io_error = |source| LockError::Io { path: path.into(), source };
        let mut file = File::open(path).map_err(io_error)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held { dir: path.into(), pid: written_pid(&mut file) }),
            Err(error) => Err(io_error(error.into())),
        }
    }
}

/// Whether an error says that there is no room, on the disk or in a quota.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Who holds a lock, as far as its file says.
fn written_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    // A device is no text, and long.
    file.take(32).read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_opener_is_refused_and_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(dir.path()).unwrap();
        let error = DirLock::acquire(dir.path()).unwrap_err();
        assert!(matches!(&error, LockError::Held { pid: Some(pid), .. } if *pid == std::process::id()));
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        DirLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn what_a_dead_holder_left_behind_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "4294967295 and more\n").unwrap();
        let _lock = DirLock::acquire(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_device_is_locked_by_itself() {
        // Any file that is not made by the lock stands for the device.
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = DirLock::device(file.path()).unwrap();
        let error = DirLock::device(file.path()).unwrap_err();
        assert!(matches!(&error, LockError::Held { pid: None, .. }), "{error}");
        assert!(error.to_string().contains("is in use by another process"), "{error}");
        assert_eq!(file.path().metadata().unwrap().len(), 0, "nothing is written to it");
        drop(lock);
        DirLock::device(file.path()).unwrap();
    }

    #[test]
    fn who_only_looks_is_refused_by_an_opener_alone_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(DirLock::look(dir.path()).unwrap().is_none());
        assert!(!dir.path().join(LOCK_FILE).exists(), "nothing is made");
        let lock = DirLock::acquire(dir.path()).unwrap();
        let error = DirLock::look(dir.path()).unwrap_err();
        assert!(matches!(&error, LockError::Held { pid: Some(pid), .. } if *pid == std::process::id()));
        drop(lock);
        let looks = (DirLock::look(dir.path()).unwrap(), DirLock::look(dir.path()).unwrap());
        assert!(looks.0.is_some() && looks.1.is_some(), "who looks keeps no other from looking");
        assert!(matches!(DirLock::acquire(dir.path()), Err(LockError::Held { .. })));
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        assert!(is_full(&io::Error::from_raw_os_error(libc::ENOSPC)));
        assert!(is_full(&io::Error::from_raw_os_error(libc::EDQUOT)));
        assert!(!is_full(&io::Error::from_raw_os_error(libc::EIO)));
    }

    #[test]
    fn a_directory_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        let error = DirLock::acquire(&dir.path().join("none")).unwrap_err();
        assert!(matches!(error, LockError::Io { .. }));
    }
}
