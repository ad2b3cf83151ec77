//! What all connections that speak Redis's protocol share.

use std::io;

use super::acl::Acl;
use super::settings::Settings;
use crate::options::ServerOptions;

/// See the module.
pub(crate) struct State {
    /// Users and what they may do.
    pub acl: Acl,
    /// What clients may change.
    pub settings: Settings,
}

impl State {
    /// The state of a server that starts.
    ///
    /// # Errors
    /// If the users can't be read; the text says why.
    pub fn new(options: &ServerOptions) -> io::Result<Self> {
        let acl = Acl::new(options.requirepass.as_bytes(), &options.users, options.acl_file.clone())
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Self { acl, settings: Settings::default() })
    }
}
