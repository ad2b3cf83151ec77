//! What doesn't fit in an entry's head: the rest of a key in the node's heap, longer ones in a chain of overflow nodes.
//! The entries of a plain leaf have one rest together, where its heap begins.
//! Fences lie in the same places, `low` at the node's very end and `high` before it.
//!
//! ```text
//!   slot 9 bits of length <= 8            the head is all
//!        up to 8 + 8 * INLINE_WORDS       words of the heap, big-endian, padded with zeros
//!        LONG                             one word of the heap: 63 .. 32 length, 31 .. 0 first overflow node
//!   fence 16 bits of length; LONG_FENCE     as LONG
//!         OPEN                             there is none: no key is too great
//!
//!   overflow node:  version | next, 0 at the end | words of the rest ...
//! ```
//!
//! # Thread safety
//! An overflow node is written before the entry that names it, and given back after that entry's node has changed its
//! version. So a reader confirms the version before it follows a number, and again after it has read.

use std::cmp::Ordering;

use super::node::{INLINE_WORDS, Kind, LINK, Node, SHAPE, WORDS};
use super::pool::Pool;
use super::text::{Text, word};
use super::view::View;

/// Word of an overflow node: the next one.
const NEXT: usize = SHAPE;
/// The first word of an overflow node's content.
const CONTENT: usize = NEXT + 1;
/// The length that says: look in the heap.
const LONG: u16 = 511;
/// The length of a fence that says: look in the heap.
const LONG_FENCE: u16 = u16::MAX;
/// The length of a fence that isn't there.
const OPEN: u16 = LONG_FENCE - 1;

const _: () = assert!(8 + 8 * INLINE_WORDS < LONG as usize && WORDS <= 128);

/// One of a node's fences.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    Low,
    High,
}

/// Where the rest of an entry is.
#[derive(Clone, Copy)]
pub(super) struct Slot(u16);

impl Slot {
    /// A slot for `length` bytes after the prefix, whose rest is at word `place`.
    pub(super) fn new(length: usize, place: usize) -> Self {
        let code = if is_long(length) { LONG } else { length as u16 };
        debug_assert!(place < WORDS);
        Self((place as u16) << 9 | code)
    }
    /// The slot in a payload.
    #[inline]
    pub(super) fn of_payload(payload: u64) -> Self {
        Self((payload >> 48) as u16)
    }
    /// The slot where a payload has it.
    pub(super) fn in_payload(self) -> u64 {
        u64::from(self.0) << 48
    }
}

/// Whether the rest of an entry of so many bytes after the prefix is in overflow nodes.
pub(super) fn is_long(length: usize) -> bool {
    length > 8 + 8 * INLINE_WORDS
}

/// Words of the heap that an entry of `length` bytes after the prefix takes.
#[inline]
pub(super) fn heap_words(length: usize) -> usize {
    match length {
        0..=8 => 0,
        _ if is_long(length) => 1,
        _ => (length - 8).div_ceil(8),
    }
}

/// Words of the heap that a fence of `length` bytes takes.
pub(super) fn fence_words(length: usize) -> usize {
    if length > 8 * INLINE_WORDS { 1 } else { length.div_ceil(8) }
}

/// What the header says of a fence.
fn fence_code(length: Option<usize>) -> u16 {
    match length {
        None => OPEN,
        Some(length) if length > 8 * INLINE_WORDS => LONG_FENCE,
        Some(length) => length as u16,
    }
}

/// Words of the heap that a fence with this code takes.
fn coded_words(code: u16) -> usize {
    match code {
        OPEN => 0,
        LONG_FENCE => 1,
        length => fence_words(usize::from(length)),
    }
}

/// Where bytes are.
#[derive(Clone, Copy)]
enum Place {
    Heap(usize),
    Chain(u32),
}

impl View<'_> {
    /// Where an entry's rest is, and the length of its key after the prefix; `None` if disturbed.
    #[inline]
    fn rest(&self, i: usize) -> Option<(Place, usize)> {
        if let Some(length) = self.shape.plain() {
            return Some((Place::Heap(self.shape.heap()), length));
        }
        let slot = self.slot(i).0;
        let place = usize::from(slot >> 9);
        if slot & LONG != LONG {
            return Some((Place::Heap(place), usize::from(slot & LONG)));
        }
        let long = self.node.load(place);
        if self.is_valid() { Some((Place::Chain(long as u32), (long >> 32) as usize)) } else { None }
    }
    /// Shows words 0 .. of a rest of `bytes` bytes until `visit` says `false`; `None` if disturbed.
    #[inline]
    fn rest_words(&self, place: Place, bytes: usize, mut visit: impl FnMut(u64) -> bool) -> Option<()> {
        let count = bytes.div_ceil(8);
        match place {
            Place::Heap(first) => {
                let _ = (first..first + count).all(|at| visit(self.node.load(at)));
            }
            Place::Chain(mut number) => {
                let mut left = count;
                while left > 0 {
                    if !self.is_valid() {
                        return None;
                    }
                    let node = self.pool.get(number);
                    let here = left.min(WORDS - CONTENT);
                    if !(CONTENT..CONTENT + here).all(|at| visit(node.load(at))) {
                        break;
                    }
                    number = node.load(NEXT) as u32;
                    left -= here;
                }
            }
        }
        Some(())
    }
    /// Compares an entry with a text that has the same prefix and head; `None` if disturbed.
    pub(super) fn compare_rest(&self, i: usize, text: Text<'_>) -> Option<Ordering> {
        let (place, length) = self.rest(i)?;
        let (mut at, end) = (self.shape.prefix() + 8, self.shape.prefix() + length);
        let mut order = Ordering::Equal;
        if let Place::Heap(first) = place {
            // Most rests are a word or two: a loop of its own, which the compiler leaves as simple as it is.
            let mut word = first;
            while at < end && order == Ordering::Equal {
                order = self.node.load(word).cmp(&text.word(at));
                (word, at) = (word + 1, at + 8);
            }
        } else {
            self.rest_words(place, length.saturating_sub(8), |word| {
                order = word.cmp(&text.word(at));
                at += 8;
                order == Ordering::Equal
            })?;
        }
        Some(order.then(end.cmp(&text.len())))
    }
    fn append(&self, place: Place, bytes: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut left = bytes;
        self.rest_words(place, bytes, |word| {
            let here = left.min(8);
            out.extend_from_slice(&word.to_be_bytes()[..here]);
            left -= here;
            true
        })
    }
    /// Appends an entry's key after the prefix; `None` if disturbed.
    #[inline]
    pub(super) fn append_suffix(&self, i: usize, out: &mut Vec<u8>) -> Option<()> {
        if self.shape.compact() {
            let bytes = self.node.compact_bytes(i);
            let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            out.extend_from_slice(&bytes[..length]);
            return Some(());
        }
        let head = self.node.head(i).to_be_bytes();
        let (place, length) = self.rest(i)?;
        out.extend_from_slice(&head[..length.min(8)]);
        if length > 8 { self.append(place, length - 8, out) } else { Some(()) }
    }
    /// Where a fence is, and its length; `Some(None)` if there is none, `None` if disturbed.
    fn fence(&self, fence: Fence) -> Option<Option<(Place, usize)>> {
        let link = self.node.load(LINK);
        let (low, high) = ((link >> 32) as u16, (link >> 48) as u16);
        if !self.is_valid() {
            return None;
        }
        let end = WORDS - coded_words(low);
        let (code, place) = if fence == Fence::Low { (low, end) } else { (high, end - coded_words(high)) };
        if code == LONG_FENCE {
            let long = self.node.load(place);
            return self.is_valid().then_some(Some((Place::Chain(long as u32), (long >> 32) as usize)));
        }
        Some((code != OPEN).then_some((Place::Heap(place), usize::from(code))))
    }
    /// Appends the smallest key that belongs here; `None` if disturbed.
    pub(super) fn append_low(&self, out: &mut Vec<u8>) -> Option<()> {
        let (place, length) = self.fence(Fence::Low)??;
        self.append(place, length, out)
    }
    /// Appends the prefix; `None` if disturbed.
    pub(super) fn append_prefix(&self, out: &mut Vec<u8>) -> Option<()> {
        let (place, length) = self.fence(Fence::Low)??;
        self.append(place, length.min(self.shape.prefix()), out)
    }
    /// Appends the smallest key that doesn't belong here any more, and says whether there is one; `None` if disturbed.
    pub(super) fn append_high(&self, out: &mut Vec<u8>) -> Option<bool> {
        match self.fence(Fence::High)? {
            None => Some(false),
            Some((place, length)) => self.append(place, length, out).map(|()| true),
        }
    }
    /// Words of the heap that entry `i` takes. Needs the lock.
    pub(super) fn heap_words_of(&self, i: usize) -> usize {
        if self.shape.kind() != Kind::Wide {
            return 0;
        }
        self.rest(i).map_or(0, |(_, length)| heap_words(length))
    }
    /// The overflow chain of entry `i`, to be given back when it is gone. Needs the lock.
    pub(super) fn chain_of(&self, i: usize) -> Option<Chain> {
        if self.shape.kind() != Kind::Wide {
            return None;
        }
        match self.rest(i)? {
            (Place::Chain(number), _) => Some(Chain(number)),
            _ => None,
        }
    }
    /// All overflow chains of the node, to be given back when it is laid out anew. Needs the lock.
    pub(super) fn chains(&self) -> Vec<Chain> {
        let fences = [Fence::Low, Fence::High].into_iter().filter_map(|fence| match self.fence(fence) {
            Some(Some((Place::Chain(number), _))) => Some(Chain(number)),
            _ => None,
        });
        fences.chain((0..self.shape.count()).filter_map(|i| self.chain_of(i))).collect()
    }
}

/// A chain of overflow nodes that no reader finds any more, or not yet.
#[derive(Clone, Copy)]
pub(super) struct Chain(u32);

impl Chain {
    /// Writes bytes (not none) to nodes of its own.
    ///
    /// # Panics
    /// If there is no memory.
    pub(super) fn new(pool: &Pool, bytes: &[u8]) -> Self {
        let mut next = 0;
        // From the end, so that each node knows the next.
        for piece in bytes.chunks(8 * (WORDS - CONTENT)).rev() {
            let number = pool.take();
            let node = pool.get(number);
            node.begin_anew();
            for i in 0..piece.len().div_ceil(8) {
                node.store(CONTENT + i, word(piece, 8 * i));
            }
            node.store(NEXT, u64::from(next));
            next = number;
        }
        Self(next)
    }
    /// Gives the nodes back.
    pub(super) fn free(self, pool: &Pool) {
        let mut number = self.0;
        while number != 0 {
            let next = pool.get(number).load(NEXT) as u32;
            pool.give_back(number);
            number = next;
        }
    }
    /// The word that a LONG slot points at.
    fn long(self, length: usize) -> u64 {
        (length as u64) << 32 | u64::from(self.0)
    }
}

/// The chain that a key of these bytes after the prefix needs, if any.
///
/// # Panics
/// If there is no memory.
pub(super) fn chain_for(pool: &Pool, suffix: &[u8]) -> Option<Chain> {
    is_long(suffix.len()).then(|| Chain::new(pool, &suffix[8..]))
}

/// The chain that a fence of these bytes needs, if any.
///
/// # Panics
/// If there is no memory.
pub(super) fn fence_chain_for(pool: &Pool, fence: &[u8]) -> Option<Chain> {
    (fence.len() > 8 * INLINE_WORDS).then(|| Chain::new(pool, fence))
}

impl Node {
    /// Writes a key's rest at `place`, where [`heap_words`] are free. Needs the lock and a change.
    pub(super) fn write_rest(
        &self,
        place: usize,
        length: usize,
        chain: Option<Chain>,
        word: impl Fn(usize) -> u64,
    ) {
        match chain {
            Some(chain) => self.store(place, chain.long(length)),
            None => (0..heap_words(length)).for_each(|i| self.store(place + i, word(i))),
        }
    }
    /// Writes the link and the fences, the long ones being in these chains. Needs the lock and a change.
    pub(super) fn write_ends(&self, link: u32, low: &[u8], high: Option<&[u8]>, chains: [Option<Chain>; 2]) {
        let mut end = WORDS;
        for (fence, chain) in [Some(low), high].into_iter().zip(chains) {
            let Some(bytes) = fence else { continue };
            end -= fence_words(bytes.len());
            match chain {
                Some(chain) => self.store(end, chain.long(bytes.len())),
                None => (0..fence_words(bytes.len())).for_each(|i| self.store(end + i, word(bytes, 8 * i))),
            }
        }
        let (low, high) = (fence_code(Some(low.len())), fence_code(high.map(<[u8]>::len)));
        self.store(LINK, u64::from(high) << 48 | u64::from(low) << 32 | u64::from(link));
    }
}
