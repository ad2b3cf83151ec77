//! What can be wrong with a request's framing, in Redis's words.

/// A violation of the protocol; after one the connection can't be used any more. `Display` is Redis's text, without the
/// `ERR` that goes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count behind `*` is no number or too large.
    #[error("Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// The length behind `$` is no number, negative or too large.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// The count behind `*` is too large for a client that has not logged in.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// The length behind `$` is too large for a client that has not logged in.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An argument does not begin with `$`; holds what was there instead.
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    ExpectedDollar(u8),
    /// A quote in an inline request is not closed, or is followed by something other than a space.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// An inline request has no end within 64 KiB.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// The line that begins with `*` has no end within 64 KiB.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkCountTooBig,
    /// The line that begins with `$` has no end within 64 KiB.
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooBig,
}

/// An answer is one line of text: what would break the line, or the text's encoding, is shown as a space or a question mark.
fn printable(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        0x20..0x7f => byte as char,
        _ => '?',
    }
}
