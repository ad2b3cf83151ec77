//! TLS: certificates from files, loaded at the start and again on request.
//!
//! # Thread safety
//! The configuration in force is an `Arc` behind a lock that is held for a copy of it, by the acceptor at each connection and
//! by a reload at its end. A connection keeps the configuration with which it began.

mod files;
mod stream;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;

pub(crate) use stream::TlsStream;

/// Which files, and who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Our certificate in PEM, followed by those that vouch for it.
    pub cert_file: PathBuf,
    /// Its private key in PEM; `None`: it is in `cert_file`.
    pub key_file: Option<PathBuf>,
    /// Certificates in PEM that vouch for clients'.
    pub ca_file: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_auth: ClientAuth,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
}

/// Whether clients show certificates (Redis's `tls-auth-clients`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They must.
    #[default]
    Yes,
    /// They are not asked.
    No,
    /// They may; a wrong one is refused.
    Optional,
}

impl std::str::FromStr for ClientAuth {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No),
            "optional" => Ok(Self::Optional),
            _ => Err(format!("{text:?}: expected yes, no or optional")),
        }
    }
}

impl std::fmt::Display for ClientAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Optional => "optional",
        })
    }
}

/// The server's TLS.
pub(crate) struct Tls(Mutex<InForce>);

struct InForce {
    options: TlsOptions,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Loads the files.
    ///
    /// # Errors
    /// If one can't be read or they don't fit together; the text names the file.
    pub fn load(options: TlsOptions) -> io::Result<Self> {
        let config = files::load(&options)?;
        Ok(Self(Mutex::new(InForce { options, config })))
    }

    /// What a new connection begins with.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock().config)
    }

    /// The options in force.
    pub fn options(&self) -> TlsOptions {
        self.0.lock().options.clone()
    }

    /// Loads other files; connections that come from now on get them. What was in force stays so if that fails.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn replace(&self, options: TlsOptions) -> io::Result<()> {
        // Read without the lock: files may be slow, and the acceptor must not wait.
        let config = files::load(&options)?;
        *self.0.lock() = InForce { options, config };
        Ok(())
    }
}
