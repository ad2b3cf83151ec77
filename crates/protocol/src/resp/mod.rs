//! RESP2 and RESP3, the Redis serialization protocol.
//!
//! ```text
//!   server:  bytes --Parser--> Args (ranges of those bytes)      answers --Encoder--> bytes
//!   client:  arguments --write_request--> bytes                  bytes --Value::decode--> values
//! ```
//! Nothing is reserved because of a length that a peer claims: memory grows only with the bytes that arrived.

mod encode;
mod error;
mod inline;
mod integer;
mod parser;
mod request;
mod value;

pub use encode::{Encoder, Version};
pub use error::ProtocolError;
pub use inline::split_words;
pub use integer::parse_integer;
pub use parser::{Args, Limits, Parser};
pub use request::write_request;
pub use value::{DecodeError, Value};
