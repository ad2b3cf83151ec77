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
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(LockError::Held { dir: dir.into(), pid });
            }
            Err(error) => return Err(io_error(error.into())),
        }
        let write_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write_pid(&mut file).map_err(io_error)?;
        Ok(Self { _file: file })
    }
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
    fn a_directory_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        let error = DirLock::acquire(&dir.path().join("none")).unwrap_err();
        assert!(matches!(error, LockError::Io { .. }));
    }
}
