//! Models of what the originals answer, and how a server is held against one.
//!
//! ```text
//!   input --> commands, drawn and applied to the model one by one --> bytes in pieces --> ours, or the original
//!                          '--> expected answers and messages of each connection <--compare--'
//! ```

mod expect;
mod memcached;
mod memcached_target;
mod original;
mod ours;
mod redis;
mod redis_targets;

use std::collections::VecDeque;

use expect::{Expect, Tokens};
pub(super) use memcached_target::MEMCACHED_MODEL;
use original::Original;
pub(super) use ours::exchange;
pub(super) use redis_targets::{MODEL, TWO};

/// A server with some connections.
trait Served {
    /// Sends bytes on a connection.
    ///
    /// # Errors
    /// If the server takes none.
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String>;

    /// What came on a connection since the last time, once it is enough. A server that answers at once need not ask.
    ///
    /// # Errors
    /// If not enough comes.
    fn receive(&mut self, connection: usize, is_enough: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, String>;
}

/// What a connection is still to get, each with what it is about.
type Due = VecDeque<(String, Expect)>;

/// Compares what came with what was due, all of it.
///
/// # Errors
/// What differs.
fn compare(connection: usize, mut received: &[u8], due: &mut Due, tokens: &mut Tokens) -> Result<(), String> {
    for (told, expect) in due.drain(..) {
        expect
            .take(&mut received, tokens)
            .map_err(|error| format!("connection {connection}: {told}: {error}"))?;
    }
    if received.is_empty() {
        Ok(())
    } else {
        Err(format!("connection {connection} got too much: {}", expect::shown(received)))
    }
}

/// The original that a target's model speaks for, to be fed with the same inputs.
pub struct Against {
    original: Original,
    run: fn(&[u8], &Original) -> Result<u64, String>,
}

impl Against {
    /// The original that `TERRACE_REDIS_ORIGINAL` or `TERRACE_MEMCACHED_ORIGINAL` names; `None` if there is none, or if the
    /// target has no model.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(target: &str) -> Result<Option<Self>, String> {
        let run: fn(&[u8], &Original) -> Result<u64, String> = match target {
            "serve-model" => |input, original| redis_targets::on_original(input, 1, original),
            "serve-two" => |input, original| redis_targets::on_original(input, 2, original),
            "serve-memcached-model" => memcached_target::on_original,
            _ => return Ok(None),
        };
        let original =
            if target == "serve-memcached-model" { Original::memcached() } else { Original::redis() };
        Ok(original?.map(|original| Self { original, run }))
    }

    /// Runs an input: how many commands were answered as the model says.
    ///
    /// # Errors
    /// What differs.
    pub fn run(&self, input: &[u8]) -> Result<u64, String> {
        (self.run)(input, &self.original)
    }
}
