//! What a program needs that reads a redis.conf.

pub use terrace_protocol::resp::split_words;

pub use crate::resp::{REDIS_VERSION, check_parameter, is_without_meaning};

/// Whether a name fits a pattern as Redis has them: `*`, `?`, `[a-z]`, `[^x]`.
pub fn glob_matches(pattern: &[u8], name: &[u8]) -> bool {
    crate::resp::glob::matches(pattern, name)
}
