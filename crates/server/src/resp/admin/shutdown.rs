//! `SHUTDOWN`: asks whoever started the server to end it.

use std::sync::OnceLock;

use super::super::call::{Call, Outcome};
use super::super::error::SYNTAX;
use super::super::options::is;

/// How a server is told to end by a client.
#[derive(Default)]
pub(crate) struct Shutdown {
    /// Called once, on a worker's thread; it must not wait for the server.
    hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shutdown {
    /// Sets what is called; the first one stays.
    pub fn on_request(&self, hook: Box<dyn Fn() + Send + Sync>) {
        if self.hook.set(hook).is_err() {
            tracing::error!("a second way to end the server was given and is not used");
        }
    }
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`. Whatever it says, all that was acknowledged is kept as durably as it was
/// promised. There is no answer: the connection closes.
pub(in crate::resp) fn shutdown(call: &mut Call<'_>) -> Outcome {
    let (mut save, mut no_save, mut abort, mut others) = (false, false, false, false);
    for word in call.args.from(1) {
        match () {
            () if is(word, "SAVE") => save = true,
            () if is(word, "NOSAVE") => no_save = true,
            () if is(word, "NOW") || is(word, "FORCE") => others = true,
            () if is(word, "ABORT") => abort = true,
            () => return Err(SYNTAX.into()),
        }
    }
    if save && no_save || abort && (save || no_save || others) {
        return Err(SYNTAX.into());
    }
    if abort {
        return Err("ERR No shutdown in progress.".into());
    }
    let Some(hook) = call.ctx.shared.redis.shutdown.hook.get() else {
        return Err("ERR this server is part of a program that a client can't end".into());
    };
    tracing::warn!(peer = %call.client.peer.remote, "a client ends the server");
    call.client.closing = true;
    hook();
    Ok(())
}
