//! Answers of many pieces, to commands of a few bytes a piece: their bytes are bounded while they are written.

use terrace_protocol::resp::Encoder;

use super::step::Answer;

/// Most bytes of one such answer. Those of a transaction take from one [`Effort`](crate::effort::Effort), a byte a step.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// What a client is told that asks for more.
pub(super) const TOO_LARGE: &str = "ERR such an answer may take at most 64 MiB, and those of one transaction 128 MiB: ask for less at a time";
const _: () =
    assert!(BYTES_MAX == 64 << 20 && crate::effort::STEPS_MAX == 128 << 20, "the text says how many");

impl Answer<'_> {
    /// Writes the head of an answer and then its pieces, each of which is small; an error in its place, and no further piece is
    /// made, once they are too many.
    pub fn bounded<T>(
        &mut self,
        head: impl FnOnce(&mut Encoder<'_>),
        pieces: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Encoder<'_>, T),
    ) {
        let start = self.encoder.buffer().len();
        let room = BYTES_MAX.min(self.effort.left() as usize);
        head(&mut self.encoder);
        for piece in pieces {
            write(&mut self.encoder, piece);
            if self.encoder.buffer().len() - start > room {
                self.encoder.buffer().truncate(start);
                return self.encoder.error(TOO_LARGE.as_bytes());
            }
        }
        self.effort.take((self.encoder.buffer().len() - start) as u64);
    }
}
