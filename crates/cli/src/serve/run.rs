//! From a running server to its end.

use std::io;

use anyhow::Context;
use terrace::OpenStore;
use terrace_server::Server;

use super::signals::{Signal, Signals};

/// Serves until a signal ends it, then answers what was received, and closes the store. SIGHUP calls `reload`; what fails
/// there is logged, and everything stays as it was.
///
/// # Errors
/// If a thread of the server had failed, or the store can't be saved.
pub fn until_told(
    server: Server,
    store: OpenStore,
    mut signals: Signals,
    mut reload: impl FnMut(&Server) -> io::Result<()>,
) -> anyhow::Result<()> {
    let name = loop {
        match signals.next() {
            Signal::Reload => {
                if let Err(error) = reload(&server) {
                    tracing::error!(%error, "SIGHUP: what is in force stays");
                }
            }
            Signal::Stop(name) => break name,
        }
    };
    tracing::info!(
        "{name}: answering what has been received, then stopping; a signal after ten seconds ends at once"
    );
    let drained = server.shutdown();
    let closed = store.close();
    if let (Err(error), Err(_)) = (&drained, &closed) {
        tracing::error!(%error, "the server did not stop cleanly");
    }
    closed.context("saving the store failed; what was acknowledged is recovered at the next start")?;
    drained.context("a server thread had failed before the end")
}
