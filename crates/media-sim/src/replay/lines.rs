//! A region's lines: durable content and the ordered list of later stores.
//!
//! ```text
//!   line 0x40   base | s7 s9 s12 s13          a crash keeps base and any prefix of the list
//!                          ^flushed by A       A's fence moves the list up to here into base
//! ```
//!
//! # Invariants
//! `current` = `base` with every listed store applied. Sequence numbers grow along a list. A line without stores is not
//! listed. Stores that change nothing are left out: every crash image is the same with and without them.

use std::collections::{BTreeMap, HashMap};

use crate::region::{LINE_WORDS, each_word, lines_of};
use crate::trace::SiteId;

/// One aligned word that was stored and is not durable yet. The value is the whole word as it was then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) word: usize,
    pub(crate) value: u64,
    pub(crate) site: SiteId,
    sequence: u64,
}

/// The persistence state of a region.
pub(crate) struct Lines {
    pub(crate) base: Vec<u64>,
    current: Vec<u64>,
    /// By line number; ordered, so that the same seed gives the same images.
    pub(crate) pending: BTreeMap<usize, Vec<Stored>>,
    /// By actor: lines it flushed, each up to (not including) a sequence number.
    flushed: HashMap<u32, Vec<(usize, u64)>>,
    next_sequence: u64,
    /// Lines whose base changed since these were last taken.
    pub(crate) rebased: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(base: Vec<u64>) -> Self {
        Self {
            current: base.clone(),
            base,
            pending: BTreeMap::new(),
            flushed: HashMap::new(),
            next_sequence: 0,
            rebased: Vec::new(),
        }
    }

    /// The whole words that a store leaves behind, in order.
    pub(crate) fn stored_words(&self, offset: u64, bytes: &[u8], site: SiteId) -> Vec<Stored> {
        let mut stored = Vec::new();
        each_word(offset, bytes, |word, mask, value| {
            let value = self.current[word] & !mask | value;
            if value != self.current[word] {
                stored.push(Stored { word, value, site, sequence: 0 });
            }
        });
        stored
    }

    pub(crate) fn store(&mut self, offset: u64, bytes: &[u8], site: SiteId) {
        for stored in self.stored_words(offset, bytes, site) {
            self.current[stored.word] = stored.value;
            let stored = Stored { sequence: self.next_sequence, ..stored };
            self.next_sequence += 1;
            self.pending.entry(stored.word / LINE_WORDS).or_default().push(stored);
        }
    }

    /// `false` if every line was clean, or flushed by the actor before and not stored to since.
    pub(crate) fn flush(&mut self, actor: u32, offset: u64, len: u64) -> bool {
        let flushed = self.flushed.entry(actor).or_default();
        let mut useful = false;
        for (line, list) in self.pending.range(lines_of(offset, len)) {
            let mut before = flushed.iter().rev();
            let newest = list.last().map_or(0, |stored| stored.sequence);
            useful |= !before.any(|(other, end)| other == line && newest < *end);
            flushed.push((*line, self.next_sequence));
        }
        useful
    }

    /// `false` if nothing became durable that was not before.
    pub(crate) fn fence(&mut self, actor: u32) -> bool {
        let mut useful = false;
        for (line, end) in self.flushed.remove(&actor).unwrap_or_default() {
            let Some(list) = self.pending.get_mut(&line) else { continue };
            let durable = list.partition_point(|stored| stored.sequence < end);
            for stored in list.drain(..durable) {
                self.base[stored.word] = stored.value;
            }
            if list.is_empty() {
                self.pending.remove(&line);
            }
            if durable > 0 {
                self.rebased.push(line);
                useful = true;
            }
        }
        useful
    }
}
