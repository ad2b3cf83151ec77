//! What all connections that speak Redis's protocol share.

use std::io;
use std::sync::atomic::AtomicU64;

use super::acl::Acl;
use super::admin::Shutdown;
use super::info::Rates;
use super::settings::Settings;
use super::stats::Stats;
use crate::options::ServerOptions;
use crate::shared::wall_clock_ms;

/// See the module.
pub(crate) struct State {
    /// Users and what they may do.
    pub acl: Acl,
    /// What clients may change.
    pub settings: Settings,
    /// What commands cost.
    pub stats: Stats,
    /// When the last snapshot was written, or the server started, in seconds since the Unix epoch.
    pub saved_s: AtomicU64,
    /// [`Registry::changes`](crate::registry::Registry::changes) as it was when that snapshot was begun.
    pub saved_changes: AtomicU64,
    /// Rates that `INFO` tells.
    pub rates: Rates,
    /// How a client ends the server.
    pub shutdown: Shutdown,
}

impl State {
    /// The state of a server that starts.
    ///
    /// # Errors
    /// If the users can't be read; the text says why.
    pub fn new(options: &ServerOptions) -> io::Result<Self> {
        let acl = Acl::new(options.requirepass.as_bytes(), &options.users, options.acl_file.clone())
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, at_start(&why)))?;
        Ok(Self {
            acl,
            settings: Settings::default(),
            stats: Stats::default(),
            saved_s: AtomicU64::new(wall_clock_ms() / 1000),
            saved_changes: AtomicU64::new(0),
            rates: Rates::default(),
            shutdown: Shutdown::default(),
        })
    }
}

/// What is wrong with users, to who starts the server: there are none from before.
fn at_start(why: &str) -> &str {
    why.split("WARNING: ACL errors detected").next().unwrap_or(why).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_users_at_the_start_are_told_without_those_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("users.acl");
        std::fs::write(&file, "user a on nonsense\n").unwrap();
        let options = ServerOptions { acl_file: Some(file), ..ServerOptions::default() };
        let why = State::new(&options).err().unwrap().to_string();
        assert!(why.contains("users.acl:1: Error in applying operation 'nonsense'"), "{why}");
        assert!(!why.contains("previously active"), "{why}");
    }
}
