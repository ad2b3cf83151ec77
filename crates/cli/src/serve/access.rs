//! memcached's users, from a file that may change while the server runs.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use terrace_server::MemcachedUsers;

/// Who may log in, where somebody must (memcached's `-Y`).
pub struct MemcachedAccess(Option<(PathBuf, MemcachedUsers)>);

impl MemcachedAccess {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or has a wrong line; the text says which.
    pub fn read(file: Option<&PathBuf>) -> anyhow::Result<Self> {
        let Some(file) = file else { return Ok(Self(None)) };
        let named = || format!("the auth file {}", file.display());
        let text = std::fs::read(file).with_context(named)?;
        Ok(Self(Some((file.clone(), MemcachedUsers::parse(&text).with_context(named)?))))
    }

    /// Reads it once more; who has logged in stays so.
    ///
    /// # Errors
    /// As of [`read`](Self::read); the users stay as they are.
    pub fn read_again(&self) -> io::Result<()> {
        let Some((file, users)) = &self.0 else { return Ok(()) };
        let text = std::fs::read(file)?;
        users.replace(&text).map_err(|wrong| io::Error::other(format!("{}, {wrong}", file.display())))
    }

    /// The users, if somebody must log in.
    pub fn users(&self) -> Option<MemcachedUsers> {
        self.0.as_ref().map(|(_, users)| users.clone())
    }
}
