//! What lies around a record that is read: the *buf* of its block, read with it and kept for whoever asks for the other records.
//!
//! ```text
//! block   | header | record | record | rec ord | record | .. | footer | trailer |
//! bufs    |<-------- buf 0 --------->|<------- buf 1 -------->| ..
//! ```
//!
//! Records don't keep to bufs: one that begins in a buf is read to its end, one that began before it is passed over. Where the
//! first one begins nothing says, and nothing need: a record proves itself by a checksum over what it is, where it is, and
//! which use of the slot it belongs to.

use std::collections::VecDeque;

use terrace_engine::record::RecordView;
use terrace_media::AlignedBuf;

use crate::in_flight::Stretch;
use crate::layout::checked;
use crate::place::Place;

/// Bytes of a buf.
pub const BUF_BYTES: usize = 16 << 10;

/// Bufs that a session keeps at most: as many as it can have reads in flight.
const KEPT_MAX: usize = 64;

/// Checksums that are looked at in vain in one buf, at most: a value can be made up to look like many records.
const TRIED_IN_VAIN: usize = 64;

/// A buf that was read.
pub struct Around {
    stretch: Stretch,
    bytes: AlignedBuf,
}

impl Around {
    /// What a block holds from a place on, in one use of its slot.
    pub fn new(Place { slot, offset }: Place, seq: u64, bytes: AlignedBuf) -> Self {
        let end = offset + bytes.len() as u32;
        Self { stretch: Stretch { slot, seq, bytes: offset..end }, bytes }
    }
    /// The use of the slot that it was read in.
    pub fn seq(&self) -> u64 {
        self.stretch.seq
    }
    /// The slot.
    pub fn slot(&self) -> u32 {
        self.stretch.slot
    }
    fn holds(&self, place: Place) -> bool {
        self.stretch.slot == place.slot && self.stretch.bytes.contains(&place.offset)
    }
    /// Shows the records that lie in it whole.
    pub fn records(&self, mut show: impl FnMut(Place, RecordView<'_>)) {
        let (mut at, mut in_vain) = (self.stretch.bytes.start, 0);
        while at < self.stretch.bytes.end && in_vain < TRIED_IN_VAIN {
            let bytes = self.stretch.from(&self.bytes, at);
            match checked(self.stretch.seq, self.stretch.slot, at, bytes) {
                Some(view) => {
                    show(Place { slot: self.stretch.slot, offset: at }, view);
                    at += view.head.meta.used_words() as u32 * 8;
                }
                None => {
                    in_vain += usize::from(RecordView::decode(bytes).is_some());
                    at += 8;
                }
            }
        }
    }
}

/// The bufs that a session's reads brought, the latest last.
#[derive(Default)]
pub(crate) struct Kept {
    wanted: bool,
    bufs: VecDeque<Around>,
}

impl Kept {
    /// Whether whole bufs are to be read.
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }
    pub fn wanted(&self) -> bool {
        self.wanted
    }
    pub fn keep(&mut self, stretch: Stretch, bytes: AlignedBuf) {
        if self.bufs.len() >= KEPT_MAX {
            self.bufs.pop_front();
        }
        self.bufs.push_back(Around { stretch, bytes });
    }
    pub fn take(&mut self, place: Place, seq: u64) -> Option<Around> {
        let at = self.bufs.iter().position(|buf| buf.seq() == seq && buf.holds(place))?;
        self.bufs.remove(at)
    }
    pub fn clear(&mut self) {
        self.bufs.clear();
    }
}

/// The buf that a stretch begins in, and what of the stretch lies behind it.
pub(crate) fn widened(stretch: &Stretch, block_bytes: usize) -> Stretch {
    let start = stretch.bytes.start as usize / BUF_BYTES * BUF_BYTES;
    let end = (start + BUF_BYTES).min(block_bytes).max(stretch.bytes.end as usize);
    Stretch { bytes: start as u32..end as u32, ..stretch.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buf_is_widened_to_the_end_of_what_begins_in_it() {
        let wide = |from, to| widened(&Stretch { slot: 1, seq: 2, bytes: from..to }, 40 << 10).bytes;
        assert_eq!(wide(4096, 8192), 0..16 << 10);
        assert_eq!(wide(12 << 10, 20 << 10), 0..20 << 10);
        assert_eq!(wide(16 << 10, 20 << 10), 16 << 10..32 << 10);
        assert_eq!(wide(36 << 10, 40 << 10), 32 << 10..40 << 10, "the block ends there");
    }
}
