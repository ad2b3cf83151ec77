//! A connection's answers on their way to its socket. Large values are not copied into them: they stay in the batch, and are
//! written from there.
//!
//! ```text
//!   bytes:  $40000\r\n|\r\n$3\r\nabc\r\n
//!                     ^ lent: a span of the batch's answers
//! ```

use terrace_engine::Buffer;
use terrace_engine::{Batch, Span};

/// Values of so many bytes are lent: a copy of a smaller one costs less than another piece to write.
const LEND_BYTES: usize = 16 << 10;

/// Where a value of the batch belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    /// Behind so many of the bytes.
    at: usize,
    value: Span,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// All that is not lent.
    pub bytes: Vec<u8>,
    /// In their order.
    pub lent: Vec<Lent>,
}

/// Appends a value of the batch to `bytes`, or lends it.
pub(crate) fn append(batch: &Batch, value: Span, bytes: &mut Vec<u8>, lent: &mut Vec<Lent>) {
    if value.len() < LEND_BYTES {
        bytes.extend_from_slice(batch.output(value));
    } else {
        lent.push(Lent { at: bytes.len(), value });
    }
}

/// Takes back what was appended since `bytes` had this length.
pub(crate) fn truncate(start: usize, lent_before: usize, bytes: &mut Vec<u8>, lent: &mut Vec<Lent>) {
    bytes.truncate(start);
    lent.truncate(lent_before);
}

impl Output {
    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lent.clear();
    }

    /// Bytes to send, those lent among them.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.lent.iter().map(|lent| lent.value.len()).sum::<usize>()
    }

    /// What is to be sent, in order.
    pub fn pieces<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = &'a [u8]> {
        let ends = self.lent.iter().map(|lent| lent.at).chain([self.bytes.len()]);
        let starts = std::iter::once(0).chain(self.lent.iter().map(|lent| lent.at));
        let own = starts.zip(ends).map(|(start, end)| &self.bytes[start..end]);
        let values = self.lent.iter().map(|lent| batch.output(lent.value)).chain([&[][..]]);
        own.zip(values).flat_map(|(own, value)| [own, value]).filter(|piece| !piece.is_empty())
    }

    /// Copies what is behind the first `sent` bytes.
    pub fn copy_rest(&self, batch: &Batch, sent: usize, to: &mut Buffer) {
        to.reserve(self.len() - sent);
        let mut skip = sent;
        for piece in self.pieces(batch) {
            let skipped = skip.min(piece.len());
            to.extend_from_slice(&piece[skipped..]);
            skip -= skipped;
        }
    }
}
