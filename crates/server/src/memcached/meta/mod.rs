//! Meta commands: `mg`, `ms`, `md`, `ma`, `me`.
//!
//! ```text
//!   flags --plan.rs--> one of the engine's own operations where it does, else an edit: a rule of rules.rs and its argument
//!   answer.rs <------- the operation's reply, or the view of the record that the rule left (codec.rs)
//! ```
//!
//! Three bits of a record's state are memcached's: that it was invalidated ([`codec::STALE`]), that somebody was told to fetch it
//! anew ([`codec::TOKEN_SENT`]), and that its key is shown in base64 ([`codec::BINARY_KEY`]).

mod answer;
mod codec;
mod number;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

use terrace_engine::Span;

pub(super) use codec::{BINARY_KEY, seconds_left};
pub(super) use number::{Added, Join, Joined, Sum, add, added, join, joined};
pub(super) use plan::{debug, delete, get, number, set};
pub(super) use rules::told;

/// A meta command in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaPlanned {
    verb: Verb,
    op: usize,
    /// The client's flags, as text.
    flags: Span,
    /// `q`: the answer that says nothing new is not sent.
    quiet: bool,
    /// The key came in base64.
    base64: bool,
}

impl MetaPlanned {
    /// Its operation.
    pub(super) fn op(&self) -> usize {
        self.op
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Get {
        /// `v`.
        value: bool,
        /// `T`.
        touches: bool,
        /// Not `u`: it counts as an access.
        uses: bool,
        /// `C`: the value is not shown if this is the record's cas token.
        unless: Option<u64>,
    },
    Set {
        /// A cas token was given to a set or a replace.
        checked: bool,
    },
    Delete {
        /// Not `I`: it counts as a delete, also where the record stays without its value.
        counts: bool,
    },
    Number {
        down: bool,
        /// `v`.
        value: bool,
    },
    Debug,
}
