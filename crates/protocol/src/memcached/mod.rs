//! memcached's classic text protocol: bytes to commands and back.
//!
//! ```text
//!   bytes read so far --> Parser::step --> Step { consumed, event }
//!                            |                      |-- Command (borrows keys and values from those bytes)
//!        line.rs  <----------|                      |-- Refused, TooLarge: what to answer instead
//!        (one line -> one                           |-- Incomplete: how many bytes are needed
//!         header or error)                          '-- Close
//!
//!   answers --> reply.rs --> bytes
//! ```
//!
//! The reference is memcached 1.6, down to its error texts and to how it goes on after an error. Deliberate differences:
//! - A length, flags or exptime that does not fit memcached's 32-bit variable is not cut down to 32 bits: too large a
//!   length or flags is a bad command line, an exptime keeps its 64 bits.
//! - `gat` lines may be as long as `get` lines; both end at [`Limits::get_line_bytes_max`].
//! - Meta commands, the binary protocol and the commands that steer slabs, LRU, crawler and watchers are not there.
//!   They answer `ERROR`; the data block of an `ms` is skipped so that it is not taken for commands.

mod command;
mod exptime;
mod line;
mod number;
mod parser;
pub mod reply;
mod words;

pub use command::{Command, Store, StoreVerb};
pub use exptime::expire_at_ms;
pub use parser::{CloseReason, Event, Limits, Parser, Step};
pub use words::Words;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;
