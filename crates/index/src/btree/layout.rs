//! How a node is laid out anew: prefix, kind, and how the free words are shared between arrays and heap.
//!
//! # Invariants
//! A [`Layout`] has everything that could fail behind it: writing it allocates nothing.

use super::compact::{compact_head, compact_room, is_compact};
use super::contents::Part;
use super::heap::{Chain, Slot, chain_for, fence_chain_for, fence_words, heap_words, is_long};
use super::node::{BODY, INLINE_WORDS, Kind, Node, PREFIX_MAX, ROOM_MAX, SHAPE, Shape, WORDS, payload_words};
use super::pool::Pool;
use super::text::{shared, word};

/// Of 8 parts of a node, those that may be full after it was laid out anew. A fuller one is split instead.
const FULL_PARTS: usize = 7;

/// What a part takes.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    prefix: usize,
    /// What the arrays hold.
    kind: Kind,
    /// Words of the heap, fences included.
    heap: usize,
    /// Entries that the arrays will have room for.
    room: usize,
    /// Words in use.
    words: usize,
    /// Entries.
    count: usize,
}

impl Part<'_> {
    fn suffix(&self, i: usize, prefix: usize) -> &[u8] {
        &self.contents.key(i)[prefix..]
    }
    /// The length of all keys after the prefix, if they make a plain leaf: equally long, and alike after the head.
    fn plain(&self, prefix: usize) -> Option<usize> {
        let mut suffixes = self.range.clone().map(|i| self.suffix(i, prefix));
        let first = suffixes.next()?;
        let tail = first.get(8..).unwrap_or_default();
        let alike =
            |suffix: &[u8]| suffix.len() == first.len() && suffix.get(8..).is_none_or(|rest| rest == tail);
        (self.level == 0 && !is_long(first.len()) && suffixes.all(alike)).then_some(first.len())
    }
    fn prefix(&self) -> usize {
        self.high.map_or(0, |high| shared(self.low, high)).min(PREFIX_MAX)
    }
    /// Words of the heap that the fences take.
    fn fences(&self) -> usize {
        fence_words(self.low.len()) + self.high.map_or(0, |high| fence_words(high.len()))
    }
    /// Measures. The part may be too large for a node.
    pub(super) fn measure(&self) -> Measure {
        let prefix = self.prefix();
        let mut heap = self.fences();
        let count = self.range.len();
        if let Some(length) = self.plain(prefix) {
            heap += heap_words(length);
            let available = WORDS - BODY - heap;
            let mut room = available * 4 / 7;
            while room + payload_words(false, room) > available {
                room -= 1;
            }
            let words = BODY + heap + count + payload_words(false, count);
            return Measure { prefix, kind: Kind::Plain(length), heap, room, words, count };
        }
        let room = compact_room(heap);
        if self.level > 0 && count <= room && self.range.clone().all(|i| is_compact(self.suffix(i, prefix))) {
            let words = BODY + heap + Kind::Compact.array_words(count);
            return Measure { prefix, kind: Kind::Compact, heap, room, words, count };
        }
        self.measure_wide()
    }
    /// Measures a node whose entries need not be alike, nor short.
    pub(super) fn measure_wide(&self) -> Measure {
        let prefix = self.prefix();
        let mut heap = self.fences();
        let count = self.range.len();
        let rests: usize = self.range.clone().map(|i| heap_words(self.contents.key(i).len() - prefix)).sum();
        heap += rests;
        let arrays = |count| count + payload_words(true, count);
        let words = BODY + heap + arrays(count);
        // Room is shared in the proportion of what there is. An inner node keeps enough for a separator of any length.
        let reserve = if self.level == 0 { 0 } else { INLINE_WORDS };
        let spare = WORDS.saturating_sub(words + reserve);
        let (sample, sample_heap) = if count == 0 { (1, 1) } else { (count, rests) };
        let mut room = (count + sample * spare / (2 * sample + sample_heap)).min(ROOM_MAX);
        while room > count && BODY + heap + arrays(room) > WORDS {
            room -= 1;
        }
        if room == count && count < ROOM_MAX && BODY + heap + arrays(count + 1) <= WORDS {
            room = count + 1;
        }
        Measure { prefix, kind: Kind::Wide, heap, room, words, count }
    }
    /// Prepares the node.
    ///
    /// # Panics
    /// If there is no memory for overflow nodes.
    pub(super) fn prepare(&self, pool: &Pool, measure: Measure) -> Layout<'_> {
        assert!(measure.fits(), "a part of {} words fits in no node", measure.words);
        let chains =
            self.range.clone().filter_map(|i| chain_for(pool, self.suffix(i, measure.prefix))).collect();
        let fences =
            [fence_chain_for(pool, self.low), self.high.and_then(|high| fence_chain_for(pool, high))];
        Layout { part: self.clone(), measure, chains, fences }
    }
    /// Words that an entry takes at most in a node of this part's prefix.
    pub(super) fn entry_words(&self, i: usize, measure: Measure) -> usize {
        2 + heap_words(self.contents.key(i).len() - measure.prefix)
    }
}

impl Measure {
    /// Whether a node holds it.
    pub(super) fn fits(&self) -> bool {
        self.words <= WORDS && (self.count <= ROOM_MAX || self.kind == Kind::Compact)
    }
    /// Whether so many of 4 parts of a node hold it.
    pub(super) fn is_at_most(&self, parts: usize) -> bool {
        4 * (self.words - BODY) <= parts * (WORDS - BODY)
    }
    /// Whether a node holds it with room to spare, so that it pays to lay it out anew instead of splitting it.
    pub(super) fn is_roomy(&self, level: u8) -> bool {
        if 8 * (self.words - BODY) > FULL_PARTS * (WORDS - BODY) {
            return false;
        }
        level == 0 || self.shape(level).takes_separator()
    }
    fn shape(&self, level: u8) -> Shape {
        Shape::new(level, self.prefix, self.kind, self.room, WORDS - self.heap).with_count(self.count)
    }
}

impl Shape {
    /// Whether an inner node has room for one more separator, of any length that suits it, without being laid out anew.
    pub(super) fn takes_separator(self) -> bool {
        self.count() < self.room() && (self.compact() || self.free() >= INLINE_WORDS)
    }
    /// Whether an inner node may hold this separator at all. Where it may not, it is a compact one.
    pub(super) fn suits(self, separator: &[u8]) -> bool {
        !self.compact() || is_compact(&separator[self.prefix()..])
    }
}

/// A node about to be written.
pub(super) struct Layout<'a> {
    part: Part<'a>,
    measure: Measure,
    /// For the long entries, in order.
    chains: Vec<Chain>,
    fences: [Option<Chain>; 2],
}

impl Layout<'_> {
    /// Writes it. The node is locked and changing, or no reader knows it yet.
    pub(super) fn write(self, node: &Node) {
        let Self { part, measure, chains, fences } = self;
        let prefix = measure.prefix;
        let shape = measure.shape(part.level);
        let high_words = part.high.map_or(0, |high| fence_words(high.len()));
        let mut place = WORDS - fence_words(part.low.len()) - high_words;
        let mut take = |words: usize| {
            place -= words;
            place
        };
        node.store(SHAPE, shape.raw());
        node.write_ends(part.link, part.low, part.high, fences);
        if let (Kind::Plain(length), Some(i)) = (measure.kind, part.range.clone().next()) {
            let suffix = part.suffix(i, prefix);
            node.write_rest(take(heap_words(length)), length, None, |k| word(suffix, 8 + 8 * k));
        }
        if measure.kind == Kind::Compact {
            let head = |i| compact_head(word(part.suffix(i, prefix), 0));
            let entries = part.range.clone().map(|i| (head(i), part.contents.payload(i) as u32));
            return node.write_compact(part.link, entries);
        }
        let mut chains = chains.into_iter();
        for (at, i) in part.range.clone().enumerate() {
            let suffix = part.suffix(i, prefix);
            node.store(BODY + at, word(suffix, 0));
            let mut payload = part.contents.payload(i);
            if measure.kind == Kind::Wide {
                let words = heap_words(suffix.len());
                let place = if words > 0 { take(words) } else { 0 };
                let slot = Slot::new(suffix.len(), place);
                let chain = if is_long(suffix.len()) { chains.next() } else { None };
                node.write_rest(place, suffix.len(), chain, |k| word(suffix, 8 + 8 * k));
                payload |= slot.in_payload();
            }
            node.set_payload(shape, at, payload);
        }
        (measure.count..measure.room).for_each(|at| node.store(BODY + at, u64::MAX));
        node.write_hints(measure.count);
        debug_assert_eq!(place, shape.heap());
    }
}
