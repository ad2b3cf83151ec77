//! memcached's text protocols, classic and meta: bytes to commands and back. The binary one is in [`binary`].
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
//! The reference is memcached 1.6.45, down to its error texts and to how it goes on after an error. Deliberate differences:
//! - A length, flags or exptime that does not fit memcached's 32-bit variable is not cut down to 32 bits: too large a
//!   length or flags is a bad command line, an exptime keeps its 64 bits.
//! - `gat` lines may be as long as `get` lines; both end at [`Limits::get_line_bytes_max`].
//! - A number of seconds may have more than 11 characters.
//! - `me KEY b` takes the key for base64, also where nothing stands behind the `b`.
//! - The proxy is not there. Commands that steer slabs, LRU lists and external storage are checked
//!   and answered, and do nothing.

mod admin;
mod base64;
pub mod binary;
mod command;
mod exptime;
mod line;
mod login;
pub mod meta;
mod number;
mod parser;
pub mod reply;
mod words;

pub use admin::Classes;
pub use base64::{KeyBuffer, encode as encode_key};
pub use command::{Command, Crawl, Shutdown, Store, StoreVerb, Watch};
pub use exptime::expire_at_ms;
pub use meta::Key;
pub use number::unsigned;
pub use parser::{CloseReason, Event, Limits, Parser, Step};
pub use words::Words;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// What memcached counts of an item beside its key and value: its head, its cas token, the ends of both.
const ITEM_BYTES: usize = 59;
/// And for flags that are not 0.
const FLAGS_BYTES: usize = 4;

/// The longest value that an item of at most so many bytes has room for (memcached's `-I`), with this key and these flags.
pub fn value_room(item_bytes_max: usize, key_bytes: usize, flags: u32) -> usize {
    let flags = if flags == 0 { 0 } else { FLAGS_BYTES };
    item_bytes_max.saturating_sub(ITEM_BYTES + key_bytes + flags)
}
